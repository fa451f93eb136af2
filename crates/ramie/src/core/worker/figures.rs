//! The figures of a worker, read from data that it keeps anyway.

use super::Worker;

/// What one worker has to do and what it holds, as [`metrics`](crate::metrics::metrics) reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Strands of this worker that can run and wait for their turn; not those that another worker
    /// might take, nor those that a [`policy`](crate::policy) holds.
    pub run_queue: usize,
    /// Fibers that have started here and not ended, with the one that asks.
    pub fibers: usize,
    /// Stacks that this worker's fibers are on, or will be.
    pub stacks: usize,
    /// Strands with a time at which their wait, or one before it, ends.
    pub timers: usize,
    /// Ops that were handed to the driver and are not complete.
    pub ops_in_flight: usize,
    /// Bytes of the driver's own buffers: free, with the kernel, or leased.
    pub buffer_bytes: usize,
}

impl WorkerMetrics {
    /// Reads the figures of a worker. Parts in use at the moment (a program's logger may ask while
    /// the driver works) count as 0.
    pub(crate) fn of(worker: &Worker) -> Self {
        let of_driver =
            |driver: &mut ramie_driver::Driver| (driver.in_flight(), driver.buffer_bytes());
        let (ops_in_flight, buffer_bytes) =
            worker.io.with_idle_driver(of_driver).unwrap_or_default();
        WorkerMetrics {
            run_queue: worker.scheduler.ready.len(),
            fibers: worker.shared.live(),
            stacks: worker.stacks.count(),
            timers: worker.timers.count(),
            ops_in_flight,
            buffer_bytes,
        }
    }
}

/// The numbers of strands that have ended, that were spawned, and that have started and not ended:
/// those of the worker's whole runtime.
pub(crate) fn tally(worker: &Worker) -> (u64, u64, usize) {
    let all: Vec<_> = match worker.workers() {
        Some(workers) => workers.shared().collect(),
        None => vec![worker.shared],
    };
    // Acquire, in this order, because a strand that has ended was spawned before.
    let acquire = crate::core::primitive::Ordering::Acquire;
    let ended = all.iter().map(|shared| shared.finished.load(acquire)).sum();
    let spawned = all.iter().map(|shared| shared.spawned.load(acquire)).sum();
    (ended, spawned, all.iter().map(|shared| shared.live()).sum())
}
