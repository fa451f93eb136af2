//! The words by which a watchdog sees from outside whether a worker makes progress.
//!
//! The watchdog ([`stall`](crate::stall)) compares two looks at a worker. The [`Turn`] is what the
//! worker does now: it changes with each closure and each fiber that the worker begins or resumes.
//!
//! - `rounds` counts up when the loop begins to run fibers, and when it polls or idles. It is odd
//!   while the loop does its own work, and outside the loop.
//! - The [`Scheduler`](super::Scheduler)'s countdown to the next poll counts down with each switch
//!   and each chained closure, which a worker needs in any case. In between two changes of `rounds`
//!   no value of the countdown returns; it is set anew between the two changes of a poll or sample.
//!
//! So watching adds no store to a switch: only a poll and an idle moment store one more word.
//!
//! # Protocol of the watchdog's rest
//! While all workers sleep, the watchdog sleeps until it has a reason to look again, which an idle
//! process does not give it: so that has no wake-ups. A worker that leaves the kernel wakes it.
//!
//! 1. The watchdog sets `is_resting`; fence; it looks at each worker's `is_asleep`. If one is
//!    awake, the rest does not begin.
//! 2. A worker that leaves the kernel clears `is_asleep`; fence; it looks at `is_resting`.
//!
//! *The race to fear*: the watchdog rests while a worker runs, and no stall is noticed. Each side
//! writes before the fence and reads behind it, so at least one of the two sees the other's write.

use std::{sync::Arc, thread::Thread, time::Duration};

use crate::core::primitive::{AtomicBool, AtomicU32, OnceLock, Ordering, fence};

/// What a worker does: two equal values mean that it still runs the same fiber, if it runs fibers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    pub(crate) rounds: u32,
    pub(crate) countdown: u32,
}

impl Turn {
    /// Whether the loop runs fibers, rather than to poll or to idle.
    pub(crate) fn runs_fibers(self) -> bool {
        self.rounds.is_multiple_of(2)
    }
}

/// A worker's own part, written by the worker alone.
pub(crate) struct Watched {
    rounds: AtomicU32,
    /// Whether the worker sleeps in the kernel.
    is_asleep: AtomicBool,
    /// Whether the strand that runs is in the panic hook, in which it does not suspend.
    is_in_panic_hook: AtomicBool,
    watchdog: Option<Arc<WatchdogRest>>,
}

/// The watchdog's part: whether it waits for a worker to wake up.
#[derive(Default)]
pub(crate) struct WatchdogRest {
    is_resting: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Watched {
    pub(super) fn new() -> Self {
        let [is_asleep, is_in_panic_hook] = [(); 2].map(|()| AtomicBool::new(false));
        Watched { rounds: AtomicU32::new(1), is_asleep, is_in_panic_hook, watchdog: None }
    }

    /// Lets the worker wake this watchdog.
    pub(crate) fn set_watchdog(&mut self, watchdog: Arc<WatchdogRest>) {
        self.watchdog = Some(watchdog);
    }

    /// The loop begins to run fibers, or stops to do so.
    #[inline]
    fn change(&self) {
        // Relaxed: the watchdog looks again later, and then reads through the kernel.
        self.rounds.store(self.rounds.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The loop runs fibers from now on.
    #[inline]
    pub(super) fn begin_fibers(&self) {
        self.change();
        debug_assert!(self.rounds().is_multiple_of(2), "the loop ran fibers already");
    }

    /// The loop polls, idles or ends.
    #[inline]
    pub(super) fn end_fibers(&self) {
        self.change();
        debug_assert!(!self.rounds().is_multiple_of(2), "the loop did not run fibers");
    }

    /// Runs `sleep`, in which the worker sleeps in the kernel.
    #[inline]
    pub(super) fn while_asleep<T>(&self, sleep: impl FnOnce() -> T) -> T {
        if self.watchdog.is_none() {
            return sleep();
        }
        self.fall_asleep();
        let value = sleep();
        self.wake_up();
        value
    }

    /// The worker sleeps from now on: in the kernel, or between two turns that another program's
    /// loop gives it.
    pub(super) fn fall_asleep(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
    }

    /// The worker is awake from now on.
    #[inline]
    pub(super) fn wake_up(&self) {
        let Some(watchdog) = &self.watchdog else { return };
        self.is_asleep.store(false, Ordering::Relaxed);
        // Step 2 of the protocol.
        fence(Ordering::SeqCst);
        watchdog.end_if_resting();
    }

    /// The strand that runs enters or leaves the panic hook.
    pub(super) fn set_in_panic_hook(&self, is_in_panic_hook: bool) {
        // Relaxed, as in `change`.
        self.is_in_panic_hook.store(is_in_panic_hook, Ordering::Relaxed);
    }

    pub(super) fn is_in_panic_hook(&self) -> bool {
        self.is_in_panic_hook.load(Ordering::Relaxed)
    }

    pub(super) fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Relaxed)
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.is_asleep.load(Ordering::Relaxed)
    }
}

impl WatchdogRest {
    /// Names the calling thread as the watchdog.
    pub(crate) fn set_thread(&self) {
        let _ = self.thread.set(std::thread::current());
    }

    /// Sleeps until a worker wakes up, or for `longest`, if `may_rest` then still holds. Spurious
    /// returns happen.
    pub(crate) fn rest_if(&self, may_rest: impl FnOnce() -> bool, longest: Option<Duration>) {
        // Release: a worker that sees this finds `thread` set.
        self.is_resting.store(true, Ordering::Release);
        // Step 1 of the protocol.
        fence(Ordering::SeqCst);
        if may_rest() {
            match longest {
                Some(longest) => std::thread::park_timeout(longest),
                None => std::thread::park(),
            }
        }
        self.is_resting.store(false, Ordering::Relaxed);
    }

    #[inline]
    fn end_if_resting(&self) {
        if self.is_resting.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the watchdog, or keeps it from its next sleep.
    #[cold]
    pub(crate) fn wake(&self) {
        // Only one of several workers makes the system call.
        if self.is_resting.swap(false, Ordering::Acquire)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_even_while_fibers_run() {
        let watched = Watched::new();
        let turn = || Turn { rounds: watched.rounds(), countdown: 0 };
        assert!(!turn().runs_fibers());
        watched.begin_fibers();
        assert!(turn().runs_fibers());
        watched.end_fibers();
        assert!(!turn().runs_fibers());
    }

    #[test]
    fn a_worker_that_wakes_up_ends_the_rest() {
        let rest = Arc::new(WatchdogRest::default());
        let theirs = Arc::clone(&rest);
        let mut watched = Watched::new();
        watched.set_watchdog(Arc::clone(&rest));
        let watchdog = std::thread::spawn(move || {
            theirs.set_thread();
            theirs.rest_if(|| true, None);
        });
        // Each wake-up of the worker may come before the rest begins, so it sleeps until one ends
        // the rest.
        while !watchdog.is_finished() {
            watched.while_asleep(std::thread::yield_now);
        }
        watchdog.join().unwrap();
    }

    #[test]
    fn no_rest_begins_while_a_worker_is_awake() {
        let rest = WatchdogRest::default();
        rest.set_thread();
        rest.rest_if(|| false, None);
    }
}
