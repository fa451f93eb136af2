//! The server: one strand accepts in a loop and spawns a strand for each connection.
//!
//! Another strand waits for the clients' report. If the clients end before all have connected, it
//! shuts the listener down, so that the accept that waits for the next client returns.
//!
//! *The race to fear*: the accepting strand parks until connections end, while the last of them
//! ends. The accepting strand stores the number of connections that it waits for and then reads how
//! many there are; a connection that ends subtracts itself and then reads the awaited number. All
//! four accesses are SeqCst, so one of the two sees the other.

use std::{
    fs,
    io::{self, IoSlice, Read},
    net,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::net::{Shutdown, shutdown};

use super::{GREETING, Server};
use crate::{
    Cost, Figure, StrandKind, WorkloadError,
    strands::{join_all, try_spawn},
    usage::{Stopwatch, peak_resident_bytes, restart_peak_resident},
};

/// Everything that a server needs beside its parameters.
pub struct ServerSetup<'a> {
    /// Listens for the clients.
    pub listener: net::TcpListener,
    /// The largest number of connections at once that is safe, 1 or more.
    pub connections_at_once: usize,
    /// Starts the clients. Called when the clock has started.
    pub start: &'a mut dyn FnMut(),
    /// The clients' process writes its report here and closes.
    pub report: OwnedFd,
}

/// The result of a server that has served all clients.
#[derive(Debug)]
pub struct ServedClients {
    /// The cost, with the figures of the server.
    pub cost: Cost,
    /// The report of the clients' process.
    pub report: String,
}

impl Server {
    /// Serves all clients. Returns `None` if the clients ended without a report.
    ///
    /// # Blocking
    /// Parks the strand until all clients are served and their process has closed its report.
    ///
    /// # Errors
    /// If the system refuses a strand or a connection, or if a strand cannot write.
    pub fn serve<S: StrandKind>(
        &self,
        setup: ServerSetup<'_>,
    ) -> Result<Option<ServedClients>, WorkloadError> {
        let ServerSetup { listener, connections_at_once, start, report } = setup;
        let watch = Watch::<S>::start(&listener, report)?;
        let own_threads = threads_of_process();
        let service = OpenConnections::<S>::new();
        let listener = S::Listener::from(listener);
        restart_peak_resident();
        let stopwatch = Stopwatch::start();
        start();
        let accepted = service.accept_all(self, &listener, connections_at_once, &watch);
        service.wait_for(0);
        let cost = stopwatch.stop();
        let peak_rss_bytes = peak_resident_bytes().unwrap_or(0);
        let threads = match (&accepted, S::IS_COOPERATIVE) {
            (Ok(accepted), false) => own_threads + accepted.most_at_once,
            _ => threads_of_process(),
        };
        // The server refuses further clients, so the clients' process ends even after an error.
        let _ = shutdown(&listener, Shutdown::Both);
        let report = watch.report()?;
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(Stop::ClientsEnded) => return Ok(None),
            Err(Stop::Failed(error)) => return Err(error),
        };
        service.check(self.clients as usize)?;
        let cpu_percent = cost.cpu_s / cost.time.as_secs_f64() * 100.0;
        let figures = vec![
            ("accept_wait_us", accepted.waits()),
            ("server_cpu_percent", Figure::Number(cpu_percent)),
            ("peak_rss_bytes", Figure::Count(peak_rss_bytes)),
            ("threads", Figure::Count(threads as u64)),
        ];
        Ok(Some(ServedClients { cost: Cost { figures, ..cost }, report }))
    }
}

/// The number of threads of this process; 0 if there is no procfs.
fn threads_of_process() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Why the server accepts no more.
enum Stop {
    /// The clients have ended, so no more will come.
    ClientsEnded,
    Failed(WorkloadError),
}

/// The accepted connections.
#[derive(Default)]
struct Accepted {
    count: u32,
    sum: Duration,
    longest: Duration,
    /// The most connections at once.
    most_at_once: usize,
}

impl Accepted {
    fn add(&mut self, wait: Duration, at_once: usize) {
        self.count += 1;
        self.sum += wait;
        self.longest = self.longest.max(wait);
        self.most_at_once = self.most_at_once.max(at_once);
    }

    fn waits(&self) -> Figure {
        let us = |wait: Duration| wait.as_secs_f64() * 1e6;
        let mean = us(self.sum) / f64::from(self.count.max(1));
        Figure::Group(vec![("mean", mean), ("max", us(self.longest))])
    }
}

/// The parts that the accepting strand shares with those of connections.
struct OpenConnections<S: StrandKind> {
    connections: AtomicUsize,
    /// The accepting strand waits until there are as few connections.
    awaited: AtomicUsize,
    acceptor: S::Peer,
    greeted: AtomicUsize,
    /// The first error of a write.
    failed: Mutex<Option<io::Error>>,
}

