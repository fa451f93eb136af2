//! Numbers of the whole process, as any thread may read them.

use ramie_coro::StackStats;
use ramie_driver::OpKind;

use super::{BlockingPools, Histogram, Prometheus, WorkerLevels};
use crate::core::worker;

/// The ops of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OpFigures {
    /// The kind, mostly by the name of its system call, such as `recv`.
    pub kind: &'static str,
    /// How many have begun.
    pub begun: u64,
    /// How long they took, of each 32nd on a worker: from the call until the strand ran again.
    pub durations: Histogram,
}

/// The ends of waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Wakes {
    /// Wakes by the strand's own worker: by its strands, its timers and its ops.
    pub here: u64,
    /// Wakes by other threads, and new strands that they have placed on a worker.
    pub by_threads: u64,
    /// Wakes because a time limit or a sleep was over; they are among those `here`.
    pub by_timers: u64,
}

/// How long fibers waited and ran, and how late timers were.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TurnDurations {
    /// How long fibers that could run waited for their turn, of one in some hundred.
    pub run_queue_delay: Histogram,
    /// How long fibers ran until they suspended, of one in some hundred.
    pub run_length: Histogram,
    /// How late timers ended waits, of each such wait, by the clock of its runtime.
    pub timer_lateness: Histogram,
}

/// The rings of io_uring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Rings {
    /// Rings that are open now.
    pub open: usize,
    /// Calls of io_uring_enter(2).
    pub enters: u64,
    /// Ops submitted, including multishot ops and without the rings' own entries.
    pub ops: u64,
}

/// The figures of a process: of all its workers, and of all threads that have waited by this crate.
///
/// Counts begin with the process and never fall, so that the difference of two snapshots is what
/// happened in between. The numbers are read one after another while the workers go on, so a sum
/// belongs to no single moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Strands that were spawned, including the closures of `run`.
    pub spawned: u64,
    /// Strands that have ended.
    pub ended: u64,
    /// Strands that a worker has started or resumed: the switches. The times that a worker found no
    /// strand to run and went idle count, too.
    pub resumed: u64,
    /// The number of times that workers looked at what comes from outside their run queues.
    pub polls: u64,
    /// Sleeps of the workers in the kernel.
    pub sleeps: u64,
    /// Waits that another strand, a limit or a cancellation may end; not the waits of fibers for
    /// their own ops, which [`ops`](Self::ops) counts.
    pub parks: u64,
    /// The ends of those waits.
    pub wakes: Wakes,
    /// Closures that a worker has taken from another one to start them.
    pub stolen: u64,
    /// TurnDurations of turns and of timers.
    pub durations: TurnDurations,
    /// The ops of each kind of which there was one, sorted by kind.
    pub ops: Vec<OpFigures>,
    /// The rings of the process.
    pub rings: Rings,
    /// The threads for calls that block.
    pub blocking: BlockingPools,
    /// The stacks of the process.
    pub stacks: StackStats,
    /// The workers that run now.
    pub workers: Vec<WorkerLevels>,
}

/// Reads the figures of the process. Takes about 10 us and 2 us for each worker.
///
/// # Blocking
/// Never parks. It may block the thread for a moment, on locks.
///
/// # Outside a fiber
/// The same, on any thread.
///
/// # Examples
/// ```
/// use ramie::{fiber, metrics};
/// use std::time::Duration;
///
/// ramie::run(|| {
///     let before = metrics::snapshot();
///     fiber::scope(|s| {
///         for _ in 0..10 {
///             s.spawn(|| fiber::sleep(Duration::from_millis(1)));
///         }
///     });
///     let now = metrics::snapshot();
///     assert!(now.spawned - before.spawned >= 10);
///     assert!(now.durations.timer_lateness.quantile(0.99).is_some());
///     println!("{}", now.prometheus());
/// });
/// ```
#[must_use]
pub fn snapshot() -> Snapshot {
    let (recorded, workers) = worker::recorded();
    let of_kind = |(kind, (begun, durations)): (OpKind, _)| {
        (begun > 0).then_some(OpFigures { kind: kind.name(), begun, durations })
    };
    let mut ops: Vec<_> = OpKind::ALL.into_iter().zip(recorded.ops).filter_map(of_kind).collect();
    ops.sort_by_key(|op| op.kind);
    let rings = ramie_driver::ring_totals();
    Snapshot {
        spawned: recorded.spawned,
        ended: recorded.ended,
        resumed: recorded.resumed,
        polls: recorded.polls,
        sleeps: recorded.sleeps,
        parks: recorded.parks,
        wakes: Wakes {
            here: recorded.woken_here,
            by_threads: recorded.woken_by_threads,
            by_timers: recorded.woken_by_timers,
        },
        stolen: recorded.stolen,
        durations: TurnDurations {
            run_queue_delay: recorded.run_queue_delay,
            run_length: recorded.run_length,
            timer_lateness: recorded.timer_lateness,
        },
        ops,
        rings: Rings { open: rings.open, enters: rings.enters, ops: rings.ops },
        blocking: worker::blocking_pools(),
        stacks: ramie_coro::stats(),
        workers,
    }
}

impl Snapshot {
    /// Returns how many strands have not ended, whether or not they have started.
    #[must_use]
    pub fn alive(&self) -> u64 {
        self.spawned.saturating_sub(self.ended)
    }

    /// Shows the snapshot in the text format of Prometheus, version 0.0.4.
    #[must_use]
    pub fn prometheus(&self) -> Prometheus<'_> {
        Prometheus::new(self)
    }
}
