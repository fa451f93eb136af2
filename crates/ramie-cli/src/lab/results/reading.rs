//! One reading: the cost of one repetition of a point, and when it was taken.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{lab::plan::Quantity, workload::Workload};

/// The round of the warm-up, whose readings are recorded and not used.
pub(crate) const WARM_UP: u32 = 0;

/// The cost of one repetition, as its process printed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) round: u32,
    /// When its process had ended, in seconds since the lab began.
    pub(crate) at_s: f64,
    /// The same moment by the clock of the wall, in UTC.
    pub(crate) time: String,
    /// The only CPU that its process was allowed to use, if it was pinned.
    pub(crate) pinned_to: Option<usize>,
    pub(crate) seconds: f64,
    pub(crate) ops: u64,
    pub(crate) per_op_ns: f64,
    /// Not known of a peer.
    pub(crate) cpu_s: Option<f64>,
    /// Everything else that the workload reports: numbers, or groups of numbers.
    #[serde(flatten)]
    pub(crate) figures: BTreeMap<String, Value>,
}

/// The circumstances of a reading that its process does not know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) round: u32,
    pub(crate) at_s: f64,
    pub(crate) pinned_to: Option<usize>,
}

/// The parts of a printed row that belong to the point, which the record names once.
const OF_THE_POINT: [&str; 9] =
    ["workload", "params", "call", "wait", "order", "write", "driver", "on", "workers"];

impl Reading {
    /// Parses a line that `ramie run --json` printed.
    pub(crate) fn parse(line: &str, taken: Taken) -> serde_json::Result<Self> {
        let mut row: serde_json::Map<String, Value> = serde_json::from_str(line)?;
        for name in OF_THE_POINT {
            row.remove(name);
        }
        row.insert("round".to_owned(), taken.round.into());
        row.insert("at_s".to_owned(), taken.at_s.into());
        row.insert("pinned_to".to_owned(), taken.pinned_to.into());
        row.insert("time".to_owned(), jiff::Timestamp::now().to_string().into());
        serde_json::from_value(Value::Object(row))
    }

    /// Parses the line that a peer printed: `feed 8 10 seconds=0.5 per_op_ns=12.5 [rss_kb=7]`.
    pub(crate) fn parse_peer(
        line: &str,
        workload: &Workload,
        taken: Taken,
    ) -> Result<Self, String> {
        let value = |name: &str| {
            let mut words = line.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(other, _)| *other == name).and_then(|(_, value)| value.parse::<f64>().ok())
        };
        let needed = |name| value(name).ok_or_else(|| format!("`{line}` has no {name}"));
        let (seconds, printed) = (needed("seconds")?, needed("per_op_ns")?);
        let ops = workload.ops();
        let per_op_ns = seconds * 1e9 / ops as f64;
        // The last digit that it prints is a hundredth.
        let counts_the_same = (printed - per_op_ns).abs() <= per_op_ns * 0.01 + 0.01;
        if !counts_the_same {
            return Err(format!("`{line}` does not count {ops} operations"));
        }
        let memory = value("rss_kb").map(|kb| kb * 1024.0 / workload.strands() as f64);
        let memory = memory.map(|bytes| ("rss_bytes_per_strand".to_owned(), bytes.into()));
        let Taken { round, at_s, pinned_to } = taken;
        let (time, figures) = (jiff::Timestamp::now().to_string(), memory.into_iter().collect());
        Ok(Reading { round, at_s, time, pinned_to, seconds, ops, per_op_ns, cpu_s: None, figures })
    }

    pub(crate) fn quantity(&self, quantity: Quantity) -> Option<f64> {
        match quantity {
            Quantity::Seconds => Some(self.seconds),
            Quantity::PerOp => Some(self.per_op_ns),
            Quantity::Cpu => Some(self.cpu_s? * 1e9 / self.ops as f64),
            Quantity::Accept => Some(self.figure("accept_wait_us.mean")? * 1e3),
            Quantity::LongestAccept => Some(self.figure("accept_wait_us.max")? * 1e3),
            Quantity::Memory => {
                let tables = "pte_bytes_per_strand";
                // Peers do not report page tables.
                let has_tables = self.figures.contains_key(tables);
                let tables = if has_tables { self.figure(tables)? } else { 0.0 };
                Some(self.figure("rss_bytes_per_strand")? + tables)
            }
            Quantity::Requests => self.figure("requests_per_s"),
            Quantity::Latency => Some(self.figure("latency_us.mean")? * 1e-6),
        }
    }

    /// A figure by its name; `group.part` is a part of a group.
    pub(crate) fn figure(&self, name: &str) -> Option<f64> {
        self.numbers().into_iter().find(|(other, _)| other == name)?.1
    }

    /// All figures, those of a group as `group.part`; `None` is a figure that could not be taken.
    pub(crate) fn numbers(&self) -> Vec<(String, Option<f64>)> {
        let mut all = Vec::new();
        for (name, value) in &self.figures {
            match value {
                Value::Object(parts) => all.extend(
                    parts.iter().map(|(part, value)| (format!("{name}.{part}"), value.as_f64())),
                ),
                value => all.push((name.clone(), value.as_f64())),
            }
        }
        all
    }
}
