//! The cases on tokio.

use std::{
    path::{Path, PathBuf},
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{net::UnixStream, task::LocalSet};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, Statement};

use super::{CONNECTIONS, STRANDS, TIME};
use crate::{
    postgres::{DATABASE, USER},
    slow::{self, DELAY, QUERIES},
};

fn measure<M: bb8::ManageConnection<Error: std::fmt::Debug>>(
    manager: M,
    ask: impl AsyncFn(&mut M::Connection, u64) + 'static,
) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    LocalSet::new().block_on(&runtime, async move {
        let pool = bb8::Pool::builder()
            .max_size(CONNECTIONS as u32)
            .min_idle(CONNECTIONS as u32)
            .test_on_check_out(false)
            .build(manager);
        let (pool, ask) = (pool.await.expect("a pool"), Rc::new(ask));
        let start = Instant::now();
        let strand = |strand| {
            let (pool, ask) = (pool.clone(), Rc::clone(&ask));
            tokio::task::spawn_local(async move {
                let mut done = 0;
                while start.elapsed() < TIME {
                    let mut connection = pool.get().await.expect("a connection");
                    ask(&mut connection, strand).await;
                    done += 1;
                }
                done
            })
        };
        let strands: Vec<_> = (0..STRANDS as u64).map(strand).collect();
        let mut done = 0;
        for strand in strands {
            done += strand.await.expect("no panic");
        }
        f64::from(done) / start.elapsed().as_secs_f64()
    })
}

struct Redis(redis::Client);

impl bb8::ManageConnection for Redis {
    type Connection = redis::aio::MultiplexedConnection;
    type Error = redis::RedisError;

    async fn connect(&self) -> Result<Self::Connection, Self::Error> {
        self.0.get_multiplexed_async_connection().await
    }

    async fn is_valid(&self, connection: &mut Self::Connection) -> Result<(), Self::Error> {
        redis::cmd("PING").query_async(connection).await
    }

    fn has_broken(&self, _: &mut Self::Connection) -> bool {
        false
    }
}

pub fn redis(socket: &Path) -> f64 {
    let client = redis::Client::open(format!("redis+unix://{}", socket.display()));
    measure(Redis(client.expect("a valid URL")), async |connection, number| {
        let answer: redis::RedisResult<u64> =
            redis::cmd("ECHO").arg(number).query_async(connection).await;
        assert_eq!(answer.expect("an answer"), number);
    })
}

/// A client with its prepared statement; its connection is driven by a task of its own.
struct Prepared {
    client: Client,
    statement: Statement,
}

struct Clients(PathBuf);

impl bb8::ManageConnection for Clients {
    type Connection = Prepared;
    type Error = tokio_postgres::Error;

    async fn connect(&self) -> Result<Prepared, Self::Error> {
        let mut config = tokio_postgres::Config::new();
        config.user(USER).dbname(DATABASE);
        let stream = UnixStream::connect(&self.0).await.expect("a server");
        let (client, connection) = config.connect_raw(stream, NoTls).await?;
        tokio::spawn(connection);
        Ok(Prepared { statement: client.prepare("SELECT $1::INT8").await?, client })
    }

    async fn is_valid(&self, prepared: &mut Prepared) -> Result<(), Self::Error> {
        prepared.client.simple_query("").await.map(drop)
    }

    fn has_broken(&self, prepared: &mut Prepared) -> bool {
        prepared.client.is_closed()
    }
}

pub fn tokio_postgres(socket: &Path) -> f64 {
    let ask = async |Prepared { client, statement }: &mut Prepared, number| {
        let number = number as i64;
        let asked = client.query_one(statement, &[&number]).await;
        assert_eq!(asked.expect("an answer").get::<_, i64>(0), number);
    };
    measure(Clients(socket.to_owned()), ask)
}

/// Asks [`QUERIES`] slow queries at once, several times; returns how many times as long as one
/// query all took.
pub fn slow_postgres(socket: &Path, attempts: usize) -> Vec<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let pool = bb8::Pool::builder()
            .max_size(QUERIES as u32)
            .min_idle(QUERIES as u32)
            .test_on_check_out(false)
            .build(Clients(socket.to_owned()))
            .await
            .expect("a pool");
        let mut ratios = Vec::new();
        for _ in 0..attempts {
            let one = time(ask_slowly(pool.clone(), 1)).await;
            let all = time(async {
                let ask = |number| tokio::task::spawn_local(ask_slowly(pool.clone(), number));
                let strands: Vec<_> = (0..QUERIES as u64).map(ask).collect();
                for strand in strands {
                    strand.await.expect("no panic");
                }
            });
            ratios.push(slow::report(one, all.await));
        }
        ratios
    })
}

async fn ask_slowly(pool: bb8::Pool<Clients>, number: u64) {
    let connection = pool.get().await.expect("a connection");
    let sql = format!("SELECT {number} FROM pg_sleep({})", DELAY.as_secs_f64());
    let messages = connection.client.simple_query(&sql).await.expect("an answer");
    let answer = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    assert_eq!(answer, Some(&*number.to_string()));
}

async fn time(future: impl Future<Output = ()>) -> Duration {
    let start = Instant::now();
    future.await;
    start.elapsed()
}
