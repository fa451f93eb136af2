//! The results: every reading with its point, and everything else that the report derives from.
//!
//! [`Results`] changes by [`Event`]s only, and [`journal`] appends each event to a file as it
//! comes. So the journal, replayed, gives the same results, and a lab that was killed can go on.
//! [`record`] is the form of `results.json`, [`csv`] that of `results.csv`.

mod counted;
pub(crate) mod csv;
pub(crate) mod folder;
pub(crate) mod journal;
pub(crate) mod machine;
pub(crate) mod noise;
mod outcome;
mod reading;
pub(crate) mod record;
#[cfg(test)]
pub(crate) mod sample;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use self::machine::Machine;
pub(crate) use self::{
    counted::{CountedRun, Covers},
    noise::{Noise, Quiet},
    outcome::{NotMeasured, Outcome, Subject},
    reading::{Reading, Taken, WARM_UP},
};
use super::plan::{Arm, Experiment, On, Quantity, Selection, peer::Peers, post::Post};
pub(crate) use crate::summary::Summary;

/// An experiment with the outcomes of its points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finished {
    pub(crate) experiment: Experiment,
    pub(crate) outcomes: Vec<Outcome>,
}

/// A quantity over x, for one arm, in the order of x.
pub(crate) type Series = Vec<(u64, Summary)>;

/// The request, as the record names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The name of a [`Selection`].
    pub(crate) selection: String,
    /// The most rounds that may be measured.
    pub(crate) rounds: u32,
    /// The programs of other runtimes that run the points, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peers: Option<Peers>,
    /// The variables of the environment that change the behaviour of Ramie.
    pub(crate) environment: BTreeMap<String, String>,
}

impl Request {
    pub(crate) fn new(selection: Selection) -> Self {
        // Cargo passes on the variables of the build script, RAMIE_BUILD_*.
        let is_ours = |(name, _): &(String, String)| {
            name.starts_with("RAMIE_") && !name.starts_with("RAMIE_BUILD_")
        };
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        };
        Request {
            selection: selection.name().to_owned(),
            rounds: selection.rounds(),
            peers: None,
            environment: std::env::vars_os().map(text).filter(is_ours).collect(),
        }
    }
}

/// The results of a whole lab.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) request: Request,
    pub(crate) posts: Vec<Post>,
    pub(crate) finished: Vec<Finished>,
    pub(crate) is_partial: bool,
    /// How long the sessions of the lab took together.
    pub(crate) seconds: f64,
    /// The last round that was begun.
    pub(crate) rounds: u32,
    pub(crate) noise: Vec<Noise>,
}

/// The position of a point: its experiment, and its place among the points of that.
pub(crate) type Place = (usize, usize);

/// A step of the measuring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A round has begun.
    Round { round: u32 },
    /// A process has measured a point.
    Readings { point: Place, readings: Vec<Reading> },
    /// A point has no readings, or no more.
    NotMeasured { point: Place, reason: NotMeasured },
    /// The counters of a point.
    Counters { point: Place, run: CountedRun },
    /// The machine was checked.
    Noise(Noise),
    /// The measuring has ended.
    End { is_partial: bool, seconds: f64 },
}

impl Results {
    pub(crate) fn empty(
        machine: Machine,
        request: Request,
        posts: Vec<Post>,
        finished: Vec<Finished>,
    ) -> Self {
        let (is_partial, seconds, rounds, noise) = (true, 0.0, 0, Vec::new());
        Results { machine, request, posts, finished, is_partial, seconds, rounds, noise }
    }

    /// Applies an event. Fails if it names a point that there is not.
    pub(crate) fn apply(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Round { round } => self.rounds = self.rounds.max(round),
            Event::Readings { point, readings } => {
                let last = readings.last().map_or(0.0, |reading| reading.at_s);
                self.seconds = self.seconds.max(last);
                self.outcome_mut(point)?.readings.extend(readings);
            }
            Event::NotMeasured { point, reason } => {
                self.outcome_mut(point)?.not_measured = Some(reason);
            }
            Event::Counters { point, run } => self.outcome_mut(point)?.counters = Some(run),
            Event::Noise(check) => self.noise.push(check),
            Event::End { is_partial, seconds } => {
                self.is_partial = is_partial;
                self.seconds = seconds;
            }
        }
        Ok(())
    }

    fn outcome_mut(&mut self, (experiment, point): Place) -> Result<&mut Outcome, String> {
        let finished = self.finished.get_mut(experiment);
        let outcome = finished.and_then(|finished| finished.outcomes.get_mut(point));
        outcome.ok_or_else(|| format!("no point {point} of experiment {experiment} in its plan"))
    }

    /// Reasons why the figures may be far off, in sentences.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let clock = noise::clock_warning(self);
        let rounds = |outcome: &Outcome| outcome.rounds().len();
        let measured = self.outcomes().filter(|outcome| rounds(outcome) > 0).count();
        let once = self.outcomes().filter(|outcome| rounds(outcome) == 1).count();
        let is_short = once > 0 && self.request.rounds > 1;
        let short = is_short.then(|| {
            format!(
                "{} in one round only, because {}, so the spread is not known there",
                match once {
                    1 => format!("1 of {measured} points was measured"),
                    _ => format!("{once} of {measured} points were measured"),
                },
                if self.is_partial { "the lab was interrupted" } else { "time ran out" }
            )
        });
        let is_of_peer = |outcome: &&Outcome| matches!(outcome.subject.arm.on, On::Peer(_));
        let mut of_peers = self.outcomes().filter(is_of_peer);
        let has_memory = of_peers.any(|outcome| outcome.summary(Quantity::Memory).is_some());
        let tables = has_memory.then(|| {
            "The memory of the peers is without page tables, because their programs report \
             resident memory only"
                .to_owned()
        });
        clock.into_iter().chain(short).chain(tables).collect()
    }

    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.finished.iter().flat_map(|finished| &finished.outcomes)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Finished> {
        self.finished.iter().find(|finished| finished.experiment.name == name)
    }
}

impl Finished {
    /// The arms of its points: fibers first, then those they are compared with.
    pub(crate) fn arms(&self) -> Vec<Arm> {
        let mut arms = Vec::new();
        for outcome in &self.outcomes {
            if !arms.contains(&outcome.subject.arm) {
                arms.push(outcome.subject.arm);
            }
        }
        arms
    }

    /// The arm that the first one is mainly compared with, if any.
    pub(crate) fn baseline(&self) -> Option<Arm> {
        self.arms().get(1).copied()
    }

    pub(crate) fn series(&self, quantity: Quantity) -> BTreeMap<Arm, Series> {
        let mut all: BTreeMap<Arm, Series> = BTreeMap::new();
        for outcome in &self.outcomes {
            if let Some(summary) = outcome.summary(quantity) {
                all.entry(outcome.subject.arm).or_default().push((outcome.subject.x, summary));
            }
        }
        all
    }

    /// How many readings of a point count.
    pub(crate) fn readings_at(&self, arm: Arm, x: u64) -> usize {
        let is_it = |outcome: &&Outcome| outcome.subject.arm == arm && outcome.subject.x == x;
        self.outcomes.iter().filter(is_it).map(|outcome| outcome.counted().count()).sum()
    }
}
