//! The readings, the points without readings and the reasons, and the two files of figures.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use serde_json::{Value, json};

use super::{
    machine::Machine,
    measure::Reading,
    plan::{Experiment, Point, Quantity},
};
use crate::workload::{Engine, TaskCall};

/// A point with its readings.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) point: Point,
    pub(super) readings: Vec<Reading>,
    /// How long its last round took, its processes included.
    pub(super) time: Option<Duration>,
    /// Why the point was not measured, or not in every round.
    pub(super) not_measured: Option<NotMeasured>,
}

#[derive(Debug, Clone)]
pub(super) enum NotMeasured {
    /// The point would not fit.
    Skipped(String),
    Failed(String),
}

/// An experiment with the outcomes of its points.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) experiment: Experiment,
    pub(super) outcomes: Vec<Outcome>,
}

/// The results of a whole lab.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) machine: Machine,
    pub(super) finished: Vec<Finished>,
    pub(super) is_partial: bool,
    pub(super) seconds: f64,
    pub(super) rounds: u32,
    pub(super) rounds_wanted: u32,
    /// The share of the CPU time that other processes took.
    pub(super) others: Option<f64>,
}

/// If other processes take a larger share than this, the figures are unreliable.
const MUCH: f64 = 0.1;

/// The median of several readings, and their range.
#[derive(Debug, Clone, Copy)]
pub(super) struct Summary {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// A quantity over x, for one engine, in the order of x.
pub(super) type Series = Vec<(u64, Summary)>;

impl Reading {
    pub(super) fn quantity(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Seconds => Some(self.seconds),
            Quantity::PerOp => Some(self.per_op_ns),
            Quantity::Cpu => Some(self.cpu_s * 1e9 / self.ops as f64),
            Quantity::Memory => Some(self.rss_bytes_per_strand? + self.pte_bytes_per_strand?),
        }
    }
}

impl Outcome {
    pub(super) fn new(point: Point) -> Self {
        Outcome { point, readings: Vec::new(), time: None, not_measured: None }
    }

    pub(super) fn summary(&self, quantity: Quantity) -> Option<Summary> {
        let values = self.readings.iter().filter_map(|reading| reading.quantity(quantity));
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(Summary { median, least, most })
    }

    /// The workload, its parameters and its engine: `feed people=8 nutrients=10 on threads`.
    pub(super) fn label(&self) -> String {
        let workload = &self.point.workload;
        let numbers =
            workload.numbers().into_iter().map(|(flag, value)| format!(" {flag}={value}"));
        let numbers: String = numbers.collect();
        let call = workload.call().map(|call| format!(" call={}", call.name()));
        let call = call.unwrap_or_default();
        format!("{}{numbers}{call} on {}", workload.name(), self.point.on.name())
    }
}

impl Finished {
    pub(super) fn series(&self, quantity: Quantity) -> BTreeMap<Engine, Series> {
        let mut all: BTreeMap<Engine, Series> = BTreeMap::new();
        for outcome in &self.outcomes {
            if let Some(summary) = outcome.summary(quantity) {
                all.entry(outcome.point.on).or_default().push((outcome.point.x, summary));
            }
        }
        all
    }
}

impl Results {
    /// Reasons why the figures may be far off, in sentences.
    pub(super) fn warnings(&self) -> Vec<String> {
        let busy = self.others.filter(|share| *share > MUCH).map(|share| {
            format!(
                "other processes, or the machine's host, took {:.0} % of the CPU time meanwhile, \
                 so figures and ratios may be far off; leave the machine alone and run it again",
                share * 100.0
            )
        });
        let is_short = self.rounds < self.rounds_wanted && !self.is_partial;
        let short = is_short.then(|| {
            format!(
                "there was time for {} of {} rounds, so some figures are single readings",
                self.rounds, self.rounds_wanted
            )
        });
        busy.into_iter().chain(short).collect()
    }

    pub(super) fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.finished.iter().flat_map(|finished| &finished.outcomes)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Finished> {
        self.finished.iter().find(|finished| finished.experiment.name == name)
    }

    /// A CSV table with one row per reading.
    pub(super) fn to_csv(&self) -> String {
        let mut csv = format!(
            "experiment,workload,{},call,on,seconds,ops,per_op_ns,cpu_s,rss_bytes_per_strand,\
             pte_bytes_per_strand\n",
            NUMBERS.join(",")
        );
        for finished in &self.finished {
            for outcome in &finished.outcomes {
                for reading in &outcome.readings {
                    csv.push_str(&csv_row(&finished.experiment.name, &outcome.point, reading));
                }
            }
        }
        csv
    }

    pub(super) fn to_json(&self, findings: &[String]) -> String {
        let point = |experiment: &str, outcome: &Outcome| {
            let (skipped, failed) = match &outcome.not_measured {
                Some(NotMeasured::Skipped(why)) => (Some(why), None),
                Some(NotMeasured::Failed(why)) => (None, Some(why)),
                None => (None, None),
            };
            let numbers: BTreeMap<_, _> = outcome.point.workload.numbers().into_iter().collect();
            json!({
                "experiment": experiment,
                "workload": outcome.point.workload.name(),
                "params": numbers,
                "call": outcome.point.workload.call().map(TaskCall::name),
                "on": outcome.point.on,
                "readings": outcome.readings,
                "skipped": skipped,
                "failed": failed,
            })
        };
        let points = self.finished.iter().flat_map(|finished| {
            finished.outcomes.iter().map(|outcome| point(&finished.experiment.name, outcome))
        });
        let all: Value = json!({
            "machine": self.machine,
            "partial": self.is_partial,
            "seconds": self.seconds,
            "rounds": self.rounds,
            "findings": findings,
            "points": points.collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }
}

/// The columns of the workloads' parameters.
const NUMBERS: [&str; 10] = [
    "people",
    "nutrients",
    "size",
    "hops",
    "count",
    "yields",
    "depth",
    "pairs",
    "messages",
    "bytes",
];

fn csv_row(experiment: &str, point: &Point, reading: &Reading) -> String {
    let numbers: BTreeMap<_, _> = point.workload.numbers().into_iter().collect();
    let mut row = format!("{experiment},{}", point.workload.name());
    for column in NUMBERS {
        row.push(',');
        if let Some(value) = numbers.get(column) {
            let _ = write!(row, "{value}");
        }
    }
    let Reading { seconds, ops, per_op_ns, cpu_s, .. } = reading;
    let (call, on) = (point.workload.call().map_or("", TaskCall::name), point.on.name());
    let _ = write!(row, ",{call},{on},{seconds},{ops},{per_op_ns},{cpu_s}");
    for value in [reading.rss_bytes_per_strand, reading.pte_bytes_per_strand] {
        row.push(',');
        if let Some(value) = value {
            let _ = write!(row, "{value}");
        }
    }
    row.push('\n');
    row
}
