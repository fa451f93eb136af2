//! `ramie serve`: an HTTP/1.1 server with one fiber per connection.
//!
//! Modules: [`connection`] (serves one connection; `ramie_workloads` has the protocol),
//! [`connections`] (all open connections, and how a stop closes them), [`processes`] (several
//! processes under a supervisor), [`admission`] (memory limits), [`signals`].

mod admission;
mod connection;
mod connections;
mod processes;
mod signals;

use std::{
    io,
    net::SocketAddr,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use ramie::{
    fiber::{self, Builder, Place},
    net::TcpListener,
};
use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use self::{
    admission::Admission,
    connections::{Connection, Connections},
};
use crate::{
    arguments::{Accept, Serve},
    failure::Failure,
    output, runtime,
};

/// How long requests in flight may take once the server stops.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) fn serve(serve: &Serve) -> Result<(), Failure> {
    raise_descriptor_limit();
    match serve.processes {
        Some(processes) => processes::serve(serve, processes),
        None => {
            let accept = serve.accept.unwrap_or(Accept::PerWorker);
            let admission = Admission::new(serve.workers);
            in_runtime(serve.workers, admission, || {
                let listeners = match accept {
                    Accept::PerWorker => TcpListener::bind_per_worker(&serve.addr),
                    _ => TcpListener::bind(&serve.addr).map(|one| vec![one]),
                };
                let listeners = listeners.map_err(|error| cannot_listen(serve, &error))?;
                let bound = listeners[0].local_addr();
                let connections = Arc::new(Connections::new(listeners, false));
                signals::watch(Arc::clone(&connections))?;
                let bound = bound.map_err(|error| cannot_listen(serve, &error))?;
                admission.check_for_service()?;
                announce(bound)?;
                serve_all(&connections, accept, timeout(serve), admission)
            })
        }
    }
}

/// Runs `f` on `workers` workers, by default one per CPU.
fn in_runtime(
    workers: Option<u32>,
    admission: Admission,
    f: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut builder = ramie::Runtime::builder().grace(GRACE).on_abandoned(|fibers| {
        output::warn(&format!(
            "{} connections were still busy {} s after the signal, so they were closed",
            fibers.count(),
            GRACE.as_secs()
        ));
    });
    if let Some(workers) = workers {
        builder = builder.workers(workers as usize);
    }
    // The thread of the dumps reserves 64 MiB of address space for its allocator.
    builder = builder.dump_on_quit(!admission.is_limited());
    let runtime = builder.build().map_err(|error| Failure::of_runtime(&error))?;
    admission.check_for_start()?;
    runtime::run(&runtime, f)?
}

fn timeout(serve: &Serve) -> Duration {
    Duration::from_secs(serve.timeout.into())
}

/// Prints the address. If stdout is closed, the server still runs. If the address cannot be written
/// for another reason, the server fails, because its port is unknown to everybody.
fn announce(bound: SocketAddr) -> Result<(), Failure> {
    match output::line(&format!("listening on {bound}")) {
        Err(failure) if !failure.is_silent() => Err(failure),
        _ => Ok(()),
    }
}

