//! When the loops of a runtime's workers end.
//!
//! `main_done` is set when the closure given to `run` has returned. From then on, a worker that has
//! nothing to run checks whether all strands have ended. Each worker counts the strands that it
//! spawned and those that ended on it; both counts only grow. The check reads all `finished`
//! first and all `spawned` afterwards. If the sums are equal, no strand was alive between the two
//! reads, and without a live strand none can be spawned: before `main_done` is set, the runtime's
//! entrance is closed (entrance.rs), and all spawns from outside that it has admitted are counted
//! (outside.rs). If the sums differ by the number of daemons at that moment, only daemons were
//! alive, and their waits are ended (daemons.rs).
//!
//! A runtime in the background, or one that another program's loop drives, has no closure of `run`;
//! its shutdown sets `main_done`. Of several shutdowns the earliest end of a grace period counts.
//!
//! *The race to fear*: two workers count their last strands at the same time, or one does while
//! the other sets `main_done`; neither sees the other's write, and both sleep for ever. Each
//! first writes, then (SeqCst fence) reads, so one of the two sees both writes.
//!
//! *The other race*: a thread that is no worker sets `main_done` and wakes the workers, after a
//! worker has made the check and before it announces its sleep. So the worker notes whether
//! `main_done` was set before its check, and looks at it again behind the announcement.

use std::time::Duration;

use super::{Shared, workers::Workers};
use crate::core::primitive::{AtomicBool, AtomicU64, Ordering, fence};

/// The state of a runtime's end.
pub(super) struct RuntimeEnd {
    main_done: AtomicBool,
    finished: AtomicBool,
    grace: Option<Duration>,
    /// The end of the grace period, in ns on the system's clock; 0: it has not begun.
    grace_end_ns: AtomicU64,
}

/// The strands that were alive.
enum Census {
    Empty,
    OnlyDaemons,
    Others,
}

impl RuntimeEnd {
    pub(super) fn new(grace: Option<Duration>) -> Self {
        RuntimeEnd {
            main_done: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            grace,
            grace_end_ns: AtomicU64::new(0),
        }
    }

    /// Begins the grace period, or ends it earlier.
    fn begin_grace(&self, grace: Duration) {
        let grace = u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX);
        let end = ramie_driver::sys::monotonic_ns().saturating_add(grace).max(1);
        let earliest = |now: u64| (now == 0 || end < now).then_some(end);
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        // It fails if the period that has begun ends earlier.
        let _ = self.grace_end_ns.fetch_update(set, read, earliest);
    }

    /// The rest of the grace period; `None` before it begins.
    pub(super) fn grace_left(&self) -> Option<Duration> {
        match self.grace_end_ns.load(Ordering::Relaxed) {
            0 => None,
            end => {
                Some(Duration::from_nanos(end.saturating_sub(ramie_driver::sys::monotonic_ns())))
            }
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// Whether the runtime ends when no strand is alive.
    pub(super) fn has_begun(&self) -> bool {
        self.main_done.load(Ordering::SeqCst)
    }
}

impl Workers {
    /// The closure given to `run` has returned. From now on the runtime ends when no strand is
    /// alive, or at the end of the grace period.
    pub(crate) fn main_done(&self) {
        self.close(self.ending.grace);
    }

    /// Closes the entrance. From now on the runtime ends when no strand is alive, or at the end of
    /// the grace period.
    pub(crate) fn close(&self, grace: Option<Duration>) {
        let is_first = self.entrance.close();
        match grace {
            Some(grace) => self.ending.begin_grace(grace),
            None if is_first => self.lingering.begin(self.len()),
            None => {}
        }
        self.ending.main_done.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    /// Whether the grace period is over, so that the runtime ends although strands are alive.
    pub(crate) fn is_grace_over(&self) -> bool {
        self.ending.grace_left() == Some(Duration::ZERO)
    }

    /// Ends the runtime before it has begun.
    pub(crate) fn stop(&self) {
        self.ending.finished.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    /// Finds out whether the loop of a worker is over, because all strands have ended or are to be
    /// abandoned; wakes the other workers then. If only daemons are left, ends their waits.
    pub(super) fn check_finished(&self) -> bool {
        let ending = &self.ending;
        if self.is_grace_over() || ending.is_finished() {
            self.wake_all();
            return true;
        }
        // Behind the writes of `main_done` and of this worker's counts: the module's doc says why.
        fence(Ordering::SeqCst);
        if !ending.main_done.load(Ordering::SeqCst) {
            return false;
        }
        let is_over = match self.census() {
            Census::Empty => true,
            Census::OnlyDaemons => {
                self.daemons.cancel_all();
                false
            }
            Census::Others => false,
        };
        if is_over {
            ending.finished.store(true, Ordering::SeqCst);
            self.wake_all();
        }
        is_over
    }

    fn census(&self) -> Census {
        let sum = |read: fn(&Shared) -> u64| -> u64 { self.shared().map(read).sum() };
        // Acquire, in this order: the module's doc says why.
        let finished = sum(|shared| shared.finished.load(Ordering::Acquire));
        let daemons = self.daemons.count() as u64;
        let spawned = sum(|shared| shared.spawned.load(Ordering::Acquire));
        let spawned = spawned + self.outside.spawned();
        // A worker whose loop has ended may be gone, and a later runtime may have restarted its
        // counts. That is no matter, because then this runtime has ended, but no overflow either.
        match spawned.wrapping_sub(finished) {
            0 => Census::Empty,
            left if left == daemons => Census::OnlyDaemons,
            _ => Census::Others,
        }
    }
}
