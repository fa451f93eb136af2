//! The load generator: fibers that each send requests over a connection of their own.

use std::{
    io::{self, Write},
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ramie::net::TcpStream;
use serde::{Deserialize, Serialize};

use super::{Page, WriteMode, answer::AnswerCheck};
use crate::{
    OnFibers, StrandKind, WorkloadError,
    durations::{Durations, Samples, Shards},
    gate::{Gate, Ticket},
    strands::{join_all, spawn_all},
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// How long the generator waits for bytes of an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The requests of a generator.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The number of connections.
    pub connections: u32,
    /// The number of requests on all connections together.
    pub requests: u64,
    /// The length of the body that is expected.
    pub body: u32,
    /// The servers, which get the connections in turn.
    pub servers: Vec<SocketAddr>,
}

/// The figures of a generator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadReport {
    /// The number of requests that were answered, without one for each connection before the start.
    pub requests: u64,
    /// From the start of the first request to the end of the last answer.
    pub time: Duration,
    /// The time of each request.
    pub latencies: Durations,
}

/// A report, and the connections, which are still open.
#[derive(Debug)]
pub struct Loaded {
    /// The figures.
    pub report: LoadReport,
    /// The connections. To close them takes the server CPU time, which is not that of a request.
    pub connections: Vec<TcpStream>,
}

/// The parts that all connections share.
struct LoadCourse {
    page: Page,
    requests: u64,
    taken: AtomicU64,
    shards: Shards,
    /// Why the run is over before its end.
    failure: OnceLock<String>,
}

/// The result of one connection.
#[derive(Default)]
struct Used {
    requests: u64,
    stream: Option<TcpStream>,
}

impl LoadPlan {
    /// Opens the connections and sends one request on each, calls `on_ready`, and sends the
    /// requests. Every answer is checked. Has to be called on a fiber.
    ///
    /// # Errors
    /// If a connection cannot be opened, if an answer is wrong or does not come within 30 s, or if
    /// `on_ready` fails.
    pub fn run(
        &self,
        on_ready: impl FnOnce() -> Result<(), WorkloadError>,
    ) -> Result<Loaded, WorkloadError> {
        let count = self.connections as usize;
        let course = Arc::new(LoadCourse {
            page: Page::of(self.body as usize, WriteMode::Single),
            requests: self.requests,
            taken: AtomicU64::new(0),
            shards: Shards::new(),
            failure: OnceLock::new(),
        });
        let mut streams = self.connect()?.into_iter();
        let gate = Gate::<OnFibers>::new(count);
        let spawned = spawn_all::<OnFibers, _, _>(count, |number| {
            let (ticket, course, stream) = (gate.ticket(), Arc::clone(&course), streams.next());
            move || {
                stream.map_or_else(Used::default, |stream| course.use_up(number, stream, ticket))
            }
        });
        let fibers = spawned.map_err(|failure| {
            course.fail("not all connections have a fiber".to_owned());
            gate.open(failure.peers());
            failure.give_up()
        })?;
        gate.wait();
        let is_ready = if course.failure.get().is_none() { on_ready() } else { Ok(()) };
        if let Err(error) = &is_ready {
            course.fail(error.to_string());
        }
        let start = Instant::now();
        gate.open(fibers.iter().map(OnFibers::peer));
        let (mut requests, mut connections) = (0, Vec::with_capacity(count));
        join_all::<OnFibers, Used>(fibers, |used| {
            requests += used.requests;
            connections.extend(used.stream);
        })?;
        let time = start.elapsed();
        is_ready?;
        if let Some(why) = course.failure.get() {
            return Err(WorkloadError::new(why.clone()));
        }
        let latencies = course.shards.merged();
        if requests != self.requests || latencies.count() != requests {
            return Err(WorkloadError::wrong(format!(
                "the load generator made {requests} of {} requests and measured the latency of {}",
                self.requests,
                latencies.count()
            )));
        }
        Ok(Loaded { report: LoadReport { requests, time, latencies }, connections })
    }

    fn connect(&self) -> Result<Vec<TcpStream>, WorkloadError> {
        let servers = self.servers.iter().cycle().take(self.connections as usize);
        let connect = |server: &SocketAddr| {
            let stream = TcpStream::connect(server)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let made: io::Result<Vec<_>> = servers.map(connect).collect();
        made.map_err(|error| {
            WorkloadError::new(format!(
                "cannot open {} connections ({error}); ask for fewer --connections, or raise the \
                 limits on descriptors (ulimit -n) and ports (net.ipv4.ip_local_port_range)",
                self.connections
            ))
        })
    }
}

impl LoadCourse {
    /// Keeps the first reason only, because the others follow from it.
    fn fail(&self, why: String) {
        let _ = self.failure.set(why);
    }

    /// Sends requests over one connection until all are taken.
    fn use_up(&self, number: usize, stream: TcpStream, mut ticket: Ticket<OnFibers>) -> Used {
        let mut requests = 0;
        let mut conversation = |ticket: &mut Ticket<OnFibers>| {
            let mut received = stream.recv_each();
            let mut check = AnswerCheck::new(self.page.body());
            let mut ask = || {
                (&stream).write_all(REQUEST).map_err(|error| refused(&error))?;
                loop {
                    let bytes = received.next().ok_or("the server closed it")?;
                    if check.take(&bytes.map_err(|error| refused(&error))?)? {
                        return Ok::<_, String>(());
                    }
                }
            };
            ask()?;
            ticket.arrive();
            ticket.pass();
            let mut samples = Samples::new(&self.shards, number);
            while self.take_request() {
                let start = Instant::now();
                ask()?;
                samples.record(start.elapsed());
                requests += 1;
            }
            Ok::<_, String>(())
        };
        if let Err(why) = conversation(&mut ticket) {
            self.fail(format!("connection {}: {why}", number + 1));
        }
        Used { requests, stream: Some(stream) }
    }

    /// Whether there is one more request to be sent.
    fn take_request(&self) -> bool {
        self.failure.get().is_none() && self.taken.fetch_add(1, Ordering::Relaxed) < self.requests
    }
}

fn refused(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer came within {} s", PATIENCE.as_secs())
        }
        _ => format!("the server cut it off ({error})"),
    }
}
