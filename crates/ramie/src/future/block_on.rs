//! A strand that waits for a future.
//!
//! # Protocol
//! Each call has a [`Completion`] of its own, in an `Arc` that its wakers share. The call does not
//! use the strand's token of `unpark`, because that belongs to the program. A waker *finishes* the
//! completion; the call resets it (`DONE` to `OPEN`) before it polls. So the wait finds a wake-up
//! that comes during the poll, or between the poll and the wait. *The race to fear* is a second
//! wake-up during the reset. The reset is one compare-and-swap, so the call sees the last wake-up
//! and the writes before it.
//!
//! A waker may outlive the call and the strand. Then the completion names no wait, or one that has
//! ended, so a wake-up has no effect.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use crate::{
    core::{
        cancel::{self, Cancelled, check_cancelled},
        wait::{
            completion::Completion,
            park::{Refused, WaitKind, WaitRecord, abort_wait_while_unwinding},
        },
    },
    fiber,
};

static FUTURE: WaitKind = WaitKind::new("a future");

/// The state that one call shares with its wakers.
struct Notice(Completion);

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        self.0.finish().wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.finish().wake();
    }
}

/// Waits for a future and returns its output.
///
/// The future is polled on this strand, and may borrow locals. Its waker may be cloned, kept for
/// any time, and called from any thread. The call neither takes nor is ended by a token of
/// `unpark`.
///
/// If the future wakes itself while it is polled, other fibers run before it is polled again.
///
/// # Blocking
/// Parks the fiber, or the thread outside one, until the future is ready.
///
/// # Cancellation
/// Not a cancel point; [`block_on_or_cancelled`] is. Calls inside the future are cancel points as
/// documented.
///
/// # Panics
/// If the future panics. Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
/// If it would have to wait on a fiber in a destructor that runs during a panic, the process ends
/// with a message.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let name = String::from("fiber");
///     let length = ramie::future::block_on(async { name.len() });
///     assert_eq!(length, 5);
/// });
/// ```
#[track_caller]
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    match drive_to_end(future.into_future(), false) {
        Ok(output) => output,
        Err(_) => abort_wait_while_unwinding("a future"),
    }
}

/// Waits for a future and returns its output, unless this strand is cancelled first.
///
/// If the strand is cancelled first, the future is dropped. To keep the future, pin it and pass
/// `future.as_mut()`.
///
/// # Blocking
/// As [`block_on`].
///
/// # Cancellation
/// A cancel point. If the future became ready at the same time, the call returns its output, and
/// the next cancel point fails.
///
/// # Errors
/// The strand was cancelled before the future was ready, or is a fiber that runs a destructor
/// during a panic.
///
/// # Panics
/// If the future panics. Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
///
/// # Examples
/// ```
/// use std::{future::pending, time::Duration};
/// use ramie::{cancel::with_timeout, future::block_on_or_cancelled};
///
/// ramie::run(|| {
///     let wait = || block_on_or_cancelled(pending::<()>());
///     let late = with_timeout(Duration::from_millis(1), wait);
///     assert!(late.unwrap_err().into_value().unwrap_err().is_deadline());
/// });
/// ```
#[track_caller]
pub fn block_on_or_cancelled<F: IntoFuture>(future: F) -> Result<F::Output, Cancelled> {
    check_cancelled()?;
    match drive_to_end(future.into_future(), true) {
        Ok(output) => Ok(output),
        Err(Refused::Cancelled | Refused::Unwinding) => Err(cancel::cancelled()),
    }
}

/// Drives a future and drops it.
#[track_caller]
fn drive_to_end<F: Future>(future: F, is_cancel_point: bool) -> Result<F::Output, Refused> {
    let mut slot = pin!(Some(future));
    let outcome = match slot.as_mut().as_pin_mut() {
        Some(future) => drive(future, is_cancel_point),
        None => unreachable!("it was stored above"),
    };
    // Here, because the compiler forgets an output that is being returned if the destructor of the
    // future panics.
    slot.set(None);
    outcome
}

#[track_caller]
fn drive<F: Future>(mut future: Pin<&mut F>, is_cancel_point: bool) -> Result<F::Output, Refused> {
    let notice = Arc::new(Notice(Completion::new()));
    let waker = Waker::from(Arc::clone(&notice));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        if is_cancel_point && cancel::is_cancelled_here() {
            return Err(Refused::Cancelled);
        }
        if notice.0.is_done() {
            fiber::yield_now();
        } else {
            let record = WaitRecord::new(&FUTURE).cancellable_if(is_cancel_point);
            notice.0.wait(&record)?;
        }
        notice.0.take_back();
    }
}
