//! The limit: rustls on a memory pipe. The thread plays both sides in turn, and its CPU time counts
//! only while it is the server.
//!
//! Two kinds of system calls are made meanwhile, whose times are measured and subtracted: those
//! that read the clock, and, from the time outside the kernel, nine for random numbers in each
//! handshake. The ciphertext is copied once, into the pipe, as `ramie-http` copies it into what it
//! sends.

use std::{
    io::{self, Read, Write},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    rand::{GetRandomFlags, getrandom},
    time::{ClockId, clock_gettime},
};
use rustls::{ClientConnection, ServerConfig, ServerConnection};

use super::{
    server::{MIB, TEXT},
    settings::{self, Settings},
    verdict::{Cost, Row},
};
use crate::process;

/// The plaintext of one record. `ramie-http` has each record encrypted by itself, too.
const PIECE: usize = 16 << 10;
/// The records that the client reads at once.
const PIECES_AT_ONCE: usize = 4;
/// The calls of getrandom(2) in a handshake on the server's side, counted by strace: three for the
/// keys and the first flight, and three for each of two tickets.
const RANDOM_CALLS: u32 = 9;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The costs of the server's side on that CPU.
pub fn measure(settings: &Settings, cpu: usize, length: Duration) -> Result<Row, String> {
    let config = settings::server(settings.folder())?;
    let measured = thread::scope(|scope| {
        let measured = scope.spawn(|| -> io::Result<Row> {
            process::pin_to(cpu);
            let clock = cost_of_the_clock();
            let both = Both { settings, config: &config, clock, random: cost_of_randomness(clock) };
            // The first second is not measured, as with the servers.
            both.handshakes(Duration::from_secs(1))?;
            let handshakes = both.handshakes(length)?;
            both.bytes(Duration::from_secs(1))?;
            Ok(Row { handshakes, mib: both.bytes(length)? })
        });
        measured.join()
    });
    let measured = measured.map_err(|_| "the pipe panicked".to_owned())?;
    measured.map_err(|error| format!("the pipe: {error}"))
}

/// The time between two looks at the clock that follow one another.
fn cost_of_the_clock() -> Duration {
    let mut all: Vec<Duration> = (0..10_001)
        .map(|_| {
            let start = now();
            now() - start
        })
        .collect();
    all.sort();
    all[all.len() / 2]
}

/// The time of a call for random numbers.
fn cost_of_randomness(clock: Duration) -> Duration {
    let mut timer = Timer { clock, total: Duration::ZERO };
    for _ in 0..10_000 {
        // Early in the life of a system it could fail, and TLS with it.
        let _ = timer.time(|| getrandom(&mut [0; 32], GetRandomFlags::empty()));
    }
    timer.total / 10_000
}

/// The settings of both sides, and the times of calls that do not count.
struct Both<'a> {
    settings: &'a Settings,
    config: &'a Arc<ServerConfig>,
    clock: Duration,
    random: Duration,
}

impl Both<'_> {
    /// Connections, each with a request and a small answer.
    fn handshakes(&self, length: Duration) -> io::Result<Cost> {
        let end = Instant::now() + length;
        let mut room = [0; PIECE];
        let (mut count, mut time) = (0, Duration::ZERO);
        while Instant::now() < end {
            let mut pipe = Pipe::open(self, &mut room)?;
            pipe.request()?;
            pipe.answer(TEXT.as_bytes())?;
            time += pipe.close();
            count += 1;
        }
        let calls = RANDOM_CALLS * u32::try_from(count).expect("few enough");
        Ok(Cost::new(count, time, time.saturating_sub(self.random * calls)))
    }

    /// Answers of one MiB on one connection.
    fn bytes(&self, length: Duration) -> io::Result<Cost> {
        let end = Instant::now() + length;
        let mut room = [0; PIECE];
        let mut pipe = Pipe::open(self, &mut room)?;
        let body = vec![b'x'; MIB];
        pipe.timer.total = Duration::ZERO;
        let mut count = 0;
        while Instant::now() < end {
            pipe.request()?;
            pipe.answer(&body)?;
            count += 1;
        }
        Ok(Cost::new(count, pipe.timer.total, pipe.timer.total))
    }
}

/// A connection whose both ends this thread drives.
struct Pipe<'a> {
    client: ClientConnection,
    server: ServerConnection,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    /// The bytes of one answer that the client has decrypted.
    received: usize,
    room: &'a mut [u8; PIECE],
    timer: Timer,
}

impl<'a> Pipe<'a> {
    /// A connection after its handshake.
    fn open(both: &Both<'_>, room: &'a mut [u8; PIECE]) -> io::Result<Self> {
        let client = ClientConnection::new(Arc::clone(&both.settings.client), settings::name());
        let mut timer = Timer { clock: both.clock, total: Duration::ZERO };
        let server = timer.time(|| ServerConnection::new(Arc::clone(both.config)));
        let mut pipe = Pipe {
            client: client.map_err(io::Error::other)?,
            server: server.map_err(io::Error::other)?,
            to_client: Vec::new(),
            to_server: Vec::new(),
            received: 0,
            room,
            timer,
        };
        while pipe.client.is_handshaking() {
            pipe.turn_of_client()?;
            pipe.turn_of_server(|_, _| Ok(()))?;
            pipe.turn_of_client()?;
        }
        Ok(pipe)
    }

    /// The client sends a request, and the server reads it.
    fn request(&mut self) -> io::Result<()> {
        self.client.writer().write_all(REQUEST)?;
        self.turn_of_client()?;
        self.turn_of_server(|server, _| {
            let mut request = [0; REQUEST.len()];
            server.reader().read_exact(&mut request)
        })
    }

    /// The server sends an answer, a record at a time, and the client reads some records at a time.
    fn answer(&mut self, mut body: &[u8]) -> io::Result<()> {
        let length = body.len();
        self.received = 0;
        while !body.is_empty() {
            self.turn_of_server(|server, to_client| {
                for _ in 0..PIECES_AT_ONCE.min(body.len().div_ceil(PIECE)) {
                    let taken = server.writer().write(&body[..body.len().min(PIECE)])?;
                    body = &body[taken..];
                    server.write_tls(to_client)?;
                }
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
                self.received += self.client.reader().read(self.room)?;
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
        act: impl FnOnce(&mut ServerConnection, &mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let Pipe { server, to_client, to_server, timer, .. } = self;
        timer.time(|| {
            let mut incoming = to_server.as_slice();
            while !incoming.is_empty() {
                server.read_tls(&mut incoming)?;
                server.process_new_packets().map_err(io::Error::other)?;
            }
            to_server.clear();
            act(server, to_client)?;
            while server.wants_write() {
                server.write_tls(to_client)?;
            }
            Ok(())
        })
    }

    /// Frees the server's side, and returns the time of all that it did.
    fn close(self) -> Duration {
        let Pipe { server, mut timer, .. } = self;
        timer.time(|| drop(server));
        timer.total
    }
}

/// The CPU time of the server's side.
struct Timer {
    /// The time of reading the clock, which does not count.
    clock: Duration,
    total: Duration,
}

impl Timer {
    fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let start = now();
        let result = work();
        self.total += now().saturating_sub(start + self.clock);
        result
    }
}

/// The CPU time of this thread.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
