//! `std::panic`, as it is: what unwinds does so on the stack of the fiber.

// Within the crate: the one place that catches panics, and the hook that names the fiber in a
// panic's message.

#[allow(deprecated)]
#[doc(no_inline)]
pub use std::panic::PanicInfo;
#[doc(no_inline)]
pub use std::panic::{
    AssertUnwindSafe, Location, PanicHookInfo, RefUnwindSafe, UnwindSafe, catch_unwind, panic_any,
    resume_unwind, set_hook, take_hook,
};
use std::{io::Write, sync::Once, thread};

/// Runs `f`; a panic becomes the payload, as at the root of an OS thread.
///
/// `AssertUnwindSafe` is right for the same reason as in `std::thread::spawn`: the caller hands the
/// payload on (to a handle, a scope, the caller of `run`) or ends the strand.
#[inline]
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> thread::Result<T> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Makes the messages of panics on fibers begin with the fiber's name.
///
/// Wraps the hook that is there, once for the process, so that a program's own hook keeps working.
pub(crate) fn install_hook() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            if let Some(label) = crate::worker::current_fiber_label() {
                // Who cannot write it must not panic within a panic.
                let _ = writeln!(std::io::stderr(), "{label} panicked:");
            }
            previous(info);
        }));
    });
}
