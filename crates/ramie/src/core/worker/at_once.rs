//! Calls that complete at once, without a wait.
//!
//! A fiber whose calls all complete at once never suspends by itself. It would keep timers,
//! completions and other fibers waiting for as long as its peer sends fast enough. So each worker
//! counts the calls that completed at once since its last [`poll`](Worker::poll). After [`MOST`] of
//! them, the fiber that made the last one gives way, and the worker polls before it runs anything
//! else. That bounds the time between two polls by calls as
//! [`SWITCHES_PER_POLL`](super::SWITCHES_PER_POLL) bounds it by switches, and reads no clock. In a
//! server whose fibers wait between two requests, there is about one such call for each switch, so
//! its worker polls no more often than without this rule.
//!
//! A thread that is a strand only gives way to its fibers of `spawn_local`, which run whenever it
//! waits.

use super::{Worker, sampling, with_existing};

/// The number of calls that may complete at once between two polls. More than the switches between
/// two polls, because a request that is received and answered is one of each.
pub(super) const MOST: u32 = 64;

/// Counts a call of this strand that completed without a wait and without the driver.
pub(crate) fn note_complete_at_once() {
    with_existing(Worker::note_complete_at_once);
}

impl Worker {
    /// Counts a call of the strand that runs, which completed without a wait. The caller holds
    /// nothing that another fiber may ask for meanwhile, because this may let others run.
    #[inline(always)]
    pub(crate) fn note_complete_at_once(&self) {
        if self.io.count_complete_at_once() {
            self.give_way_after_many();
        }
    }

    #[cold]
    #[inline(never)]
    fn give_way_after_many(&self) {
        self.io.restart_complete_at_once();
        if self.running.is_fiber_that_may_switch() && !std::thread::panicking() {
            sampling::poll_next(self);
            self.yield_now();
        }
    }
}
