//! The figures of a worker, read from data that it keeps anyway; and those of all workers, as they
//! have recorded them.

use std::sync::Arc;

use ramie_driver::sys::thread_cpu_ns;

use super::{
    Admission, Shared, Worker, Workers,
    outside::spawned_outside_of_all,
    survey::{INBOXES, SurveyInbox, lock},
};
use crate::core::figures::Recorded;

/// What one worker has to do and what it holds, as [`metrics`](crate::metrics::metrics) reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Strands of this worker that can run and wait for their turn; not those that another worker
    /// might take, nor those that a [`policy`](crate::policy) holds.
    pub run_queue: usize,
    /// Fibers that have started here and not ended, with the one that asks.
    pub fibers: usize,
    /// Stacks that this worker's fibers are on, or will be.
    pub stacks: usize,
    /// Strands with a time at which their wait, or one before it, ends.
    pub timers: usize,
    /// Ops that were handed to the driver and are not complete.
    pub ops_in_flight: usize,
    /// Bytes of the driver's own buffers: free, with the kernel, or leased.
    pub buffer_bytes: usize,
}

impl WorkerMetrics {
    /// Reads the figures of a worker. Parts in use at the moment (a program's logger may ask while
    /// the driver works) count as 0.
    pub(crate) fn of(worker: &Worker) -> Self {
        let of_driver =
            |driver: &mut ramie_driver::Driver| (driver.in_flight(), driver.buffer_bytes());
        let (ops_in_flight, buffer_bytes) =
            worker.io.with_idle_driver(of_driver).unwrap_or_default();
        WorkerMetrics {
            run_queue: worker.scheduler.ready.len(),
            fibers: worker.shared.live(),
            stacks: worker.stacks.count(),
            timers: worker.timers.count(),
            ops_in_flight,
            buffer_bytes,
        }
    }
}

/// The numbers of strands that have ended, that were spawned, and that have started and not ended:
/// those of the worker's whole runtime.
pub(crate) fn tally(worker: &Worker) -> (u64, u64, usize) {
    let all: Vec<_> = match worker.workers() {
        Some(workers) => workers.shared().collect(),
        None => vec![worker.shared],
    };
    // Acquire, in this order, because a strand that has ended was spawned before.
    let acquire = crate::core::primitive::Ordering::Acquire;
    let ended = all.iter().map(|shared| shared.finished.load(acquire)).sum();
    let spawned: u64 = all.iter().map(|shared| shared.spawned.load(acquire)).sum();
    let outside = worker.workers().map_or(0, |workers| workers.spawned_outside());
    (ended, spawned + outside, all.iter().map(|shared| shared.live()).sum())
}

/// The same numbers of a runtime, and the levels of its workers. Its entrance is open, so its
/// workers are there.
pub(crate) fn levels_of(
    workers: &Workers,
    _admission: &Admission<'_>,
) -> ((u64, u64, usize), Vec<WorkerLevels>) {
    let all: Vec<_> = workers.shared().collect();
    let acquire = crate::core::primitive::Ordering::Acquire;
    // Acquire, in this order, as in `tally`.
    let ended = all.iter().map(|shared| shared.finished.load(acquire)).sum();
    let spawned: u64 = all.iter().map(|shared| shared.spawned.load(acquire)).sum();
    let spawned = spawned + workers.spawned_outside();
    let is_member = |inbox: &Arc<SurveyInbox>| {
        all.iter().any(|shared| std::ptr::eq(*shared, inbox.shared)) && inbox.index.is_some()
    };
    let inboxes: Vec<_> =
        lock(&INBOXES).iter().filter(|inbox| is_member(inbox)).map(Arc::clone).collect();
    let mut levels: Vec<_> = inboxes.iter().filter_map(levels).collect();
    levels.sort_by_key(|worker| worker.index);
    ((ended, spawned, all.iter().map(|shared| shared.live()).sum()), levels)
}

/// One worker, as any thread may see it: its levels at its last poll.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WorkerLevels {
    /// Its index in its runtime.
    pub index: usize,
    /// Its thread's name.
    pub thread_name: Option<String>,
    /// Its thread's id.
    pub thread_id: i32,
    /// The CPU time of its thread, in ns; `None` if the system does not tell.
    pub cpu_ns: Option<u64>,
    /// Fibers that have started and not ended.
    pub fibers: usize,
    /// Strands that could run and waited for their turn; a row of closures without a stack counts
    /// as one.
    pub run_queue: u64,
    /// Strands with a time at which their wait, or one before it, ends.
    pub timers: u64,
}

/// The sums of all workers of this process since it began, and the levels of those of its runtimes.
pub(crate) fn recorded() -> (Recorded, Vec<WorkerLevels>) {
    let mut sum = Shared::sum_of_all();
    sum.spawned += spawned_outside_of_all();
    (sum, lock(&INBOXES).iter().filter_map(levels).collect())
}

fn levels(inbox: &Arc<SurveyInbox>) -> Option<WorkerLevels> {
    let shared = inbox.shared;
    Some(WorkerLevels {
        index: inbox.index?,
        thread_name: inbox.thread_name.clone(),
        thread_id: inbox.thread_id,
        cpu_ns: thread_cpu_ns(inbox.thread_id),
        fibers: shared.live(),
        run_queue: shared.record.run_queue.get(),
        timers: shared.record.timers.get(),
    })
}
