//! The clients: rustls on blocking sockets of std, a thread for each connection.

use std::{
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustls::{ClientConnection, StreamOwned};

use super::{
    CONNECTIONS,
    server::{LARGE_PATH, MIB, SMALL_PATH, TEXT},
    settings::{self, Settings},
};
use crate::process;

/// A task that each client repeats until time is up.
#[derive(Clone, Copy)]
pub enum Load {
    /// A connection, a request on it, and its end.
    Handshakes,
    /// A request for one MiB on a connection that is kept.
    Bytes,
}

impl Load {
    /// Runs the threads on one CPU, and returns the number of all connections, or of all answers.
    pub fn run(
        self,
        address: &str,
        settings: &Settings,
        cpu: usize,
        length: Duration,
    ) -> Result<u64, String> {
        let end = Instant::now() + length;
        let counts = thread::scope(|scope| {
            let run = || {
                process::pin_to(cpu);
                self.run_one(address, settings, end)
            };
            let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(run)).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.collect::<Vec<_>>()
        });
        let panicked = |_| "a client panicked".to_owned();
        counts.into_iter().map(|count| count.map_err(panicked)?).sum()
    }

    fn run_one(self, address: &str, settings: &Settings, end: Instant) -> Result<u64, String> {
        let mut count = 0;
        match self {
            Load::Handshakes => {
                while Instant::now() < end {
                    Client::connect(address, settings)?.get_small()?;
                    count += 1;
                }
            }
            Load::Bytes => {
                let mut client = Client::connect(address, settings)?;
                while Instant::now() < end {
                    client.get(LARGE_PATH, MIB)?;
                    count += 1;
                }
            }
        }
        Ok(count)
    }
}

/// Room for plaintext.
const BUFFER: usize = 16 << 10;

/// How long a server may keep a client waiting. A server that hangs should end the bench.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection.
pub struct Client {
    stream: StreamOwned<ClientConnection, Wire>,
    buffer: Vec<u8>,
}

/// A socket that is read in large parts. rustls alone would read 4 KiB at a time, and the client
/// would be slower than the server.
struct Wire(BufReader<TcpStream>);

impl Wire {
    fn connect(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        // Otherwise the ports of closed connections could not be reused for a minute (TIME_WAIT).
        rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        Ok(Wire(BufReader::with_capacity(64 << 10, socket)))
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(timed_out)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The kernel reports a timeout of a socket as if it did not block.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            let seconds = PATIENCE.as_secs();
            io::Error::new(io::ErrorKind::TimedOut, format!("no progress within {seconds} s"))
        }
        _ => error,
    }
}

impl Client {
    pub fn connect(address: &str, settings: &Settings) -> Result<Self, String> {
        let open = || -> io::Result<Self> {
            let wire = Wire::connect(address)?;
            let session = ClientConnection::new(Arc::clone(&settings.client), settings::name());
            let session = session.map_err(io::Error::other)?;
            Ok(Client { stream: StreamOwned::new(session, wire), buffer: Vec::new() })
        };
        open().map_err(|error| format!("connect: {error}"))
    }

    /// Has the small answer sent, and checks it.
    pub fn get_small(&mut self) -> Result<(), String> {
        self.get(SMALL_PATH, TEXT.len())
    }

    /// Has an answer sent whose body has that length, and checks its head and length.
    fn get(&mut self, path: &str, length: usize) -> Result<(), String> {
        let seen = self.exchange(path, length).map_err(|error| format!("{path}: {error}"))?;
        match seen == length {
            true => Ok(()),
            false => Err(format!("{path}: {seen} bytes instead of {length}")),
        }
    }

    /// Returns the length of the answer's body.
    fn exchange(&mut self, path: &str, length: usize) -> io::Result<usize> {
        let Client { stream, buffer } = self;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
        buffer.resize(BUFFER, 0);
        let mut filled = 0;
        let head = loop {
            filled += some(stream.read(&mut buffer[filled..])?)?;
            let end = buffer[..filled].windows(4).position(|bytes| bytes == b"\r\n\r\n");
            if let Some(end) = end {
                break end + 4;
            }
        };
        if !buffer.starts_with(b"HTTP/1.1 200 OK\r\n") {
            let line = buffer[..filled].split(|byte| *byte == b'\r').next().unwrap_or_default();
            return Err(io::Error::other(String::from_utf8_lossy(line).into_owned()));
        }
        let mut body = filled - head;
        while body < length {
            body += some(stream.read(buffer)?)?;
        }
        Ok(body)
    }
}

/// Fails at the end of the stream.
fn some(count: usize) -> io::Result<usize> {
    if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(count) }
}
