//! A channel for one value.

// # Protocol: one state, changed without a lock and read under the lot's lock before parking
//
// | state | changed by | to |
// |---|---|---|
// | `EMPTY` | `send`; the sender's drop; the receiver's drop | `FULL`; `CLOSED`; `CLOSED` |
// | `FULL` | the receiver, which takes the value; the last handle's drop, which drops it | `CLOSED` |
// | `CLOSED` | - | |
//
// The sender first changes the state and then unparks. The receiver reads the state under the lot's
// lock before it parks. So either the receiver sees the change, or the sender finds the receiver in
// the lot. If several strands wait through a shared receiver, each one that wakes also wakes the
// next, so all see that the value was taken.
#![allow(unsafe_code)]

use std::{cell::Cell, fmt, marker::PhantomData, mem::MaybeUninit, task::Waker, time::Duration};

use crate::core::{
    cancel::errors_with_cancelled,
    primitive::{Arc, AtomicU32, Ordering, UnsafeCell},
    time::Deadline,
    wait::{
        park::{Refused, Subject, WaitKind, WaitRecord},
        parking_lot::{Parked, ParkingLot},
    },
};

static RECEIVE: WaitKind = WaitKind::about("a oneshot's value", Subject::Channel);

const EMPTY: u32 = 0;
const FULL: u32 = 1;
const CLOSED: u32 = 2;

struct Inner<T> {
    state: AtomicU32,
    lot: ParkingLot,
    /// INVARIANT: initialised iff `state` is `FULL`.
    value: UnsafeCell<MaybeUninit<T>>,
    /// The waker of a receiver that is awaited as a future. INVARIANT: accessed only under the
    /// lot's lock.
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: the value moves from the sender to the receiver, ordered by the release and acquire on
// the state.
unsafe impl<T: Send> Send for Inner<T> {}
// SAFETY: as above; there is one sender and one receiver.
unsafe impl<T: Send> Sync for Inner<T> {}

impl<T> Inner<T> {
    /// Takes the value if it is there.
    fn take(&self) -> Option<T> {
        // Acquire: pairs with the release in `send`.
        let taken = self.state.compare_exchange(FULL, CLOSED, Ordering::Acquire, Ordering::Acquire);
        // SAFETY: the state was `FULL`, and only one compare-and-swap can change it to `CLOSED`.
        taken.is_ok().then(|| unsafe { self.read() })
    }

    /// Wakes one waiter. Its token shows whether it has to wake the next one: several fibers of one
    /// worker may share the receiver by an `Rc` and wait at the same time.
    fn wake_one(&self) {
        let mut waker = None;
        self.lot.unpark_one(|next| {
            // SAFETY: `decide` is called under the lot's lock.
            waker = unsafe { self.replace_waker(None) };
            next.is_some_and(|next| next.has_more).into()
        });
        if let Some(waker) = waker {
            crate::core::wait::wake(waker);
        }
    }

    /// # Safety
    /// The lot's lock is held.
    unsafe fn replace_waker(&self, waker: Option<Waker>) -> Option<Waker> {
        // SAFETY: the caller's promise, and the invariant of `waker`.
        let place = unsafe { &mut *self.waker.get() };
        std::mem::replace(place, waker)
    }

    /// Moves the value out.
    ///
    /// # Safety
    /// The value is initialised and the caller alone may touch it.
    unsafe fn read(&self) -> T {
        // SAFETY: the caller's promise: nobody else refers to the value.
        let value = unsafe { &*self.value.get() };
        // SAFETY: the caller's promise.
        unsafe { value.assume_init_read() }
    }
}

impl<T> Drop for Inner<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

// Same name as `channel::Sender`: all channels have the names of std.
/// The sending end.
pub struct Sender<T> {
    inner: Arc<Inner<T>>,
}

// Same name as `channel::Receiver`: all channels have the names of std.
/// The receiving end.
///
/// It is `Send`, but not `Sync`, because one strand at a time waits for the value:
/// ```compile_fail,E0277
/// fn share<T: Sync>(_: T) {}
/// share(ramie::sync::oneshot::channel::<u8>().1);
/// ```
pub struct Receiver<T> {
    inner: Arc<Inner<T>>,
    not_sync: PhantomData<Cell<()>>,
}

// Same name as `channel::RecvError`: all channels have the names of std.
/// The error of a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvError {
    /// The sender was dropped without sending.
    Closed,
    /// The strand is cancelled; [`check_cancelled`](crate::cancel::check_cancelled) returns the
    /// reason.
    Cancelled,
}

// Same name as `channel::TryRecvError`: all channels have the names of std.
/// The error of a receive that does not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRecvError {
    /// The sender has not sent yet.
    Empty,
    /// The sender was dropped without having sent, or the value was taken before.
    Closed,
}

// Same name as `channel::RecvTimeoutError`: all channels have the names of std.
/// The error of a receive with a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvTimeoutError {
    /// The timeout passed first.
    Timeout,
    /// The sender was dropped without having sent, or the value was taken before.
    Closed,
    /// The strand is cancelled.
    Cancelled,
}

/// Makes a channel for one value.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let (sender, receiver) = ramie::sync::oneshot::channel();
///     ramie::fiber::spawn(move || sender.send("done").unwrap());
///     assert_eq!(receiver.recv(), Ok("done"));
/// });
/// ```
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let inner = Arc::new(Inner {
        state: AtomicU32::new(EMPTY),
        lot: ParkingLot::new(),
        value: UnsafeCell::new(MaybeUninit::uninit()),
        waker: UnsafeCell::new(None),
    });
    (Sender { inner: Arc::clone(&inner) }, Receiver { inner, not_sync: PhantomData })
}

