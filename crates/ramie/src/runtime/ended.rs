//! The end of a runtime as a future.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{AbandonedFibers, Handle};
use crate::core::{wait::completion::Completion, worker::Standing};

/// A future that is ready when a runtime has ended, with the fibers that were abandoned; made by
/// [`Handle::ended`] and [`Handle::shutdown_async`].
///
/// Any executor may poll it. In the child of a fork it is ready at once. Dropping it does not keep
/// the runtime from ending.
///
/// # Panics
/// A poll panics where the end would wait for the caller, such as on a fiber of the runtime. On the
/// thread of the loop that drives the runtime it does not, because that loop may give turns between
/// two polls.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Ended {
    handle: Handle,
    /// None: not polled yet.
    waiter: Option<Arc<Completion>>,
}

impl Handle {
    /// Returns a future of the end of the runtime, which this call does not begin.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use ramie::future::block_on;
    ///
    /// let runtime = ramie::Runtime::builder().build()?.start()?;
    /// let handle = runtime.handle();
    /// handle.begin_shutdown(Duration::from_secs(5));
    /// // `block_on` stands for any executor.
    /// assert_eq!(block_on(handle.ended()).count(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn ended(&self) -> Ended {
        Ended { handle: self.clone(), waiter: None }
    }

    /// Begins the end of the runtime as [`begin_shutdown`](Self::begin_shutdown) does, and returns
    /// a future of it. The end begins at once, even if the future is never polled.
    pub fn shutdown_async(&self, timeout: Duration) -> Ended {
        self.begin_shutdown(timeout);
        self.ended()
    }
}

impl Future for Ended {
    type Output = AbandonedFibers;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AbandonedFibers> {
        let Ended { handle, waiter } = &mut *self;
        if handle.is_forked() {
            return Poll::Ready(AbandonedFibers::default());
        }
        assert!(
            handle.runtime.standing() != Standing::Within,
            "the end of a runtime was awaited in code for which it waits, such as a fiber of the \
             runtime; call Handle::begin_shutdown there"
        );
        match handle.runtime.entrance().poll_end(waiter, context.waker()) {
            Some(lines) => Poll::Ready(AbandonedFibers { lines }),
            None => Poll::Pending,
        }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take().filter(|_| !self.handle.is_forked()) {
            self.handle.runtime.entrance().forget_waiter(&waiter);
            drop(waiter.take_waker());
        }
    }
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").field("handle", &self.handle).finish_non_exhaustive()
    }
}
