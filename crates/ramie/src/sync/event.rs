//! A flag that strands wait for.
//!
//! # Protocol: one word
//! The word counts the changes; an odd number means that the flag is set. A waiter records the even
//! number that it found, and parks only if the word still has this value under the lot's lock.
//! `set` increments an even number and wakes waiters that found this number or an earlier one.
//!
//! *The race to fear*: the flag is set and, before the setter has woken a waiter, reset. A strand
//! that begins to wait then has found a later number. The setter must not wake it, because the flag
//! was not set while the strand waited.

use std::{fmt, time::Duration};

use crate::core::{
    cancel::{self, Cancelled},
    primitive::{AtomicU64, Ordering},
    time::Deadline,
    wait::{
        park::{Refused, Subject, WaitKind, WaitRecord},
        parking_lot::{Parked, ParkingLot},
    },
};

static SET: WaitKind = WaitKind::about("an Event", Subject::Object);

/// A flag that strands can wait for, and that stays set until it is reset.
///
/// Writes before [`Event::set`] are visible to a strand that finds the flag set.
///
/// # Examples
/// ```
/// use ramie::{fiber, sync::Event};
///
/// let ready = Event::new();
/// ramie::run(|| {
///     fiber::scope(|s| {
///         s.spawn(|| ready.wait().unwrap());
///         ready.set();
///     });
/// });
/// ```
pub struct Event {
    changes: AtomicU64,
    lot: ParkingLot,
}

impl Event {
    /// Makes an event that is not set.
    #[must_use]
    pub const fn new() -> Self {
        Event { changes: AtomicU64::new(0), lot: ParkingLot::new() }
    }

    /// Returns whether the event is set.
    #[must_use]
    #[inline]
    pub fn is_set(&self) -> bool {
        // Acquire: pairs with the release in `set`.
        is_odd(self.changes.load(Ordering::Acquire))
    }

    /// Sets the event and wakes all strands that wait, even if it is reset before they run.
    ///
    /// # Blocking
    /// Never.
    pub fn set(&self) {
        // Release: earlier writes are visible to a strand that finds the flag set.
        let before = self.changes.fetch_or(1, Ordering::Release);
        if !is_odd(before) {
            self.lot.unpark_while(|found| found <= before, |_| 0, || ());
        }
    }

    /// Resets the event, so that later waits wait.
    ///
    /// # Blocking
    /// Never.
    pub fn reset(&self) {
        let next = |changes: u64| is_odd(changes).then_some(changes + 1);
        // Release: earlier writes are visible to the strand that sets the flag again.
        let _ = self.changes.fetch_update(Ordering::Release, Ordering::Relaxed, next);
    }

    /// Waits until the event is set.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while the event is not set.
    ///
    /// # Cancellation
    /// A cancel point, even if the event is set.
    ///
    /// # Errors
    /// The strand was cancelled, or would have to wait on a fiber in a destructor that runs during
    /// a panic.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    #[inline]
    pub fn wait(&self) -> Result<(), Cancelled> {
        self.wait_until(Deadline::NEVER).map(drop)
    }

    /// Waits until the event is set, for at most `timeout`; returns whether it was set.
    ///
    /// # Blocking
    /// As [`Event::wait`].
    ///
    /// # Cancellation
    /// A cancel point, as [`Event::wait`].
    ///
    /// # Errors
    /// As [`Event::wait`].
    ///
    /// # Panics
    /// As [`Event::wait`].
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool, Cancelled> {
        self.wait_until(Deadline::after(timeout))
    }

    #[track_caller]
    fn wait_until(&self, deadline: Deadline) -> Result<bool, Cancelled> {
        cancel::check_cancelled()?;
        // Acquire: pairs with the release in `set`.
        let found = self.changes.load(Ordering::Acquire);
        if is_odd(found) {
            return Ok(true);
        }
        let is_unchanged = || self.changes.load(Ordering::Acquire) == found;
        loop {
            let record = WaitRecord::new(&SET)
                .until(deadline)
                .cancellable()
                .with_detail(std::ptr::from_ref(self).addr() as u64, found);
            return match self.lot.park(record, found, is_unchanged, &|_| ()) {
                Ok(Parked::TimedOut) => Ok(self.is_set()),
                Ok(Parked::Cancelled) | Err(Refused::Cancelled | Refused::Unwinding) => {
                    Err(cancel::cancelled())
                }
                // Woken by the cancellation of a scope outside a shield, which does not end this
                // wait.
                Ok(Parked::Woken(_)) if is_unchanged() => continue,
                // The event was set, and perhaps reset since.
                Ok(Parked::Refused | Parked::Woken(_)) => Ok(true),
            };
        }
    }
}

fn is_odd(changes: u64) -> bool {
    changes & 1 != 0
}

impl Default for Event {
    fn default() -> Self {
        Event::new()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("is_set", &self.is_set()).finish_non_exhaustive()
    }
}
