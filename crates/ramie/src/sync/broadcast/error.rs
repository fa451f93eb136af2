//! The errors of sends and receives; the names are tokio's.

use std::{error::Error, fmt};

use crate::core::cancel::errors_with_cancelled;

// Same name as `channel::SendError`: all channels have the names of std.
/// The error of a send: there is no receiver. It contains the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

// Same name as `channel::RecvError`: all channels have the names of std.
/// The error of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvError {
    /// All values were received and all senders are gone.
    Closed,
    /// This number of values were overwritten before the receiver saw them. The next call returns
    /// the oldest value left.
    Lagged(u64),
    /// The strand is cancelled.
    Cancelled,
}

// Same name as `channel::TryRecvError`: all channels have the names of std.
/// The error of a receive that does not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// There is no value yet.
    Empty,
    /// All values were received and all senders are gone.
    Closed,
    /// As [`RecvError::Lagged`].
    Lagged(u64),
}

// Same name as `channel::RecvTimeoutError`: all channels have the names of std.
/// The error of a receive with a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvTimeoutError {
    /// The timeout passed first.
    Timeout,
    /// All values were received and all senders are gone.
    Closed,
    /// As [`RecvError::Lagged`].
    Lagged(u64),
    /// The strand is cancelled.
    Cancelled,
}

const CANCELLED: &str = "the wait for a value was cancelled";
const CLOSED: &str = "all values were received and all senders are gone";

fn lagged(f: &mut fmt::Formatter<'_>, count: u64) -> fmt::Result {
    write!(f, "{count} values were overwritten before they were received")
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no receiver")
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Closed => f.write_str(CLOSED),
            RecvError::Cancelled => f.write_str(CANCELLED),
            RecvError::Lagged(count) => lagged(f, *count),
        }
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryRecvError::Empty => f.write_str("no value has been sent yet"),
            TryRecvError::Closed => f.write_str(CLOSED),
            TryRecvError::Lagged(count) => lagged(f, *count),
        }
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvTimeoutError::Timeout => f.write_str("no value was sent in time"),
            RecvTimeoutError::Closed => f.write_str(CLOSED),
            RecvTimeoutError::Cancelled => f.write_str(CANCELLED),
            RecvTimeoutError::Lagged(count) => lagged(f, *count),
        }
    }
}

impl<T> Error for SendError<T> {}
impl Error for TryRecvError {}
errors_with_cancelled!(RecvError, RecvTimeoutError(Timeout));
