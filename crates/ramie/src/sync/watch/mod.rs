//! Channels for the latest value only: senders replace the value, receivers wait for changes.
//!
//! The API is that of `tokio::sync::watch`. If the value changes several times in quick succession,
//! receivers may see only the last change.

// # Protocol
// A [`RwLock`] protects the value. `version` counts the changes and is incremented while the lock
// is held to write, so a value and a version that are read under the lock belong together. A sender
// first changes the version or the number of senders and then unparks all receivers. A receiver
// reads both under the lot's lock before it parks. So either the receiver sees the change, or the
// sender finds the receiver in the lot. In the same way, senders wait in a lot of their own for the
// number of receivers to become 0.
//
// *The race to fear*: after a receiver has seen no change, the last sender changes the value and is
// dropped. A receiver that then read the number of senders would miss the change. So a receiver
// reads the number of senders before it looks at the version.

mod receiver;
mod sender;

use std::{error, fmt, ops::Deref, sync::PoisonError};

pub use self::{receiver::Receiver, sender::Sender};
use super::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::core::{
    cancel::errors_with_cancelled,
    primitive::{AtomicU64, AtomicUsize, Ordering},
    wait::parking_lot::ParkingLot,
};

struct SharedValue<T> {
    value: RwLock<T>,
    version: AtomicU64,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// Receivers that wait for a change.
    changes: ParkingLot,
    /// Senders that wait until no receiver is left.
    departures: ParkingLot,
}

/// A borrow of the value, which does not change while the borrow lives.
///
/// A sender that wants to change the value waits meanwhile. A strand that holds a `Ref` must not
/// send, because it would wait for itself forever. It should not borrow again either, because the
/// second borrow waits behind a sender that waits for the first. A `Ref` stays on its thread:
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// send(ramie::sync::watch::Sender::new(1).borrow());
/// ```
#[must_use = "the borrow keeps senders waiting and has no other effect"]
pub struct Ref<'a, T> {
    guard: RwLockReadGuard<'a, T>,
    has_changed: bool,
}

// Same name as `channel::SendError`: all channels have the names of std.
/// The error of a send: there is no receiver. It contains the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

// Same name as `channel::RecvError`: all channels have the names of std.
/// The error of a wait for a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvError {
    /// All senders are gone.
    Closed,
    /// The strand is cancelled.
    Cancelled,
}

// Same name as `channel::RecvTimeoutError`: all channels have the names of std.
/// The error of a wait for a change with a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvTimeoutError {
    /// The timeout passed first.
    Timeout,
    /// All senders are gone.
    Closed,
    /// The strand is cancelled.
    Cancelled,
}

/// Makes a watched value with one receiver, which counts the initial value as seen.
///
/// # Examples
/// ```
/// use ramie::{fiber, sync::watch};
///
/// let (level, mut watched) = watch::channel(0);
/// ramie::run(|| {
///     fiber::spawn(move || (1..=3).try_for_each(|n| level.send(n)));
///     assert_eq!(*watched.wait_for(|level| *level > 2).unwrap(), 3);
///     assert!(watched.changed().is_err());
/// });
/// ```
#[must_use]
pub fn channel<T>(initial: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(initial);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> SharedValue<T> {
    fn new(initial: T) -> Self {
        SharedValue {
            value: RwLock::new(initial),
            version: AtomicU64::new(0),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(0),
            changes: ParkingLot::new(),
            departures: ParkingLot::new(),
        }
    }

    /// Ignores poisoning, because the value is valid even if a closure that changed it has
    /// panicked.
    #[track_caller]
    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.value.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.value.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn version(&self) -> u64 {
        // Acquire: pairs with the release in `Sender::send_if_modified`.
        self.version.load(Ordering::Acquire)
    }

    fn is_closed(&self) -> bool {
        // Acquire: pairs with the release in the last sender's drop, so all its sends are visible.
        self.senders.load(Ordering::Acquire) == 0
    }
}

impl<T> Ref<'_, T> {
    /// Returns whether the value was new to the receiver that borrowed it; `false` for a sender.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
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

const CANCELLED: &str = "the wait for a change was cancelled";
const CLOSED: &str = "the value will not change any more: all senders are gone";

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvError::Closed => CLOSED,
            RecvError::Cancelled => CANCELLED,
        })
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvTimeoutError::Timeout => "the value did not change in time",
            RecvTimeoutError::Closed => CLOSED,
            RecvTimeoutError::Cancelled => CANCELLED,
        })
    }
}

impl<T> error::Error for SendError<T> {}
errors_with_cancelled!(RecvError, RecvTimeoutError(Timeout));
