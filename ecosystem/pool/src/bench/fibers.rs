//! The cases on fibers.

use std::{
    cell::Cell,
    future::poll_fn,
    io,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    task::Poll,
    time::{Duration, Instant},
};

use ramie::{Runtime, fiber, future::block_on_or_cancelled, os::unix::net::UnixStream};
use ramie_futures::Io;
use ramie_pool::{ManageConnection, Pool};
use tokio_postgres::{Client, NoTls, Statement, tls::NoTlsStream};

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

/// A client with its prepared statement, and the connection of the crate. The strand that asks
/// drives the connection, too, because between two exchanges there is nothing to drive.
struct Prepared {
    client: Client,
    connection: Driven,
    statement: Statement,
}

type Driven = Pin<Box<tokio_postgres::Connection<Io<UnixStream>, NoTlsStream>>>;

/// Waits for an exchange of a connection.
fn drive<T>(
    connection: &mut Driven,
    exchange: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> io::Result<T> {
    let mut exchange = pin!(exchange);
    let both = poll_fn(|context| {
        if let Poll::Ready(done) = exchange.as_mut().poll(context) {
            return Poll::Ready(done.map_err(io::Error::other));
        }
        if let Poll::Ready(ended) = connection.as_mut().poll(context) {
            let error = ended.err().map_or(io::ErrorKind::UnexpectedEof.into(), io::Error::other);
            return Poll::Ready(Err(error));
        }
        exchange.as_mut().poll(context).map_err(io::Error::other)
    });
    block_on_or_cancelled(both)?
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
        let mut connection = Box::pin(connection);
        let statement = drive(&mut connection, client.prepare("SELECT $1::INT8"))?;
        Ok(Prepared { client, connection, statement })
    }

    fn is_valid(&self, prepared: &mut Prepared) -> io::Result<()> {
        drive(&mut prepared.connection, prepared.client.simple_query("")).map(drop)
    }

    fn has_broken(&self, prepared: &mut Prepared) -> bool {
        prepared.client.is_closed()
    }
}

pub fn tokio_postgres(socket: &Path) -> f64 {
    measure(Clients(socket.to_owned()), |Prepared { client, connection, statement }, number| {
        let number = number as i64;
        let asked = drive(connection, client.query_one(statement, &[&number]));
        assert_eq!(asked.expect("an answer").get::<_, i64>(0), number);
    })
}
