//! `std::panic`, as it is: what unwinds does so on the stack of the fiber.

// Within the crate: the one place that catches panics, what is known of one that was caught
// (raised.rs), and the hook that names the fiber in a panic's message (report.rs).

mod raised;
mod report;

use std::{any::Any, thread};

#[allow(deprecated)]
#[doc(no_inline)]
pub use std::panic::PanicInfo;
#[doc(no_inline)]
pub use std::panic::{
    AssertUnwindSafe, Location, PanicHookInfo, RefUnwindSafe, UnwindSafe, catch_unwind, panic_any,
    resume_unwind, set_hook, take_hook,
};

pub(crate) use self::{
    raised::{NoValue, Raised, catch_raised},
    report::{install_hook, try_install_hook, was_told},
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

/// What a payload says, if it is a text.
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
