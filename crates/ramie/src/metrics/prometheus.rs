//! Snapshots in the text format of Prometheus:
//! <https://prometheus.io/docs/instrumenting/exposition_formats>, version 0.0.4.

use std::{
    fmt::{self, Display, Formatter},
    time::Duration,
};

use super::{FamilyKind, FigureSample, Histogram, Snapshot, Value};

/// The bounds of the buckets in the text are each fourth of the powers of 2 of ns between these,
/// from 1 us to 69 s. At these bounds buckets of a [`Histogram`] end, so none is split.
const FIRST_BOUND: u32 = 10;
const LAST_BOUND: u32 = 36;

/// A [`Snapshot`] in the text format of Prometheus; made by [`Snapshot::prometheus`].
///
/// All names begin with `ramie_`, times are in seconds, and all is of the whole process. A server
/// answers a scrape with this text and the content type `text/plain; version=0.0.4`. Families whose
/// names begin with `ramie_worker_` have a sample for each worker that runs now, so they are empty
/// outside of [`run`](crate::run()).
#[derive(Clone, Copy, Debug)]
pub struct Prometheus<'a> {
    snapshot: &'a Snapshot,
}

impl<'a> Prometheus<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        Prometheus { snapshot }
    }
}

impl Display for Prometheus<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for family in self.snapshot.families() {
            let kind = match family.kind {
                FamilyKind::Counter => "counter",
                FamilyKind::Gauge => "gauge",
                FamilyKind::Histogram => "histogram",
            };
            let name = family.name;
            writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", family.help)?;
            for FigureSample { labels, value } in &family.samples {
                let labels: Vec<_> =
                    labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
                match value {
                    Value::Count(count) => writeln!(out, "{name}{} {count}", braced(&labels))?,
                    Value::Number(number) => writeln!(out, "{name}{} {number}", braced(&labels))?,
                    Value::Histogram(histogram) => write_histogram(out, name, labels, histogram)?,
                }
            }
        }
        Ok(())
    }
}

fn braced(labels: &[String]) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) }
}

fn write_histogram(
    out: &mut Formatter<'_>,
    name: &str,
    labels: Vec<String>,
    histogram: &Histogram,
) -> fmt::Result {
    let mut write_bucket = |bound: &str, count: u64| {
        let labels = [labels.as_slice(), &[format!("le=\"{bound}\"")]].concat();
        writeln!(out, "{name}_bucket{} {count}", braced(&labels))
    };
    for power in (FIRST_BOUND..=LAST_BOUND).step_by(2) {
        let bound = Duration::from_nanos(1 << power);
        let below = histogram.buckets().filter(|(longest, _)| *longest < bound);
        write_bucket(&bound.as_secs_f64().to_string(), below.map(|(_, count)| count).sum())?;
    }
    let count = histogram.count();
    write_bucket("+Inf", count)?;
    writeln!(out, "{name}_sum{} {}", braced(&labels), histogram.sum().as_secs_f64())?;
    writeln!(out, "{name}_count{} {count}", braced(&labels))
}
