//! The one place that catches panics.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use ramie_coro::context::without_coroutines;

/// Runs `f`; a panic becomes the payload, as at the root of an OS thread.
///
/// `AssertUnwindSafe` is right for the same reason as in `std::thread::spawn`: the caller hands the
/// payload on (to a handle, a scope, the caller of `run`) or ends the strand.
#[inline]
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> thread::Result<T> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Calls `f`. Because of this function's name, std's hook ends backtraces here; the frames below
/// are the runtime's.
#[inline(never)]
pub(crate) fn __rust_begin_short_backtrace<T>(f: impl FnOnce() -> T) -> T {
    let value = f();
    // Prevents a tail call, so that this frame stays on the stack.
    std::hint::black_box(());
    value
}

/// The message of a payload, if it is a text.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

/// Runs user code, such as a waker or a destructor, whose panic nobody could receive. Returns false
/// if it panicked; the panic hook has reported the panic.
///
/// An effect performed there finds no handler, and panics. Otherwise the handler could drop the
/// resumption, and the unwinding of the body would end here, too.
pub(crate) fn call_quietly(f: impl FnOnce()) -> bool {
    // The payload is forgotten, because its destructor is user code, too, and may panic.
    catch(|| without_coroutines(f)).map_err(std::mem::forget).is_ok()
}

/// Drops a value, such as a panic's payload, while nobody could receive a panic of its destructor.
pub(crate) fn drop_quietly<T>(value: T) {
    call_quietly(|| drop(value));
}
