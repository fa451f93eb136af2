//! The receiving end of a watched value.

use std::{fmt, sync::Arc, time::Duration};

use super::{RecvError, RecvTimeoutError, Ref, SharedValue};
use crate::core::{
    cancel,
    primitive::Ordering,
    time::Deadline,
    wait::park::{Refused, Subject, WaitKind, WaitRecord},
};

static CHANGE: WaitKind = WaitKind::about("a change of a watched value", Subject::Object);

// Same name as `channel::Receiver`: all channels have the names of std.
/// The end that watches the value. A clone counts the same version as seen as its original.
pub struct Receiver<T> {
    shared: Arc<SharedValue<T>>,
    /// The version seen last.
    seen: u64,
}

impl<T> Receiver<T> {
    pub(super) fn new(shared: Arc<SharedValue<T>>, seen: u64) -> Self {
        // Relaxed: the caller holds another handle of the channel.
        shared.receivers.fetch_add(1, Ordering::Relaxed);
        Receiver { shared, seen }
    }

    /// Borrows the value without counting it as seen.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while a sender changes the value or waits to.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait. If it would have
    /// to wait on a fiber in a destructor that runs during a panic, the process ends with a
    /// message.
    #[track_caller]
    pub fn borrow(&self) -> Ref<'_, T> {
        let guard = self.shared.read();
        Ref { has_changed: self.shared.version() != self.seen, guard }
    }

    /// Borrows the value and counts it as seen.
    ///
    /// # Blocking
    /// As [`Receiver::borrow`].
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// As [`Receiver::borrow`].
    #[track_caller]
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        look(&self.shared, &mut self.seen)
    }

    /// Returns whether there is a value that this receiver has not seen.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// All senders are gone, even if the last value was not seen.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        if self.shared.is_closed() {
            return Err(RecvError::Closed);
        }
        Ok(self.shared.version() != self.seen)
    }

    /// Counts the present value as not seen.
    pub fn mark_changed(&mut self) {
        self.seen = self.shared.version().wrapping_sub(1);
    }

    /// Counts the present value as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.version();
    }

    /// Waits until there is a value that this receiver has not seen, and counts it as seen.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until the value changes or all senders are gone.
    ///
    /// # Cancellation
    /// A cancel point, even if there is a change, which then stays unseen.
    ///
    /// # Errors
    /// `Closed`: the last value was seen and all senders are gone, or the call would have to wait
    /// on a fiber in a destructor that runs during a panic. `Cancelled`: the strand is cancelled.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    pub fn changed(&mut self) -> Result<(), RecvError> {
        wait(&self.shared, &mut self.seen, Deadline::NEVER).map_err(untimed)
    }

    /// Waits until there is a value that this receiver has not seen, for at most `timeout`.
    ///
    /// # Blocking
    /// As [`Receiver::changed`].
    ///
    /// # Cancellation
    /// A cancel point, as [`Receiver::changed`].
    ///
    /// # Errors
    /// The timeout passed first, or as [`Receiver::changed`].
    ///
    /// # Panics
    /// As [`Receiver::changed`].
    #[track_caller]
    pub fn changed_timeout(&mut self, timeout: Duration) -> Result<(), RecvTimeoutError> {
        wait(&self.shared, &mut self.seen, Deadline::after(timeout))
    }

    /// Waits until `condition` holds for the value, borrows the value and counts it as seen. If the
    /// condition holds already, the call returns at once.
    ///
    /// `condition` is not called for values that were replaced before this strand ran.
    ///
    /// # Blocking
    /// As [`Receiver::changed`] and [`Receiver::borrow`].
    ///
    /// # Cancellation
    /// A cancel point if the condition does not hold now. Waiting for a sender that changes the
    /// value is not one.
    ///
    /// # Errors
    /// `Closed`: the condition does not hold for the last value, and all senders are gone.
    /// Otherwise as [`Receiver::changed`].
    ///
    /// # Panics
    /// As [`Receiver::borrow`].
    #[track_caller]
    pub fn wait_for(&mut self, condition: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, RecvError> {
        wait_for(&self.shared, &mut self.seen, Deadline::NEVER, condition).map_err(untimed)
    }

    /// Waits until `condition` holds for the value, for at most `timeout`.
    ///
    /// # Blocking
    /// As [`Receiver::wait_for`].
    ///
    /// # Cancellation
    /// A cancel point, as [`Receiver::wait_for`].
    ///
    /// # Errors
    /// The timeout passed first, or as [`Receiver::wait_for`].
    ///
    /// # Panics
    /// As [`Receiver::wait_for`].
    #[track_caller]
    pub fn wait_for_timeout(
        &mut self,
        timeout: Duration,
        condition: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, RecvTimeoutError> {
        wait_for(&self.shared, &mut self.seen, Deadline::after(timeout), condition)
    }

    /// Returns whether both receivers watch the same value.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

fn untimed(error: RecvTimeoutError) -> RecvError {
    match error {
        RecvTimeoutError::Cancelled => RecvError::Cancelled,
        RecvTimeoutError::Closed | RecvTimeoutError::Timeout => RecvError::Closed,
    }
}

/// Borrows the value and counts its version as seen.
#[track_caller]
fn look<'a, T>(shared: &'a SharedValue<T>, seen: &mut u64) -> Ref<'a, T> {
    let guard = shared.read();
    let version = shared.version();
    let has_changed = std::mem::replace(seen, version) != version;
    Ref { guard, has_changed }
}

#[track_caller]
fn wait<T>(
    shared: &SharedValue<T>,
    seen: &mut u64,
    deadline: Deadline,
) -> Result<(), RecvTimeoutError> {
    loop {
        if cancel::is_cancelled_here() {
            return Err(RecvTimeoutError::Cancelled);
        }
        let is_closed = shared.is_closed();
        let version = shared.version();
        if version != *seen {
            *seen = version;
            return Ok(());
        }
        if is_closed {
            return Err(RecvTimeoutError::Closed);
        }
        if deadline.has_passed() {
            return Err(RecvTimeoutError::Timeout);
        }
        let detail = std::ptr::from_ref(shared).addr() as u64;
        let record =
            WaitRecord::new(&CHANGE).until(deadline).cancellable().with_detail(detail, version);
        let must_wait = || shared.version() == version && !shared.is_closed();
        if shared.changes.park(record, 0, must_wait, &|_| ()) == Err(Refused::Unwinding) {
            return Err(RecvTimeoutError::Closed);
        }
    }
}

#[track_caller]
fn wait_for<'a, T>(
    shared: &'a SharedValue<T>,
    seen: &mut u64,
    deadline: Deadline,
    mut condition: impl FnMut(&T) -> bool,
) -> Result<Ref<'a, T>, RecvTimeoutError> {
    let mut is_new = false;
    loop {
        let mut value = look(shared, seen);
        value.has_changed |= is_new;
        if condition(&value) {
            return Ok(value);
        }
        drop(value);
        wait(shared, seen, deadline)?;
        is_new = true;
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Receiver::new(Arc::clone(&self.shared), self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // Release: uses of the value happen before a strand sees that the number is 0.
        if self.shared.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.departures.unpark_all();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("value", &self.shared.value).finish_non_exhaustive()
    }
}
