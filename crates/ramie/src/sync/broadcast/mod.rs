//! Channels whose receivers each see every value that is sent after they subscribed.
//!
//! The shapes are tokio's. The channel holds as many values as its capacity; a send never waits,
//! but overwrites the oldest when the channel is full, and a receiver that had yet to see it gets
//! the number of missed values, as `Lagged`. A value is dropped as soon as all have seen it; the
//! last one gets the value itself, the others clones.
//!
//! The differences from tokio: the capacity is exact, not rounded up to a power of two; and since
//! values are shared until they are cloned, which takes no lock, they have to be [`Sync`] if the
//! channel goes from one thread to another:
//! ```compile_fail,E0277
//! fn send<T: Send>(_: T) {}
//! send(ramie::sync::broadcast::channel::<std::cell::Cell<u8>>(1));
//! ```

// # Protocol
// A lock protects the ring of values. It is held for a few instructions, never across a suspension
// or a call into user code. Two atomics stand beside it: `end`, the position after the last value,
// which changes only under that lock, and the number of senders. A sender first changes one of them
// and then unparks all receivers. A receiver reads both under the lot's lock before it parks. So
// either the receiver sees the change, or the sender finds the receiver in the lot.
//
// *The race to fear*: after a receiver has found no value, the last sender sends one and is
// dropped. A receiver that then read the number of senders would miss the value. So it reads the
// number of senders before it looks for a value.

mod error;
mod ring;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use self::error::{RecvError, RecvTimeoutError, SendError, TryRecvError};
use self::ring::Ring;
use crate::core::{
    cancel,
    primitive::{AtomicU64, AtomicUsize, Ordering},
    time::Deadline,
    wait::{
        park::{Refused, WaitKind, WaitRecord},
        parking_lot::ParkingLot,
    },
};

static RECEIVE: WaitKind = WaitKind::new("a broadcast value");

struct SharedRing<T> {
    ring: Mutex<Ring<T>>,
    /// The ring's end, for strands that do not hold its lock.
    end: AtomicU64,
    senders: AtomicUsize,
    lot: ParkingLot,
}

// Same name as `channel::Sender`: all channels have the names of std.
/// The end that sends; clones send to the same receivers.
pub struct Sender<T> {
    shared: Arc<SharedRing<T>>,
}

// Same name as `channel::Receiver`: all channels have the names of std.
/// An end that sees every value sent since it was made.
///
/// It is not cloned, since a clone could start here or there: see [`Receiver::resubscribe`].
pub struct Receiver<T> {
    shared: Arc<SharedRing<T>>,
    next: u64,
}

/// Makes a channel that holds `capacity` values, with one receiver.
///
/// # Panics
/// When the capacity is 0.
///
/// # Examples
/// ```
/// use ramie::{fiber, sync::broadcast};
///
/// let (sender, mut receiver) = broadcast::channel(16);
/// let mut other = sender.subscribe();
/// ramie::run(|| {
///     fiber::spawn(move || (1..=3).try_for_each(|n| sender.send(n).map(drop)));
///     let sum = std::iter::from_fn(|| receiver.recv().ok()).sum::<i32>();
///     assert_eq!((sum, other.recv()), (6, Ok(1)));
/// });
/// ```
#[must_use]
#[track_caller]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(capacity);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> SharedRing<T> {
    fn ring(&self) -> MutexGuard<'_, Ring<T>> {
        // No code panics while it holds the lock.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribe(self: &Arc<Self>) -> Receiver<T> {
        let next = self.ring().subscribe();
        Receiver { shared: Arc::clone(self), next }
    }

    fn is_closed(&self) -> bool {
        // Acquire: pairs with the release in the last sender's drop, so all its sends are visible.
        self.senders.load(Ordering::Acquire) == 0
    }
}

