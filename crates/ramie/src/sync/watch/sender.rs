//! The sending end of a watched value.

use std::{fmt, mem, sync::Arc, time::Duration};

use super::{Receiver, Ref, SendError, SharedValue};
use crate::core::{
    cancel::{self, Cancelled},
    primitive::Ordering,
    time::Deadline,
    wait::{
        park::{Refused, Subject, WaitKind, WaitRecord},
        parking_lot::Parked,
    },
};

static DEPARTURE: WaitKind =
    WaitKind::about("the end of a watched value's receivers", Subject::Object);

// Same name as `channel::Sender`: all channels have the names of std.
/// The end that changes the value; clones change the same value.
pub struct Sender<T> {
    shared: Arc<SharedValue<T>>,
}

impl<T> Sender<T> {
    /// Makes a watched value, without a receiver yet.
    #[must_use]
    pub fn new(initial: T) -> Self {
        Sender { shared: Arc::new(SharedValue::new(initial)) }
    }

    /// Replaces the value and wakes all strands that wait for a change.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while another strand holds a [`Ref`] or changes
    /// the value.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// There is no receiver: the error contains the value. ([`Sender::send_replace`] needs no
    /// receiver.)
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait. If it would have
    /// to wait on a fiber in a destructor that runs during a panic, the process ends with a
    /// message.
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.is_closed() {
            return Err(SendError(value));
        }
        self.send_replace(value);
        Ok(())
    }

    /// Replaces the value, even if there is no receiver, and wakes all strands that wait for a
    /// change; returns the old value.
    ///
    /// # Blocking
    /// As [`Sender::send`].
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// As [`Sender::send`].
    #[track_caller]
    pub fn send_replace(&self, value: T) -> T {
        let mut value = value;
        self.send_modify(|place| mem::swap(place, &mut value));
        value
    }

    /// Changes the value in place, even if there is no receiver, and wakes all strands that wait
    /// for a change.
    ///
    /// # Blocking
    /// As [`Sender::send`].
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// As [`Sender::send`]. If `modify` panics, no strand is woken, and the value stays as `modify`
    /// left it.
    #[track_caller]
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place, and wakes all strands that wait for a change if `modify` returns
    /// `true`; returns the result of `modify`.
    ///
    /// # Blocking
    /// As [`Sender::send`].
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// As [`Sender::send_modify`].
    #[track_caller]
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self.shared.write();
        let is_modified = modify(&mut value);
        if is_modified {
            // Release: a strand that sees the new version sees the writes before it.
            self.shared.version.fetch_add(1, Ordering::Release);
        }
        drop(value);
        if is_modified {
            self.shared.changes.unpark_all();
        }
        is_modified
    }

    /// Borrows the value.
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
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref { guard: self.shared.read(), has_changed: false }
    }

    /// Makes a receiver that counts the present value as seen.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(Arc::clone(&self.shared), self.shared.version())
    }

    /// Returns whether there is no receiver now.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }

    /// Waits until there is no receiver.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while there are receivers.
    ///
    /// # Cancellation
    /// A cancel point, even if there is no receiver.
    ///
    /// # Errors
    /// The strand was cancelled, or would have to wait on a fiber in a destructor that runs during
    /// a panic.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    pub fn closed(&self) -> Result<(), Cancelled> {
        self.wait_closed(Deadline::NEVER).map(drop)
    }

    /// Waits until there is no receiver, for at most `timeout`; returns whether there is none.
    ///
    /// # Blocking
    /// As [`Sender::closed`].
    ///
    /// # Cancellation
    /// A cancel point, as [`Sender::closed`].
    ///
    /// # Errors
    /// The strand was cancelled, or would have to wait on a fiber in a destructor that runs during
    /// a panic.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    pub fn closed_timeout(&self, timeout: Duration) -> Result<bool, Cancelled> {
        self.wait_closed(Deadline::after(timeout))
    }

    #[track_caller]
    fn wait_closed(&self, deadline: Deadline) -> Result<bool, Cancelled> {
        cancel::check_cancelled()?;
        while !self.is_closed() {
            let detail = std::ptr::from_ref(&*self.shared).addr() as u64;
            let record =
                WaitRecord::new(&DEPARTURE).until(deadline).cancellable().with_detail(detail, 0);
            match self.shared.departures.park(record, 0, || !self.is_closed(), &|_| ()) {
                Ok(Parked::TimedOut) => return Ok(self.is_closed()),
                Ok(Parked::Cancelled) | Err(Refused::Cancelled | Refused::Unwinding) => {
                    return Err(cancel::cancelled());
                }
                Ok(Parked::Refused | Parked::Woken(_)) => {}
            }
        }
        Ok(true)
    }

    /// Returns the number of receivers.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        // Acquire: pairs with the release in `Receiver`'s drop.
        self.shared.receivers.load(Ordering::Acquire)
    }

    /// Returns the number of senders.
    #[must_use]
    pub fn sender_count(&self) -> usize {
        self.shared.senders.load(Ordering::Relaxed)
    }

    /// Returns whether both senders change the same value.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Sender::new(T::default())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // Relaxed: this handle keeps the number above 0.
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Sender { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // AcqRel: the sends of all senders happen before a strand sees that the number is 0.
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.changes.unpark_all();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("value", &self.shared.value).finish_non_exhaustive()
    }
}
