//! tokio-postgres over streams of Ramie, without a runtime of tokio.
//!
//! - [`PostgresConnection`], for one strand at a time and for pools ([`PostgresManager`]): its
//!   methods park the fiber, and the strand that waits also moves the bytes.
//! - [`connect`] returns the crate's own `Client`, which several fibers may share: their queries
//!   are pipelined. A fiber of its own moves the bytes.
//!
//! ```no_run
//! use ramie::future::block_on_or_cancelled;
//! use ramie_adapters::postgres::{self, PostgresConnection, PostgresManager};
//! use ramie_pool::Pool;
//! use tokio_postgres::{Config, NoTls};
//!
//! ramie::run(|| {
//!     let config: Config = "host=localhost user=me dbname=shop".parse()?;
//!     let mut connection = PostgresConnection::connect(&config, NoTls)?;
//!     let rows = connection.query("SELECT name FROM goods WHERE price < $1", &[&10_i32])?;
//!
//!     let pool = Pool::builder().max_size(16).build(PostgresManager::new(config.clone()));
//!     pool.get()?.run(async |client| {
//!         let transaction = client.transaction().await?;
//!         transaction.execute("UPDATE goods SET price = price + 1", &[]).await?;
//!         transaction.commit().await
//!     })?;
//!
//!     let shared = postgres::connect(&config, NoTls)?;
//!     let rows = block_on_or_cancelled(shared.query("SELECT 1", &[]))??;
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! }).unwrap();
//! ```

mod connection;
mod driver;
mod error;
mod link;
mod manager;
mod open;
mod stream;

use ramie::{fiber, future::block_on_or_cancelled, net::TcpStream};
use tokio_postgres::{Client, Config, tls::MakeTlsConnect};

pub use self::{
    connection::PostgresConnection, error::PostgresError, manager::PostgresManager,
    stream::DrivenStream,
};

/// Connects a client of the crate, which fibers of any worker may share. Wait for its futures with
/// [`block_on_or_cancelled`](ramie::future::block_on_or_cancelled()).
///
/// A fiber of this worker, or a thread outside one, moves the bytes until the client is dropped.
/// `run` does not wait for it: when only such fibers are left, the connection is closed.
///
/// A cancelled query of the client breaks nothing: its answer is dropped when it comes. But the
/// server executes the query to the end, and later queries wait for that; the client's
/// `cancel_token` asks the server to stop.
///
/// # Blocking
/// Parks the fiber until the connection is ready.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// As for [`PostgresConnection::connect`]. There is no memory for the fiber.
pub fn connect<T>(config: &Config, tls: T) -> Result<Client, PostgresError>
where
    T: MakeTlsConnect<DrivenStream<TcpStream>, Stream: Send + 'static>,
{
    let (client, driver) = open::open(config, tls)?;
    let mover = driver.into_mover();
    // An error of the connection reaches the client, whose calls fail.
    let drive = || _ = fiber::as_daemon(|_| mover.map(block_on_or_cancelled));
    let builder = fiber::Builder::new().name("postgres connection".to_owned());
    // A thread has no time to run fibers.
    match fiber::current().id().is_thread() {
        true => builder.spawn(drive)?,
        false => builder.spawn_local(drive)?,
    };
    Ok(client)
}
