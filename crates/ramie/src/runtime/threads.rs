//! Runtimes whose strands are OS threads.
//!
//! The closure runs on the calling thread itself, and each strand that it spawns is an OS thread.
//! Each thread has a small worker of its own, as threads outside `run` have. The worker ends the
//! waits of its thread, and it runs the fibers of `spawn_local`, because their closures cannot move
//! to another thread.
//!
//! A runtime in the background has a thread that only waits: for the shutdown, then for the others.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ramie_driver::sys::HandedOut;

use super::{
    AbandonedFibers,
    builder::Config,
    workforce::{Fibers, report},
};
use crate::core::{
    strand::SpawnOptions,
    time::Deadline,
    worker::{AbandonedFiber, Installed, ThreadStrands, Unended, Worker, outlive},
};

pub(super) fn run<F, T>(config: &Config, f: F) -> T
where
    F: FnOnce() -> T,
{
    let threads = ThreadStrands::new(config.driver, config.clock.clone(), config.stack_size);
    let worker = threads.make_worker();
    name_main(&worker);
    let (outcome, abandoned) = {
        let _installed = Installed::new(&worker);
        // The closure gets a context of its own, so code inside it cannot suspend a coroutine that
        // surrounds `run`.
        let outcome = worker.root.run_in_own_context(worker.current_header(), || {
            crate::core::strand::catch_raised(|| {
                crate::core::panic::__rust_begin_short_backtrace(f)
            })
        });
        let fibers = HandedOut::<Fibers>::new();
        // A `no_switch` region that `f` has left open ends here, as at the end of a fiber.
        worker.running.leave_no_switch();
        worker.root.end_locals(&worker);
        threads.entrance.close();
        let start = Instant::now();
        let mut is_silent = config.grace.is_none();
        if is_silent {
            worker.wait_for_fibers(Deadline::after(Unended::PATIENCE));
            if worker.has_fibers() {
                let unended =
                    worker.stacks.describe_live(&threads.daemons).chain(threads.describe_threads());
                unended.collect::<Unended>().report(&[]);
                is_silent = false;
            }
        }
        worker.wait_for_fibers(deadline_after(config.grace));
        let left = config.grace.map(|grace| grace.saturating_sub(start.elapsed()));
        let mut abandoned = threads.wait(deadline_after(left), is_silent);
        abandoned.extend(worker.abandon_all());
        fibers.settle();
        (outcome, abandoned)
    };
    worker.io.with_open_driver(ramie_driver::Driver::note_thread_goes_on);
    let loans = Arc::clone(&worker.stacks.loans);
    drop(worker);
    let abandoned = end(&threads, &abandoned);
    outlive(&loans);
    report(config, &abandoned);
    outcome.unwrap_or_else(|raised| raised.raise())
}

/// Serves handles until the shutdown, on a thread of its own. Returns what was abandoned.
pub(super) fn serve(
    config: &Config,
    report_start: impl FnOnce(Arc<ThreadStrands>),
) -> AbandonedFibers {
    let threads = ThreadStrands::new(config.driver, config.clock.clone(), config.stack_size);
    let worker = threads.make_worker();
    name_main(&worker);
    let abandoned = {
        let _installed = Installed::new(&worker);
        report_start(Arc::clone(&threads));
        let grace = threads.wait_for_shutdown();
        threads.wait(deadline_after(grace), grace.is_none())
    };
    drop(worker);
    end(&threads, &abandoned)
}

fn end(threads: &ThreadStrands, abandoned: &[AbandonedFiber]) -> AbandonedFibers {
    let abandoned = AbandonedFibers::of(abandoned);
    threads.entrance.end(Arc::clone(&abandoned.lines));
    abandoned
}

fn deadline_after(grace: Option<Duration>) -> Deadline {
    grace.map_or(Deadline::NEVER, Deadline::after)
}

fn name_main(worker: &Worker) {
    let header = worker.headers.take(true).unwrap_or_else(|error| panic!("run: {error}"));
    header.attributes.install(
        std::ptr::null(),
        SpawnOptions { name: Some("main".to_owned()), ..SpawnOptions::default() },
    );
    worker.root.adopt(header);
}
