//! The counters of a point: one more run of it, whose time counts for no figure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::counters::{NAMES, UsedByProcess};

/// The part of a run that its counters cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Covers {
    /// From before the first spawn to after the last join.
    Interval,
    /// The whole process of a peer, its start included.
    Process,
}

/// A run that was counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CountedRun {
    /// When its process had ended, in seconds since the lab began.
    pub(crate) at_s: f64,
    pub(crate) covers: Covers,
    /// The operations of the run; none if it failed.
    pub(crate) ops: Option<u64>,
    /// A number for each counter; null for those that are not available.
    pub(crate) values: Map<String, Value>,
    /// The reasons for those.
    pub(crate) unavailable: BTreeMap<String, String>,
}

impl CountedRun {
    /// Parses the line that `ramie run --counters --json` printed.
    pub(crate) fn parse(line: &str, at_s: f64) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct CountedLine {
            ops: u64,
            counters: PrintedCounters,
        }
        #[derive(Deserialize)]
        struct PrintedCounters {
            unavailable: BTreeMap<String, String>,
            #[serde(flatten)]
            values: Map<String, Value>,
        }
        let CountedLine { ops, counters: PrintedCounters { unavailable, values } } =
            serde_json::from_str(line)?;
        Ok(CountedRun { at_s, covers: Covers::Interval, ops: Some(ops), values, unavailable })
    }

    /// The counters of a peer's process, which has run this number of operations.
    pub(crate) fn of_peer(used: &UsedByProcess, ops: u64, at_s: f64) -> Self {
        let (values, unavailable) = used.counters();
        CountedRun { at_s, covers: Covers::Process, ops: Some(ops), values, unavailable }
    }

    /// A run that failed for this reason.
    pub(crate) fn failed(why: &str, at_s: f64) -> Self {
        let values = NAMES.map(|name| (name.to_owned(), Value::Null));
        let unavailable = NAMES.map(|name| (name.to_owned(), why.to_owned()));
        let (values, unavailable) = (values.into_iter().collect(), unavailable.into());
        CountedRun { at_s, covers: Covers::Interval, ops: None, values, unavailable }
    }
}