impl<T> Sender<T> {
    /// Makes a channel that holds `capacity` values, without a receiver as yet.
    ///
    /// # Panics
    /// When the capacity is 0.
    #[must_use]
    #[track_caller]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a broadcast channel needs room for one value at least");
        let shared = SharedRing {
            ring: Mutex::new(Ring::new(capacity)),
            end: AtomicU64::new(0),
            senders: AtomicUsize::new(1),
            lot: ParkingLot::new(),
        };
        Sender { shared: Arc::new(shared) }
    }

    /// Sends a value to all receivers; returns how many there are.
    ///
    /// # Blocking
    /// Never: when the channel is full, the oldest value makes room.
    ///
    /// # Errors
    /// There is no receiver now: the error contains the value.
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let mut ring = self.shared.ring();
        let pushed = ring.push(Arc::new(value));
        let count = ring.receivers();
        // Release: pairs with the acquire in `Receiver::wait`.
        self.shared.end.store(ring.end(), Ordering::Release);
        drop(ring);
        match pushed {
            Ok(oldest) => {
                self.shared.lot.unpark_all();
                drop(oldest);
                Ok(count)
            }
            Err(value) => match Arc::try_unwrap(value) {
                Ok(value) => Err(SendError(value)),
                Err(_) => unreachable!("it was never in the ring"),
            },
        }
    }

    /// Makes a receiver for the values that are sent from now on.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        self.shared.subscribe()
    }

    /// Returns how many values some receiver has yet to see.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.ring().len()
    }

    /// Returns whether all receivers have seen all values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many receivers there are.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.ring().receivers()
    }

    /// Returns whether both send to the same receivers.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Receiver<T> {
    /// Makes another receiver, for the values that are sent from now on.
    #[must_use]
    pub fn resubscribe(&self) -> Self {
        self.shared.subscribe()
    }

    /// Returns how many values there are to receive, those included that were overwritten.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.shared.end.load(Ordering::Acquire) - self.next) as usize
    }

    /// Returns whether there is nothing to receive now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether all senders are gone; there may be values to receive still.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Returns whether both receive from the same senders.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T: Clone> Receiver<T> {
    /// Waits for the next value.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until there is one or all senders are gone.
    ///
    /// # Cancellation
    /// A cancel point, even if a value is there: it stays.
    ///
    /// # Errors
    /// [`RecvError::Lagged`]: values were overwritten; ask again, for the oldest that is left.
    /// [`RecvError::Cancelled`]: the strand is cancelled.
    /// [`RecvError::Closed`]: nothing is left and all senders are gone. Also when it would have to
    /// wait in a destructor that runs during a panic on a fiber.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, RecvError> {
        self.wait(Deadline::NEVER).map_err(|error| match error {
            RecvTimeoutError::Lagged(count) => RecvError::Lagged(count),
            RecvTimeoutError::Cancelled => RecvError::Cancelled,
            RecvTimeoutError::Closed | RecvTimeoutError::Timeout => RecvError::Closed,
        })
    }

    /// Takes the next value if it is there.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// There is none yet, or as [`Receiver::recv`].
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let is_closed = self.shared.is_closed();
        let taken = self.shared.ring().take(&mut self.next);
        match taken {
            Ok(value) => Ok(Arc::unwrap_or_clone(value)),
            Err(TryRecvError::Empty) if is_closed => Err(TryRecvError::Closed),
            Err(error) => Err(error),
        }
    }

    /// Waits for the next value, for `timeout` at most.
    ///
    /// # Blocking
    /// As [`Receiver::recv`].
    ///
    /// # Cancellation
    /// A cancel point, as [`Receiver::recv`].
    ///
    /// # Errors
    /// The timeout passed first, or as [`Receiver::recv`].
    ///
    /// # Panics
    /// As [`Receiver::recv`].
    #[track_caller]
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.wait(Deadline::after(timeout))
    }

    #[track_caller]
    fn wait(&mut self, deadline: Deadline) -> Result<T, RecvTimeoutError> {
        loop {
            if cancel::is_cancelled_here() {
                return Err(RecvTimeoutError::Cancelled);
            }
            match self.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Lagged(count)) => return Err(RecvTimeoutError::Lagged(count)),
                Err(TryRecvError::Closed) => return Err(RecvTimeoutError::Closed),
                Err(TryRecvError::Empty) if deadline.has_passed() => {
                    return Err(RecvTimeoutError::Timeout);
                }
                Err(TryRecvError::Empty) => {}
            }
            let shared = &*self.shared;
            let detail = std::ptr::from_ref(shared).addr() as u64;
            let record = WaitRecord::new(&RECEIVE)
                .until(deadline)
                .cancellable()
                .with_detail(detail, self.next);
            // Acquire: pairs with the release in `send`.
            let is_empty = || shared.end.load(Ordering::Acquire) == self.next;
            let must_wait = || is_empty() && !shared.is_closed();
            if shared.lot.park(record, 0, must_wait, &|_| ()) == Err(Refused::Unwinding) {
                return Err(RecvTimeoutError::Closed);
            }
        }
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
        // AcqRel: the sends of other senders come before a strand sees the number at 0.
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.lot.unpark_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let unseen = self.shared.ring().unsubscribe(self.next);
        // The values' destructors are code of the program, which must not run under the lock.
        drop(unseen);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("len", &self.len()).finish_non_exhaustive()
    }
}
