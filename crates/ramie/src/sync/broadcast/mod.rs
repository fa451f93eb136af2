//! Channels whose receivers each see every value that is sent after they subscribed.
//!
//! The API is that of `tokio::sync::broadcast`. The channel holds as many values as its capacity. A
//! send never waits: if the channel is full, it overwrites the oldest value. A receiver that had
//! not seen overwritten values gets their number, as `Lagged`. A value is dropped as soon as all
//! receivers have seen it; the last one gets the value itself, the others get clones.
//!
//! Differences from tokio: the capacity is exact, not rounded up to a power of two. If the channel
//! connects threads, values must be [`Sync`], because receivers clone a shared value at the same
//! time, without a lock:
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
        park::{Refused, Subject, WaitKind, WaitRecord},
        parking_lot::ParkingLot,
    },
};

static RECEIVE: WaitKind = WaitKind::about("a broadcast value", Subject::Channel);

struct SharedRing<T> {
    ring: Mutex<Ring<T>>,
    /// A copy of the ring's end, for strands that do not hold its lock.
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
/// An end that receives every value sent since it was made.
///
/// It is not `Clone`, because it is not clear at which value a clone should start; see
/// [`Receiver::resubscribe`].
pub struct Receiver<T> {
    shared: Arc<SharedRing<T>>,
    next: u64,
}

/// Makes a channel that holds `capacity` values, with one receiver.
///
/// # Panics
/// If the capacity is 0.
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
    /// Makes a channel that holds `capacity` values, without a receiver yet.
    ///
    /// # Panics
    /// If the capacity is 0.
    #[must_use]
    #[track_caller]
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "the capacity of a broadcast channel is 0; pass at least 1");
        let shared = SharedRing {
            ring: Mutex::new(Ring::new(capacity)),
            end: AtomicU64::new(0),
            senders: AtomicUsize::new(1),
            lot: ParkingLot::new(),
        };
        Sender { shared: Arc::new(shared) }
    }

    /// Sends a value to all receivers; returns their number.
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

    /// Returns the number of values that at least one receiver has not seen.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.ring().len()
    }

    /// Returns whether all receivers have seen all values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of receivers.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.ring().receivers()
    }

    /// Returns whether both senders belong to the same channel.
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

    /// Returns the number of values that this receiver has not seen, including overwritten ones.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.shared.end.load(Ordering::Acquire) - self.next) as usize
    }

    /// Returns whether there is no value to receive now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether all senders are gone; values may still be left to receive.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Returns whether both receivers belong to the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T: Clone> Receiver<T> {
    /// Waits for the next value.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until there is a value or all senders are gone.
    ///
    /// # Cancellation
    /// A cancel point, even if there is a value, which then stays.
    ///
    /// # Errors
    /// [`RecvError::Lagged`]: values were overwritten; the next call returns the oldest value left.
    /// [`RecvError::Cancelled`]: the strand is cancelled. [`RecvError::Closed`]: no value is left
    /// and all senders are gone, or the call would have to wait on a fiber in a destructor that
    /// runs during a panic.
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

    /// Takes the next value if there is one.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// `Empty`: there is no value yet. Otherwise as [`Receiver::recv`].
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let is_closed = self.shared.is_closed();
        let taken = self.shared.ring().take(&mut self.next);
        match taken {
            Ok(value) => Ok(Arc::unwrap_or_clone(value)),
            Err(TryRecvError::Empty) if is_closed => Err(TryRecvError::Closed),
            Err(error) => Err(error),
        }
    }

    /// Waits for the next value, for at most `timeout`.
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
        // AcqRel: the sends of all senders happen before a strand sees that the number is 0.
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.lot.unpark_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let unseen = self.shared.ring().unsubscribe(self.next);
        // Without the lock, because the destructors of the values are user code.
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
