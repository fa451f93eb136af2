//! From the call of `run` to its return.
//!
//! 1. The driver of worker 0 is opened on the calling thread. Each further worker opens its driver
//!    on its own thread and reports the result. If one fails, all workers stop and `run` panics
//!    with the reason.
//! 2. `f` becomes a fiber of worker 0, whose loop runs on the calling thread.
//! 3. When `f` has returned, the grace period begins. The workers' loops end when every strand has
//!    ended, or when the period is over; then each worker abandons its remaining fibers.
//! 4. The worker threads are joined, worker 0 is dropped (ops drained, stacks given back), and
//!    `run` returns the outcome of `f`.
#![allow(unsafe_code)]

use std::{
    io, panic,
    sync::{Arc, mpsc},
    thread,
};

use ramie_driver::{
    say,
    sys::{HandedOut, Lent},
};

use super::builder::{AbandonedFibers, Config, Strands};
use crate::{
    core::{
        local::attached::InheritedContexts,
        strand::{self, Raised, SpawnOptions, StrandHeader},
        worker::{self, AbandonedFiber, Installed, Membership, Pool, Until, Worker, Workers},
    },
    stall::{Watchdog, Watching},
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
    ramie_driver::warn_about_unknown_variables();
    crate::core::worker::install_hook();
    crate::core::strand::describe_overflows();
    crate::core::strand::be_open_to_debuggers();
    let _inspected = config.inspect.begin();
    match config.strands {
        Strands::Fibers => run_on_fibers(config, f),
        Strands::Threads => super::threads::run(config, f),
    }
}

#[track_caller]
fn run_on_fibers<F, T>(config: &Config, f: F) -> T
where
    F: FnOnce() -> T,
{
    // The contexts of the caller leave its thread while the loop runs. First of all, because asking
    // them may panic.
    let inherited = InheritedContexts::snapshot();
    let pool = Arc::new(Pool::new(config.blocking_threads));
    let (workers, members) = Workers::new(config.workers, config.grace, Arc::clone(&pool));
    let mut members = members.into_iter();
    let own = members.next().expect("a runtime has at least one worker");
    let watchdog = Watchdog::start(config.watch.clone());
    let watching = Watchdog::watching(watchdog.as_ref());
    let first = make_worker(config, own, &watching).unwrap_or_else(|error| panic!("{error}"));
    let threads = Threads::start(config, &workers, members, &watching);
    let header = match first.headers.take(false) {
        Ok(header) => header,
        Err(error) => {
            workers.stop();
            threads.join();
            panic!("run: {error}");
        }
    };
    let fibers = HandedOut::<Fibers>::new();
    let main = || match &inherited {
        Some(contexts) => contexts.enter(|| catch_main(f)),
        None => catch_main(f),
    };
    let outcome = run_main(&first, header, &workers, &watching, main);
    let mut abandoned = first.abandon_all();
    abandoned.extend(threads.join());
    first.io.with_open_driver(ramie_driver::Driver::note_thread_goes_on);
    drop(first);
    fibers.settle();
    pool.close();
    report(config, abandoned);
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

/// Lent to scopes and wakers: the fibers of a worker.
pub(super) enum Fibers {}

impl Lent for Fibers {
    const WHAT: &'static str = "a worker had fibers that were not abandoned";
}

fn make_worker(config: &Config, membership: Membership, watching: &Watching) -> io::Result<Worker> {
    let of_driver =
        ramie_driver::Config { submitter: config.submitter, ..ramie_driver::Config::default() };
    let driver = ramie_driver::Driver::open(config.driver, &of_driver)?;
    let (driver, clock) = (Some(driver), config.clock.clone());
    let mut worker = Worker::new(driver, config.driver, clock, config.stack_size, Some(membership));
    if let Some(policy) = &config.policy {
        worker.plug(policy());
    }
    watching.introduce(&mut worker);
    Ok(worker)
}

/// Runs `f`, which catches panics, as a fiber on this thread, which is worker 0 until the runtime
/// has ended. The header is fresh.
#[track_caller]
fn run_main<F, T>(
    worker: &Worker,
    header: &'static StrandHeader,
    workers: &Workers,
    watching: &Watching,
    f: F,
) -> Result<T, Raised>
where
    F: FnOnce() -> thread::Result<T>,
{
    struct MainDone<'a>(&'a Workers);
    impl Drop for MainDone<'_> {
        fn drop(&mut self) {
            self.0.main_done();
        }
    }
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

/// The threads of workers 1 and up.
struct Threads {
    handles: Vec<thread::JoinHandle<Vec<AbandonedFiber>>>,
}

impl Threads {
    #[track_caller]
    fn start(
        config: &Config,
        workers: &Workers,
        members: impl Iterator<Item = Membership>,
        watching: &Watching,
    ) -> Self {
        let (sender, reports) = mpsc::channel();
        let mut threads = Threads { handles: Vec::new() };
        let mut failure = None;
        for member in members {
            match start_thread(config, member, watching.clone(), sender.clone()) {
                Ok(handle) => threads.handles.push(handle),
                Err(error) => failure = Some(no_thread(&error)),
            }
        }
        drop(sender);
        failure = reports.iter().filter_map(io::Result::err).last().or(failure);
        if let Some(error) = failure {
            workers.stop();
            threads.join();
            panic!("a worker could not be started: {error}");
        }
        threads
    }

    fn join(self) -> Vec<AbandonedFiber> {
        let join = |handle: thread::JoinHandle<_>| {
            handle.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
        };
        self.handles.into_iter().flat_map(join).collect()
    }
}

fn no_thread(error: &io::Error) -> io::Error {
    let text = format!(
        "no thread for it ({error}); use fewer workers, or raise the limits on threads and memory \
         (`ulimit -u`, `ulimit -v`)"
    );
    io::Error::new(error.kind(), text)
}

fn start_thread(
    config: &Config,
    membership: Membership,
    watching: Watching,
    report: mpsc::Sender<io::Result<()>>,
) -> io::Result<thread::JoinHandle<Vec<AbandonedFiber>>> {
    let config = config.clone();
    let name = format!("{}-{}", config.thread_name, membership.index);
    thread::Builder::new().name(name).spawn(move || {
        // The panic is caught, so that `run` can report a policy that cannot be made.
        let made = crate::core::panic::catch(|| make_worker(&config, membership, &watching));
        let panicked =
            |_| Err(io::Error::other("the function that makes the run-queue policy panicked"));
        let worker = match made.unwrap_or_else(panicked) {
            Ok(worker) => worker,
            Err(error) => {
                let _ = report.send(Err(error));
                return Vec::new();
            }
        };
        let _ = report.send(Ok(()));
        drop(report);
        let fibers = HandedOut::<Fibers>::new();
        {
            let _installed = Installed::new(&worker);
            watching.while_watched(&worker, || worker.run(Until::Finished));
        }
        let abandoned = worker.abandon_all();
        drop(worker);
        fibers.settle();
        abandoned
    })
}

pub(super) fn report(config: &Config, abandoned: Vec<AbandonedFiber>) {
    if abandoned.is_empty() {
        return;
    }
    let fibers = AbandonedFibers { lines: AbandonedFiber::lines(&abandoned).collect() };
    for line in fibers.iter() {
        say!(Warn, "abandoned after the grace period: {line}");
    }
    if let Some(on_abandoned) = &config.on_abandoned {
        on_abandoned(&fibers);
    }
}
