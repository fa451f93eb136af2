//! Inspection of a running program: every strand, its state, and what it waits for.
//!
//! [`dump`] describes all strands of the process, of all its runtimes, as a value. Its `Display`
//! prints the tree of the strands; [`Dump::to_json`] writes it as JSON, and with the crate feature
//! `serde` its types implement `Serialize`. [`summary`](summary()) counts the strands instead, and
//! describes those that have waited longest.
//!
//! # From outside the process
//! A runtime that is built with [`Builder::inspect`](crate::Builder::inspect), or started with
//! `RAMIE_INSPECT=1`, opens a Unix socket, on which a thread of its own answers: `ramie dump PID`
//! prints the dump, and `ramie metrics PID` the figures of [`metrics`](crate::metrics), also while
//! all workers hang. Nothing is opened without that. Only processes of
//! the same user, and root, may connect. All runtimes of a process share the socket
//! ([`socket_path`]) and the thread; both end with the last of them. After a crash the file of the
//! socket remains; a later process removes it.
//!
//! Other programs may ask, too. The request is the line `dump text`, `dump json`, `summary text`,
//! `summary json` or `metrics`; `dump text backtraces` and `dump json backtraces` add the calls of
//! each suspended fiber, and a further `name TEXT` limits the dump ([`DumpOptions::name`]); `strand
//! text 12.1` and `strand json 12.1` ask for a dump of this strand alone, with its calls. The
//! answer is the line `ok LENGTH`, followed by as many bytes, or the line `error` with a reason. A
//! request must come within 2 s. The answer must be taken within 60 s, without a pause of 5 s.
//!
//! `trace SECONDS` answers the line `ok trace`, and then, for that time, a trace ([`Trace`]), which
//! must be taken within 10 s after it. There is one trace at a time; another request is answered by
//! an error with the time within which the first one ends.
//!
//! # The flight recorder
//! [`FlightRecorder`] keeps the last events of all strands in memory, and writes them to a file
//! when something goes wrong. `ramie trace PID` records for some seconds, without one.
//!
//! # By a signal
//! While a runtime that was built with [`Builder::dump_on_quit`](crate::Builder::dump_on_quit)
//! runs, SIGQUIT (Ctrl-\) makes the process write its dump to stderr, or add it to the file that
//! `RAMIE_DUMP_FILE` names, and go on.
//!
//! # How a dump is made
//! Each worker describes its own strands between turns of its loop, for about 2 ms at a time, so a
//! dump neither stops a program nor resumes or moves a fiber. While the workers answer, the program
//! continues. So a dump is not a picture of one moment: a strand that lives all the time is in it
//! once, and a strand that starts or ends meanwhile may be in it or not.
//!
//! The workers copy facts that the runtime keeps anyway: each wait leaves a record in the frame of
//! the waiting function, with the kind of the wait, the location of the call and two numbers, such
//! as a descriptor or the address of a lock. The thread that prints the dump looks the rest up: the
//! peer of a socket, the path of a file, the depth to which a stack was used.
//!
//! A [`Backtrace`] is made from a copy of the fiber's frames, on the thread that asks
//! ([`DumpOptions::backtraces`]).
//!
//! These cannot be described, and the dump names them instead:
//! - a worker that runs one fiber for longer than the [limit](DumpOptions::limit) of the dump;
//! - the fibers of `spawn_local` on a thread outside [`run`](crate::run()) that is not in a call of
//!   this crate.
//!
//! # Times
//! The age of a strand and of a wait are measured by the kernel's coarse clock, which each worker
//! reads once in 61 switches. So they are accurate to about 10 ms if fibers suspend often. If
//! fibers run for long between two waits, a wait may seem longer by up to 61 of these runs.

mod awaited;
mod collect;
mod descriptor;
mod display;
mod dump;
mod exchange;
mod json;
mod named;
mod option;
mod per_process;
mod quit;
mod serve;
mod socket;
mod stalls;
mod summarize;
mod summary;
mod summary_text;
mod trace;

use std::time::Duration;

pub use self::dump::{
    CancelDump, Dump, SourceLocation, StackDump, StrandDump, StrandName, StrandState, WaitDump,
    WaitTarget, WorkerDump, WorkerStatus,
};
pub(crate) use self::{
    option::{InspectChoices, InspectOptions, Inspected},
    stalls::{StallRecord, note_end_of_stall, note_stall},
};
pub use self::{
    serve::socket_path,
    summary::{StallSummary, StateCounts, Summary, WaitPlace, WorkerSummary},
    trace::{
        EndOfWait, FlightRecorder, Trace, TraceError, TraceEvent, TraceEventKind, TracedStrand,
        TracedWait, TracedWorker, WakeSource, write_trace,
    },
};
use crate::fiber::FiberId;
pub use crate::unwind::{Backtrace, BacktraceFrame};

/// The options of a dump; [`dump`] uses the defaults.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until they are used for a dump"]
pub struct DumpOptions {
    limit: Duration,
    has_backtraces: bool,
    only: Option<FiberId>,
    name: Option<String>,
}

impl Default for DumpOptions {
    fn default() -> Self {
        DumpOptions { limit: Duration::from_secs(5), has_backtraces: false, only: None, name: None }
    }
}

