//! The sending end of a channel.

use std::{
    fmt,
    task::{Poll, Waker},
    time::Duration,
};

use super::{
    core::{Core, add_handle, remove_handle},
    error::{SendError, SendTimeoutError, TrySendError},
};
use crate::core::{
    primitive::Arc,
    time::{Deadline, Instant},
};

/// The sending end of a channel; clones send to the same channel.
pub struct Sender<T> {
    pub(super) core: Arc<Core<T>>,
}

impl<T> Sender<T> {
    pub(super) fn new(core: Arc<Core<T>>) -> Self {
        Sender { core }
    }

    /// Waits until there is room for the value and sends it; with capacity 0, waits until a
    /// receiver takes it.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until there is room or all receivers are gone.
    ///
    /// # Cancellation
    /// A cancel point, even if there is room. A value that a receiver has taken counts as sent.
    ///
    /// # Errors
    /// All receivers are gone, or the strand was cancelled; the error contains the value. Also
    /// `Disconnected` if the call would have to wait on a fiber in a destructor that runs during a
    /// panic.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait; the value is
    /// dropped.
    #[inline]
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.core.send(value, Deadline::NEVER, true).map_err(untimed)
    }

    /// As [`send`](Self::send), but not a cancel point.
    #[inline]
    #[track_caller]
    pub(crate) fn send_uncancelled(&self, value: T) -> Result<(), SendError<T>> {
        self.core.send(value, Deadline::NEVER, false).map_err(untimed)
    }

    /// Sends a value if there is room for it now.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// There is no room, or all receivers are gone; the error contains the value.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.core.try_send(value)
    }

    /// Polls the send of the future with the number `future`: see [`Core::poll_send`].
    pub(crate) fn poll_send(
        &self,
        future: u64,
        value: Option<T>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError<T>>> {
        self.core.poll_send(future, value, waker)
    }

    pub(crate) fn forget_waker(&self, future: u64) {
        self.core.forget_sender(future);
    }

    /// Sends a value if there is room within `timeout`.
    ///
    /// # Blocking
    /// As [`send`](Self::send).
    ///
    /// # Cancellation
    /// A cancel point, as [`send`](Self::send).
    ///
    /// # Errors
    /// The timeout passed first. Otherwise as [`send`](Self::send).
    ///
    /// # Panics
    /// As [`send`](Self::send).
    #[track_caller]
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.core.send(value, Deadline::after(timeout), true)
    }

    /// Sends a value if there is room before `deadline`.
    ///
    /// # Blocking
    /// As [`send`](Self::send).
    ///
    /// # Cancellation
    /// A cancel point, as [`send`](Self::send).
    ///
    /// # Errors
    /// The timeout passed first. Otherwise as [`send`](Self::send).
    ///
    /// # Panics
    /// As [`send`](Self::send).
    #[track_caller]
    pub fn send_deadline(&self, value: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.core.send(value, Deadline::at(deadline), true)
    }

    /// Returns the number of values in the channel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.core.len()
    }

    /// Returns whether there is no value in the channel.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether there is no room; always true with capacity 0.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.core.is_full()
    }

    /// Returns the largest number of values that the channel holds; `None` without a limit.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.core.capacity()
    }

    /// Returns whether both senders belong to the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }
}

fn untimed<T>(error: SendTimeoutError<T>) -> SendError<T> {
    match error {
        SendTimeoutError::Cancelled(value) => SendError::Cancelled(value),
        SendTimeoutError::Disconnected(value) | SendTimeoutError::Timeout(value) => {
            SendError::Disconnected(value)
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { core: add_handle(&self.core, &self.core.senders) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if remove_handle(&self.core.senders) {
            self.core.close_senders();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender { .. }")
    }
}
