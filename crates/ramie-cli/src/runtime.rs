//! Starting the fiber runtime. If the system refuses something, the error is one sentence.

use std::env;

use ramie_coro::StackSize;
use ramie_driver::{Choice, Config, Driver, Submitter};

use crate::failure::Failure;

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

/// Runs `f` as the first fiber of `runtime`. Fails if the runtime cannot start. A panic of `f`
/// propagates.
pub(crate) fn run<T>(runtime: &ramie::Runtime, f: impl FnOnce() -> T) -> Result<T, Failure> {
    ramie_workloads::run(runtime, f).map_err(Failure::other)
}
