//! Connections in a pool.

use std::fmt;

use ramie::net::TcpStream;
use ramie_pool::ManageConnection;
use tokio_postgres::{Config, NoTls, tls::MakeTlsConnect};

use super::{DrivenStream, PostgresConnection, PostgresError};

/// Manages a [`Pool`](ramie_pool::Pool) of connections to PostgreSQL.
///
/// A returned connection keeps its session. If a call has begun a transaction by `BEGIN`, or has
/// changed a setting by `SET`, undo that before the connection is returned, or call
/// [`mark_broken`](ramie_pool::PooledConnection::mark_broken). A dropped `Transaction` of the crate
/// rolls back by itself.
///
/// # Examples
/// ```no_run
/// # use ramie_adapters::postgres::PostgresManager;
/// # use ramie_pool::Pool;
/// let pool = Pool::builder().build(PostgresManager::new("host=localhost user=me".parse()?));
/// let rows = pool.with(|connection| connection.query("SELECT name FROM goods", &[]))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PostgresManager<T = NoTls> {
    config: Config,
    tls: T,
}

impl PostgresManager {
    /// Makes a manager of connections without TLS.
    #[must_use]
    pub fn new(config: Config) -> Self {
        PostgresManager { config, tls: NoTls }
    }
}

impl<T> PostgresManager<T> {
    /// Makes a manager of connections with TLS.
    #[must_use]
    pub fn with_tls(config: Config, tls: T) -> Self {
        PostgresManager { config, tls }
    }
}

impl<T> ManageConnection for PostgresManager<T>
where
    T: MakeTlsConnect<DrivenStream<TcpStream>, Stream: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
{
    type Connection = PostgresConnection;
    type Error = PostgresError;

    fn connect(&self) -> Result<PostgresConnection, PostgresError> {
        PostgresConnection::connect(&self.config, self.tls.clone())
    }

    fn is_valid(&self, connection: &mut PostgresConnection) -> Result<(), PostgresError> {
        connection.batch_execute("")
    }

    fn has_broken(&self, connection: &mut PostgresConnection) -> bool {
        !connection.is_open()
    }
}

impl<T> fmt::Debug for PostgresManager<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration hides its password.
        f.debug_struct("PostgresManager").field("config", &self.config).finish_non_exhaustive()
    }
}
