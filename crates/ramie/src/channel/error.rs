//! The errors of channels, with the names of crossbeam-channel, and with `Cancelled` added;
//! `check_cancelled` returns the reason of a cancellation.

use std::{error::Error, fmt};

use crate::core::cancel::{STRAND_CANCELLED, errors_with_cancelled};

/// The error of a send, which contains the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendError<T> {
    /// All receivers are gone.
    Disconnected(T),
    /// The strand is cancelled.
    Cancelled(T),
}

/// The error of a send that does not wait, which contains the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There was no room; with capacity 0, no receiver was waiting.
    Full(T),
    /// All receivers are gone.
    Disconnected(T),
}

/// The error of a send with a timeout, which contains the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The timeout passed first.
    Timeout(T),
    /// All receivers are gone.
    Disconnected(T),
    /// The strand is cancelled.
    Cancelled(T),
}

/// The error of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvError {
    /// There is no value and all senders are gone.
    Disconnected,
    /// The strand is cancelled.
    Cancelled,
}

/// The error of a receive that does not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// There is no value yet.
    Empty,
    /// There is no value and all senders are gone.
    Disconnected,
}

/// The error of a receive with a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvTimeoutError {
    /// The timeout passed first.
    Timeout,
    /// There is no value and all senders are gone.
    Disconnected,
    /// The strand is cancelled.
    Cancelled,
}

impl<T> SendError<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        match self {
            SendError::Disconnected(value) | SendError::Cancelled(value) => value,
        }
    }

    /// Returns whether all receivers are gone.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendError::Disconnected(_))
    }

    /// Returns whether the strand is cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, SendError::Cancelled(_))
    }
}

impl<T> TrySendError<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(value) | TrySendError::Disconnected(value) => value,
        }
    }

    /// Returns whether there was no room.
    pub fn is_full(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }

    /// Returns whether all receivers are gone.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TrySendError::Disconnected(_))
    }
}

impl<T> SendTimeoutError<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(value)
            | SendTimeoutError::Disconnected(value)
            | SendTimeoutError::Cancelled(value) => value,
        }
    }

    /// Returns whether the timeout passed first.
    pub fn is_timeout(&self) -> bool {
        matches!(self, SendTimeoutError::Timeout(_))
    }

    /// Returns whether all receivers are gone.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendTimeoutError::Disconnected(_))
    }

    /// Returns whether the strand is cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, SendTimeoutError::Cancelled(_))
    }
}

impl RecvError {
    /// Returns whether all senders are gone.
    pub fn is_disconnected(&self) -> bool {
        *self == RecvError::Disconnected
    }

    /// Returns whether the strand is cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self == RecvError::Cancelled
    }
}

impl TryRecvError {
    /// Returns whether there is no value yet.
    pub fn is_empty(&self) -> bool {
        *self == TryRecvError::Empty
    }

    /// Returns whether all senders are gone.
    pub fn is_disconnected(&self) -> bool {
        *self == TryRecvError::Disconnected
    }
}

impl RecvTimeoutError {
    /// Returns whether the timeout passed first.
    pub fn is_timeout(&self) -> bool {
        *self == RecvTimeoutError::Timeout
    }

    /// Returns whether all senders are gone.
    pub fn is_disconnected(&self) -> bool {
        *self == RecvTimeoutError::Disconnected
    }

    /// Returns whether the strand is cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self == RecvTimeoutError::Cancelled
    }
}

const SEND_CANCELLED: &str = "sending was cancelled";
const RECEIVE_CANCELLED: &str = "receiving was cancelled";

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_cancelled() { "Cancelled(..)" } else { "Disconnected(..)" })
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() { "Full(..)" } else { "Disconnected(..)" })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
            SendTimeoutError::Cancelled(_) => "Cancelled(..)",
        })
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Disconnected(_) => "sending on a disconnected channel",
            SendError::Cancelled(_) => SEND_CANCELLED,
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "sending on a full channel",
            TrySendError::Disconnected(_) => "sending on a disconnected channel",
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "timed out waiting on send operation",
            SendTimeoutError::Disconnected(_) => "sending on a disconnected channel",
            SendTimeoutError::Cancelled(_) => SEND_CANCELLED,
        })
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvError::Disconnected => "receiving on an empty and disconnected channel",
            RecvError::Cancelled => RECEIVE_CANCELLED,
        })
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "receiving on an empty channel",
            TryRecvError::Disconnected => "receiving on an empty and disconnected channel",
        })
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvTimeoutError::Timeout => "timed out waiting on receive operation",
            RecvTimeoutError::Disconnected => "receiving on an empty and disconnected channel",
            RecvTimeoutError::Cancelled => RECEIVE_CANCELLED,
        })
    }
}

impl<T> Error for SendError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.is_cancelled().then_some(&STRAND_CANCELLED as _)
    }
}

impl<T> Error for TrySendError<T> {}

impl<T> Error for SendTimeoutError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.is_cancelled().then_some(&STRAND_CANCELLED as _)
    }
}

impl Error for TryRecvError {}
errors_with_cancelled!(RecvError, RecvTimeoutError(Timeout));

impl From<RecvError> for RecvTimeoutError {
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Disconnected => RecvTimeoutError::Disconnected,
            RecvError::Cancelled => RecvTimeoutError::Cancelled,
        }
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(error: SendError<T>) -> Self {
        match error {
            SendError::Disconnected(value) => SendTimeoutError::Disconnected(value),
            SendError::Cancelled(value) => SendTimeoutError::Cancelled(value),
        }
    }
}
