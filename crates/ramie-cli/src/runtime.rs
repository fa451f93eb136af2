//! Starting the fiber runtime. If the system refuses something, the error is one sentence.

use std::env;

use ramie_coro::StackSize;
use ramie_driver::{Choice, Config, Driver, Submitter};
use ramie_workloads::http::IoDriver;

use crate::{counters::CountingFifo, failure::Failure};

/// The runtime that runs a workload on fibers.
///
/// It ignores `RAMIE_STRANDS`, and `RAMIE_SUBMIT` if it has sidecars, because the command line
/// decides which engine is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuntimePlan {
    pub(crate) workers: usize,
    /// Whether its workers have sidecars.
    pub(crate) has_sidecars: bool,
    pub(crate) stack_bytes: usize,
    /// The I/O driver; `None`: as `RAMIE_DRIVER` says.
    pub(crate) driver: Option<IoDriver>,
}

impl RuntimePlan {
    /// Makes a plan with this number of workers and otherwise default options.
    pub(crate) fn of(workers: usize) -> Self {
        RuntimePlan { workers, has_sidecars: false, stack_bytes: stack_bytes(), driver: None }
    }

    pub(crate) fn build(self) -> Result<ramie::Runtime, Failure> {
        self.builder()?.build().map_err(|error| Failure::of_runtime(&error))
    }

    /// As [`build`](Self::build), with a policy that counts how often each fiber is run.
    pub(crate) fn build_counted(self) -> Result<ramie::Runtime, Failure> {
        let builder = self.builder()?.policy(CountingFifo::default);
        builder.build().map_err(|error| Failure::of_runtime(&error))
    }

    fn builder(self) -> Result<ramie::Builder, Failure> {
        let builder = ramie::Runtime::builder().strands(ramie::Strands::Fibers);
        let builder = builder.workers(self.workers).stack_size(self.stack_bytes);
        let builder = match self.driver {
            None => builder,
            Some(IoDriver::Uring) => builder.driver(ramie::Driver::Uring),
            Some(IoDriver::Poll) => builder.driver(ramie::Driver::Poll),
        };
        if !self.has_sidecars {
            return Ok(builder);
        }
        check_sidecar(self.driver)?;
        Ok(builder.submitter(Submitter::Sidecar))
    }
}

/// Fails if no sidecar is available, because the driver would then use the worker without an error.
fn check_sidecar(driver: Option<IoDriver>) -> Result<(), Failure> {
    check_environment()?;
    let choice = match driver {
        None => Choice::from_env().map_err(|error| Failure::usage(error.to_string()))?,
        Some(IoDriver::Uring) => Choice::Uring,
        Some(IoDriver::Poll) => Choice::Poll,
    };
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
