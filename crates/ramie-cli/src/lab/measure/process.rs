//! Measures one point in a child process.
//!
//! Several points in one process would save 4 ms for each, which is a twentieth of a quick lab. But
//! the memory, the pooled stacks and the threads that a point leaves would change the figures of
//! the next, and a point that hangs or is killed would take others with it.

use std::{path::PathBuf, time::Duration};

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::{
    child::{self, ChildError},
    counters::UsedByProcess,
    interrupt::Interrupt,
    lab::plan::Point,
};

/// Measures a point, `repeat` times in one process, and returns the lines that it printed; each
/// process may run for `limit`.
pub(super) fn measure(
    point: &Point,
    repeat: u32,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<String, ChildError> {
    if point.workload.wants_fresh_process() {
        // The first process pays for memory that a virtual machine does not have yet.
        run(point, 1, limit, interrupt)?;
    }
    run(point, repeat, limit, interrupt)
}

/// Measures a point on a peer: its program and the arguments of that.
pub(super) fn measure_peer(
    (program, arguments): &(PathBuf, Vec<String>),
    point: &Point,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<String, ChildError> {
    let run = || child::output_of(program, pinned_to(point), arguments, limit, interrupt);
    if point.workload.wants_fresh_process() {
        run()?;
    }
    run()
}

/// Runs a point once more with counters, and returns the line that it printed.
pub(super) fn count(
    point: &Point,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<String, ChildError> {
    let mut arguments = point.arguments(1);
    arguments.extend(["--fresh", "--counters"].map(str::to_owned));
    child::output_on(pinned_to(point), &arguments, limit, interrupt)
}

/// Runs a point once more on a peer, and returns the kernel's counts for its process.
pub(super) fn count_peer(
    (program, arguments): &(PathBuf, Vec<String>),
    point: &Point,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<UsedByProcess, ChildError> {
    let run = child::counted_output_of(program, pinned_to(point), arguments, limit, interrupt);
    run.map(|(_, used)| used)
}

fn run(
    point: &Point,
    repeat: u32,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<String, ChildError> {
    let mut arguments = point.arguments(repeat);
    arguments.push("--fresh".to_owned());
    child::output_on(pinned_to(point), &arguments, limit, interrupt)
}

/// The CPU that the process of a point may use, if it may use one only. A point whose strands all
/// run on one thread is pinned, because the kernel would otherwise move the thread now and then.
pub(super) fn pinned_to(point: &Point) -> Option<usize> {
    let allowed = sched_getaffinity(None).ok().filter(|_| point.uses_one_cpu())?;
    (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu))
}
