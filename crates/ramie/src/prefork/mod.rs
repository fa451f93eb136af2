//! Worker processes under a supervisor: forked from one program, sharing its listening sockets.
//!
//! A stack overflow, a bug in C code or a slow memory leak ends a process. With [`prefork`],
//! several processes serve, and the others continue while a new process takes the place of the one
//! that ended.
//!
//! ```no_run
//! use ramie::{fiber, prefork::{Listener, Member}, signal};
//!
//! fn main() -> std::io::Result<()> {
//!     // Before the fork: plain sockets, no fibers, no threads.
//!     let listener = Listener::bind("127.0.0.1:8080")?;
//!     let report = ramie::prefork(4, |member: &Member| -> std::io::Result<()> {
//!         // Runs in a process of its own, as if it were `main`.
//!         ramie::run(|| {
//!             let listener = listener.open()?;
//!             member.ready();
//!             fiber::spawn(move || while let Ok((stream, _)) = listener.accept() {
//!                 fiber::spawn(move || drop(stream));
//!             });
//!             signal::terminate()?;
//!             std::process::exit(0);
//!         })
//!     })?;
//!     println!("{report}");
//!     Ok(())
//! }
//! ```
//! The program `prefork` in `examples/` ends in an orderly way, because it answers the connections
//! that it has accepted.
//!
//! # Duties of the supervisor
//! The supervisor has one thread, no ring and no fibers. Of the program's code it runs only
//! `on_end` and `on_started`.
//!
//! | when | then |
//! |---|---|
//! | a process returns from its closure, or exits with 0 | it is done and not restarted, unless [`restart_done`](Builder::restart_done) is set; when all are done, [`prefork`] returns |
//! | a process panics (101), exits with another code, or dies of a signal | a process of the same index is started after a [`BackOff`]; the others continue undisturbed |
//! | processes fail more often than [`limit`](Builder::limit) allows, or end before any is ready more often than [`limit_before_ready`](Builder::limit_before_ready) allows | all are asked to end, and [`prefork`] returns an error. There are no such limits by default |
//! | a process cannot be forked, for lack of memory or because of a limit of the system | the supervisor tries again, after the same pauses |
//! | SIGHUP comes | each process gets a successor; when the successor calls [`Member::ready`], or has lived for a second, its predecessor is asked to end. If the successor fails, the predecessor stays; if the predecessor ends first, the successor takes its place |
//! | SIGTERM or SIGINT comes | all are asked to end; when all have ended, [`prefork`] returns. A second such signal kills them, unless it repeats the first within 200 ms, because `timeout` sends its signal twice |
//! | a process that was asked to end has not ended after the [grace](Builder::grace) | it is killed by SIGKILL |
//! | the supervisor itself dies, even of SIGKILL | the kernel kills its processes, except those that have changed their user or group and have not called [`Member::die_with_supervisor`] since |
//!
//! The pauses double with each failure in a row of one index, from 10 ms to 10 s. They begin at 10
//! ms again if the process has lived for longer than the longest pause, and after SIGHUP. So a
//! process that is killed now and then is replaced at once, and one that always fails costs one
//! start every 10 s.
//!
//! The supervisor asks a process to end by SIGTERM, for which
//! [`terminate`](crate::signal::terminate()) waits. Each process is in a process group of its own,
//! so that Ctrl-C at a terminal reaches only the supervisor, which then ends the processes in
//! order.
//!
//! # Signals inherited through exec
//! The parent of the program may have ignored or blocked signals. If SIGCHLD was ignored, the
//! supervisor and its processes restore its default effect, because the kernel otherwise reports no
//! end of a child. The processes also restore that of SIGTERM, and unblock SIGCHLD, SIGTERM, SIGHUP
//! and SIGINT.
//!
//! This also affects a program that blocks one of the four before [`prefork`], for a signalfd or a
//! `sigwait` of its own: in the processes they are unblocked when `f` begins, so SIGTERM kills a
//! process that has not blocked it again. Block them in `f`, or better wait by
//! [`signal`](crate::signal), which needs no blocking.
//!
//! # No connection is refused
//! A [`Listener`] is made before the fork and is shared by all processes and the supervisor. If a
//! process dies, connections wait in the queue until another process, or the successor, accepts
//! them. To lose no connection at the end of a process, call
//! [`TcpListener::accept`](crate::net::TcpListener::accept) in a scope that is cancelled when
//! SIGTERM comes, because a cancelled accept has accepted nothing. Do not shut a shared listener
//! down, because that ends it for all processes.
//!
//! # Fork
//! A fork copies one thread and all memory. So [`prefork`] returns an error if the process has a
//! second thread, has opened a ring or an epoll set, or calls it on a strand. Call it first in
//! `main`. Do not set up a logger that starts threads before the call, nor use one in `on_end`.

mod end;
mod listener;
mod member;
mod process;
mod supervisor;

use std::{fmt, io, time::Duration};

use ramie_driver::{say, sys::fork};

use self::supervisor::PreforkSupervisor;
pub use self::{
    end::{End, Report},
    listener::Listener,
    member::{Ending, Member},
};
use crate::core::worker;
pub use crate::structured::BackOff;

/// Runs `f` in `processes` processes, each forked from this one, and restarts those that fail;
/// returns when all are done, or have ended after SIGTERM or SIGINT.
///
/// The [module](self) describes the supervisor's reaction to each event; [`Builder`] has the
/// options. A process ends after `f`, so code after this call runs only in the supervisor.
///
/// # Blocking
/// Blocks the calling thread, which is the only thread of the process.
///
/// # Cancellation
/// Not a cancel point: it refuses to run on a strand, which alone could be cancelled.
///
/// # Errors
/// The process cannot be forked, for the reason in the message; or the system refuses to fork one
/// of the first processes, or has no descriptors for it (the others are ended).
///
/// # Examples
/// ```no_run
/// // Prints this line three times, and ends with a report about it.
/// let report = ramie::prefork(3, |member| println!("process {}", member.index()))?;
/// assert!(report.is_clean());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn prefork<F, T>(processes: usize, f: F) -> io::Result<Report>
where
    F: FnMut(&Member) -> T,
    T: Ending,
{
    Builder::new(processes).run(f)
}

