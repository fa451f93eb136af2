//! A flag that strands wait for.

use std::{fmt, time::Duration};

use crate::{
    park::{WaitKind, WaitRecord, abort_wait_while_unwinding},
    parking_lot::ParkingLot,
    primitive::{AtomicBool, Ordering},
    time::Deadline,
};

static SET: WaitKind = WaitKind::new("an Event");

/// A flag that strands wait for; it stays set until it is reset.
///
/// What happened before [`Event::set`] is visible to whoever finds the flag set.
///
/// # Examples
/// ```
/// use ramie::{fiber, sync::Event};
///
/// let ready = Event::new();
/// ramie::run(|| {
///     fiber::scope(|s| {
///         s.spawn(|| ready.wait());
///         ready.set();
///     });
/// });
/// ```
pub struct Event {
    is_set: AtomicBool,
    lot: ParkingLot,
}

impl Event {
    /// Makes one that is not set.
    #[must_use]
    pub const fn new() -> Self {
        Event { is_set: AtomicBool::new(false), lot: ParkingLot::new() }
    }

    /// Tells whether it is set.
    #[must_use]
    #[inline]
    pub fn is_set(&self) -> bool {
        // Acquire: pairs with the release in `set`.
        self.is_set.load(Ordering::Acquire)
    }

    /// Sets it and wakes all that wait, even if it is reset before they run.
    ///
    /// # Blocking
    /// Never.
    pub fn set(&self) {
        // Release: what happened before is visible to whoever finds it set.
        if !self.is_set.swap(true, Ordering::AcqRel) {
            self.lot.unpark_all();
        }
    }

    /// Resets it: who comes from now on waits.
    ///
    /// # Blocking
    /// Never.
    pub fn reset(&self) {
        self.is_set.store(false, Ordering::Release);
    }

    /// Waits until it is set.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while it is not set.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), when it would have to wait; in a destructor that
    /// runs during a panic on a fiber that ends the process with a message.
    #[track_caller]
    #[inline]
    pub fn wait(&self) {
        self.wait_until(Deadline::NEVER);
    }

    /// Waits until it is set, for `timeout` at most; tells whether it was.
    ///
    /// # Blocking
    /// As [`Event::wait`].
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// As [`Event::wait`].
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.is_set() || self.wait_until(Deadline::after(timeout))
    }

    #[track_caller]
    fn wait_until(&self, deadline: Deadline) -> bool {
        if self.is_set() {
            return true;
        }
        let record = WaitRecord::new(&SET)
            .until(deadline)
            .with_detail(std::ptr::from_ref(self).addr() as u64, 0);
        match self.lot.park(record, 0, || !self.is_set(), &|_| ()) {
            Ok(crate::parking_lot::Parked::TimedOut) => self.is_set(),
            Ok(_) => true,
            Err(_) => abort_wait_while_unwinding("an Event"),
        }
    }
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