impl<S: StrandKind> OpenConnections<S> {
    /// The calling strand is the one that accepts.
    fn new() -> Arc<Self> {
        Arc::new(OpenConnections {
            connections: AtomicUsize::new(0),
            awaited: AtomicUsize::new(usize::MAX),
            acceptor: S::current(),
            greeted: AtomicUsize::new(0),
            failed: Mutex::new(None),
        })
    }

    fn accept_all(
        self: &Arc<Self>,
        server: &Server,
        listener: &S::Listener,
        at_once: usize,
        watch: &Watch<S>,
    ) -> Result<Accepted, Stop> {
        let at_once = at_once.min(S::most().0).max(1);
        let mut accepted = Accepted::default();
        for _ in 0..server.clients {
            if self.connections.load(Ordering::SeqCst) >= at_once {
                self.wait_for(at_once - 1);
            }
            let before = Instant::now();
            let stream = S::accept(listener).map_err(|error| match watch.has_ended() {
                true => Stop::ClientsEnded,
                false => Stop::Failed(cannot_accept(&error)),
            })?;
            let wait = before.elapsed();
            let connections = self.connections.fetch_add(1, Ordering::SeqCst) + 1;
            accepted.add(wait, connections);
            let open = Connection { service: Arc::clone(self) };
            let serve = move || open.greet(stream);
            // The handle is dropped, so the strand is detached.
            let spawned = try_spawn::<S, _>(connections - 1, at_once, || S::spawn(serve));
            drop(spawned.map_err(Stop::Failed)?);
        }
        Ok(accepted)
    }

    /// Parks the accepting strand until there are no more than `connections`.
    fn wait_for(&self, connections: usize) {
        self.awaited.store(connections, Ordering::SeqCst);
        while self.connections.load(Ordering::SeqCst) > connections {
            S::park();
        }
        self.awaited.store(usize::MAX, Ordering::SeqCst);
    }

    fn check(&self, clients: usize) -> Result<(), WorkloadError> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(error) = failed {
            return Err(WorkloadError::new(format!(
                "the server could not write to a client ({error}); try again"
            )));
        }
        // Every strand has subtracted itself after it added 1 here.
        match self.greeted.load(Ordering::SeqCst) {
            greeted if greeted == clients => Ok(()),
            greeted => Err(WorkloadError::wrong(format!(
                "server went wrong: {greeted} clients were greeted, not {clients}"
            ))),
        }
    }
}

fn cannot_accept(error: &io::Error) -> WorkloadError {
    WorkloadError::new(format!(
        "the server cannot accept ({error}); ask for fewer clients, or raise the limits on \
         descriptors (ulimit -n, fs.file-max)"
    ))
}

/// A connection, which counts until it is dropped.
struct Connection<S: StrandKind> {
    service: Arc<OpenConnections<S>>,
}

impl<S: StrandKind> Connection<S> {
    /// Writes the greeting and closes the stream.
    fn greet(self, stream: S::Connection) {
        let written = S::write_all_vectored(&stream, &mut [IoSlice::new(GREETING)]);
        drop(stream);
        match written {
            Ok(()) => _ = self.service.greeted.fetch_add(1, Ordering::SeqCst),
            Err(error) => {
                let mut failed = self.service.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
            }
        }
    }
}

impl<S: StrandKind> Drop for Connection<S> {
    fn drop(&mut self) {
        let left = self.service.connections.fetch_sub(1, Ordering::SeqCst) - 1;
        if left == self.service.awaited.load(Ordering::SeqCst) {
            S::unpark(&self.service.acceptor);
        }
    }
}

/// The strand that waits for the clients' report.
struct Watch<S: StrandKind> {
    strand: S::Handle<String>,
    has_ended: Arc<AtomicBool>,
}

impl<S: StrandKind> Watch<S> {
    fn start(listener: &net::TcpListener, report: OwnedFd) -> Result<Self, WorkloadError> {
        let listener = listener.try_clone().map_err(|error| cannot_accept(&error))?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        let mut reader = S::PipeReader::from(report);
        let watch = move || {
            let mut report = String::new();
            // If it cannot be read, the report is empty, which is an error later.
            let _ = reader.read_to_string(&mut report);
            ended.store(true, Ordering::SeqCst);
            let _ = shutdown(listener, Shutdown::Both);
            report
        };
        let strand = try_spawn::<S, _>(0, 1, || S::spawn_helper(watch))?;
        Ok(Watch { strand, has_ended })
    }

    /// Whether the clients have ended.
    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Waits for the report.
    fn report(self) -> Result<String, WorkloadError> {
        let mut report = String::new();
        join_all::<S, String>(vec![self.strand], |text| report = text)?;
        Ok(report)
    }
}
