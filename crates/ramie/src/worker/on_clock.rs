//! A worker and its clock: what it reads, and what it tells one that jumps when every strand waits
//! (`time/clock.rs`).

use super::{Worker, with_existing};
use crate::time::Clock;

/// Reads the clock of this thread's worker, or the system's.
#[inline]
pub(crate) fn now_ns() -> u64 {
    with_existing(Worker::now_ns).unwrap_or_else(ramie_driver::sys::monotonic_ns)
}

impl Worker {
    /// Runs `wait`, in which a fiber of this worker waits for the blocking pool.
    pub(crate) fn count_blocking_job<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.blocking_jobs.set(self.blocking_jobs.get() + 1);
        let waited = wait();
        self.blocking_jobs.set(self.blocking_jobs.get() - 1);
        waited
    }

    /// Tells the clock that this worker, which has announced its sleep, has nothing to run. The
    /// clock may jump then, so that a timer is due.
    pub(super) fn rest_on_clock(&self) {
        let Clock::Manual(clock) = &self.clock else { return };
        if clock.jumps() {
            let has_ops = self.with_open_driver(|driver| driver.has_ops()).unwrap_or(false);
            let next_ns = self.timers.borrow().next_ns();
            clock.rest(self.shared, next_ns, has_ops || self.blocking_jobs.get() > 0);
        }
    }

    /// Tells the clock that this worker is about to look for something to run.
    pub(super) fn stir_on_clock(&self) {
        if let Clock::Manual(clock) = &self.clock {
            clock.stir(self.shared);
        }
    }
}
