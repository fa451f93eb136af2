//! Histograms of durations that many strands record and that several processes can merge.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest duration that the histogram distinguishes: an hour. A longer one counts as an hour.
const MOST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of a duration.
const DIGITS: u8 = 2;

/// A histogram of durations in nanoseconds, with the exact mean, spread, minimum and maximum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Record", into = "Record")]
pub struct Durations {
    counts: Histogram<u64>,
    sum_ns: f64,
    sum_of_squares: f64,
    least_ns: u64,
    most_ns: u64,
}

/// The text form: values with their counts instead of the buckets, most of which are empty.
#[derive(Serialize, Deserialize)]
struct Record {
    counts: Vec<(u64, u64)>,
    sum_ns: f64,
    sum_of_squares: f64,
    least_ns: u64,
    most_ns: u64,
}

impl Durations {
    pub(crate) fn new() -> Self {
        // The bounds are constants that the histogram accepts.
        let counts = Histogram::new_with_bounds(1, MOST_NS, DIGITS).expect("valid bounds");
        Durations { counts, sum_ns: 0.0, sum_of_squares: 0.0, least_ns: u64::MAX, most_ns: 0 }
    }

    fn record(&mut self, ns: u64) {
        self.counts.saturating_record(ns);
        self.sum_ns += ns as f64;
        self.sum_of_squares += ns as f64 * ns as f64;
        self.least_ns = self.least_ns.min(ns);
        self.most_ns = self.most_ns.max(ns);
    }

    pub(crate) fn add(&mut self, other: &Durations) {
        self.counts.add(&other.counts).expect("both have the same bounds");
        self.sum_ns += other.sum_ns;
        self.sum_of_squares += other.sum_of_squares;
        self.least_ns = self.least_ns.min(other.least_ns);
        self.most_ns = self.most_ns.max(other.most_ns);
    }

    /// The number of recorded durations.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// The duration, in µs, that the share `quantile` did not exceed, with two significant digits.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        // The end of a bucket may lie beyond the longest duration in it.
        let end_of_bucket = self.counts.value_at_quantile(quantile);
        end_of_bucket.min(self.most_ns) as f64 / 1e3
    }

    /// The mean, the standard deviation, the minimum and the maximum in µs; zeros if nothing was
    /// recorded.
    pub fn moments_us(&self) -> Moments {
        let count = self.count() as f64;
        if count == 0.0 {
            return Moments { mean: 0.0, stdev: 0.0, min: 0.0, max: 0.0 };
        }
        let mean = self.sum_ns / count;
        // Rounding can make the difference a little less than 0 if all durations are equal.
        let variance = (self.sum_of_squares / count - mean * mean).max(0.0);
        Moments {
            mean: mean / 1e3,
            stdev: variance.sqrt() / 1e3,
            min: self.least_ns as f64 / 1e3,
            max: self.most_ns as f64 / 1e3,
        }
    }
}

/// Exact figures of some durations, in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation.
    pub stdev: f64,
    /// The shortest.
    pub min: f64,
    /// The longest.
    pub max: f64,
}

impl From<Durations> for Record {
    fn from(durations: Durations) -> Self {
        let recorded = durations.counts.iter_recorded();
        let counts = recorded.map(|value| (value.value_iterated_to(), value.count_at_value()));
        Record {
            counts: counts.collect(),
            sum_ns: durations.sum_ns,
            sum_of_squares: durations.sum_of_squares,
            least_ns: durations.least_ns,
            most_ns: durations.most_ns,
        }
    }
}

impl From<Record> for Durations {
    fn from(record: Record) -> Self {
        let mut durations = Durations::new();
        for (value, count) in record.counts {
            durations.counts.saturating_record_n(value, count);
        }
        let Record { sum_ns, sum_of_squares, least_ns, most_ns, .. } = record;
        Durations { counts: durations.counts, sum_ns, sum_of_squares, least_ns, most_ns }
    }
}

/// The histograms that all strands share. There are several, so that strands seldom wait for one
/// another.
pub(crate) struct Shards(Vec<Mutex<Durations>>);

const SHARDS: usize = 8;
/// How many durations a strand keeps before it adds them to a histogram.
const KEPT: usize = 15;

impl Shards {
    pub(crate) fn new() -> Self {
        Shards((0..SHARDS).map(|_| Mutex::new(Durations::new())).collect())
    }

    pub(crate) fn merged(&self) -> Durations {
        let mut all = Durations::new();
        for shard in &self.0 {
            all.add(&shard.lock().unwrap_or_else(PoisonError::into_inner));
        }
        all
    }
}

/// The durations of one strand that are not in a histogram yet.
pub(crate) struct Samples<'a> {
    shard: &'a Mutex<Durations>,
    kept: [u64; KEPT],
    len: usize,
}

impl<'a> Samples<'a> {
    pub(crate) fn new(shards: &'a Shards, strand: usize) -> Self {
        Samples { shard: &shards.0[strand % SHARDS], kept: [0; KEPT], len: 0 }
    }

    #[inline]
    pub(crate) fn record(&mut self, duration: Duration) {
        if self.len == KEPT {
            self.flush();
        }
        self.kept[self.len] = u64::try_from(duration.as_nanos()).unwrap_or(MOST_NS);
        self.len += 1;
    }

    /// A lock of std, because no strand suspends while it holds this one.
    fn flush(&mut self) {
        let mut shard = self.shard.lock().unwrap_or_else(PoisonError::into_inner);
        for ns in &self.kept[..self.len] {
            shard.record(*ns);
        }
        self.len = 0;
    }
}

impl Drop for Samples<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Durations, Moments, Record, Samples, Shards};

    #[test]
    fn every_duration_is_counted_once() {
        let shards = Shards::new();
        for strand in 0..20 {
            let mut samples = Samples::new(&shards, strand);
            (0..50).for_each(|us| samples.record(Duration::from_micros(us)));
        }
        let all = shards.merged();
        assert_eq!(all.count(), 1000);
        let median = all.quantile_us(0.5);
        assert!((24.0..26.0).contains(&median), "{median}");
        let Moments { mean, stdev, min, max } = all.moments_us();
        assert!((mean - 24.5).abs() < 1e-9 && (stdev - 14.431).abs() < 1e-3, "{mean} {stdev}");
        assert_eq!((min, max), (0.0, 49.0));
    }

    #[test]
    fn a_histogram_survives_the_way_between_processes() {
        let shards = Shards::new();
        let mut samples = Samples::new(&shards, 0);
        for us in [0, 3, 3, 1_000_000, 7_200_000_000] {
            samples.record(Duration::from_micros(us));
        }
        drop(samples);
        let before = shards.merged();
        let after = Durations::from(Record::from(before.clone()));
        assert_eq!(before, after);
        assert_eq!(after.count(), 5);
    }

    #[test]
    fn without_durations_all_figures_are_zero() {
        let none = Durations::new();
        assert_eq!(none.moments_us(), Moments { mean: 0.0, stdev: 0.0, min: 0.0, max: 0.0 });
        assert_eq!(none.quantile_us(0.99), 0.0);
    }
}
