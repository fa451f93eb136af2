//! Whether nothing can wake any strand of the process.
//!
//! A strand that waits for another one is woken by a strand, by a thread of the program that holds
//! a sender, a waker or a handle, by an op, by time, or by a signal. Ramie delivers signals by ops.
//! So if no strand can run, no op is in flight, and the process has no thread but the workers and
//! those of the runtime itself, no strand will ever be woken.

use std::collections::HashSet;

use ramie_driver::sys;

use crate::core::worker::{StrandFacts, WorkerAnswer, WorkerFacts};

/// What the workers have counted, if all of their strands wait for others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct StillCounts {
    waiting: u64,
    waits: u64,
}

/// The counts of the workers, unless a strand can go on.
pub(super) fn counts(workers: &[WorkerFacts]) -> Option<StillCounts> {
    let mut counts = StillCounts { waiting: 0, waits: 0 };
    for worker in workers {
        match worker.answer {
            WorkerAnswer::Silent => return None,
            // Its thread is looked at, too.
            WorkerAnswer::NotInLoop => {}
            WorkerAnswer::Complete if worker.tally.can_go_on => return None,
            WorkerAnswer::Complete => {
                counts.waiting += worker.tally.waiting;
                counts.waits = counts.waits.wrapping_add(worker.tally.waits);
            }
        }
    }
    (counts.waiting > 0).then_some(counts)
}

/// The same counts, from the facts of all strands; none if one of them can go on.
pub(super) fn counts_of<'a>(strands: impl Iterator<Item = &'a StrandFacts>) -> Option<StillCounts> {
    let mut counts = StillCounts { waiting: 0, waits: 0 };
    for strand in strands {
        strand.wait.as_ref()?;
        counts.waiting += 1;
        counts.waits = counts.waits.wrapping_add(u64::from(strand.waits));
    }
    Some(counts)
}

/// Whether the process has a thread of which nothing is known: it is neither a worker that has
/// answered, nor a thread of the runtime, nor one of the kernel's threads for io_uring, nor the
/// thread of the test harness.
pub(super) fn has_other_threads(workers: &[WorkerFacts], harness: Option<i32>) -> bool {
    let is_complete = |worker: &&WorkerFacts| worker.answer == WorkerAnswer::Complete;
    let known: HashSet<_> =
        workers.iter().filter(is_complete).map(|worker| worker.thread_id).collect();
    let Some(threads) = sys::thread_ids() else { return true };
    threads.into_iter().any(|thread| {
        let is_of_program = !known.contains(&thread) && harness != Some(thread);
        is_of_program && !sys::is_runtime_thread(thread) && !sys::is_ring_thread(thread)
    })
}
