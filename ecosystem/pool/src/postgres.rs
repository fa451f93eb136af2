//! A small blocking client of PostgreSQL: the crate postgres-protocol over a stream of Ramie.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::{
    backend::{DataRowBody, Message},
    frontend,
};
use ramie::os::unix::net::UnixStream;
use ramie_pool::ManageConnection;

use crate::exchange::Exchange;

/// The user that `ecosystem/pool/servers` makes, and its database.
pub const USER: &str = "pool";
pub const DATABASE: &str = "postgres";

pub struct PostgresConnection {
    stream: UnixStream,
    received: BytesMut,
    to_send: BytesMut,
}

impl PostgresConnection {
    fn connect(stream: UnixStream) -> io::Result<Self> {
        let (received, to_send) = (BytesMut::new(), BytesMut::new());
        let mut connection = PostgresConnection { stream, received, to_send };
        let parameters = [("user", USER), ("database", DATABASE)];
        frontend::startup_message(parameters, &mut connection.to_send)?;
        connection.exchange()?;
        Ok(connection)
    }

    /// Returns the first column of the first row.
    fn query(&mut self, sql: &str) -> io::Result<String> {
        frontend::query(sql, &mut self.to_send)?;
        let row = self.exchange()?.ok_or_else(|| io::Error::other("no row"))?;
        let range = row.ranges().next()?.flatten().ok_or_else(|| io::Error::other("NULL"))?;
        String::from_utf8(row.buffer()[range].to_vec()).map_err(io::Error::other)
    }

    /// Sends the request, and receives until the server is ready for the next one.
    fn exchange(&mut self) -> io::Result<Option<DataRowBody>> {
        self.stream.write_all(&self.to_send)?;
        self.to_send.clear();
        let mut row = None;
        loop {
            match self.receive()? {
                Message::ReadyForQuery(_) => return Ok(row),
                Message::DataRow(body) if row.is_none() => row = Some(body),
                Message::ErrorResponse(error) => {
                    let mut fields = error.fields();
                    let mut text = String::new();
                    while let Some(field) = fields.next()? {
                        text.push_str(&String::from_utf8_lossy(field.value_bytes()));
                        text.push(' ');
                    }
                    return Err(io::Error::other(text));
                }
                _ => {}
            }
        }
    }

    fn receive(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = Message::parse(&mut self.received)? {
                return Ok(message);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&bytes[..count]),
            }
        }
    }
}

impl Exchange for PostgresConnection {
    fn ask(&mut self, number: u64, delay: Duration) -> io::Result<u64> {
        let sql = match delay.is_zero() {
            true => format!("SELECT {number}"),
            false => format!("SELECT {number} FROM pg_sleep({})", delay.as_secs_f64()),
        };
        self.query(&sql)?.parse().map_err(io::Error::other)
    }

    fn connections(&mut self) -> io::Result<usize> {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
        self.query(sql)?.parse().map_err(io::Error::other)
    }
}

/// The manager. It leaves it to the pool to notice interrupted exchanges.
#[derive(Clone)]
pub struct Postgres(Arc<PathBuf>);

impl Postgres {
    pub fn new(socket: PathBuf) -> Self {
        Postgres(Arc::new(socket))
    }
}

impl ManageConnection for Postgres {
    type Connection = PostgresConnection;
    type Error = io::Error;

    fn connect(&self) -> io::Result<PostgresConnection> {
        PostgresConnection::connect(UnixStream::connect(&*self.0)?)
    }

    fn is_valid(&self, connection: &mut PostgresConnection) -> io::Result<()> {
        connection.query("SELECT 1").map(drop)
    }

    fn has_broken(&self, _: &mut PostgresConnection) -> bool {
        false
    }
}
