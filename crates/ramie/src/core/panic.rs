//! The one place that catches panics.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

/// Runs `f`; a panic becomes the payload, as at the root of an OS thread.
///
/// `AssertUnwindSafe` is right for the same reason as in `std::thread::spawn`: the caller hands the
/// payload on (to a handle, a scope, the caller of `run`) or ends the strand.
#[inline]
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> thread::Result<T> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Calls `f`. By this name std's hook ends a backtrace: what lies below is the runtime's.
#[inline(never)]
pub(crate) fn __rust_begin_short_backtrace<T>(f: impl FnOnce() -> T) -> T {
    let value = f();
    // The call is no tail call, so its frame is there.
    std::hint::black_box(());
    value
}

/// The message of a payload, if it is a text.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

/// Runs user code whose panic has no one to go to: a waker, a destructor. Returns false if it
/// panicked; the panic hook has reported that.
pub(crate) fn call_quietly(f: impl FnOnce()) -> bool {
    // The payload is forgotten, because its destructor is user code, too, and may panic.
    catch(f).map_err(std::mem::forget).is_ok()
}

/// Drops a value whose destructor's panic has no one to go to, such as a panic's payload.
pub(crate) fn drop_quietly<T>(value: T) {
    call_quietly(|| drop(value));
}
