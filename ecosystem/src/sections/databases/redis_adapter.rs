//! A connection of the crate redis over a stream of Ramie.

use std::io::{BufReader, Write};

use ramie::net::TcpStream;
use redis::{ConnectionLike, Parser, RedisResult, Value};

/// All commands of the crate work on it: `redis::cmd("PING").query(&mut connection)`, `Commands`,
/// pipelines.
pub(super) struct RamieConnection {
    stream: BufReader<TcpStream>,
    parser: Parser,
    is_open: bool,
}

impl RamieConnection {
    pub(super) fn new(stream: TcpStream) -> Self {
        RamieConnection { stream: BufReader::new(stream), parser: Parser::new(), is_open: true }
    }

    fn send(&mut self, commands: &[u8]) -> RedisResult<()> {
        // What a broken connection returns next might belong to an earlier command.
        self.is_open = false;
        self.stream.get_mut().write_all(commands)?;
        Ok(())
    }

    fn receive(&mut self) -> RedisResult<Value> {
        self.parser.parse_value(&mut self.stream)
    }
}

impl ConnectionLike for RamieConnection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        self.send(command)?;
        let value = self.receive()?;
        self.is_open = true;
        value.extract_error()
    }

    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.send(commands)?;
        for _ in 0..offset {
            self.receive()?;
        }
        let values = (0..count).map(|_| self.receive()).collect::<RedisResult<Vec<_>>>()?;
        self.is_open = true;
        Ok(values)
    }

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        redis::cmd("PING").query::<String>(self).is_ok()
    }

    fn is_open(&self) -> bool {
        self.is_open
    }
}
