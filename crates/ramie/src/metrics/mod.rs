//! Numbers about running runtimes: strands, queues, ops, timers and stacks.
//!
//! | call | numbers of | read |
//! |---|---|---|
//! | [`snapshot`] | all runtimes and threads of the process, since it began | from any thread, without the workers' help |
//! | [`metrics`] | one runtime, and the worker of the caller | on that worker; of all of them by [`on_each_worker`] |
//!
//! [`Snapshot::prometheus`] writes a snapshot in the text format of Prometheus; the crate
//! `ramie-metrics` hands it to the recorder of the crate `metrics`.
//!
//! [`on_each_worker`]: crate::fiber::on_each_worker
//!
//! # What it costs
//! Workers count all the time. A count takes less than 1 ns, of waits of 10 ns and more, and of ops
//! of 300 ns and more. Durations are taken of samples, because a look at the clock takes 25 ns: of
//! each 32nd op of a kind on a worker, and of one strand in 32 polls. Each timer that ends a wait
//! is in the histogram of lateness.
//!
//! # What is not counted
//!
//! | not counted | reason | instead |
//! |---|---|---|
//! | waits of a strand, by kind | a table for each strand | [`inspect::dump`](crate::inspect::dump()), which says what each waits for now |
//! | CPU time of a strand | each switch would read the clock twice, 50 ns | `perf`, or [`TurnDurations::run_length`] |
//! | durations of multishot ops | they end with their iterator | the ring's count of ops |

mod family;
mod prometheus;
mod snapshot;

pub use crate::core::{
    figures::Histogram,
    worker::{BlockingPools, WorkerLevels, WorkerMetrics},
};
pub use family::{Family, FamilyKind, FigureSample, Value};
pub use prometheus::Prometheus;
pub use ramie_coro::StackStats;
pub use snapshot::{OpFigures, Rings, Snapshot, TurnDurations, Wakes, snapshot};

use crate::{
    core::{time::Instant, worker},
    fiber,
};

/// A snapshot of the work and the resources of a runtime; made by [`metrics`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// The time of the snapshot, by the clock of the runtime.
    pub at: Instant,
    /// The number of workers of the runtime.
    pub workers: usize,
    /// The strands that its workers have spawned since it began, including the closure of `run`.
    pub spawned: u64,
    /// The strands that have ended.
    pub ended: u64,
    /// The strands that have started and not ended, which are the fibers with a stack.
    pub started: usize,
    /// The worker of the strand that called [`metrics`].
    pub worker: WorkerMetrics,
    /// The stacks of the whole process, of all its runtimes.
    pub stacks: StackStats,
}

/// Figures of a runtime, as any thread may read them; made by
/// [`Handle::metrics`](crate::Handle::metrics).
///
/// The numbers are read one after another while the workers go on, so they belong to no single
/// moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RuntimeMetrics {
    /// The strands that were spawned since it began, by its own strands and through handles.
    pub spawned: u64,
    /// The strands that have ended.
    pub ended: u64,
    /// The strands that have started and not ended, which are the fibers with a stack.
    pub started: usize,
    /// Its workers, in the order of their indices.
    pub workers: Vec<WorkerLevels>,
}

impl Metrics {
    /// Returns how many strands have not ended, whether or not they have started.
    #[must_use]
    pub fn alive(&self) -> u64 {
        self.spawned.saturating_sub(self.ended)
    }

    /// Returns how many strands have not started yet, and so have no stack. The number is
    /// approximate while other workers start and end strands.
    #[must_use]
    pub fn unstarted(&self) -> u64 {
        self.alive().saturating_sub(self.started as u64)
    }
}

/// Reads the numbers of the runtime and of the worker that this is called on.
///
/// The numbers of the whole runtime are read one worker after another, while the workers continue,
/// so a sum belongs to no single moment. A call takes about 0.2 us, and 1 ns for each strand in the
/// run queue.
///
/// # Blocking
/// Never parks. It may block the thread for a moment, on the locks of the pools of stacks.
///
/// # Outside a fiber
/// Outside [`run`](crate::run()), and if strands are threads, the numbers are those of the calling
/// thread and the fibers it runs; most of them are 0.
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
    let read = |worker: &worker::Worker| (worker::tally(worker), WorkerMetrics::of(worker));
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
