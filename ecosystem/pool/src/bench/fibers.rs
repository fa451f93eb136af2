//! The cases on fibers.

use std::{
    cell::Cell,
    path::Path,
    time::{Duration, Instant},
};

use ramie::{Runtime, fiber};
use ramie_adapters::postgres::{PostgresConnection, PostgresError, PostgresManager};
use ramie_pool::{ManageConnection, Pool};
use tokio_postgres::Statement;

use super::{CONNECTIONS, STRANDS, TIME};
use crate::{
    exchange::{Exchange, Server},
    postgres::{DATABASE, Postgres, USER},
    redis_server,
};

pub fn redis(socket: &Path) -> f64 {
    asks(redis_server::manager(socket.to_owned()))
}

pub fn postgres(socket: &Path) -> f64 {
    asks(Postgres::new(socket.to_owned()))
}

fn asks<M: Server>(manager: M) -> f64 {
    measure(manager, |connection, number| {
        assert_eq!(connection.ask(number, Duration::ZERO).expect("an answer"), number);
    })
}

fn measure<M: ManageConnection<Error: std::fmt::Debug>>(
    manager: M,
    ask: impl Fn(&mut M::Connection, u64),
) -> f64 {
    Runtime::builder().workers(1).build().expect("a runtime").run(|| {
        let pool = Pool::builder().max_size(CONNECTIONS).test_after_idle(None).build(manager);
        let all: Vec<_> = (0..CONNECTIONS).map(|_| pool.get().expect("a connection")).collect();
        drop(all);
        let (done, start) = (Cell::new(0), Instant::now());
        fiber::scope(|s| {
            for strand in 0..STRANDS as u64 {
                let (pool, done, ask) = (&pool, &done, &ask);
                s.spawn_local(move || {
                    while start.elapsed() < TIME {
                        ask(&mut pool.get().expect("a connection"), strand);
                        done.set(done.get() + 1);
                    }
                });
            }
        });
        f64::from(done.get()) / start.elapsed().as_secs_f64()
    })
}

/// A connection with its prepared statement.
struct Prepared {
    connection: PostgresConnection,
    statement: Statement,
}

struct Clients(PostgresManager);

impl ManageConnection for Clients {
    type Connection = Prepared;
    type Error = PostgresError;

    fn connect(&self) -> Result<Prepared, PostgresError> {
        let mut connection = self.0.connect()?;
        let statement = connection.prepare("SELECT $1::INT8")?;
        Ok(Prepared { connection, statement })
    }

    fn is_valid(&self, prepared: &mut Prepared) -> Result<(), PostgresError> {
        self.0.is_valid(&mut prepared.connection)
    }

    fn has_broken(&self, prepared: &mut Prepared) -> bool {
        self.0.has_broken(&mut prepared.connection)
    }
}

pub fn tokio_postgres(socket: &Path) -> f64 {
    let mut config = tokio_postgres::Config::new();
    config.user(USER).dbname(DATABASE).host_path(socket.parent().expect("a folder"));
    measure(Clients(PostgresManager::new(config)), |prepared, number| {
        let Prepared { connection, statement } = prepared;
        let asked = connection.query_one(statement, &[&(number as i64)]);
        assert_eq!(asked.expect("an answer").get::<_, i64>(0), number as i64);
    })
}
