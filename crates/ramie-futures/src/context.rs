//! Futures that look for tokio around them.
//!
//! tokio finds its runtime by a thread-local that is entered and left in last-in-first-out order.
//! Fibers of one thread interleave, so it is entered around each single poll, and a poll must not
//! suspend the fiber meanwhile.

use std::{
    future::{Future, poll_fn},
    pin::pin,
};

use tokio::runtime::Handle;

/// Waits for a future that needs tokio's timers, sockets or `spawn`, and returns its output.
///
/// Make the future inside of an `async` block: tokio's functions, `sleep` among them, look for
/// tokio's runtime where they are called, and panic where there is none.
///
/// `handle`'s runtime must be running on threads of its own: of many threads, or driven by another
/// thread's `block_on`. It is its threads that wait for sockets and timers and wake the fiber.
///
/// # Blocking
/// Parks the fiber, or the thread outside one, until the future is ready.
///
/// # Cancellation
/// Not a cancel point. For one, give [`with_context`] to
/// [`block_on_or_cancelled`](ramie::future::block_on_or_cancelled).
///
/// # Panics
/// When the future does; when its poll itself would suspend the fiber, as a blocking call of
/// Ramie's does.
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

/// Makes a future that enters tokio's context for each poll, and only for that. As for
/// [`block_on_with`], tokio's functions are to be called inside of an `async` block.
///
/// # Panics
/// Polling it, as for [`block_on_with`].
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
