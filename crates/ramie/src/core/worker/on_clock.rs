//! A worker and its clock: what it reads, and what it tells one that jumps when every strand waits
//! (`core/time/clock.rs`).

use std::{thread, time::Duration};

use ramie_driver::sys::monotonic_ns;

use super::{Worker, current, with_existing};
use crate::core::{
    time::{Clock, Deadline},
    wait::sleep_to,
};

/// How long a thread sleeps at a time for a strand that pauses beside a manual clock.
const SLICE: Duration = Duration::from_micros(50);

/// Reads the clock of this thread's worker, or the system's.
#[inline]
pub(crate) fn now_ns() -> u64 {
    with_existing(Worker::now_ns).unwrap_or_else(monotonic_ns)
}

/// Suspends the strand for `duration` on the system's clock. For calls of this crate that try again
/// because nothing can tell them when it is worth it: what they wait for happens in real time.
///
/// On a [`ManualClock`](crate::time::ManualClock) a sleep would not end if the clock stands still,
/// and would move it if it jumps. There the strand stays runnable, so the clock does not jump, and
/// the worker looks around after each [`SLICE`]. That costs CPU time, but only on such clocks.
#[track_caller]
pub(crate) fn pause(duration: Duration) {
    if with_existing(|worker| matches!(worker.clock, Clock::Manual(_))) != Some(true) {
        return sleep_to(Deadline::after(duration));
    }
    let start_ns = monotonic_ns();
    while !thread::panicking() {
        let passed = Duration::from_nanos(monotonic_ns() - start_ns);
        let Some(left) = duration.checked_sub(passed).filter(|left| !left.is_zero()) else {
            return;
        };
        current().let_others_run(left.min(SLICE));
    }
}

impl Worker {
    /// Runs `wait`, in which a fiber of this worker waits for the blocking pool.
    pub(crate) fn count_blocking_job<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.blocking_jobs.set(self.blocking_jobs.get() + 1);
        let waited = wait();
        self.blocking_jobs.set(self.blocking_jobs.get() - 1);
        waited
    }

    /// Looks around and lets the other fibers run once; without any, sleeps with the thread.
    fn let_others_run(&self, slice: Duration) {
        // The loop looks around before it resumes anybody.
        self.countdown.set(1);
        self.yield_now();
        if !self.has_ready() {
            thread::sleep(slice);
        }
    }

    /// Notifies the clock that this worker, which has announced its sleep, has nothing to run. The
    /// clock may jump then, so that a timer is due.
    pub(super) fn rest_on_clock(&self) {
        let Clock::Manual(clock) = &self.clock else { return };
        if clock.jumps() {
            let has_ops = self.with_open_driver(|driver| driver.has_ops()).unwrap_or(false);
            let next_ns = self.timers.borrow().next_ns();
            clock.rest(self.shared, next_ns, has_ops || self.blocking_jobs.get() > 0);
        }
    }

    /// Notifies the clock that this worker is about to look for something to run.
    pub(super) fn stir_on_clock(&self) {
        if let Clock::Manual(clock) = &self.clock {
            clock.stir(self.shared);
        }
    }
}
