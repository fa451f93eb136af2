//! The value of a trace: workers, strands, events.

use std::{sync::Arc, time::Duration};

use crate::fiber::FiberId;

/// The events of a program's strands in some time, and the strands and workers themselves.
///
/// The [flight recorder](super::FlightRecorder) writes traces to files, and `ramie trace PID` gets
/// one from a running process. [`Trace::read`] reads them.
///
/// Times are those of `CLOCK_MONOTONIC`, and accurate to some ten nanoseconds. `yield_now` is no
/// event: from its wake-up to its next wait, a strand runs or waits for its turn.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Trace {
    /// The id of the process.
    pub process: u32,
    /// The reason for the trace, such as `a stall` or `request`.
    pub why: String,
    /// When the trace was begun, since 1970.
    pub begun_at: Duration,
    /// The first moment of the recording, and the last one of the trace.
    pub span: [Duration; 2],
    /// Whether the trace has all of its parts; otherwise it was cut off.
    pub is_complete: bool,
    /// Whether events were left out because the trace had reached its largest size.
    pub is_full: bool,
    /// The workers whose events were not recorded for lack of memory.
    pub workers_left_out: u64,
    /// The workers, and other threads that wait, with events.
    pub workers: Vec<TracedWorker>,
    /// The strands that events or dumps name, by their ids.
    pub strands: Vec<TracedStrand>,
    /// The events, in the order of their times.
    pub events: Vec<TraceEvent>,
}

/// A worker in a trace.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TracedWorker {
    /// The index of the worker in its runtime; `None` for a thread outside [`run`](crate::run()).
    pub index: Option<usize>,
    /// The name of the thread.
    pub thread_name: Option<String>,
    /// The id of the thread, as `/proc` has it.
    pub thread_id: i32,
    /// The number of events that were overwritten before they were read.
    pub overwritten: u64,
}

/// A strand in a trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TracedStrand {
    /// The id of the strand.
    pub id: FiberId,
    /// Its name; of a strand that ended early perhaps only the first 64 bytes.
    pub name: Option<String>,
    /// The type of its closure.
    pub closure: Option<Arc<str>>,
    /// The line that spawned it.
    pub spawned_at: Option<Arc<str>>,
    /// Its wait when the trace ended, if it waited.
    pub wait: Option<TracedWait>,
}

/// A wait of a strand.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TracedWait {
    /// What the strand waits for, such as `data from a socket`; `None` if the trace was cut off.
    pub purpose: Option<Arc<str>>,
    /// The line that waits.
    pub location: Option<Arc<str>>,
    /// The descriptor, if there is one.
    pub fd: Option<i32>,
    /// The begin of the wait, if it is known. For a wait that began before the trace, it is
    /// accurate to about 10 ms.
    pub since: Option<Duration>,
}

/// One event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TraceEvent {
    /// When it happened.
    pub time: Duration,
    /// The worker on which it happened, by its place in [`Trace::workers`].
    pub worker: usize,
    /// The strand that it is about.
    pub strand: Option<FiberId>,
    /// The kind of the event.
    pub kind: TraceEventKind,
}

/// The kind of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TraceEventKind {
    /// The strand was spawned.
    #[non_exhaustive]
    Spawned {
        /// The strand that spawned it.
        by: Option<FiberId>,
    },
    /// The strand runs for the first time.
    Started,
    /// The strand begins to wait.
    Waits(Arc<TracedWait>),
    /// The strand runs again.
    #[non_exhaustive]
    Continues {
        /// The wait, without its begin.
        wait: Arc<TracedWait>,
        /// How it ended.
        end: EndOfWait,
    },
    /// The strand was made runnable.
    #[non_exhaustive]
    Wakes {
        /// The strand that did it.
        by: Option<FiberId>,
        /// The cause.
        source: WakeSource,
    },
    /// The strand's worker took it out of its inbox, after another thread had made it runnable.
    Received,
    /// An op is complete. A fiber that waits for it alone is runnable from now on.
    #[non_exhaustive]
    Completed {
        /// The kind of the op, mostly the name of the system call.
        op: &'static str,
        /// A count, a descriptor, or a negative errno.
        result: i32,
    },
    /// An op was complete when it was submitted, so the strand did not wait.
    #[non_exhaustive]
    CompletedAtOnce {
        /// The kind of the op.
        op: &'static str,
        /// The descriptor.
        fd: Option<i32>,
        /// A count, a descriptor, or a negative errno.
        result: i32,
    },
    /// The strand has ended.
    #[non_exhaustive]
    Ended {
        /// Whether its closure has panicked.
        has_panicked: bool,
    },
    /// The strand panics.
    #[non_exhaustive]
    Panics {
        /// The begin of the message.
        message: String,
    },
    /// The strand cancels a scope.
    #[non_exhaustive]
    Cancels {
        /// The address of the scope, as dumps have it.
        scope: usize,
    },
    /// The worker took the closure of the strand from another worker.
    Stolen,
    /// Events of the worker that came before the next one are missing, because they were
    /// overwritten before they were read.
    #[non_exhaustive]
    Overwritten {
        /// The number of events.
        count: u64,
    },
    /// The worker falls asleep in the kernel.
    Sleeps,
    /// The worker has left the kernel.
    Awakes,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EndOfWait {
    /// By the event for which the strand waited.
    Woken,
    /// Its time was over.
    TimedOut,
    /// It was cancelled.
    Cancelled,
}

/// Who made a strand runnable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WakeSource {
    /// A strand, or the runtime.
    Strand,
    /// The completion of an op.
    Op,
    /// A timer.
    Timer,
    /// The cancellation of a scope.
    Cancellation,
}
