//! `ramie serve`: an HTTP/1.1 server with a fiber for each connection.
//!
//! Rooms: [`http`] (bytes in, bytes out, no I/O), [`connection`] (one connection's life), [`house`]
//! (all connections, and how they are asked to leave), [`processes`] (a house in each of several),
//! [`memory`] (when a connection is let in), [`signals`].

mod connection;
mod house;
mod http;
mod memory;
mod processes;
mod signals;

use std::{
    io,
    net::SocketAddr,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
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
    house::{Guest, House},
    memory::Room,
};
use crate::{
    arguments::{Accept, Serve},
    failure::{Failure, payload_text},
    output, runtime,
};

/// How long requests in flight may take once the server was told to stop.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) fn serve(serve: &Serve) -> Result<(), Failure> {
    raise_descriptor_limit();
    match serve.processes {
        Some(processes) => processes::serve(serve, processes),
        None => {
            let accept = serve.accept.unwrap_or(Accept::PerWorker);
            let room = Room::new(serve.workers);
            in_runtime(serve.workers, room, || {
                let listeners = match accept {
                    Accept::PerWorker => TcpListener::bind_per_worker(&serve.addr),
                    _ => TcpListener::bind(&serve.addr).map(|one| vec![one]),
                };
                let listeners = listeners.map_err(|error| cannot_listen(serve, &error))?;
                let bound = listeners[0].local_addr();
                let house = Arc::new(House::new(listeners, false));
                signals::watch(Arc::clone(&house))?;
                let bound = bound.map_err(|error| cannot_listen(serve, &error))?;
                room.check_for_service()?;
                announce(bound)?;
                host(&house, accept, patience(serve), room)
            })
        }
    }
}

/// Runs `f` on as many workers as told, one for each CPU by default.
fn in_runtime(
    workers: Option<u32>,
    room: Room,
    f: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut builder = ramie::Runtime::builder().grace(GRACE).on_abandoned(|fibers| {
        output::complain(&format!(
            "{} connections were still busy {} s after the signal and were cut off",
            fibers.count(),
            GRACE.as_secs()
        ));
    });
    if let Some(workers) = workers {
        builder = builder.workers(workers as usize);
    }
    let runtime = builder.build().map_err(|error| Failure::of_runtime(&error))?;
    room.check_for_start()?;
    runtime::run(&runtime, f)?
}

fn patience(serve: &Serve) -> Duration {
    Duration::from_secs(serve.timeout.into())
}

/// Says where it listens. Whoever reads no more of our output may still want our service; but where
/// nobody can learn the port, there is no service.
fn announce(bound: SocketAddr) -> Result<(), Failure> {
    match output::line(&format!("listening on {bound}")) {
        Err(failure) if !failure.is_silent() => Err(failure),
        _ => Ok(()),
    }
}

/// Accepts until told to stop.
fn host(house: &Arc<House>, accept: Accept, patience: Duration, room: Room) -> Result<(), Failure> {
    let welcome =
        |door, place| house.keep_accepting(|| welcome(house, door, patience, place, room));
    if accept == Accept::LeastLoaded {
        return welcome(0, Place::LeastLoaded);
    }
    // Each worker keeps the connections that it accepts.
    let begun = AtomicUsize::new(0);
    let serve = |worker| {
        begun.fetch_add(1, Relaxed);
        welcome(worker, Place::Worker(worker))
    };
    let ended = panic::catch_unwind(AssertUnwindSafe(|| fiber::on_each_worker(serve)));
    match ended {
        Ok(ended) => ended.into_iter().collect(),
        // There was no memory for a fiber's stack.
        Err(payload) if begun.into_inner() < fiber::workers() => {
            Err(Failure::other(payload_text(&*payload)))
        }
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Accepts at one door until told to stop.
fn welcome(
    house: &Arc<House>,
    door: usize,
    patience: Duration,
    place: Place,
    room: Room,
) -> Result<(), Failure> {
    let mut wait = Backoff::default();
    loop {
        match house.accept(door) {
            Ok(guest) => {
                let mut entering = Entering(Some(guest));
                wait.reset();
                if room.is_there(|| house.guests_present()) {
                    let serve = move || {
                        let guest = entering.0.take().expect("it enters once");
                        connection::serve(&guest, patience);
                    };
                    // Where it cannot be spawned, it is dropped, and the connection closed.
                    let _ = runtime::catch(|| Builder::new().on(place).spawn(serve));
                }
            }
            Err(_) if house.is_stopping() => return Ok(()),
            Err(error) => match Refusal::of(&error) {
                Refusal::OneConnection => {}
                Refusal::Shortage => wait.pause(&format!(
                    "cannot accept more connections for now ({error}): new ones wait; {}",
                    cure(&error)
                )),
                Refusal::Listener => {
                    house.stop();
                    return Err(Failure::other(format!(
                        "cannot accept connections any more: {error}; start the server again"
                    )));
                }
            },
        }
    }
}

/// A guest on the way to a fiber of its own. Without a stack for that, its closure is dropped.
struct Entering(Option<Guest>);

impl Drop for Entering {
    fn drop(&mut self) {
        if self.0.is_some() {
            memory::complain();
        }
    }
}

/// What may help where the system gives no more of something.
fn cure(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE) => "raise the limit with `ulimit -n`",
        _ => "the system has too little memory for it",
    }
}

/// What an error of accept(2) is about.
enum Refusal {
    /// The one connection that was to be accepted has gone already.
    OneConnection,
    /// The process or the system has too few descriptors or buffers.
    Shortage,
    /// The listening socket itself.
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

/// Waits a little, and longer each time, instead of spinning; says why once.
#[derive(Default)]
struct Backoff {
    has_said_why: bool,
    rounds: u32,
}

impl Backoff {
    fn pause(&mut self, why: &str) {
        if !self.has_said_why {
            output::complain(why);
            self.has_said_why = true;
        }
        ramie::fiber::sleep(Duration::from_millis(10 << self.rounds));
        self.rounds = (self.rounds + 1).min(4);
    }

    fn reset(&mut self) {
        self.rounds = 0;
    }
}

/// If it cannot be raised, the server lives with what there is, and says so when it runs out.
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
            "another program listens there, or has just ended; stop it or try again, or choose \
             another port (--addr 127.0.0.1:0 takes a free one)"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below net.ipv4.ip_unprivileged_port_start (1024) need CAP_NET_BIND_SERVICE; \
             choose a higher one, such as --addr 127.0.0.1:8080"
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; choose one of its own, such as 127.0.0.1"
        }
        _ => "choose another address with --addr, such as 127.0.0.1:8080",
    };
    format!("cannot listen on {address} ({error}): {cure}")
}
