//! The number of times that each strand was run.
//!
//! A counter in every switch would slow down all fibers by a tenth. So the runs are counted in a
//! repetition of their own, whose time is not reported:
//!
//! - of a fiber by [`CountingFifo`], a policy that runs fibers in the usual order: a run ends when
//!   the fiber suspends;
//! - of a coroutine by the loop that resumes it: a run is a resume;
//! - of a task of futures by a future around it: a run is a poll;
//! - of a thread by the kernel: a run ends with a context switch.
//!
//! Processes count the runs of their fibers, and the first process merges the histograms.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use ramie::{
    fiber::{self, FiberId},
    policy::{Policy, Runnable},
};

use super::sys;

/// The number of strands for each number of runs.
pub(super) type Histogram = BTreeMap<u64, u64>;

/// Whether the measured interval has begun and not ended.
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

static COUNTED: Mutex<RunsSoFar> =
    Mutex::new(RunsSoFar { starter: None, of_fibers: Vec::new(), others: BTreeMap::new() });

/// Fibers that are no part of the workload, beside the one that starts the clocks: those that watch
/// other processes.
static HELPERS: Mutex<Vec<FiberId>> = Mutex::new(Vec::new());

/// The counts of the workers that have ended, and of strands that are no fibers.
struct RunsSoFar {
    /// The fiber that starts the clocks, which is no part of the workload: the one that starts the
    /// strands and joins them, or the overseer of `http`.
    starter: Option<FiberId>,
    of_fibers: Vec<(FiberId, u64)>,
    others: Histogram,
}

/// The fewest, the median and the most runs of a strand.
#[derive(Debug, PartialEq)]
pub(super) struct Runs {
    pub(super) min: u64,
    pub(super) median: u64,
    pub(super) max: u64,
}

fn counted() -> MutexGuard<'static, RunsSoFar> {
    COUNTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the interval; called on the strand that starts the clocks.
pub(super) fn begin() {
    let starter = Some(fiber::current().id());
    *counted() = RunsSoFar { starter, of_fibers: Vec::new(), others: BTreeMap::new() };
    IS_COUNTING.store(true, Relaxed);
}

/// Ends the interval.
pub(super) fn end() {
    IS_COUNTING.store(false, Relaxed);
}

/// Adds strands that each had this number of runs.
pub(super) fn add(runs: u64, strands: u64) {
    *counted().others.entry(runs).or_default() += strands;
}

/// Counts the runs of the calling OS thread, which is about to end.
pub(super) fn add_this_thread() {
    let usage = sys::thread_usage();
    // It ran before the first context switch, and after each.
    add(1 + (usage.ru_nvcsw + usage.ru_nivcsw) as u64, 1);
}

/// Omits the runs of the calling strand, which is a fiber or a thread.
pub(super) fn omit_this_fiber() {
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner).push(fiber::current().id());
}

/// Takes the counts of the interval, after its runtime has ended.
pub(super) fn take() -> Histogram {
    let helpers = mem::take(&mut *HELPERS.lock().unwrap_or_else(PoisonError::into_inner));
    let empty = RunsSoFar { starter: None, of_fibers: Vec::new(), others: BTreeMap::new() };
    let RunsSoFar { starter, of_fibers, others } = mem::replace(&mut *counted(), empty);
    let mut histogram = others;
    let is_of_workload = |id: &FiberId| Some(*id) != starter && !helpers.contains(id);
    for (_, runs) in of_fibers.into_iter().filter(|(id, _)| is_of_workload(id)) {
        *histogram.entry(runs).or_default() += 1;
    }
    histogram
}

impl Runs {
    /// `None` if there are no strands.
    pub(super) fn of(histogram: &Histogram) -> Option<Self> {
        let (min, max) = (*histogram.first_key_value()?.0, *histogram.last_key_value()?.0);
        let mut before_median = histogram.values().sum::<u64>() / 2;
        let is_median = |(_, strands): &(&u64, &u64)| {
            let is_it = before_median < **strands;
            before_median = before_median.saturating_sub(**strands);
            is_it
        };
        let (median, _) = histogram.iter().find(is_median)?;
        Some(Runs { min, median: *median, max })
    }
}

/// First in, first out, as without a policy.
#[derive(Default)]
pub(crate) struct CountingFifo {
    queue: VecDeque<Runnable>,
    runs: HashMap<FiberId, u64>,
}

impl Policy for CountingFifo {
    fn push(&mut self, runnable: Runnable) {
        self.queue.push_back(runnable);
    }

    fn pop(&mut self) -> Option<Runnable> {
        let next = self.queue.pop_front()?;
        if IS_COUNTING.load(Relaxed)
            && let Some(id) = next.id()
        {
            *self.runs.entry(id).or_default() += 1;
        }
        Some(next)
    }
}

impl Drop for CountingFifo {
    fn drop(&mut self) {
        counted().of_fibers.extend(self.runs.drain());
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, Runs};

    #[test]
    fn the_median_is_that_of_the_strands() {
        let of = |all: &[(u64, u64)]| Runs::of(&all.iter().copied().collect::<Histogram>());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(7, 1)]), Some(Runs { min: 7, median: 7, max: 7 }));
        assert_eq!(of(&[(1, 1), (2, 2), (9, 1)]), Some(Runs { min: 1, median: 2, max: 9 }));
        assert_eq!(of(&[(1, 2), (3, 3)]), Some(Runs { min: 1, median: 3, max: 3 }));
        assert_eq!(of(&[(1, 1000), (2, 1)]), Some(Runs { min: 1, median: 1, max: 2 }));
    }
}
