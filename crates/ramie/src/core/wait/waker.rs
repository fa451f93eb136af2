//! Calling a waker, which is code of others, from inside of the runtime.

use std::task::Waker;

use crate::core::{panic, worker::no_switch};

/// Calls a waker where the caller is in the middle of something: of its own end, of a wait that has
/// begun. So it must not wait, and a panic of it is reported by the panic hook and goes no further.
#[cold]
pub(crate) fn wake(waker: Waker) {
    panic::call_quietly(|| no_switch(|| waker.wake()));
}
