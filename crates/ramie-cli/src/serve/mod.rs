//! `ramie serve`: an HTTP server by `ramie-http`, with one fiber for each connection.
//!
//! Modules: [`service`] (the responses), [`processes`] (several processes under a supervisor),
//! [`admission`] (memory limits).

mod admission;
mod processes;
mod service;

use std::{
    io,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use ramie::{fiber::Place, net::TcpListener};
use ramie_http::{Limits, Router, Server, Trouble};
use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use self::admission::Admission;
use crate::{
    arguments::{Accept, Serve},
    failure::Failure,
    output, runtime, signals,
};

/// How long requests in flight may take once the server stops.
const GRACE: Duration = Duration::from_secs(10);

pub(crate) fn serve(serve: &Serve) -> Result<(), Failure> {
    if serve.directory.is_none() && !serve.hello {
        return Err(Failure::usage(
            "there is nothing to serve; give a directory, such as `ramie serve .`, or --hello",
        ));
    }
    raise_descriptor_limit();
    match serve.processes {
        Some(processes) => processes::serve(serve, processes),
        None => {
            let accept = serve.accept.unwrap_or(Accept::PerWorker);
            let admission = Admission::new(serve.workers);
            let router = service::router(serve)?;
            in_runtime(serve.workers, admission, || {
                let server = match accept {
                    Accept::PerWorker => Server::bind(&serve.addr),
                    _ => TcpListener::bind(&serve.addr).map(Server::on),
                };
                let server = server.map_err(|error| cannot_listen(serve, &error))?;
                let bound = server.local_addr().map_err(|error| cannot_listen(serve, &error))?;
                serve_all(server, router, serve, accept, admission, || announce(bound))
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
    let mut builder = ramie::Runtime::builder();
    if let Some(workers) = workers {
        builder = builder.workers(workers as usize);
    }
    // The thread of the dumps reserves 64 MiB of address space for its allocator.
    builder = builder.dump_on_quit(!admission.is_limited());
    let runtime = builder.build().map_err(|error| Failure::of_runtime(&error))?;
    admission.check_for_start()?;
    runtime::run(&runtime, f)?
}

/// Serves until a signal stops the server. Calls `ready` when it is about to accept.
fn serve_all(
    server: Server,
    router: Router,
    serve: &Serve,
    accept: Accept,
    admission: Admission,
    ready: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let handle = server.handle();
    signals::watch(move |_| handle.stop())?;
    admission.check_for_service()?;
    ready()?;
    let mut server = server.limits(limits(serve)).grace(GRACE).on_trouble(warn);
    if accept == Accept::LeastLoaded {
        server = server.place(Place::LeastLoaded);
    }
    if admission.is_limited() {
        server = server.admit_if(move |open| {
            let is_admitted = admission.allows_one_more(open);
            if !is_admitted {
                admission::warn();
            }
            is_admitted
        });
    }
    server.serve(router).map_err(|error| {
        Failure::other(format!(
            "cannot accept connections any more ({error}); start the server again"
        ))
    })
}

fn limits(serve: &Serve) -> Limits {
    let timeout = Duration::from_secs(serve.timeout.into());
    Limits {
        idle_timeout: timeout,
        head_timeout: timeout,
        write_timeout: timeout,
        request_timeout: timeout,
        ..Limits::default()
    }
}

/// Prints what goes wrong while the server goes on. Being short of something is printed once,
/// because all workers are short of it, again and again.
fn warn(trouble: &Trouble<'_>) {
    match trouble {
        Trouble::CannotAccept(error) => {
            static HAS_WARNED: AtomicBool = AtomicBool::new(false);
            if !HAS_WARNED.swap(true, Relaxed) {
                output::warn(&format!("{trouble}; {}", cure(error)));
            }
        }
        Trouble::NoFiber => admission::warn_of_stacks(),
        _ => output::warn(&trouble.to_string()),
    }
}

/// The remedy if the system is short of a resource.
fn cure(error: &io::Error) -> &'static str {
    match has_no_descriptor(error) {
        true => "raise the limit with `ulimit -n`",
        false => "free some memory",
    }
}

/// Prints the address. If stdout is closed, the server still runs. If the address cannot be written
/// for another reason, the server fails, because its port is unknown to everybody.
fn announce(bound: SocketAddr) -> Result<(), Failure> {
    match output::line(&format!("listening on {bound}")) {
        Err(failure) if !failure.is_silent() => Err(failure),
        _ => Ok(()),
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
