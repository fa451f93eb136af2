//! Futures that need tokio's context.
//!
//! tokio finds its runtime by a thread-local that is entered and left in last-in-first-out order.
//! The fibers of one thread interleave, so the context is entered around each single poll, and a
//! poll must not suspend the fiber meanwhile.

use std::{
    future::{Future, poll_fn},
    pin::pin,
};

use tokio::runtime::Handle;

/// Waits for a future that needs tokio's timers, sockets or `spawn`, and returns its output.
///
/// Create the future inside an `async` block, because tokio's functions, such as `sleep`, look for
/// tokio's runtime when they are called, and panic if there is none.
///
/// The runtime of `handle` must be running on its own threads: either it is multi-threaded, or
/// another thread drives it by `block_on`. Those threads wait for sockets and timers and wake the
/// fiber.
///
/// # Blocking
/// Parks the fiber, or the thread outside one, until the future is ready.
///
/// # Cancellation
/// Not a cancel point. To get one, pass [`with_context`] to
/// [`block_on_or_cancelled`](ramie::future::block_on_or_cancelled).
///
/// # Panics
/// A panic of the future propagates. Panics if the poll itself would suspend the fiber, as a
/// blocking call of Ramie does.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// let tokio = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
/// ramie::run(|| {
///     let nap = async { tokio::time::sleep(Duration::from_millis(1)).await };
///     ramie_futures::block_on_with(tokio.handle(), nap);
/// });
/// ```
#[track_caller]
pub fn block_on_with<F: IntoFuture>(handle: &Handle, future: F) -> F::Output {
    ramie::future::block_on(with_context(handle, future))
}

/// Wraps a future so that it enters tokio's context for each poll, and only for that. As with
/// [`block_on_with`], call tokio's functions inside an `async` block.
///
/// # Panics
/// Polling it panics as [`block_on_with`] does.
pub async fn with_context<F: IntoFuture>(handle: &Handle, future: F) -> F::Output {
    let mut future = pin!(future.into_future());
    poll_fn(|context| {
        ramie::no_switch(|| {
            let _entered = handle.enter();
            future.as_mut().poll(context)
        })
    })
    .await
}
