//! A point as the record names it, with its readings or the reason why it has none.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{CountedRun, Reading, Request, Summary, WARM_UP};
use crate::lab::plan::{Arm, On, Point, Quantity};

/// The identity of a point, in words that need no workload of this program: a report of another
/// version may have workloads that this version does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The name of the experiment.
    pub(crate) experiment: String,
    pub(crate) workload: String,
    pub(crate) params: BTreeMap<String, u64>,
    /// The parameters that are words, such as the call of `basic`.
    pub(crate) words: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) arm: Arm,
    pub(crate) x: u64,
}

impl Subject {
    pub(crate) fn new(experiment: &str, point: &Point) -> Self {
        let workload = &point.workload;
        let (numbers, words) = (workload.numbers().into_iter(), workload.words().into_iter());
        Subject {
            experiment: experiment.to_owned(),
            workload: workload.name().to_owned(),
            params: numbers.map(|(flag, value)| (flag.to_owned(), value)).collect(),
            words: words.map(|(flag, word)| (flag.to_owned(), word.to_owned())).collect(),
            arm: point.arm,
            x: point.x,
        }
    }

    /// The workload, its parameters and its arm: `feed people=8 nutrients=10 on threads`.
    pub(crate) fn label(&self) -> String {
        let numbers = self.params.iter().map(|(flag, value)| format!(" {flag}={value}"));
        let numbers: String = numbers.collect();
        let words = self.words.iter().map(|(flag, word)| format!(" {flag}={word}"));
        let words: String = words.collect();
        format!("{}{numbers}{words} on {}", self.workload, self.arm.name())
    }

    /// The arguments of the peer that measures it; `None` if no peer does.
    pub(crate) fn words(&self) -> Option<Vec<String>> {
        let On::Peer(peer) = self.arm.on else { return None };
        let words = peer.words(&self.workload, &self.params, &self.words)?;
        let threads = self.arm.workers.unwrap_or(1).to_string();
        Some(["--threads".to_owned(), threads].into_iter().chain(words).collect())
    }

    /// The program and the arguments of the peer that measures it.
    pub(crate) fn peer_command(&self, request: &Request) -> Option<(PathBuf, Vec<String>)> {
        let program = request.peers.as_ref()?.folder.join(self.arm.on.name());
        Some((program, self.words()?))
    }

    /// The command that measures the point again.
    pub(crate) fn command(&self) -> String {
        if let Some(words) = self.words() {
            return format!("bench/peers/target/{} {}", self.arm.on.name(), words.join(" "));
        }
        let numbers = self.params.iter().map(|(flag, value)| format!(" --{flag} {value}"));
        let words = self.words.iter().map(|(flag, word)| format!(" --{flag} {word}"));
        let parameters: String = numbers.chain(words).collect();
        let arm = self.arm.flags().join(" ");
        format!("ramie run {}{parameters} {arm} --json", self.workload)
    }
}

/// Why a point was not measured, or not in every round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NotMeasured {
    /// The point would not fit.
    Skipped(String),
    Failed(String),
}

/// A point with its readings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) subject: Subject,
    pub(crate) readings: Vec<Reading>,
    pub(crate) not_measured: Option<NotMeasured>,
    /// The counters of one more run, if the point was counted.
    pub(crate) counters: Option<CountedRun>,
}

impl Outcome {
    pub(crate) fn new(subject: Subject) -> Self {
        Outcome { subject, readings: Vec::new(), not_measured: None, counters: None }
    }

    /// The readings that count: all but those of the warm-up.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Reading> {
        self.readings.iter().filter(|reading| reading.round != WARM_UP)
    }

    /// The rounds that count and have a reading.
    pub(crate) fn rounds(&self) -> BTreeSet<u32> {
        self.counted().map(|reading| reading.round).collect()
    }

    /// The time of the readings of the last process.
    pub(crate) fn time(&self) -> Option<Duration> {
        let round = self.readings.last()?.round;
        let last = self.readings.iter().filter(|reading| reading.round == round);
        Duration::try_from_secs_f64(last.map(|reading| reading.seconds).sum()).ok()
    }

    pub(crate) fn has_round(&self, round: u32) -> bool {
        self.readings.iter().any(|reading| reading.round == round)
    }

    pub(crate) fn summary(&self, quantity: Quantity) -> Option<Summary> {
        Summary::of(self.counted().filter_map(|reading| reading.quantity(quantity)))
    }
}
