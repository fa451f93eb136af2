//! The cases on fibers.

use std::{
    cell::Cell,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ramie::{
    Runtime, fiber,
    future::{block_on, block_on_or_cancelled},
    os::unix::net::UnixStream,
};
use ramie_futures::Io;
use ramie_pool::{ManageConnection, Pool};
use tokio_postgres::{Client, NoTls, Statement};

use super::{CONNECTIONS, STRANDS, TIME};
use crate::{
    exchange::{Exchange, Server},
    postgres::{DATABASE, Postgres, USER},
    redis_adapter::Redis,
};

pub fn redis(socket: &Path) -> f64 {
    asks(Redis::new(socket.to_owned()))
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

/// A client with its prepared statement; its connection is driven by a fiber of its own.
struct Prepared {
    client: Client,
    statement: Statement,
}

struct Clients(PathBuf);

impl ManageConnection for Clients {
    type Connection = Prepared;
    type Error = io::Error;

    fn connect(&self) -> io::Result<Prepared> {
        let mut config = tokio_postgres::Config::new();
        config.user(USER).dbname(DATABASE);
        let stream = Io::new(UnixStream::connect(&self.0)?);
        let connected = block_on_or_cancelled(config.connect_raw(stream, NoTls))?;
        let (client, connection) = connected.map_err(io::Error::other)?;
        fiber::spawn(|| block_on(connection));
        let prepared = block_on_or_cancelled(client.prepare("SELECT $1::INT8"))?;
        Ok(Prepared { statement: prepared.map_err(io::Error::other)?, client })
    }

    fn is_valid(&self, prepared: &mut Prepared) -> io::Result<()> {
        let asked = block_on_or_cancelled(prepared.client.simple_query(""))?;
        asked.map(drop).map_err(io::Error::other)
    }

    fn has_broken(&self, prepared: &mut Prepared) -> bool {
        prepared.client.is_closed()
    }
}

pub fn tokio_postgres(socket: &Path) -> f64 {
    measure(Clients(socket.to_owned()), |Prepared { client, statement }, number| {
        let number = number as i64;
        let asked = block_on(client.query_one(statement, &[&number]));
        assert_eq!(asked.expect("an answer").get::<_, i64>(0), number);
    })
}
