//! Calling a waker, which is code of the program, from inside the runtime.

use std::task::Waker;

use crate::core::{panic, worker::no_switch};

/// Calls a waker while the caller is in the middle of its own end, or of a wait that has begun. So
/// the waker must not wait, and a panic of the waker is reported by the panic hook and goes no
/// further.
#[cold]
pub(crate) fn wake(waker: Waker) {
    panic::call_quietly(|| no_switch(|| waker.wake()));
}
