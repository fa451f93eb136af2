//! Futures that wait for the values of channels. A poll that takes a value also returns it, so
//! dropping or forgetting such a future loses no value.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
};

use crate::{
    channel::{self, TryRecvError},
    sync::oneshot,
};

/// Returns a number that distinguishes the future of a channel from all others.
pub(super) fn new_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// The future of an awaited [`Receiver`](channel::Receiver), which waits for one value of a
/// channel. To receive several values, await `&receiver` repeatedly.
///
/// # Errors
/// There is no value and all senders are gone.
///
/// # Panics
/// Polling panics if the receiver was made by [`channel::after`] or [`channel::tick`], because only
/// strands can wait for their clock; await the executor's own timer.
///
/// # Examples
/// ```
/// use ramie::{channel, fiber, future::block_on};
///
/// ramie::run(|| {
///     let (sender, receiver) = channel::bounded(1);
///     fiber::spawn(move || (0..3).for_each(|n| sender.send(n).unwrap()));
///     let sum = block_on(async {
///         let mut sum = 0;
///         while let Ok(n) = (&receiver).await {
///             sum += n;
///         }
///         sum
///     });
///     assert_eq!(sum, 3);
/// });
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct RecvFuture<T> {
    receiver: channel::Receiver<T>,
    /// The number under which the channel keeps the future's waker.
    number: u64,
}

impl<T> RecvFuture<T> {
    fn new(receiver: channel::Receiver<T>) -> Self {
        RecvFuture { receiver, number: new_number() }
    }
}

impl<T> IntoFuture for channel::Receiver<T> {
    type Output = Result<T, channel::RecvError>;
    type IntoFuture = RecvFuture<T>;

    fn into_future(self) -> RecvFuture<T> {
        RecvFuture::new(self)
    }
}

impl<T> IntoFuture for &channel::Receiver<T> {
    type Output = Result<T, channel::RecvError>;
    type IntoFuture = RecvFuture<T>;

    fn into_future(self) -> RecvFuture<T> {
        RecvFuture::new(self.clone())
    }
}

impl<T> Future for RecvFuture<T> {
    type Output = Result<T, channel::RecvError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.receiver.poll_recv(self.number, context.waker()) {
            Ok(value) => Poll::Ready(Ok(value)),
            Err(TryRecvError::Disconnected) => Poll::Ready(Err(channel::RecvError::Disconnected)),
            Err(TryRecvError::Empty) => Poll::Pending,
        }
    }
}

impl<T> Drop for RecvFuture<T> {
    fn drop(&mut self) {
        self.receiver.forget_waker(self.number);
    }
}

impl<T> fmt::Debug for RecvFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvFuture").field("receiver", &self.receiver).finish()
    }
}

/// The future of an awaited [`Receiver`](oneshot::Receiver), which waits for a oneshot's value.
///
/// # Errors
/// The sender was dropped without having sent.
///
/// # Examples
/// ```
/// use ramie::{fiber, future::block_on, sync::oneshot};
///
/// ramie::run(|| {
///     let (sender, receiver) = oneshot::channel();
///     fiber::spawn(move || sender.send("done").unwrap());
///     assert_eq!(block_on(receiver), Ok("done"));
/// });
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct OneshotFuture<T> {
    receiver: oneshot::Receiver<T>,
}

impl<T> IntoFuture for oneshot::Receiver<T> {
    type Output = Result<T, oneshot::RecvError>;
    type IntoFuture = OneshotFuture<T>;

    fn into_future(self) -> OneshotFuture<T> {
        OneshotFuture { receiver: self }
    }
}

impl<T> Future for OneshotFuture<T> {
    type Output = Result<T, oneshot::RecvError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.receiver.poll_recv(context.waker()) {
            Ok(value) => Poll::Ready(Ok(value)),
            Err(oneshot::TryRecvError::Closed) => Poll::Ready(Err(oneshot::RecvError::Closed)),
            Err(oneshot::TryRecvError::Empty) => Poll::Pending,
        }
    }
}

impl<T> Drop for OneshotFuture<T> {
    fn drop(&mut self) {
        self.receiver.forget_waker();
    }
}

impl<T> fmt::Debug for OneshotFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneshotFuture").field("receiver", &self.receiver).finish()
    }
}
