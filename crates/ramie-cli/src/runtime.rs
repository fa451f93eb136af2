//! Starting the fiber runtime. If the system refuses something, the error is one sentence; if Ramie
//! has a bug, the panic keeps its location.

use std::{
    cell::Cell,
    env,
    panic::{self, AssertUnwindSafe},
};

use ramie_coro::StackSize;
use ramie_driver::{Choice, Config, Driver, Submitter};

use crate::failure::{Failure, payload_text};

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Silences the panics that [`catch_panic`] turns into errors. Other panics are printed as usual.
pub(crate) fn install_panic_hook() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !IS_EXPECTED.get() {
            previous(info);
        }
    }));
}

/// Builds a runtime whose strands are fibers, with sidecars for its workers if `beside` is set. It
/// ignores `RAMIE_STRANDS`, and `RAMIE_SUBMIT` if `beside` is set, because the command line decides
/// which engine is measured.
pub(crate) fn of_fibers(
    workers: usize,
    beside: bool,
    stack_bytes: usize,
) -> Result<ramie::Runtime, Failure> {
    let builder = ramie::Runtime::builder().strands(ramie::Strands::Fibers).workers(workers);
    let builder = builder.stack_size(stack_bytes);
    let builder = match beside {
        true => {
            check_sidecar()?;
            builder.submitter(Submitter::Sidecar)
        }
        false => builder,
    };
    builder.build().map_err(|error| Failure::of_runtime(&error))
}

/// Fails if no sidecar is available, because the driver would then quietly fall back to the worker.
fn check_sidecar() -> Result<(), Failure> {
    check_environment()?;
    let choice = Choice::from_env().map_err(|error| Failure::usage(error.to_string()))?;
    let config = Config { submitter: Submitter::Sidecar, ..Config::default() };
    let driver =
        Driver::open(choice, &config).map_err(|error| Failure::other(error.to_string()))?;
    if driver.caps().submitter == Submitter::Sidecar {
        return Ok(());
    }
    Err(Failure::other(format!(
        "no sidecar is available here (driver {}: {}); use --on fibers",
        driver.kind().name(),
        driver.reason()
    )))
}

/// Fails if an environment variable has a value with which no runtime can be built.
pub(crate) fn check_environment() -> Result<(), Failure> {
    match ramie::Runtime::builder().workers(1).build() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::of_runtime(&error)),
    }
}

/// The usable bytes of a fiber's stack. The environment must have been checked before.
pub(crate) fn stack_bytes() -> usize {
    asked_stack_bytes().unwrap_or_else(|| StackSize::default().usable_bytes())
}

/// The usable bytes of the stack size in `RAMIE_STACK`, if it is set.
pub(crate) fn asked_stack_bytes() -> Option<usize> {
    let asked = env::var("RAMIE_STACK").ok()?;
    Some(StackSize::new(asked.trim().parse().ok()?).ok()?.usable_bytes())
}

/// The value of `RAMIE_STRANDS`, if it is set and valid.
pub(crate) fn asked_strands() -> Option<String> {
    let asked = env::var("RAMIE_STRANDS").ok()?;
    ["fibers", "threads"].contains(&asked.trim()).then(|| asked.trim().to_owned())
}

/// Runs `f`, which panics if the system refuses a resource, and returns the panic's message.
pub(crate) fn catch_panic<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    let was_expected = IS_EXPECTED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(f));
    IS_EXPECTED.set(was_expected);
    outcome.map_err(|payload| payload_text(&*payload).to_owned())
}

/// Runs `f` as the first fiber of `runtime`.
///
/// If the runtime cannot start, it panics, and this returns the panic's message as a failure. A
/// panic of `f` itself propagates.
pub(crate) fn run<T>(runtime: &ramie::Runtime, f: impl FnOnce() -> T) -> Result<T, Failure> {
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
        Failure::other(payload_text(&*payload))
    })
}
