//! Calls that are complete at once, without a wait.
//!
//! A fiber whose calls all find what they ask for never suspends by itself: it would keep timers,
//! completions and other fibers waiting for as long as its peer sends fast enough. So each worker
//! counts the calls that were complete at once since its last look around
//! ([`poll`](Worker::poll)); after [`MOST`] of them the fiber that made the last gives way, and the
//! worker looks around before anything else. That bounds the time between two looks by calls as
//! [`SWITCHES_PER_POLL`](super::SWITCHES_PER_POLL) bounds it by switches, and asks no clock. A
//! server whose fibers wait between two requests makes about one such call a switch, and its
//! worker looks around no more often than without.
//!
//! A thread that is a strand has no fibers to give way to but those of `spawn_local`, which run
//! whenever it waits.

use super::{Worker, with_existing};

/// How many calls may be complete at once between two looks. More than the switches between two
/// looks: a request that is received and answered is one of each.
pub(super) const MOST: u32 = 64;

/// Takes note of a call of this strand, complete without a wait and without the driver.
pub(crate) fn note_complete_at_once() {
    with_existing(Worker::note_complete_at_once);
}

impl Worker {
    /// Takes note of a call of the strand that runs, complete without a wait. The caller holds
    /// nothing that another fiber may ask for meanwhile: this may let others run.
    #[inline(always)]
    pub(crate) fn note_complete_at_once(&self) {
        let left = self.at_once_left.get() - 1;
        self.at_once_left.set(left);
        if left == 0 {
            self.give_way_after_many();
        }
    }

    #[cold]
    #[inline(never)]
    fn give_way_after_many(&self) {
        self.at_once_left.set(MOST);
        if self.running_fiber().is_some() && !std::thread::panicking() {
            // The loop looks around before it resumes anybody.
            self.countdown.set(1);
            self.yield_now();
        }
    }

    /// The worker looks around: those before it count no more.
    pub(super) fn forget_complete_at_once(&self) {
        self.at_once_left.set(MOST);
    }
}
