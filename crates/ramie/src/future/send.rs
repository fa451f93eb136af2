//! A future that sends a value to a channel.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::receive::new_number;
use crate::channel::{SendError, Sender};

/// The future of [`Sender::send_async`], which sends a value when the channel has room for it. It
/// works on any executor and any thread, and takes turns with strands that wait to send.
///
/// If the future is dropped before it is ready, the value is dropped with it, unless a receiver has
/// taken the value already. If the future is forgotten after it was polled, the value stays in the
/// channel.
///
/// # Errors
/// All receivers are gone; the error contains the value.
///
/// # Panics
/// If the future is polled after it was ready.
///
/// # Examples
/// ```
/// use ramie::{channel, fiber, future::block_on};
///
/// ramie::run(|| {
///     let (sender, receiver) = channel::bounded(0);
///     let sum = fiber::spawn(move || receiver.iter().sum::<i32>());
///     block_on(async move {
///         for n in 0..3 {
///             sender.send_async(n).await.unwrap();
///         }
///     });
///     assert_eq!(sum.join().unwrap(), 3);
/// });
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct SendFuture<T> {
    sender: Sender<T>,
    /// The number under which the channel keeps the future's value.
    number: u64,
    state: SendState<T>,
}

enum SendState<T> {
    Fresh(T),
    /// The value is with the channel until a receiver takes it.
    Offered,
    Done,
}

impl<T> Sender<T> {
    /// Returns a future that sends a value when there is room for it; with capacity 0, when a
    /// receiver takes it.
    pub fn send_async(&self, value: T) -> SendFuture<T> {
        SendFuture { sender: self.clone(), number: new_number(), state: SendState::Fresh(value) }
    }
}

impl<T> Unpin for SendFuture<T> {}

impl<T> Future for SendFuture<T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let value = match std::mem::replace(&mut self.state, SendState::Offered) {
            SendState::Fresh(value) => Some(value),
            SendState::Offered => None,
            SendState::Done => panic!("a future is not polled after it was ready"),
        };
        let polled = self.sender.poll_send(self.number, value, context.waker());
        if polled.is_ready() {
            self.state = SendState::Done;
        }
        polled
    }
}

impl<T> Drop for SendFuture<T> {
    fn drop(&mut self) {
        if let SendState::Offered = self.state {
            self.sender.forget_waker(self.number);
        }
    }
}

impl<T> fmt::Debug for SendFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFuture").field("sender", &self.sender).finish_non_exhaustive()
    }
}