impl DumpOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        DumpOptions::default()
    }

    /// Sets how long the dump waits for a worker that runs one fiber without suspending; 5 seconds
    /// by default. The dump contains such a worker with the status [`WorkerStatus::Silent`].
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Adds the [`Backtrace`] of each fiber that is suspended; none by default. A dump copies 64
    /// MiB of stacks at most, 32 KiB of each ([`Dump::backtraces_left_out`]).
    ///
    /// This needs the crate feature `backtrace` and x86-64; otherwise no strand has one.
    pub fn backtraces(mut self, has_backtraces: bool) -> Self {
        self.has_backtraces = has_backtraces;
        self
    }

    /// Limits the dump to one strand. The workers are in it all the same. Of a million strands, it
    /// takes a fraction of the time of a whole dump.
    pub fn only(mut self, strand: FiberId) -> Self {
        self.only = Some(strand);
        self
    }

    /// Limits the dump to the strands whose names contain this text, and their ancestors: the
    /// strands that opened the scopes around them. [`Dump::left_out`] is the number of the others.
    /// It takes as long as a whole dump. A strand that has not started has no known ancestors, and
    /// only the first 256 bytes of its name count.
    ///
    /// # Examples
    /// ```standalone_crate
    /// use ramie::{fiber, inspect::DumpOptions, sync::Event};
    ///
    /// ramie::run(|| {
    ///     let event = Event::new();
    ///     let name = |name: &str| fiber::Builder::new().name(name.to_owned());
    ///     let dump = fiber::scope(|s| {
    ///         name("client 1").spawn_scoped(s, || event.wait()).unwrap();
    ///         name("cleaner").spawn_scoped(s, || event.wait()).unwrap();
    ///         let dump = DumpOptions::new().name("client").dump();
    ///         event.set();
    ///         dump
    ///     });
    ///     let has = |name| dump.strands.iter().any(|strand| strand.name.as_deref() == Some(name));
    ///     assert!(has("client 1") && !has("cleaner"));
    /// });
    /// ```
    pub fn name(mut self, text: impl Into<String>) -> Self {
        self.name = Some(text.into());
        self
    }

    /// Describes the strands of the process, as [`dump`](dump()) does.
    ///
    /// # Blocking
    /// Parks the strand, or blocks the thread, until the workers have answered.
    ///
    /// # Cancellation
    /// Not a cancel point.
    #[must_use]
    #[track_caller]
    pub fn dump(&self) -> Dump {
        collect::dump(self, || false)
    }
}

/// Describes all strands of the process.
///
/// May be called on a fiber, on a thread of the program, and while a runtime ends.
///
/// # Blocking
/// Parks the strand, or blocks the thread, until the workers have answered: usually for less than a
/// millisecond, for about half a second if there are a million fibers, and for 5 seconds at most if
/// a worker runs one fiber without suspending ([`DumpOptions::limit`]).
///
/// Meanwhile other fibers run at least every 2 ms or so, also if a fiber calls this. But to drop a
/// dump of a million strands takes 30 ms, and to write it as text or as JSON half a second, and a
/// fiber that does this keeps its worker for so long. Move the dump to
/// [`blocking`](crate::blocking()), and write and drop it there.
///
/// # Cancellation
/// Not a cancel point.
///
/// # Examples
/// ```
/// use ramie::{fiber, inspect::{self, StrandState}, sync::Event};
///
/// ramie::run(|| {
///     let event = Event::new();
///     fiber::scope(|s| {
///         s.spawn(|| event.wait());
///         fiber::yield_now();
///         let dump = inspect::dump();
///         event.set();
///         println!("{dump}");
///         assert!(dump.strands.iter().any(|strand| strand.state == StrandState::Waiting));
///     });
/// });
/// ```
#[must_use]
#[track_caller]
pub fn dump() -> Dump {
    DumpOptions::default().dump()
}

/// Counts the strands of the process by state and by wait, and describes those that have waited
/// longest.
///
/// Takes about a tenth of the time of a [`dump`](dump()), and a summary of a million strands is as
/// small as one of a thousand, so it can be made each second. The counts are not of one moment (see
/// the [module](self)). A worker that runs one fiber for longer than a second is left out of them,
/// and has the status [`WorkerStatus::Silent`].
///
/// # Blocking
/// Parks the strand, or blocks the thread, until the workers have answered, for a second at most.
///
/// # Cancellation
/// Not a cancel point.
///
/// # Examples
/// ```
/// use ramie::{fiber, inspect, sync::Event};
///
/// ramie::Runtime::builder().workers(1).build()?.run(|| {
///     let event = Event::new();
///     let summary = fiber::scope(|s| {
///         for _ in 0..1000 {
///             s.spawn(|| event.wait());
///         }
///         fiber::yield_now();
///         let summary = inspect::summary();
///         event.set();
///         summary
///     });
///     println!("{summary}");
///     let place = &summary.places[0];
///     assert_eq!((place.purpose, place.strands), ("an Event", 1000));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
#[track_caller]
pub fn summary() -> Summary {
    summarize::summary(|| false)
}
