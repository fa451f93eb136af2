//! Counts of the strands of a worker, by state and by wait, for summaries.
//!
//! A summary of a million strands is wanted each second, so a worker makes no row for a strand: it
//! counts, and remembers the strands that have waited longest. Only these are described, at the end
//! of each slice.
//!
//! A strand that the survey visits twice is counted twice, because nobody keeps the ids. That takes
//! a fiber that ends between two slices ([`survey`](super::survey)), so the counts are exact for
//! workers with as many stacks as fit into one slice, some ten thousand, and for fibers that stay.
#![allow(unsafe_code)]

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    panic::Location,
    ptr,
};

use super::{FiberStack, Pieces, StrandFacts, facts::Reader};
use crate::core::wait::{park::WaitRecord, record::WaitKind};

/// The number of strands that a slice describes: those that have waited longest.
pub(crate) const SLOWEST: usize = 50;

/// The strands of a worker that are on a stack, counted.
#[derive(Default)]
pub(crate) struct StrandCounts {
    pub(crate) running: u64,
    pub(crate) runnable: u64,
    pub(crate) waiting: u64,
    /// The length of the run queue, after the last slice.
    pub(crate) run_queue: Option<u64>,
    /// By the addresses of the kind and of the location. The compiler may have made several copies
    /// of either.
    pub(crate) waits: HashMap<(usize, usize), WaitCount>,
}

/// The strands that wait for the same kind of event at the same place.
#[derive(Clone, Copy)]
pub(crate) struct WaitCount {
    pub(crate) kind: &'static WaitKind,
    pub(crate) location: &'static Location<'static>,
    pub(crate) strands: u64,
    pub(crate) longest_ms: u32,
}

impl WaitCount {
    fn key(&self) -> (usize, usize) {
        (ptr::from_ref(self.kind).addr(), ptr::from_ref(self.location).addr())
    }

    pub(crate) fn add(&mut self, other: &WaitCount) {
        self.strands += other.strands;
        self.longest_ms = self.longest_ms.max(other.longest_ms);
    }
}

impl StrandCounts {
    fn add_wait(&mut self, count: WaitCount) {
        let add = |known: &mut WaitCount| known.add(&count);
        self.waits.entry(count.key()).and_modify(add).or_insert(count);
    }

    pub(super) fn add(&mut self, other: StrandCounts) {
        self.running += other.running;
        self.runnable += other.runnable;
        self.waiting += other.waiting;
        self.run_queue = other.run_queue.or(self.run_queue);
        other.waits.into_values().for_each(|count| self.add_wait(count));
    }
}

/// The counts of one slice, while it lasts.
#[derive(Default)]
pub(super) struct SliceCounts {
    counts: StrandCounts,
    /// The wait that was counted last, which is not in `counts` yet: many strands wait at the same
    /// place, and so need no look into the map.
    last: Option<WaitCount>,
    /// The strands that have waited longest, by their time; the shortest on top.
    ///
    /// INVARIANT: each stack was visited in this slice, with the `Reader` of it.
    slowest: BinaryHeap<Reverse<(u32, *const FiberStack)>>,
}

impl SliceCounts {
    pub(super) fn add_running(&mut self) {
        self.counts.running += 1;
    }

    pub(super) fn add_runnable(&mut self) {
        self.counts.runnable += 1;
    }

    pub(super) fn add_waiting(&mut self, stack: &FiberStack, record: &WaitRecord, since_ms: u32) {
        self.counts.waiting += 1;
        let (kind, location) = (record.kind, record.location);
        let one = WaitCount { kind, location, strands: 1, longest_ms: since_ms };
        match &mut self.last {
            Some(last) if last.key() == one.key() => last.add(&one),
            last => {
                if let Some(before) = last.replace(one) {
                    self.counts.add_wait(before);
                }
            }
        }
        let is_full = self.slowest.len() == SLOWEST;
        if is_full && self.slowest.peek().is_some_and(|Reverse((least, _))| *least >= since_ms) {
            return;
        }
        if is_full {
            self.slowest.pop();
        }
        self.slowest.push(Reverse((since_ms, ptr::from_ref(stack))));
    }

    /// Ends the slice: returns its counts, and adds the strands that have waited longest to
    /// `facts`.
    pub(super) fn finish(
        mut self,
        reader: &Reader<'_>,
        facts: &mut Pieces<StrandFacts>,
    ) -> StrandCounts {
        if let Some(last) = self.last.take() {
            self.counts.add_wait(last);
        }
        facts.extend(self.slowest.into_iter().filter_map(|Reverse((_, stack))| {
            // SAFETY: the stack was visited since `reader` exists, so it is still alive, by the
            // invariant of `Reader`.
            reader.of_stack(unsafe { &*stack })
        }));
        self.counts.run_queue = Some(reader.run_queue());
        self.counts
    }
}