impl<T> Sender<T> {
    /// Sends the value to the receiver.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// The receiver is gone; the error contains the value.
    pub fn send(self, value: T) -> Result<(), T> {
        let inner = &self.inner;
        // SAFETY: the state is `EMPTY` or `CLOSED` by the receiver: nobody else touches the value.
        unsafe { (*inner.value.get()).write(value) };
        // Release: the value is visible to a strand that sees `FULL`.
        match inner.state.compare_exchange(EMPTY, FULL, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                inner.wake_one();
                Ok(())
            }
            // SAFETY: written above; the state did not become `FULL`, so it is still ours.
            Err(_) => Err(unsafe { inner.read() }),
        }
    }

    /// Returns whether the receiver is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.state.load(Ordering::Relaxed) == CLOSED
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let closed =
            self.inner.state.compare_exchange(EMPTY, CLOSED, Ordering::AcqRel, Ordering::Relaxed);
        if closed.is_ok() {
            self.inner.wake_one();
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for the value.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until the value was sent or the sender is gone.
    ///
    /// # Cancellation
    /// A cancel point, unless the value was sent; then the value is returned, because it would
    /// otherwise be lost. A cancelled call drops the receiver, so the sender gets its value back.
    ///
    /// # Errors
    /// `Closed`: the sender was dropped without having sent, or the call would have to wait on a
    /// fiber in a destructor that runs during a panic. `Cancelled`: the strand is cancelled.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
    #[track_caller]
    pub fn recv(self) -> Result<T, RecvError> {
        match self.wait(Deadline::NEVER) {
            Ok(value) => Ok(value),
            Err(RecvTimeoutError::Cancelled) => self.close().ok_or(RecvError::Cancelled),
            Err(RecvTimeoutError::Closed | RecvTimeoutError::Timeout) => Err(RecvError::Closed),
        }
    }

    /// Closes the channel, so that a later send fails; returns the value if it was sent before.
    fn close(&self) -> Option<T> {
        let state = &self.inner.state;
        let closed = state.compare_exchange(EMPTY, CLOSED, Ordering::AcqRel, Ordering::Acquire);
        closed.err().and_then(|_| self.inner.take())
    }

    /// Takes the value if it was sent.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// `Empty`: the value was not sent yet. `Closed`: it was taken, or the sender was dropped
    /// without having sent.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.inner.take().ok_or_else(|| match self.inner.state.load(Ordering::Acquire) {
            CLOSED => TryRecvError::Closed,
            _ => TryRecvError::Empty,
        })
    }

    /// Takes the value, or leaves a waker that is called when it is sent.
    pub(crate) fn poll_recv(&self, waker: &Waker) -> Result<T, TryRecvError> {
        match self.try_recv() {
            Err(TryRecvError::Empty) => {}
            result => return result,
        }
        let waker = Some(waker.clone());
        // SAFETY: under the lot's lock.
        let old = self.inner.lot.under_lock(|| unsafe { self.inner.replace_waker(waker) });
        drop(old);
        self.try_recv()
    }

    /// Drops the waker that was left.
    pub(crate) fn forget_waker(&self) {
        // SAFETY: under the lot's lock.
        let old = self.inner.lot.under_lock(|| unsafe { self.inner.replace_waker(None) });
        drop(old);
    }

    /// Waits for the value, for at most `timeout`. A value that is sent later is not lost: a later
    /// call returns it.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// A cancel point, unless the value was sent. A value that is sent later is not lost.
    ///
    /// # Errors
    /// `Timeout`: the timeout passed first. Otherwise as [`Receiver::recv`]; also `Closed` if the
    /// value was taken before.
    ///
    /// # Panics
    /// As [`Receiver::recv`].
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.wait(Deadline::after(timeout))
    }

    #[track_caller]
    pub(crate) fn wait(&self, deadline: Deadline) -> Result<T, RecvTimeoutError> {
        loop {
            match self.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Closed) => return Err(RecvTimeoutError::Closed),
                Err(TryRecvError::Empty) if deadline.has_passed() => {
                    return Err(RecvTimeoutError::Timeout);
                }
                Err(TryRecvError::Empty) => {}
            }
            let record = WaitRecord::new(&RECEIVE)
                .with_detail(std::ptr::from_ref(&*self.inner).addr() as u64, 0)
                .until(deadline)
                .cancellable();
            let is_empty = || self.inner.state.load(Ordering::Acquire) == EMPTY;
            let wake_next = |token| {
                if token != 0 {
                    self.inner.wake_one();
                }
            };
            match self.inner.lot.park(record, 0, is_empty, &wake_next) {
                Ok(Parked::TimedOut | Parked::Refused) => {}
                Ok(Parked::Woken(token)) => wake_next(token),
                Ok(Parked::Cancelled) | Err(Refused::Cancelled) => {
                    return self.try_recv().map_err(|_| RecvTimeoutError::Cancelled);
                }
                Err(Refused::Unwinding) => return Err(RecvTimeoutError::Closed),
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("is_closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

const CANCELLED: &str = "the wait for the value was cancelled";

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvError::Closed => "the sender was dropped without having sent",
            RecvError::Cancelled => CANCELLED,
        })
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "no value has been sent yet",
            TryRecvError::Closed => "no value is there and none will come",
        })
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvTimeoutError::Timeout => "no value was sent in time",
            RecvTimeoutError::Closed => "no value is there and none will come",
            RecvTimeoutError::Cancelled => CANCELLED,
        })
    }
}

impl std::error::Error for TryRecvError {}
errors_with_cancelled!(RecvError, RecvTimeoutError(Timeout));
