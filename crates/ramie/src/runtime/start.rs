//! From the call of `run` to its return.
//!
//! 1. The workers are made ([`workforce`](super::workforce)); the calling thread is worker 0.
//! 2. `f` becomes a fiber of worker 0, whose loop runs on the calling thread.
//! 3. When `f` has returned, the entrance of the runtime is closed, and the grace period begins.
//!    The workers' loops end when every strand has ended, or when the period is over; then each
//!    worker abandons its remaining fibers.
//! 4. The worker threads are joined, worker 0 is dropped (ops drained, stacks given back), and
//!    `run` returns the outcome of `f`.
#![allow(unsafe_code)]

use std::{panic, thread};

use ramie_driver::sys::{HandedOut, Lent};

use super::{
    Strands,
    builder::Config,
    workforce::{Fibers, Workforce, report},
};
use crate::core::{
    local::attached::InheritedContexts,
    strand::{self, Raised, SpawnOptions, StrandHeader},
    worker::{self, Installed, Until, Worker},
};

/// The least stack of the closure of `run`, in bytes: as large as std's for a thread.
const MAIN_STACK: usize = 2 * 1024 * 1024;

#[track_caller]
pub(super) fn run<F, T>(config: &Config, f: F) -> T
where
    F: FnOnce() -> T,
{
    assert!(
        !worker::is_inside_run(),
        "run was called inside run; call the code directly, or spawn a fiber for it"
    );
    assert!(
        !thread::panicking(),
        "run was called in a destructor that runs during a panic, where fibers cannot suspend"
    );
    prepare_process();
    let _inspected = config.inspect.begin();
    match config.strands {
        Strands::Fibers => run_on_fibers(config, f),
        Strands::Threads => super::threads::run(config, f),
    }
}

/// What a runtime needs in its process, once.
pub(super) fn prepare_process() {
    ramie_driver::warn_about_unknown_variables();
    worker::install_hook();
    strand::describe_overflows();
    strand::be_open_to_debuggers();
}

#[track_caller]
fn run_on_fibers<F, T>(config: &Config, f: F) -> T
where
    F: FnOnce() -> T,
{
    // The contexts of the caller leave its thread while the loop runs. First of all, because asking
    // them may panic.
    let inherited = InheritedContexts::snapshot();
    let force = Workforce::start(config, false).unwrap_or_else(|error| panic!("{error}"));
    let header = match force.first.headers.take(false) {
        Ok(header) => header,
        Err(error) => {
            force.dismiss();
            panic!("run: {error}");
        }
    };
    let fibers = HandedOut::<Fibers>::new();
    let main = || match &inherited {
        Some(contexts) => contexts.enter(|| catch_main(f)),
        None => catch_main(f),
    };
    let outcome = run_main(&force, header, main);
    force.first.io.with_open_driver(ramie_driver::Driver::note_thread_goes_on);
    let abandoned = force.end(fibers);
    report(config, &abandoned);
    match outcome {
        Ok(value) => value,
        Err(raised) => raised.raise(),
    }
}

fn catch_main<T>(f: impl FnOnce() -> T) -> thread::Result<T> {
    crate::core::panic::catch(|| crate::core::panic::__rust_begin_short_backtrace(f))
}

/// Lent to worker 0: the closure of `run`, with its borrows.
enum Main {}

impl Lent for Main {
    const WHAT: &'static str = "the closure of run had not ended";
}

/// Runs `f`, which catches panics, as a fiber on this thread, which is worker 0 until the runtime
/// has ended. The header is fresh.
#[track_caller]
fn run_main<F, T>(force: &Workforce, header: &'static StrandHeader, f: F) -> Result<T, Raised>
where
    F: FnOnce() -> thread::Result<T>,
{
    struct MainDone<'a>(&'a worker::Workers);
    impl Drop for MainDone<'_> {
        fn drop(&mut self) {
            self.0.main_done();
        }
    }
    let Workforce { workers, first: worker, watching, .. } = force;
    // Made here, so that it is dropped with the closure even if the closure never runs.
    let done = MainDone(workers);
    let main = || {
        let _done = done;
        let outcome = f();
        // The destructors of fiber-locals may wait, so the grace period begins when they are done.
        crate::core::strand::destroy_own_locals();
        outcome.unwrap_or_else(|payload| panic::resume_unwind(payload))
    };
    let _installed = Installed::new(worker);
    header.note_spawn(panic::Location::caller());
    let main_closure = HandedOut::<Main>::new();
    // SAFETY: the header is fresh. The loop returns only when the fiber has ended (the grace period
    // begins with its end), and the outcome is taken below: `main` and its borrows outlive both.
    unsafe { strand::install(header, main) };
    name_main(header, worker);
    worker.enqueue_fresh(header, true);
    watching.while_watched(worker, || worker.run(Until::Finished));
    assert!(header.join.is_done(), "the loop of worker 0 ends after the closure of run");
    // SAFETY: the fiber has ended, no one else has a handle of it, and `T` is the type that `main`
    // returns.
    let outcome = unsafe { strand::take_outcome(header) };
    // SAFETY: the outcome is taken.
    unsafe { worker.headers.free(header) };
    main_closure.settle();
    outcome
}

fn name_main(header: &StrandHeader, worker: &Worker) {
    let stack_size = worker.stacks.default_size().max(MAIN_STACK);
    let name = Some("main".to_owned());
    header
        .attributes
        .install(std::ptr::null(), SpawnOptions { name, stack_size, ..SpawnOptions::default() });
}
