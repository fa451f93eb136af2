//! The crate redis over a stream of Ramie.

use std::{
    io::{self, BufReader, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ramie::os::unix::net::UnixStream;
use ramie_pool::ManageConnection;
use redis::{ConnectionLike, Parser, RedisResult, Value};

use crate::exchange::Exchange;

/// All commands of the crate work on it.
pub struct RedisConnection {
    stream: BufReader<UnixStream>,
    parser: Parser,
}

impl RedisConnection {
    fn receive(&mut self) -> RedisResult<Value> {
        self.parser.parse_value(&mut self.stream)
    }
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        self.stream.get_mut().write_all(command)?;
        self.receive()?.extract_error()
    }

    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.stream.get_mut().write_all(commands)?;
        for _ in 0..offset {
            self.receive()?;
        }
        (0..count).map(|_| self.receive()).collect()
    }

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        redis::cmd("PING").query::<String>(self).is_ok()
    }

    fn is_open(&self) -> bool {
        true
    }
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

/// The manager. It leaves it to the pool to notice interrupted exchanges.
#[derive(Clone)]
pub struct Redis(Arc<PathBuf>);

impl Redis {
    pub fn new(socket: PathBuf) -> Self {
        Redis(Arc::new(socket))
    }
}

impl ManageConnection for Redis {
    type Connection = RedisConnection;
    type Error = io::Error;

    fn connect(&self) -> io::Result<RedisConnection> {
        let stream = BufReader::new(UnixStream::connect(&*self.0)?);
        Ok(RedisConnection { stream, parser: Parser::new() })
    }

    fn is_valid(&self, connection: &mut RedisConnection) -> io::Result<()> {
        let is_valid = connection.check_connection();
        if is_valid { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn has_broken(&self, _: &mut RedisConnection) -> bool {
        false
    }
}
