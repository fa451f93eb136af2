//! A future that waits for a strand.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    thread,
};

use crate::fiber::JoinHandle;

/// Waits, as a future, for a strand and takes its value: what awaiting a [`JoinHandle`] does.
///
/// Dropping it detaches the strand, which then runs on by itself. On any executor, on any thread;
/// a strand that awaits its own handle waits for ever.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let fiber = ramie::fiber::spawn(|| 6 * 7);
///     let future = async { fiber.await.unwrap() };
///     assert_eq!(ramie::future::block_on(future), 42);
/// });
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct JoinFuture<T> {
    handle: Option<JoinHandle<T>>,
}

impl<T> Unpin for JoinFuture<T> {}

impl<T> IntoFuture for JoinHandle<T> {
    type Output = thread::Result<T>;
    type IntoFuture = JoinFuture<T>;

    fn into_future(self) -> JoinFuture<T> {
        JoinFuture { handle: Some(self) }
    }
}

impl<T> Future for JoinFuture<T> {
    type Output = thread::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = self.handle.as_ref().expect("a future is not polled after it was ready");
        if !handle.completion().poll(context.waker()) {
            return Poll::Pending;
        }
        let handle = self.handle.take().expect("looked at above");
        Poll::Ready(handle.join())
    }
}

impl<T> Drop for JoinFuture<T> {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            // Before the handle detaches, which it may only where nobody waits.
            drop(handle.completion().take_waker());
        }
    }
}

impl<T> fmt::Debug for JoinFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinFuture").field("handle", &self.handle).finish()
    }
}
