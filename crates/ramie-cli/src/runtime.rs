//! Starting the fiber runtime so that a refusal becomes a sentence and a defect names its place.

use std::{
    cell::Cell,
    env,
    panic::{self, AssertUnwindSafe},
};

use ramie_coro::StackSize;
use ramie_driver::{Choice, Config, Driver, Enter};

use crate::failure::{Failure, payload_text};

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Makes panics that [`catch`] turns into sentences silent; others are printed as ever.
pub(crate) fn install_panic_hook() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !IS_EXPECTED.get() {
            previous(info);
        }
    }));
}

/// Makes a runtime whose strands are fibers, whatever `RAMIE_STRANDS` asks for, and with sidecars
/// for its workers if they are `beside`, whatever `RAMIE_ENTER`: the command line says what is
/// measured.
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
            builder.enter(Enter::Sidecar)
        }
        false => builder,
    };
    builder.build().map_err(|error| Failure::of_runtime(&error))
}

/// Refuses to measure what would quietly be something else.
fn check_sidecar() -> Result<(), Failure> {
    check_environment()?;
    let choice = Choice::from_env().map_err(|error| Failure::usage(error.to_string()))?;
    let config = Config { enter: Enter::Sidecar, ..Config::default() };
    let driver =
        Driver::open(choice, &config).map_err(|error| Failure::other(error.to_string()))?;
    if driver.caps().enter == Enter::Sidecar {
        return Ok(());
    }
    Err(Failure::other(format!(
        "there is no sidecar here (driver {}: {}); use --on fibers",
        driver.kind().name(),
        driver.reason()
    )))
}

/// Refuses variables with which no runtime can be made.
pub(crate) fn check_environment() -> Result<(), Failure> {
    match ramie::Runtime::builder().workers(1).build() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::of_runtime(&error)),
    }
}

/// The usable bytes of a fiber's stack, in an environment that was checked.
pub(crate) fn stack_bytes() -> usize {
    asked_stack_bytes().unwrap_or_else(|| StackSize::default().usable_bytes())
}

/// The same, if `RAMIE_STACK` says it.
pub(crate) fn asked_stack_bytes() -> Option<usize> {
    let asked = env::var("RAMIE_STACK").ok()?;
    Some(StackSize::new(asked.trim().parse().ok()?).ok()?.usable_bytes())
}

/// What `RAMIE_STRANDS` asks for, if it is anything that is to be had.
pub(crate) fn asked_strands() -> Option<String> {
    let asked = env::var("RAMIE_STRANDS").ok()?;
    ["fibers", "threads"].contains(&asked.trim()).then(|| asked.trim().to_owned())
}

/// Runs `f`, which may panic because the system refuses something; gives the panic's sentence.
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    let was_expected = IS_EXPECTED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(f));
    IS_EXPECTED.set(was_expected);
    outcome.map_err(|payload| payload_text(&*payload).to_owned())
}

/// Runs `f` as the first fiber of `runtime`.
///
/// The runtime panics with a sentence if it cannot start: that becomes a failure. A panic of `f`
/// stays one.
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
