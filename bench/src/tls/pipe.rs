//! The limit: rustls on a memory pipe. The thread plays both sides in turn, and its CPU time counts
//! only while it is the server.

use std::{
    io::{self, Read, Write},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use rustls::{ClientConnection, ServerConfig, ServerConnection};

use super::{
    server::{MIB, TEXT},
    settings::{self, Settings},
    verdict::{Cost, Row},
};
use crate::process;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The costs of the server's side on that CPU.
pub fn measure(settings: &Settings, cpu: usize, length: Duration) -> Result<Row, String> {
    let config = settings::server(settings.folder())?;
    let measured = thread::scope(|scope| {
        let measured = scope.spawn(|| -> io::Result<Row> {
            process::pin_to(cpu);
            // The first second is not measured, as with the servers.
            handshakes(settings, &config, Duration::from_secs(1))?;
            let handshakes = handshakes(settings, &config, length)?;
            Ok(Row { handshakes, mib: bytes(settings, &config, length)? })
        });
        measured.join()
    });
    let measured = measured.map_err(|_| "the pipe panicked".to_owned())?;
    measured.map_err(|error| format!("the pipe: {error}"))
}

/// Connections, each with a request and a small answer.
fn handshakes(
    settings: &Settings,
    config: &Arc<ServerConfig>,
    length: Duration,
) -> io::Result<Cost> {
    let end = Instant::now() + length;
    let (mut count, mut time) = (0, Duration::ZERO);
    while Instant::now() < end {
        let mut pipe = Pipe::open(settings, config)?;
        pipe.request()?;
        pipe.answer(TEXT.as_bytes())?;
        time += pipe.close();
        count += 1;
    }
    Ok(Cost::new(count, time, time))
}

/// Answers of one MiB on one connection.
fn bytes(settings: &Settings, config: &Arc<ServerConfig>, length: Duration) -> io::Result<Cost> {
    let end = Instant::now() + length;
    let mut pipe = Pipe::open(settings, config)?;
    let body = vec![b'x'; MIB];
    pipe.time = Duration::ZERO;
    let mut count = 0;
    while Instant::now() < end {
        pipe.request()?;
        pipe.answer(&body)?;
        count += 1;
    }
    Ok(Cost::new(count, pipe.time, pipe.time))
}

/// A connection whose both ends this thread drives.
struct Pipe {
    client: ClientConnection,
    server: ServerConnection,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    /// The bytes of one answer that the client has decrypted.
    received: usize,
    room: Vec<u8>,
    /// The CPU time of the server's side.
    time: Duration,
}

impl Pipe {
    /// A connection after its handshake.
    fn open(settings: &Settings, config: &Arc<ServerConfig>) -> io::Result<Self> {
        let client = ClientConnection::new(Arc::clone(&settings.client), settings::name());
        let start = now();
        let server = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        let time = now() - start;
        let mut pipe = Pipe {
            client: client.map_err(io::Error::other)?,
            server,
            to_client: Vec::new(),
            to_server: Vec::new(),
            received: 0,
            room: vec![0; 64 << 10],
            time,
        };
        while pipe.client.is_handshaking() {
            pipe.turn_of_client()?;
            pipe.turn_of_server(|_| Ok(()))?;
            pipe.turn_of_client()?;
        }
        Ok(pipe)
    }

    /// The client sends a request, and the server reads it.
    fn request(&mut self) -> io::Result<()> {
        self.client.writer().write_all(REQUEST)?;
        self.turn_of_client()?;
        self.turn_of_server(|server| {
            let mut request = [0; REQUEST.len()];
            server.reader().read_exact(&mut request)
        })
    }

    /// The server sends an answer, and the client reads it, as much at a time as a session buffers.
    fn answer(&mut self, mut body: &[u8]) -> io::Result<()> {
        let length = body.len();
        self.received = 0;
        while !body.is_empty() {
            self.turn_of_server(|server| {
                let taken = server.writer().write(body)?;
                body = &body[taken..];
                Ok(())
            })?;
            self.turn_of_client()?;
        }
        assert_eq!(self.received, length, "the client has received another answer");
        Ok(())
    }

    /// The client receives all that the server has sent, and sends its own records.
    fn turn_of_client(&mut self) -> io::Result<()> {
        let mut incoming = self.to_client.as_slice();
        while !incoming.is_empty() {
            self.client.read_tls(&mut incoming)?;
            let state = self.client.process_new_packets().map_err(io::Error::other)?;
            for _ in 0..state.plaintext_bytes_to_read().div_ceil(self.room.len()) {
                self.received += self.client.reader().read(&mut self.room)?;
            }
        }
        self.to_client.clear();
        while self.client.wants_write() {
            self.client.write_tls(&mut self.to_server)?;
        }
        Ok(())
    }

    /// The server receives all that the client has sent, acts, and sends its own records. This is
    /// timed.
    fn turn_of_server(
        &mut self,
        act: impl FnOnce(&mut ServerConnection) -> io::Result<()>,
    ) -> io::Result<()> {
        let start = now();
        let mut incoming = self.to_server.as_slice();
        while !incoming.is_empty() {
            self.server.read_tls(&mut incoming)?;
            self.server.process_new_packets().map_err(io::Error::other)?;
        }
        self.to_server.clear();
        act(&mut self.server)?;
        while self.server.wants_write() {
            self.server.write_tls(&mut self.to_client)?;
        }
        self.time += now() - start;
        Ok(())
    }

    /// Frees the server's side, and returns the time of all that it did.
    fn close(self) -> Duration {
        let Pipe { server, time, .. } = self;
        let start = now();
        drop(server);
        time + (now() - start)
    }
}

/// The CPU time of this thread.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