type OnEnd<'a> = Box<dyn FnMut(&End) + 'a>;
type OnStarted<'a> = Box<dyn FnOnce() -> io::Result<()> + 'a>;

// Same name as `ramie::Builder`: std names builders by their module.
/// Options of [`prefork`].
///
/// | option | default |
/// |---|---|
/// | `back_off` | 10 ms, doubled up to 10 s |
/// | `limit` | none: processes are restarted forever |
/// | `limit_before_ready` | none |
/// | `restart_done` | no: only processes that failed are restarted |
/// | `grace` | 30 s |
/// | `on_end` | logs the end, at level warn if the process failed, otherwise at level info |
///
/// # Examples
/// ```no_run
/// use std::time::Duration;
///
/// ramie::prefork::Builder::new(2)
///     .limit(10, Duration::from_secs(60))
///     .on_end(|end| eprintln!("{end}"))
///     .run(|member| println!("process {}", member.index()))?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "a builder does nothing until run is called"]
pub struct Builder<'a> {
    processes: usize,
    back_off: BackOff,
    limit: Option<(usize, Duration)>,
    limit_before_ready: Option<usize>,
    restart_done: bool,
    grace: Duration,
    on_end: OnEnd<'a>,
    on_started: Option<OnStarted<'a>>,
}

impl<'a> Builder<'a> {
    /// Makes a builder with the default options.
    pub fn new(processes: usize) -> Self {
        Builder {
            processes,
            back_off: BackOff::default(),
            limit: None,
            limit_before_ready: None,
            restart_done: false,
            grace: Duration::from_secs(30),
            on_end: Box::new(log_end),
            on_started: None,
        }
    }

    /// Sets the pauses before a process that failed is started again. They grow with each failure
    /// in a row, and begin anew if the process had lived for longer than the longest pause.
    pub fn back_off(mut self, back_off: BackOff) -> Self {
        self.back_off = back_off;
        self
    }

    /// Sets a limit of failures: if more than `failures` processes of any index have failed within
    /// `within`, all are asked to end, and `run` returns an error. With
    /// [`restart_done`](Self::restart_done), every end counts that the supervisor did not ask for.
    ///
    /// Set no such limit for a service that must survive any number of failures; it may still have
    /// a [limit for its start](Self::limit_before_ready).
    pub fn limit(mut self, failures: usize, within: Duration) -> Self {
        self.limit = Some((failures, within));
        self
    }

    /// Sets a limit of ends before the service is ready: if `ends` processes have ended before any
    /// process has called [`ready`](Member::ready), all are asked to end, and `run` returns an
    /// error, because restarts do not help a service that never begins. Once a process has called
    /// `ready`, this limit no longer applies.
    pub fn limit_before_ready(mut self, ends: usize) -> Self {
        self.limit_before_ready = Some(ends);
        self
    }

    /// Also restarts a process that is done (returns from its closure, or exits with 0), unless the
    /// supervisor asked it to end. Use it for servers, because another program may have sent the
    /// process SIGTERM.
    pub fn restart_done(mut self) -> Self {
        self.restart_done = true;
        self
    }

    /// Sets how long a process may take to end after it was asked to; after that it is killed. With
    /// `Duration::MAX` it is never killed, unless a second signal asks for that.
    pub fn grace(mut self, period: Duration) -> Self {
        self.grace = period;
        self
    }

    /// Sets a function that the supervisor calls at each end of a process. It must not start
    /// threads nor wait for long. If it panics, the supervisor asks all processes to end, waits for
    /// them without calling the function again, and resumes the panic.
    pub fn on_end(mut self, f: impl FnMut(&End) + 'a) -> Self {
        self.on_end = Box::new(f);
        self
    }

    /// Sets a function that the supervisor calls once it has started all processes and handles
    /// signals, for example to announce the address. If it returns an error, all processes are
    /// ended. It must not start threads.
    pub fn on_started(mut self, f: impl FnOnce() -> io::Result<()> + 'a) -> Self {
        self.on_started = Some(Box::new(f));
        self
    }

    /// Runs `f` as [`prefork`] does.
    ///
    /// # Blocking
    /// As [`prefork`].
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// As [`prefork`]; a limit was exceeded; or `on_started` returned the error.
    pub fn run<F, T>(self, mut f: F) -> io::Result<Report>
    where
        F: FnMut(&Member) -> T,
        T: Ending,
    {
        let refuse = |sentence: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        if self.processes == 0 {
            return refuse("prefork was asked for 0 processes; ask for at least 1");
        }
        if worker::with_existing(|_| ()).is_some() {
            return refuse(
                "this process cannot be forked, since its thread is a strand of Ramie already; \
                 fork first thing in main, before anything of Ramie, and before any thread",
            );
        }
        fork::check_alone()?;
        PreforkSupervisor::new(self, &mut |member| f(member).code())?.run()
    }
}

impl fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("processes", &self.processes)
            .field("back_off", &self.back_off)
            .field("limit", &self.limit)
            .field("limit_before_ready", &self.limit_before_ready)
            .field("restart_done", &self.restart_done)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

fn log_end(end: &End) {
    match end.is_failure() {
        true => say!(Warn, "{end}"),
        false => say!(Info, "{end}"),
    }
}
