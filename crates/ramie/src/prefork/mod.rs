//! Worker processes under a supervisor: forked from one program, sharing its listening sockets.
//!
//! A fiber that overflows its stack, a bug in C, a leak that grows for weeks: they end a process.
//! With [`prefork`] it is one of several, and the others serve on while a new one takes its place.
//!
//! ```no_run
//! use ramie::{fiber, prefork::{Listener, Member}, signal};
//!
//! fn main() -> std::io::Result<()> {
//!     // Before the fork: plain sockets, no fibers, no threads.
//!     let listener = Listener::bind("127.0.0.1:8080")?;
//!     let report = ramie::prefork(4, |member: &Member| -> std::io::Result<()> {
//!         // In a process of its own, as if it were `main`.
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
//! The example `prefork` ends in an orderly way: it answers the connections that it has accepted.
//!
//! # What the supervisor does
//! It has one thread, no ring and no fibers, and runs none of the program's code but `on_end`.
//!
//! | when | then |
//! |---|---|
//! | a process returns from its closure, or exits with 0 | it is done and stays so, unless [`restart_done`](Builder::restart_done) is set; when all are, [`prefork`] returns |
//! | it panics (101), exits with another code, or dies of a signal | the same again, after a [`BackOff`]; the others notice nothing |
//! | that happens too often ([`limit`](Builder::limit)), or before anything has worked ([`limit_before_ready`](Builder::limit_before_ready)) | all are asked to end, and [`prefork`] fails with a sentence. Without these limits: never |
//! | no process can be forked, for want of memory or because of a limit | it is tried again, after the same pauses |
//! | SIGHUP comes | for each a successor is started; when that calls [`Member::ready`], or has lived for a second, the one before is asked to end. A successor that fails leaves it in place |
//! | SIGTERM or SIGINT comes | all are asked to end; when all have, [`prefork`] returns. A second one kills them, unless it is the same within 200 ms: `timeout` sends it twice |
//! | one that was asked to end has not after the [grace](Builder::grace) | SIGKILL |
//! | the supervisor itself dies, of SIGKILL even | the kernel kills its processes with it |
//!
//! The pauses double with each failure in a row of one process, from 10 ms to 10 s. A process that
//! has lived for longer than the longest pause, and SIGHUP, let them begin anew. So a process that
//! is killed now and then is back at once, and one that always fails costs a start every 10 s.
//!
//! To be asked to end is to get SIGTERM: [`terminate`](crate::signal::terminate()) waits for it.
//! Each process is in a process group of its own, so that Ctrl-C at a terminal reaches the
//! supervisor alone, and ends them once and in order.
//!
//! # Signals that come through exec
//! Whoever starts the program may have ignored or blocked signals. A supervisor and its processes
//! let SIGCHLD have its default effect if it was ignored, because the kernel reports no end
//! otherwise; the processes do so with SIGTERM, too, and block neither, nor SIGHUP and SIGINT.
//!
//! This concerns a program that blocks one of the four before [`prefork`] for a signalfd or a
//! `sigwait` of its own, too. In the processes they are unblocked when `f` begins, so a SIGTERM
//! kills a process that has not blocked it again by then. Block them in `f`, or better wait by
//! [`signal`](crate::signal), which needs no blocking.
//!
//! # No connection is refused
//! A [`Listener`] is made before the fork and belongs to all processes, and to the supervisor. If a
//! process dies, connections wait in the queue until another process, or its successor, accepts
//! them. To lose none at the end of a process, accept by
//! [`TcpListener::accept`](crate::net::TcpListener::accept) in a scope that is cancelled when
//! SIGTERM comes: a cancelled accept has accepted nothing. Do not shut a shared listener down: that
//! ends it for all.
//!
//! # Fork
//! A fork copies one thread and all memory. So it is refused, with a sentence, once the process has
//! a second thread, has opened a ring or an epoll set, or waits as a strand: call it first thing in
//! `main`. A logger that starts threads must not be set up before, nor be used by `on_end`.

mod end;
mod listener;
mod member;
mod supervisor;

use std::{fmt, io, time::Duration};

use ramie_driver::{say, sys::fork};

use self::supervisor::Supervisor;
pub use self::{
    end::{End, Report},
    listener::Listener,
    member::{Ending, Member},
};
use crate::core::worker;
pub use crate::structured::BackOff;

/// Runs `f` in so many processes, each forked from this one, and starts those again that fail;
/// returns when all are done, or have ended after SIGTERM or SIGINT.
///
/// The [module](self) describes the events and the answers; [`Builder`] has the options. A process
/// ends after `f`, so code after this call runs only in the supervisor.
///
/// # Blocking
/// Blocks the thread, which is the only one.
///
/// # Cancellation
/// Not a cancel point: it refuses to be called where something could be cancelled.
///
/// # Errors
/// The process cannot be forked, for the reason in the message; or the system refuses the first
/// processes (the others are ended).
///
/// # Examples
/// ```no_run
/// // Ends with this line three times, and a report that says so.
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

/// Options of [`prefork`].
///
/// | option | default |
/// |---|---|
/// | `back_off` | 10 ms, doubled up to 10 s |
/// | `limit` | none: it starts them again for ever |
/// | `limit_before_ready` | none |
/// | `restart_done` | no: only those that failed |
/// | `grace` | 30 s |
/// | `on_end` | a line of the log: at level warn if the process failed, else info |
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
    /// Begins with the defaults.
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

    /// Sets the pauses before a process that failed is started again: longer with each failure in a
    /// row, from the beginning when it had lived for longer than the longest one.
    pub fn back_off(mut self, back_off: BackOff) -> Self {
        self.back_off = back_off;
        self
    }

    /// Gives up when more than `failures` processes, counted together, have failed within `within`:
    /// all are asked to end, and `run` fails. With [`restart_done`](Self::restart_done)
    /// each end counts that nobody has asked for.
    ///
    /// A service that has to outlive whatever ends its processes has no such limit, but perhaps
    /// [one for its start](Self::limit_before_ready).
    pub fn limit(mut self, failures: usize, within: Duration) -> Self {
        self.limit = Some((failures, within));
        self
    }

    /// Gives up when `ends` processes have ended before any process has called
    /// [`ready`](Member::ready), because restarts do not help a service that never begins. Once a
    /// process has called it, this limit no longer applies.
    pub fn limit_before_ready(mut self, ends: usize) -> Self {
        self.limit_before_ready = Some(ends);
        self
    }

    /// Starts a process again also if it is done (returns from its closure, or exits with 0) though
    /// the supervisor has not asked it to end: for servers, which somebody else may have sent
    /// SIGTERM.
    pub fn restart_done(mut self) -> Self {
        self.restart_done = true;
        self
    }

    /// Sets how long a process may take to end when it is asked to; then it is killed.
    pub fn grace(mut self, period: Duration) -> Self {
        self.grace = period;
        self
    }

    /// Sets a function that the supervisor calls at each end of a process. It must not start
    /// threads nor wait for long. If it panics, all processes are asked to end and waited for,
    /// without further calls, and the panic goes on.
    pub fn on_end(mut self, f: impl FnMut(&End) + 'a) -> Self {
        self.on_end = Box::new(f);
        self
    }

    /// Sets a function that the supervisor calls when it has started all processes and handles
    /// signals, for example to announce the address. An error ends all again. It must not start
    /// threads.
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
    /// As [`prefork`]; the limit was exceeded; the error of `on_started`.
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
        Supervisor::new(self, &mut |member| f(member).code())?.run()
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