/// Accepts and serves connections until the server stops.
fn serve_all(
    connections: &Arc<Connections>,
    accept: Accept,
    timeout: Duration,
    admission: Admission,
) -> Result<(), Failure> {
    let accept_on = |listener, place| {
        connections.keep_accepting(|| accept_loop(connections, listener, timeout, place, admission))
    };
    if accept == Accept::LeastLoaded {
        return accept_on(0, Place::LeastLoaded);
    }
    // Each worker serves the connections that it accepts.
    let begun = AtomicUsize::new(0);
    let serve = |worker| {
        begun.fetch_add(1, Relaxed);
        accept_on(worker, Place::Worker(worker))
    };
    let ended = panic::catch_unwind(AssertUnwindSafe(|| fiber::on_each_worker(serve)));
    match ended {
        Ok(ended) => ended.into_iter().collect(),
        // There was no memory for a fiber's stack.
        Err(payload) if begun.into_inner() < fiber::workers() => {
            Err(Failure::other(ramie_workloads::payload_text(&*payload)))
        }
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Accepts from one listener until the server stops.
fn accept_loop(
    connections: &Arc<Connections>,
    listener: usize,
    timeout: Duration,
    place: Place,
    admission: Admission,
) -> Result<(), Failure> {
    let mut wait = Backoff::default();
    loop {
        match connections.accept(listener) {
            Ok(connection) => {
                let mut admitted = Admitted(Some(connection));
                wait.reset();
                if admission.allows_one_more(|| connections.count()) {
                    let serve = move || {
                        let connection = admitted.0.take().expect("the closure runs once");
                        connection::serve(&connection, timeout);
                    };
                    // If the spawn fails, the closure is dropped, which closes the connection.
                    let _ = ramie_workloads::catch_panic(|| Builder::new().on(place).spawn(serve));
                }
            }
            Err(_) if connections.is_stopping() => return Ok(()),
            Err(error) => match Refusal::of(&error) {
                Refusal::OneConnection => {}
                Refusal::Shortage => wait.pause(&format!(
                    "cannot accept more connections for now ({error}), so new ones wait; {}",
                    cure(&error)
                )),
                Refusal::Listener => {
                    connections.stop();
                    return Err(Failure::other(format!(
                        "cannot accept connections any more ({error}); start the server again"
                    )));
                }
            },
        }
    }
}

/// A connection before its fiber runs. If there is no stack for the fiber, the runtime drops the
/// closure, and this prints the warning.
struct Admitted(Option<Connection>);

impl Drop for Admitted {
    fn drop(&mut self) {
        if self.0.is_some() {
            admission::warn();
        }
    }
}

/// The remedy if the system is short of a resource.
fn cure(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => "raise the limit with `ulimit -n`",
        _ => "free some memory",
    }
}

/// The object that an error of accept(2) concerns.
enum Refusal {
    /// The connection, which the peer has closed already.
    OneConnection,
    /// The process or the system, which is short of descriptors or buffers.
    Shortage,
    /// The listening socket.
    Listener,
}

impl Refusal {
    fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Refusal::Shortage,
            Some(Errno::BADF | Errno::INVAL | Errno::NOTSOCK) => Refusal::Listener,
            _ => Refusal::OneConnection,
        }
    }
}

/// Whether the server has printed why it cannot accept. Once, because all its workers are short of
/// the same resource.
static HAS_SAID_WHY: AtomicBool = AtomicBool::new(false);

/// Waits longer after each failure in a row instead of spinning. Prints the first reason.
#[derive(Default)]
struct Backoff {
    rounds: u32,
}

impl Backoff {
    fn pause(&mut self, why: &str) {
        if !HAS_SAID_WHY.swap(true, Relaxed) {
            output::warn(why);
        }
        ramie::fiber::sleep(Duration::from_millis(10 << self.rounds));
        self.rounds = (self.rounds + 1).min(4);
    }

    fn reset(&mut self) {
        self.rounds = 0;
    }
}

/// Raises the descriptor limit to the hard limit. If that fails, the server runs with the current
/// limit and prints a warning when it runs out of descriptors.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn cannot_listen(serve: &Serve, error: &io::Error) -> Failure {
    Failure::other(why_not_listening(&serve.addr, error))
}

fn has_no_descriptor(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno == Some(Errno::MFILE) || errno == Some(Errno::NFILE)
}

fn why_not_listening(address: &str, error: &io::Error) -> String {
    let cure = match error.kind() {
        _ if has_no_descriptor(error) => "raise `ulimit -n`",
        io::ErrorKind::AddrInUse => {
            "another program listens there or has just ended; stop it or try again, or choose \
             another port (--addr 127.0.0.1:0 selects a free one)"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below net.ipv4.ip_unprivileged_port_start (1024) need CAP_NET_BIND_SERVICE; \
             choose a higher one, such as --addr 127.0.0.1:8080"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; choose one of this machine, such as 127.0.0.1"
        }
        _ => "choose another address with --addr, such as 127.0.0.1:8080",
    };
    format!("cannot listen on {address} ({error}): {cure}")
}
