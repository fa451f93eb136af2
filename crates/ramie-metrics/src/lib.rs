//! The figures of Ramie's workers for the recorder of the crate [`metrics`], and so for all its
//! exporters.
//!
//! Workers count by themselves ([`ramie::metrics`]). A [`Publisher`] hands what has been counted
//! since its last call to the recorder of the program:
//!
//! ```
//! use ramie_metrics::Publisher;
//! use std::{thread, time::Duration};
//!
//! // The program has installed a recorder before, such as that of metrics-exporter-prometheus.
//! thread::spawn(|| {
//!     let mut publisher = Publisher::new();
//!     loop {
//!         publisher.publish();
//!         thread::sleep(Duration::from_secs(5));
//!     }
//! });
//! ```
//!
//! The names, such as `ramie_strands_spawned_total` and `ramie_op_duration_seconds`, are those of
//! [`Snapshot::families`]. A program that only needs the text of Prometheus needs neither this
//! crate nor a recorder: [`Snapshot::prometheus`].
//!
//! [`Snapshot::families`]: ramie::metrics::Snapshot::families
//! [`Snapshot::prometheus`]: ramie::metrics::Snapshot::prometheus

#![forbid(unsafe_code)]

use std::collections::HashMap;

use metrics::{Label, Unit};
use ramie::metrics::{Family, FamilyKind, FigureSample, Histogram, Value, snapshot};

/// A name with its labels.
type Name = (&'static str, Vec<(&'static str, String)>);

/// How many durations were published of each bucket, by its longest duration in ns.
type Buckets = HashMap<u128, u64>;

/// Hands the figures of the process to the recorder of the crate `metrics`.
///
/// Use one in a process. A histogram is handed over by differences, so two would count each
/// duration twice.
#[derive(Debug, Default)]
pub struct Publisher {
    /// What each histogram has counted so far, by name and labels.
    published: HashMap<Name, Buckets>,
}

impl Publisher {
    /// Makes a publisher that has published nothing, and describes the figures to the recorder.
    #[must_use]
    pub fn new() -> Self {
        for Family { name, help, kind, .. } in snapshot().families() {
            match kind {
                FamilyKind::Counter => metrics::describe_counter!(name, help),
                FamilyKind::Gauge => metrics::describe_gauge!(name, help),
                FamilyKind::Histogram => metrics::describe_histogram!(name, Unit::Seconds, help),
            }
        }
        Publisher::default()
    }

    /// Reads the figures and hands them to the recorder: counters and gauges as they are, durations
    /// since the last call, each as the longest of its bucket, which is at most a quarter more.
    ///
    /// A counter with a fraction (the CPU time of a worker) is rounded down, because counters of
    /// `metrics` are whole numbers. Without a recorder this does nothing else than to read.
    ///
    /// # Blocking
    /// Never parks. It may block the thread for a moment, on locks.
    ///
    /// # Outside a fiber
    /// The same, on any thread.
    pub fn publish(&mut self) {
        for family in snapshot().families() {
            for FigureSample { labels, value, .. } in family.samples {
                self.publish_one(family.name, family.kind, labels, value);
            }
        }
    }

    fn publish_one(
        &mut self,
        name: &'static str,
        kind: FamilyKind,
        labels: Vec<(&'static str, String)>,
        value: Value<'_>,
    ) {
        let of_recorder: Vec<_> =
            labels.iter().map(|(name, value)| Label::new(*name, value.clone())).collect();
        let number = match value {
            Value::Count(count) => count as f64,
            Value::Number(number) => number,
            Value::Histogram(histogram) => {
                let durations = metrics::histogram!(name, of_recorder);
                let published = self.published.entry((name, labels)).or_default();
                return publish_durations(&durations, published, histogram);
            }
        };
        match kind {
            FamilyKind::Counter => metrics::counter!(name, of_recorder).absolute(number as u64),
            FamilyKind::Gauge | FamilyKind::Histogram => {
                metrics::gauge!(name, of_recorder).set(number);
            }
        }
    }
}

/// Hands over the durations of a histogram that were not `published` before.
fn publish_durations(to: &metrics::Histogram, published: &mut Buckets, histogram: &Histogram) {
    for (longest, count) in histogram.buckets() {
        let before = published.insert(longest.as_nanos(), count).unwrap_or(0);
        if count > before {
            to.record_many(longest.as_secs_f64(), (count - before) as usize);
        }
    }
}
