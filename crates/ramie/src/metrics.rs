//! Figures of a running runtime: its strands, queues, ops, timers and stacks.
//!
//! They are read from data that the runtime keeps anyway; nothing is counted for them, so they cost
//! nothing until a program asks. These are left out for that reason:
//!
//! | not counted | reason | instead |
//! |---|---|---|
//! | switches, yields | a switch takes 5 ns; a count in memory would be a tenth of it | [`policy`](crate::policy), by which a program sees each turn |
//! | ops in total, calls of the kernel | each op would write to one more line | `perf stat -e 'io_uring:*'`, `strace -c` |
//! | waits by kind | as switches | the strands that wait: fibers less those in the run queue |
//! | CPU time of a strand | two readings of the clock a switch, 40 ns | `perf`, by worker |
//!
//! A worker reads its own figures: [`metrics`] returns those of the worker that it is called on,
//! and [`on_each_worker`](crate::fiber::on_each_worker) asks all.

pub use crate::core::worker::WorkerMetrics;
pub use ramie_coro::StackStats;

use crate::{
    core::{time::Instant, worker},
    fiber,
};

/// The work and the resources of a runtime at one time; made by [`metrics`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// When it was read, by the clock of the runtime.
    pub at: Instant,
    /// How many workers the runtime has.
    pub workers: usize,
    /// Strands that its workers have spawned since it began, the closure of `run` among them.
    pub spawned: u64,
    /// Those that have ended.
    pub ended: u64,
    /// Those that have started and not ended: fibers with a stack.
    pub started: usize,
    /// The worker of the strand that asked.
    pub worker: WorkerMetrics,
    /// The stacks of the whole process, of all its runtimes.
    pub stacks: StackStats,
}

impl Metrics {
    /// Returns how many strands have not ended, whether or not they have started.
    #[must_use]
    pub fn alive(&self) -> u64 {
        self.spawned.saturating_sub(self.ended)
    }

    /// Returns how many strands have not started yet, and so have no stack. A moment's guess while
    /// other workers start and end some.
    #[must_use]
    pub fn unstarted(&self) -> u64 {
        self.alive().saturating_sub(self.started as u64)
    }
}

/// Reads the figures of the runtime and of the worker that this is called on.
///
/// Those of the whole runtime are read one worker after another, while these go on: the sums are
/// of no single moment. About 0.2 us, and 1 ns for each strand in the run queue.
///
/// # Blocking
/// Never for long: it takes the locks under which stacks are handed out.
///
/// # Outside a fiber
/// Outside [`run`](crate::run()), and where strands are threads, the figures are those of the
/// calling thread and the fibers it runs, most of them 0.
///
/// # Examples
/// ```
/// use ramie::{fiber, metrics::metrics, sync::Event};
///
/// ramie::run(|| {
///     let event = Event::new();
///     fiber::scope(|s| {
///         for _ in 0..10 {
///             s.spawn(|| event.wait());
///         }
///         assert_eq!(metrics().alive(), 11);
///         // Of each worker:
///         let fibers = fiber::on_each_worker(|_| metrics().worker.fibers);
///         assert_eq!(fibers.len(), metrics().workers);
///         event.set();
///     });
/// });
/// ```
#[must_use]
pub fn metrics() -> Metrics {
    let read = |worker: &worker::Worker| (worker.tally(), worker.figures());
    let ((ended, spawned, started), worker) = worker::with_existing(read).unwrap_or_default();
    Metrics {
        at: Instant::now(),
        workers: fiber::workers(),
        spawned,
        ended,
        started,
        worker,
        stacks: ramie_coro::stats(),
    }
}
