//! The timers of a worker: arming them, and ending the waits whose deadlines have passed.
#![allow(unsafe_code)]

use std::cell::RefCell;

use super::{FiberStack, SWITCHES_PER_POLL, Scheduler, WorkerClock};
use crate::core::{
    figures::WorkerRecord,
    strand::Wake,
    time::{Deadline, Timers},
};

/// The number of strands that one poll wakes at most. With a million sleepers each wake-up costs
/// 1 us or more, and if many are due at once, the first need not wait for the last. At least the
/// number of switches between two polls, so that a busy worker wakes as many as come due.
const WOKEN_PER_POLL: usize = 64;
const _: () = assert!(WOKEN_PER_POLL >= SWITCHES_PER_POLL as usize);
/// How far ahead the strands that are about to wake are prefetched.
const EXPIRED_AHEAD: usize = 3;

/// The timers of a worker.
#[derive(Default)]
pub(crate) struct WorkerTimers {
    heap: RefCell<Timers>,
}

impl WorkerTimers {
    /// Arms the timer of a strand, unless an earlier one is armed.
    pub(crate) fn arm(&self, stack: &FiberStack, deadline: Deadline) {
        self.heap.borrow_mut().arm(stack, deadline.as_ns());
    }

    /// Disarms the timer of a strand that has ended.
    #[inline]
    pub(crate) fn forget(&self, stack: &FiberStack) {
        if stack.armed.is_armed() {
            self.heap.borrow_mut().forget(stack);
        }
    }

    /// The number of strands that have an entry; 0 while the timers are in use.
    pub(super) fn count(&self) -> usize {
        self.heap.try_borrow().map_or(0, |timers| timers.len())
    }

    /// The time of the next entry in ns; `u64::MAX`: there is none.
    pub(super) fn next_ns(&self) -> u64 {
        self.heap.borrow().next_ns()
    }

    /// Whether a timer is due. A clock that is moved by hand moves first and then wakes the worker,
    /// as a thread that pushes to the inbox does. So a worker that checks this before it sleeps
    /// misses no timer of such a clock.
    pub(super) fn are_due(&self, clock: &WorkerClock) -> bool {
        let next = self.next_ns();
        next != u64::MAX && next <= clock.now_ns()
    }

    /// Ends the waits whose deadlines have passed, those of [`WOKEN_PER_POLL`] strands at most.
    pub(super) fn fire(&self, clock: &WorkerClock, scheduler: &Scheduler, record: &WorkerRecord) {
        if self.next_ns() == u64::MAX {
            return;
        }
        let now = clock.now_ns();
        // If all due strands have later deadlines by now, their entries move, and none wakes.
        while self.next_ns() <= now && !self.fire_some(now, scheduler, record) {}
    }

    /// Returns whether a strand woke.
    fn fire_some(&self, now: u64, scheduler: &Scheduler, record: &WorkerRecord) -> bool {
        let mut room = [std::ptr::null(); WOKEN_PER_POLL];
        let due = self.heap.borrow_mut().take_due(now, &mut room);
        let mut wakes = false;
        for (at, &stack) in due.iter().enumerate() {
            if let Some(&next) = due.get(at + EXPIRED_AHEAD) {
                // SAFETY: as below.
                unsafe { &*next }.prefetch_wait();
            }
            // SAFETY: live entries name stacks that are alive (`core/time/timer.rs`), and none of
            // the strands runs before this returns.
            wakes |= self.expire(unsafe { &*stack }, now, record);
        }
        scheduler.ready.measure();
        wakes
    }

    /// Ends the wait of a strand whose entry fired, or arms the entry anew for a later deadline.
    /// Returns whether the strand continues.
    fn expire(&self, stack: &FiberStack, now: u64, figures: &WorkerRecord) -> bool {
        let Some(wait) = stack.header().current_wait() else { return false };
        // SAFETY: the strand waits and is of this worker (its timers hold only such), so it stays
        // suspended, and its record valid, until this thread resumes it.
        let Some(record) = (unsafe { stack.record.get().as_ref() }) else { return false };
        let deadline = record.ends_at();
        if deadline.as_ns() <= now {
            figures.woken_by_timers.add_one();
            figures.durations.timer_lateness.record(now - deadline.as_ns());
            return wait.wake(Wake::TimedOut);
        }
        if deadline != Deadline::NEVER {
            self.arm(stack, deadline);
        }
        false
    }
}
