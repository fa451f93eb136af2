//! What one worker records.

use ramie_driver::{OpKind, sys::monotonic_ns};

use super::{Histogram, SAMPLED_OPS, histogram::SharedHistogram};
use crate::core::primitive::{AtomicU64, OnceLock, Ordering::Relaxed};

/// A count or a level with one writer.
#[derive(Default)]
pub(crate) struct Figure(AtomicU64);

impl Figure {
    /// Adds one, and returns the value before.
    #[inline(always)]
    pub(crate) fn add_one(&self) -> u64 {
        let before = self.0.load(Relaxed);
        self.0.store(before.wrapping_add(1), Relaxed);
        before
    }

    #[inline(always)]
    pub(crate) fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A histogram whose memory is taken when it gets its first duration.
#[derive(Default)]
pub(crate) struct LazyHistogram(OnceLock<Box<SharedHistogram>>);

impl LazyHistogram {
    pub(crate) fn record(&self, ns: u64) {
        self.0.get_or_init(|| Box::new(SharedHistogram::new())).record(ns);
    }

    fn add_to(&self, sum: &mut Histogram) {
        if let Some(histogram) = self.0.get() {
            sum.add(histogram);
        }
    }
}

/// The start of an op: in ns, or 0 if the duration of this op is not recorded.
#[derive(Clone, Copy)]
pub(crate) struct OpStart(u64);

/// The figures of one worker, which it alone writes. In cache lines of their own, which no other
/// thread writes; the CPU prefetches lines in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct WorkerRecord {
    /// Strands that were spawned.
    pub(crate) spawned: Figure,
    /// Strands that have ended.
    pub(crate) ended: Figure,
    /// Strands that the loop has started or resumed, with the thread's own strand, and the turns in
    /// which the loop found none before it went idle. The countdown counts all of them alike.
    pub(crate) resumed: Figure,
    /// The number of times that the worker looked at what comes from outside its run queue.
    pub(crate) polls: Figure,
    /// Sleeps in the kernel.
    pub(crate) sleeps: Figure,
    /// Full waits that have begun.
    pub(crate) parks: Figure,
    /// Strands that other threads have handed over.
    pub(crate) woken_by_threads: Figure,
    /// Strands that the worker itself has made runnable.
    pub(crate) woken_here: Figure,
    /// Strands whose waits have ended in time.
    pub(crate) woken_by_timers: Figure,
    /// Closures that were taken from other workers.
    pub(crate) stolen: Figure,
    /// The levels of the last poll.
    pub(crate) run_queue: Figure,
    pub(crate) timers: Figure,
    pub(crate) durations: DurationRecords,
    ops: [OpRecord; OpKind::ALL.len()],
}

/// How long strands waited and ran, and how late timers were.
#[derive(Default)]
pub(crate) struct DurationRecords {
    pub(crate) run_queue_delay: LazyHistogram,
    pub(crate) run_length: LazyHistogram,
    pub(crate) timer_lateness: LazyHistogram,
}

/// The ops of one kind.
#[derive(Default)]
struct OpRecord {
    begun: Figure,
    durations: LazyHistogram,
}

impl WorkerRecord {
    /// Forgets the levels of the worker before, when a new one begins to write here.
    pub(crate) fn clear_levels(&self) {
        self.run_queue.set(0);
        self.timers.set(0);
    }

    /// Counts an op.
    #[inline(always)]
    pub(crate) fn begin_op(&self, kind: OpKind) -> OpStart {
        let is_sampled = self.ops[kind as usize].begun.add_one().is_multiple_of(SAMPLED_OPS);
        OpStart(if is_sampled { now() } else { 0 })
    }

    /// Records the duration of an op, if it is one of the sample.
    #[inline(always)]
    pub(crate) fn end_op(&self, kind: OpKind, start: OpStart) {
        if start.0 != 0 {
            self.record_op(kind, start);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_op(&self, kind: OpKind, start: OpStart) {
        self.ops[kind as usize].durations.record(now().saturating_sub(start.0));
    }
}

#[cold]
#[inline(never)]
fn now() -> u64 {
    monotonic_ns()
}

/// The sums of the records of any number of workers.
#[derive(Default)]
pub(crate) struct Recorded {
    pub(crate) spawned: u64,
    pub(crate) ended: u64,
    pub(crate) resumed: u64,
    pub(crate) polls: u64,
    pub(crate) sleeps: u64,
    pub(crate) parks: u64,
    pub(crate) woken_by_threads: u64,
    pub(crate) woken_here: u64,
    pub(crate) woken_by_timers: u64,
    pub(crate) stolen: u64,
    pub(crate) run_queue_delay: Histogram,
    pub(crate) run_length: Histogram,
    pub(crate) timer_lateness: Histogram,
    /// For each kind of op in [`OpKind::ALL`].
    pub(crate) ops: [(u64, Histogram); OpKind::ALL.len()],
}

impl Recorded {
    pub(crate) fn add(&mut self, record: &WorkerRecord) {
        self.spawned += record.spawned.get();
        self.resumed += record.resumed.get();
        self.polls += record.polls.get();
        self.sleeps += record.sleeps.get();
        self.parks += record.parks.get();
        self.woken_by_threads += record.woken_by_threads.get();
        self.woken_here += record.woken_here.get();
        self.woken_by_timers += record.woken_by_timers.get();
        self.stolen += record.stolen.get();
        record.durations.run_queue_delay.add_to(&mut self.run_queue_delay);
        record.durations.run_length.add_to(&mut self.run_length);
        record.durations.timer_lateness.add_to(&mut self.timer_lateness);
        for (kind, (count, durations)) in self.ops.iter_mut().enumerate() {
            *count += record.ops[kind].begun.get();
            record.ops[kind].durations.add_to(durations);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_op_of_a_kind_is_timed_and_one_of_each_sample_behind_it() {
        let record = WorkerRecord::default();
        for _ in 0..SAMPLED_OPS + 1 {
            let start = record.begin_op(OpKind::Recv);
            record.end_op(OpKind::Recv, start);
        }
        let mut recorded = Recorded::default();
        recorded.add(&record);
        let (count, durations) = &recorded.ops[OpKind::Recv as usize];
        assert_eq!((*count, durations.count()), (SAMPLED_OPS + 1, 2));
        assert_eq!(recorded.ops[OpKind::Send as usize].0, 0);
    }
}
