//! Panics that report a refusal of the system, as errors. If Ramie has a bug, the panic keeps its
//! location.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
};

use crate::error::payload_text;

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Silences the panics that [`catch_panic`] and [`run`] turn into errors. Other panics are printed
/// as usual.
pub fn install_panic_hook() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !IS_EXPECTED.get() {
            previous(info);
        }
    }));
}

/// Runs `f`, which panics if the system refuses a resource, and returns the panic's message.
pub fn catch_panic<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    let was_expected = IS_EXPECTED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(f));
    IS_EXPECTED.set(was_expected);
    outcome.map_err(|payload| payload_text(&*payload).to_owned())
}

/// Runs `f` as the first fiber of `runtime`.
///
/// If the runtime cannot start, it panics, and this returns the panic's message. A panic of `f`
/// itself propagates.
pub fn run<T>(runtime: &ramie::Runtime, f: impl FnOnce() -> T) -> Result<T, String> {
    let mut has_begun = false;
    IS_EXPECTED.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        runtime.run(|| {
            has_begun = true;
            IS_EXPECTED.set(false);
            f()
        })
    }));
    IS_EXPECTED.set(false);
    outcome.map_err(|payload| {
        if has_begun {
            panic::resume_unwind(payload);
        }
        payload_text(&*payload).to_owned()
    })
}
