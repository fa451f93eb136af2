//! What a worker can tell of itself without having counted for it: read from what is there anyway.

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

impl Worker {
    /// Tells of this worker. What is in use at the moment (a program's logger may ask while the
    /// driver works) counts as 0.
    pub(crate) fn figures(&self) -> WorkerMetrics {
        let mut driver = self.driver.try_borrow_mut().ok();
        let driver = driver.as_mut().and_then(|driver| driver.as_mut());
        let of_driver =
            |driver: &mut ramie_driver::Driver| (driver.in_flight(), driver.buffer_bytes());
        let (ops_in_flight, buffer_bytes) = driver.map_or((0, 0), of_driver);
        WorkerMetrics {
            run_queue: self.ready.len(),
            fibers: self.shared.live(),
            stacks: self.stacks.count(),
            timers: self.timers.try_borrow().map_or(0, |timers| timers.len()),
            ops_in_flight,
            buffer_bytes,
        }
    }

    /// How many strands have ended, were spawned, and have started and not ended: by the worker's
    /// whole runtime.
    pub(crate) fn tally(&self) -> (u64, u64, usize) {
        let all: Vec<_> = match self.workers() {
            Some(workers) => workers.shared().collect(),
            None => vec![self.shared],
        };
        // Acquire, in this order: who has ended was spawned before.
        let acquire = crate::core::primitive::Ordering::Acquire;
        let ended = all.iter().map(|shared| shared.finished.load(acquire)).sum();
        let spawned = all.iter().map(|shared| shared.spawned.load(acquire)).sum();
        (ended, spawned, all.iter().map(|shared| shared.live()).sum())
    }
}
