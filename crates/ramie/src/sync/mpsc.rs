//! Channels for many senders and one receiver; twins of [`std::sync::mpsc`], over
//! [`ramie::channel`](crate::channel).
//!
//! The errors are std's own, so that code which matches on them needs no change. They cannot
//! express a cancellation, so neither std's calls nor the iterators are cancel points. The variants
//! named `…_or_cancelled` are; they return the errors of [`ramie::channel`](crate::channel).
//!
//! # Fairness
//! Senders that wait for room are served in the order in which they came.

use std::{cell::Cell, fmt, marker::PhantomData, panic::RefUnwindSafe, time::Duration};

#[doc(no_inline)]
pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use crate::{
    channel::{self, receiver_iterators},
    core::time::Deadline,
};

// Same name as `channel::Sender`: the twin of the type in `std::sync::mpsc`.
/// The sending end of [`channel`](channel()), which never waits.
pub struct Sender<T>(channel::Sender<T>);

/// The sending end of [`sync_channel`], which waits for room.
pub struct SyncSender<T>(channel::Sender<T>);

// Same name as `channel::Receiver`: the twin of the type in `std::sync::mpsc`.
/// The receiving end of [`channel`](channel()) and [`sync_channel`].
///
/// It is `Send`, but not `Sync`:
/// ```compile_fail,E0277
/// fn share<T: Sync>(_: T) {}
/// share(ramie::sync::mpsc::channel::<u8>().1);
/// ```
pub struct Receiver<T> {
    inner: channel::Receiver<T>,
    not_sync: PhantomData<Cell<()>>,
}

// As std's is; the cell serves only to make the type not `Sync`.
impl<T> RefUnwindSafe for Receiver<T> {}

// Same name as `channel::Iter`: the twin of the iterator in `std::sync::mpsc`.
/// Waits for each value; ends when every sender is gone. Made by [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T>(&'a Receiver<T>);

// Same name as `channel::TryIter`: the twin of the iterator in `std::sync::mpsc`.
/// Yields the values in the channel, without waiting. Made by [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T>(&'a Receiver<T>);

// Same name as `channel::IntoIter`: the twin of the iterator in `std::sync::mpsc`.
/// Waits for each value, and owns the receiver; ends when every sender is gone.
#[derive(Debug)]
pub struct IntoIter<T>(Receiver<T>);

/// Makes a channel without a limit on its values.
///
/// # Examples
/// ```
/// use ramie::{fiber, sync::mpsc};
///
/// ramie::run(|| {
///     let (sender, receiver) = mpsc::channel();
///     for n in 0..3 {
///         let sender = sender.clone();
///         fiber::spawn(move || sender.send(n).unwrap());
///     }
///     drop(sender);
///     assert_eq!(receiver.iter().sum::<i32>(), 3);
/// });
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, inner) = channel::unbounded();
    (Sender(sender), Receiver { inner, not_sync: PhantomData })
}

/// Makes a channel that holds `bound` values; with 0, each send waits until its value is received.
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, inner) = channel::bounded(bound);
    (SyncSender(sender), Receiver { inner, not_sync: PhantomData })
}

impl<T> Sender<T> {
    /// Sends a value.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// The receiver is gone: the error contains the value.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.send_uncancelled(value).map_err(|error| SendError(error.into_inner()))
    }
}

impl<T> SyncSender<T> {
    /// Sends a value; waits for room in the channel, or with a bound of 0 until the value is
    /// received.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while the channel is full.
    ///
    /// # Cancellation
    /// Not a cancel point; [`send_or_cancelled`](Self::send_or_cancelled) is.
    ///
    /// # Errors
    /// The receiver is gone: the error contains the value.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.send_uncancelled(value).map_err(|error| SendError(error.into_inner()))
    }

    /// Sends a value, as [`send`](Self::send), unless the strand is cancelled. Not in std.
    ///
    /// # Blocking
    /// As [`send`](Self::send).
    ///
    /// # Cancellation
    /// A cancel point, even if there is room.
    ///
    /// # Errors
    /// The receiver is gone, or the strand was cancelled; the error contains the value.
    ///
    /// # Panics
    /// As [`send`](Self::send).
    #[track_caller]
    pub fn send_or_cancelled(&self, value: T) -> Result<(), channel::SendError<T>> {
        self.0.send(value)
    }

    /// Sends a value if that is possible without waiting.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// There is no room, or the receiver is gone: the error contains the value.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(value).map_err(|error| match error {
            channel::TrySendError::Full(value) => TrySendError::Full(value),
            channel::TrySendError::Disconnected(value) => TrySendError::Disconnected(value),
        })
    }
}

impl<T> Receiver<T> {
    /// Waits for a value.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until a value is there or every sender is gone.
    ///
    /// # Cancellation
    /// Not a cancel point; [`recv_or_cancelled`](Self::recv_or_cancelled) is.
    ///
    /// # Errors
    /// No value is there and every sender is gone.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.inner.recv_until(Deadline::NEVER, false).map_err(|_| RecvError)
    }

    /// Waits for a value, unless the strand is cancelled. Not in std.
    ///
    /// # Blocking
    /// As [`recv`](Self::recv).
    ///
    /// # Cancellation
    /// A cancel point, even if there is a value, which then stays in the channel.
    ///
    /// # Errors
    /// There is no value and every sender is gone, or the strand was cancelled.
    ///
    /// # Panics
    /// As [`recv`](Self::recv).
    #[track_caller]
    pub fn recv_or_cancelled(&self) -> Result<T, channel::RecvError> {
        self.inner.recv()
    }

    /// Takes a value if one is there.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// There is no value yet, or every sender is gone.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.inner.try_recv().map_err(|error| match error {
            channel::TryRecvError::Empty => TryRecvError::Empty,
            channel::TryRecvError::Disconnected => TryRecvError::Disconnected,
        })
    }

    /// Waits for a value, for at most `timeout`.
    ///
    /// # Blocking
    /// As [`Receiver::recv`].
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Errors
    /// The timeout passed first, or there is no value and every sender is gone.
    ///
    /// # Panics
    /// As [`Receiver::recv`].
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.inner.recv_until(Deadline::after(timeout), false).map_err(|error| match error {
            channel::RecvTimeoutError::Timeout => RecvTimeoutError::Timeout,
            _ => RecvTimeoutError::Disconnected,
        })
    }

    /// Iterates over the values, waiting for each, until every sender is gone.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self)
    }

    /// Iterates over the values in the channel, without waiting.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter(self)
    }
}

receiver_iterators!(Receiver, Iter, TryIter, IntoIter);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender(self.0.clone())
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        SyncSender(self.0.clone())
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
