//! Redis, with the adapter of `ramie-adapters`.

use std::{io, path::PathBuf, time::Duration};

use ramie_adapters::redis::{RedisConnection, RedisManager};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::exchange::Exchange;

fn server(socket: PathBuf) -> redis::RedisResult<ConnectionInfo> {
    ConnectionAddr::Unix(socket).into_connection_info()
}

/// Makes the manager of connections to this socket.
pub fn manager(socket: PathBuf) -> RedisManager {
    server(socket).and_then(RedisManager::new).expect("a valid address")
}

impl Exchange for RedisConnection {
    fn ask(&mut self, number: u64, delay: Duration) -> io::Result<u64> {
        if delay.is_zero() {
            return redis::cmd("ECHO").arg(number).query(self).map_err(io::Error::other);
        }
        // The server waits for a list that nobody fills.
        let mut pipe = redis::pipe();
        pipe.cmd("BLPOP").arg("nothing").arg(delay.as_secs_f64()).ignore();
        let (number,) = pipe.cmd("ECHO").arg(number).query(self).map_err(io::Error::other)?;
        Ok(number)
    }

    fn connections(&mut self) -> io::Result<usize> {
        let clients: String =
            redis::cmd("CLIENT").arg("LIST").query(self).map_err(io::Error::other)?;
        Ok(clients.lines().count())
    }
}
