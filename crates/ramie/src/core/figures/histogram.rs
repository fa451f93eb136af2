//! Histograms of durations.
//!
//! Four buckets for each power of two of ns, as in the log-linear histograms of HdrHistogram and
//! tokio: a bucket is at most a quarter as wide as the values in it, from 1 ns to 36 minutes.
//! Longer durations count as the longest.

use std::time::Duration;

use crate::core::primitive::{AtomicU64, Ordering::Relaxed};

/// The first bucket of an octave of 4 has the index 4.
const PER_OCTAVE: usize = 4;
const OCTAVES: usize = 40;
const BUCKETS: usize = OCTAVES * PER_OCTAVE;

fn index_of(ns: u64) -> usize {
    if ns < PER_OCTAVE as u64 {
        return ns as usize;
    }
    let exponent = ns.ilog2() as usize;
    let quarter = (ns >> (exponent - 2)) as usize % PER_OCTAVE;
    ((exponent - 1) * PER_OCTAVE + quarter).min(BUCKETS - 1)
}

/// The first duration above the bucket, in ns.
fn end_of(index: usize) -> u64 {
    if index < PER_OCTAVE {
        return index as u64 + 1;
    }
    let exponent = index / PER_OCTAVE + 1;
    (1 << exponent) + ((index % PER_OCTAVE) as u64 + 1) * (1 << (exponent - 2))
}

/// A histogram to which one thread adds, and which any thread may read.
pub(crate) struct SharedHistogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl SharedHistogram {
    pub(super) fn new() -> Self {
        SharedHistogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_ns: AtomicU64::new(0),
        }
    }

    /// Adds a duration; called by the only writer.
    pub(super) fn record(&self, ns: u64) {
        let add =
            |to: &AtomicU64, more: u64| to.store(to.load(Relaxed).wrapping_add(more), Relaxed);
        add(&self.buckets[index_of(ns)], 1);
        add(&self.sum_ns, ns);
    }
}

/// How often durations of which length occurred.
///
/// The buckets grow with the durations in them, of which each is at most a quarter wide. So a
/// [`quantile`](Self::quantile) is at most a quarter too long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// Empty or [`BUCKETS`] long.
    buckets: Vec<u64>,
    sum_ns: u64,
}

impl Histogram {
    /// Adds what the shared histogram has recorded.
    pub(super) fn add(&mut self, shared: &SharedHistogram) {
        self.buckets.resize(BUCKETS, 0);
        for (ours, theirs) in self.buckets.iter_mut().zip(&shared.buckets) {
            *ours += theirs.load(Relaxed);
        }
        self.sum_ns = self.sum_ns.wrapping_add(shared.sum_ns.load(Relaxed));
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of the durations.
    #[must_use]
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns the mean; `None` if there is no duration.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        self.sum_ns.checked_div(self.count()).map(Duration::from_nanos)
    }

    /// Returns the duration that the part `part` of all does not exceed, such as 0.99; at most a
    /// quarter more than the true one. `None` if there is no duration.
    ///
    /// # Panics
    /// If `part` is not between 0 and 1.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        assert!((0.0..=1.0).contains(&part), "a quantile is between 0 and 1, and not {part}");
        let least = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut so_far = 0;
        let index = self.buckets.iter().position(|count| {
            so_far += count;
            so_far >= least
        });
        index.map(|index| Duration::from_nanos(end_of(index) - 1))
    }

    /// Iterates over the buckets that are not empty: the longest duration that a bucket may hold,
    /// and how many it holds.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let longest = |index| Duration::from_nanos(end_of(index) - 1);
        let counts = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(move |(index, count)| (longest(index), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(durations: impl IntoIterator<Item = u64>) -> Histogram {
        let shared = SharedHistogram::new();
        durations.into_iter().for_each(|ns| shared.record(ns));
        let mut histogram = Histogram::default();
        histogram.add(&shared);
        histogram
    }

    #[test]
    fn each_bucket_begins_where_the_one_before_ends() {
        for index in 1..BUCKETS {
            assert_eq!(index_of(end_of(index - 1)), index);
            assert_eq!(index_of(end_of(index) - 1), index);
        }
        assert_eq!(index_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_quantile_is_at_most_a_quarter_too_long() {
        for ns in (0..41).flat_map(|power| [1 << power, (1 << power) + 1, (2 << power) - 1]) {
            let quantile = of([ns]).quantile(0.5).unwrap().as_nanos() as u64;
            assert!((ns..=ns + ns / 4).contains(&quantile), "{quantile} for {ns}");
        }
    }

    #[test]
    fn quantiles_count_from_the_shortest() {
        let histogram = of([1, 1, 1, 2, 2, 2, 2, 2, 2, 1_000_000]);
        assert_eq!(histogram.quantile(0.0), Some(Duration::from_nanos(1)));
        assert_eq!(histogram.quantile(0.3), Some(Duration::from_nanos(1)));
        assert_eq!(histogram.quantile(0.31), Some(Duration::from_nanos(2)));
        assert_eq!(histogram.quantile(0.9), Some(Duration::from_nanos(2)));
        assert!(histogram.quantile(1.0) >= Some(Duration::from_millis(1)));
        assert_eq!(histogram.count(), 10);
        assert_eq!(histogram.sum(), Duration::from_nanos(1_000_015));
        assert_eq!(histogram.mean(), Some(Duration::from_nanos(100_001)));
        let buckets: Vec<_> = histogram.buckets().map(|(_, count)| count).collect();
        assert_eq!(buckets, [3, 6, 1]);
    }

    #[test]
    fn without_durations_there_is_no_quantile() {
        let empty = Histogram::default();
        assert_eq!((empty.count(), empty.mean(), empty.quantile(0.5)), (0, None, None));
    }
}
