//! Connections in a pool.

use std::fmt;

use ramie_pool::ManageConnection;
use redis::{ConnectionInfo, ConnectionLike, IntoConnectionInfo, RedisError, RedisResult, cmd};

use super::RedisConnection;

/// Manages a [`Pool`](ramie_pool::Pool) of connections to a Redis server.
///
/// A returned connection keeps its state on the server. After `SELECT`, `WATCH` or `MULTI`, undo it
/// before the connection is returned, or call
/// [`mark_broken`](ramie_pool::PooledConnection::mark_broken).
///
/// # Examples
/// ```no_run
/// # use ramie_adapters::redis::RedisManager;
/// # use ramie_pool::Pool;
/// # use redis::Commands;
/// # type AnyError = Box<dyn std::error::Error + Send + Sync>;
/// let pool = Pool::builder().max_size(16).build(RedisManager::new("redis://127.0.0.1/")?);
/// let hits: u64 = pool.get()?.incr("hits", 1)?;
/// // The closure of `with` needs an error that can be made of a `PoolError`, too.
/// let hits: u64 = pool.with(|connection| Ok::<_, AnyError>(connection.incr("hits", 1)?))?;
/// # Ok::<(), AnyError>(())
/// ```
#[derive(Clone)]
pub struct RedisManager {
    server: ConnectionInfo,
}

impl RedisManager {
    /// Makes a manager of connections to this server, as for [`RedisConnection::connect`].
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn new(server: impl IntoConnectionInfo) -> RedisResult<Self> {
        Ok(RedisManager { server: server.into_connection_info()? })
    }
}

impl ManageConnection for RedisManager {
    type Connection = RedisConnection;
    type Error = RedisError;

    fn connect(&self) -> RedisResult<RedisConnection> {
        RedisConnection::connect(self.server.clone())
    }

    fn is_valid(&self, connection: &mut RedisConnection) -> RedisResult<()> {
        cmd("PING").exec(connection)
    }

    fn has_broken(&self, connection: &mut RedisConnection) -> bool {
        !connection.is_open()
    }
}

impl fmt::Debug for RedisManager {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisManager").field("server", self.server.addr()).finish_non_exhaustive()
    }
}
