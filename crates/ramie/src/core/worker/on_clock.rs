//! The clock of a worker: reading it, and reporting to a clock that jumps when every strand waits
//! whether this worker has something to run (`core/time/clock.rs`).

use std::{cell::Cell, thread, time::Duration};

use ramie_driver::sys::monotonic_ns;

use super::{Shared, Worker, WorkerIo, WorkerTimers, current, sampling, with_existing};
use crate::core::{
    time::{Clock, Deadline},
    wait::sleep_to,
};

/// How long a thread sleeps at a time for a strand that pauses beside a manual clock.
const SLICE: Duration = Duration::from_micros(50);

/// Reads the clock of this thread's worker, or the system's.
#[inline]
pub(crate) fn now_ns() -> u64 {
    with_existing(|worker| worker.clock.now_ns()).unwrap_or_else(monotonic_ns)
}

/// Suspends the strand for `duration` on the system's clock. For calls of this crate that try again
/// after a pause, because nothing notifies them of the event that they wait for, which happens in
/// real time.
///
/// On a [`ManualClock`](crate::time::ManualClock) a sleep would not end if the clock stands still,
/// and would move the clock if it jumps. So there the strand stays runnable, which keeps the clock
/// from jumping, and the worker polls after each [`SLICE`]. This costs CPU time, but only with such
/// clocks.
#[track_caller]
pub(crate) fn pause(duration: Duration) {
    if with_existing(|worker| worker.clock.is_manual()) != Some(true) {
        return sleep_to(Deadline::after(duration));
    }
    let start_ns = monotonic_ns();
    while !thread::panicking() {
        let passed = Duration::from_nanos(monotonic_ns() - start_ns);
        let Some(left) = duration.checked_sub(passed).filter(|left| !left.is_zero()) else {
            return;
        };
        let_others_run(&current(), left.min(SLICE));
    }
}

/// Polls and lets the other fibers of this worker run once. If none is runnable, blocks the thread
/// for `slice`.
fn let_others_run(worker: &Worker, slice: Duration) {
    sampling::poll_next(worker);
    worker.yield_now();
    if !worker.has_ready() {
        thread::sleep(slice);
    }
}

/// The clock of a worker, and the waits of its fibers that keep the clock from jumping.
pub(crate) struct WorkerClock {
    clock: Clock,
    /// The number of fibers that wait for the blocking pool.
    blocking_jobs: Cell<usize>,
}

impl WorkerClock {
    pub(super) fn new(clock: Clock, shared: &'static Shared) -> Self {
        if let Clock::Manual(manual) = &clock {
            manual.add_worker(shared);
        }
        WorkerClock { clock, blocking_jobs: Cell::new(0) }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub(super) fn is_manual(&self) -> bool {
        matches!(self.clock, Clock::Manual(_))
    }

    /// How long the worker may sleep until its next timer.
    pub(super) fn sleep_bound(&self, next_ns: u64) -> Option<Duration> {
        self.clock.sleep_bound(next_ns)
    }

    /// Runs `wait`, in which a fiber of this worker waits for the blocking pool.
    pub(crate) fn count_blocking_job<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.blocking_jobs.set(self.blocking_jobs.get() + 1);
        let waited = wait();
        self.blocking_jobs.set(self.blocking_jobs.get() - 1);
        waited
    }

    /// Notifies the clock that this worker, which has announced its sleep, has nothing to run. The
    /// clock may jump then, so that a timer is due.
    pub(super) fn rest(&self, shared: &'static Shared, timers: &WorkerTimers, io: &WorkerIo) {
        let Clock::Manual(clock) = &self.clock else { return };
        if clock.jumps() {
            let has_ops = io.with_open_driver(|driver| driver.has_ops()).unwrap_or(false);
            clock.rest(shared, timers.next_ns(), has_ops || self.blocking_jobs.get() > 0);
        }
    }

    /// Notifies the clock that this worker is about to look for something to run.
    pub(super) fn stir(&self, shared: &'static Shared) {
        if let Clock::Manual(clock) = &self.clock {
            clock.stir(shared);
        }
    }

    /// Takes a worker that ends off the clock.
    pub(super) fn leave(&self, shared: &'static Shared) {
        if let Clock::Manual(clock) = &self.clock {
            clock.remove_worker(shared);
        }
    }
}
