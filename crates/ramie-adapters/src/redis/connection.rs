//! A connection.

use std::{
    fmt,
    io::{self, Read, Write},
};

use ramie::{cancel::check_cancelled, net::TcpStream, os::unix::net::UnixStream};
use redis::{
    Cmd, ConnectionAddr, ConnectionLike, ErrorKind, IntoConnectionInfo, Parser,
    RedisConnectionInfo, RedisResult, Value, cmd, pipe,
};

use super::RedisPubSub;

/// A stream to a server: of Ramie, or TLS over one.
trait Duplex: Read + Write + Send {}

impl<S: Read + Write + Send> Duplex for S {}

/// A connection to a Redis server, which parks the fiber where the crate's own blocks its thread.
/// All commands of the crate work on it: `Commands`, `redis::cmd`, pipelines, transactions.
///
/// # Cancellation
/// Each command is a cancel point. If the strand is cancelled already, a command sends nothing and
/// breaks nothing. A command that is cancelled later, or fails otherwise before its whole answer
/// has arrived, breaks the connection: [`is_open`](ConnectionLike::is_open) returns false then, and
/// further commands fail with `BrokenPipe` and send nothing. The server may still execute the
/// cancelled command.
///
/// The crate's error has the reason of a cancellation as its source, so the scopes of
/// [`ramie::structured`] recognise it in a `Box<dyn Error + Send + Sync>` or an `anyhow::Error`.
/// Its `is_timeout` returns true if a limit has expired. In the cancelled scope, such as the
/// closure of [`try_with_timeout`](ramie::cancel::try_with_timeout), [`check_cancelled`] returns
/// the reason.
///
/// An error that the server answers, such as `WRONGTYPE`, breaks nothing.
///
/// # Printing errors
/// The crate's error prints the text of the error that it has as its source. A report of an error
/// with all of its sources, such as `{:#}` of `anyhow`, therefore contains the text twice.
pub struct RedisConnection {
    stream: Box<dyn Duplex>,
    parser: Parser,
    database: i64,
    /// False from the first byte of a command until its whole answer has arrived.
    is_open: bool,
}

impl RedisConnection {
    /// Connects to the server of a `ConnectionInfo` or of a URL, such as
    /// `redis://:password@host:port/database` or `redis+unix:///path`, signs in, and selects the
    /// database.
    ///
    /// # Blocking
    /// Parks the fiber until the server has answered.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// Those of connecting, and of the server. `InvalidClientConfig`: the URL is invalid, or asks
    /// for TLS; then connect a TLS stream and give it to [`over`](Self::over).
    pub fn connect(server: impl IntoConnectionInfo) -> RedisResult<Self> {
        let info = server.into_connection_info()?;
        let settings = info.redis_settings();
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Self::over(stream, settings)
            }
            ConnectionAddr::Unix(path) => Self::over(UnixStream::connect(path)?, settings),
            _ => {
                let why = "TLS needs a stream of its own; give it to RedisConnection::over";
                Err((ErrorKind::InvalidClientConfig, why).into())
            }
        }
    }

    /// Makes a connection of a stream: signs in, and selects the database. The stream may be one of
    /// Ramie, or TLS over one, such as rustls's `StreamOwned`.
    ///
    /// # Blocking
    /// Parks the fiber if the settings have a password, a database or RESP3.
    ///
    /// # Cancellation
    /// A cancel point, if it waits.
    ///
    /// # Errors
    /// Those of the stream and of the server.
    pub fn over(
        stream: impl Read + Write + Send + 'static,
        settings: &RedisConnectionInfo,
    ) -> RedisResult<Self> {
        let (stream, parser) = (Box::new(stream), Parser::new());
        let database = settings.db();
        let mut connection = RedisConnection { stream, parser, database, is_open: true };
        let mut sign_in = pipe();
        let user = settings.username();
        match settings.password() {
            _ if settings.protocol().supports_resp3() => {
                let hello = sign_in.cmd("HELLO").arg(3);
                let user = user.unwrap_or("default");
                settings.password().map(|password| hello.arg("AUTH").arg(user).arg(password));
            }
            Some(password) => _ = sign_in.cmd("AUTH").arg(user).arg(password),
            None => {}
        }
        if database != 0 {
            sign_in.cmd("SELECT").arg(database);
        }
        if !sign_in.is_empty() {
            sign_in.exec(&mut connection)?;
        }
        Ok(connection)
    }

    /// Makes the connection one that receives messages of channels.
    ///
    /// # Blocking
    /// Never.
    #[must_use]
    pub fn into_pub_sub(self) -> RedisPubSub {
        RedisPubSub::new(self)
    }

    /// Sends bytes. The connection stays broken until [`end`](Self::end).
    pub(super) fn send(&mut self, bytes: &[u8]) -> RedisResult<()> {
        self.check_open()?;
        // Before the connection counts as broken, because a call that fails here sends nothing.
        check_cancelled().map_err(io::Error::from)?;
        self.is_open = false;
        self.stream.write_all(bytes)?;
        Ok(self.stream.flush()?)
    }

    /// Refuses a broken connection.
    pub(super) fn check_open(&self) -> RedisResult<()> {
        let why = "an earlier command was interrupted, so its answer may still come; open a new \
                   connection";
        let refusal = || io::Error::new(io::ErrorKind::BrokenPipe, why).into();
        self.is_open.then_some(()).ok_or_else(refusal)
    }

    /// Receives a value. If it is cancelled, a later call continues where this one was cut off.
    pub(super) fn receive(&mut self) -> RedisResult<Value> {
        self.parser.parse_value(&mut self.stream)
    }

    /// Receives an answer. Messages of RESP3 that the server pushes in between belong to none.
    fn receive_answer(&mut self) -> RedisResult<Value> {
        loop {
            match self.receive()? {
                Value::Push { .. } => {}
                value => return Ok(value),
            }
        }
    }

    /// All answers have arrived.
    pub(super) fn end(&mut self) {
        self.is_open = true;
    }
}

impl ConnectionLike for RedisConnection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        self.send(command)?;
        let value = self.receive_answer()?;
        self.end();
        value.extract_error()
    }

    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.send(commands)?;
        // The answer to EXEC lacks the reason why a command of a transaction was refused.
        let mut queued = Ok(());
        for _ in 0..offset {
            let answer = self.receive_answer()?.extract_error().map(drop);
            queued = queued.and(answer);
        }
        let values = (0..count).map(|_| self.receive_answer()).collect::<RedisResult<_>>()?;
        self.end();
        queued.map(|()| values)
    }

    fn req_command(&mut self, command: &Cmd) -> RedisResult<Value> {
        let packed = command.get_packed_command();
        if !command.is_no_response() {
            return self.req_packed_command(&packed);
        }
        self.send(&packed)?;
        self.end();
        Ok(Value::Nil)
    }

    fn get_db(&self) -> i64 {
        self.database
    }

    fn check_connection(&mut self) -> bool {
        cmd("PING").query::<String>(self).is_ok()
    }

    fn is_open(&self) -> bool {
        self.is_open
    }
}

impl fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RedisConnection { database, is_open, .. } = self;
        f.debug_struct("RedisConnection")
            .field("database", database)
            .field("is_open", is_open)
            .finish_non_exhaustive()
    }
}
