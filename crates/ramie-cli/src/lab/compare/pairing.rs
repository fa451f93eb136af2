//! The points that two labs have in common, and those that one of them lacks.

use std::collections::BTreeMap;

use super::verdict::{self, Change, Direction, Verdict};
use crate::lab::{
    plan::{Arm, Quantity},
    results::{Outcome, Results, Subject},
};

/// A quantity of a point that both labs measured.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) subject: Subject,
    pub(super) quantity: Quantity,
    pub(super) change: Change,
}

/// The name of one line of a chart.
pub(super) type SeriesName = (String, Arm, &'static str);

#[derive(Debug)]
pub(super) struct Pairing {
    pub(super) pairs: Vec<Pair>,
    /// Points that only the old lab measured.
    pub(super) only_old: Vec<Subject>,
    pub(super) only_new: Vec<Subject>,
    has_other_plan: bool,
}

impl Pairing {
    pub(super) fn of(old: &Results, new: &Results, threshold: f64) -> Self {
        let has = |lab: &Results, subject: &Subject| find(lab, subject).is_some();
        let missing = |of: &Results, from: &Results| -> Vec<Subject> {
            measured(of).map(|outcome| outcome.subject.clone()).filter(|s| !has(from, s)).collect()
        };
        let mut pairs = Vec::new();
        for outcome in measured(old) {
            let Some(other) = find(new, &outcome.subject) else { continue };
            for quantity in quantities(old, &outcome.subject) {
                let before = verdict::samples(outcome, quantity, old.rounds);
                let after = verdict::samples(other, quantity, new.rounds);
                if let Some(change) = Change::of(quantity, &before, &after, threshold) {
                    pairs.push(Pair { subject: outcome.subject.clone(), quantity, change });
                }
            }
        }
        decide_series(&mut pairs);
        let subjects = |lab: &Results| -> Vec<Subject> {
            lab.outcomes().map(|outcome| outcome.subject.clone()).collect()
        };
        let has_other_plan = subjects(old) != subjects(new);
        let (only_old, only_new) = (missing(old, new), missing(new, old));
        Pairing { pairs, only_old, only_new, has_other_plan }
    }

    pub(super) fn is_partial(&self) -> bool {
        self.has_other_plan
    }

    pub(super) fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(move |pair| pair.change.verdict == verdict)
    }

    pub(super) fn has_regression(&self) -> bool {
        self.with(Verdict::Changed(Direction::Worse)).next().is_some()
    }

    /// The series that changed in a direction, with the changed points of each.
    pub(super) fn changed(&self, direction: Direction) -> BTreeMap<SeriesName, Vec<&Pair>> {
        let mut all: BTreeMap<SeriesName, Vec<&Pair>> = BTreeMap::new();
        for pair in self.with(Verdict::Changed(direction)) {
            all.entry(pair.series()).or_default().push(pair);
        }
        all
    }

    /// How many points of a series were compared.
    pub(super) fn compared(&self, series: &SeriesName) -> usize {
        self.pairs.iter().filter(|pair| pair.series() == *series).count()
    }
}

impl Pair {
    pub(super) fn series(&self) -> SeriesName {
        (self.subject.experiment.clone(), self.subject.arm, self.quantity.noun())
    }
}

fn measured(lab: &Results) -> impl Iterator<Item = &Outcome> {
    lab.outcomes().filter(|outcome| outcome.counted().next().is_some())
}

fn find<'a>(lab: &'a Results, subject: &Subject) -> Option<&'a Outcome> {
    measured(lab).find(|outcome| outcome.subject == *subject)
}

/// The quantities that the report shows of a point.
fn quantities(lab: &Results, subject: &Subject) -> Vec<Quantity> {
    let finished = lab.find(&subject.experiment);
    let views = finished.map(|finished| finished.experiment.views.as_slice()).unwrap_or_default();
    views.iter().map(|view| view.quantity).collect()
}

fn decide_series(pairs: &mut [Pair]) {
    let mut series: BTreeMap<SeriesName, Vec<&mut Change>> = BTreeMap::new();
    for pair in pairs {
        series.entry(pair.series()).or_default().push(&mut pair.change);
    }
    for changes in series.values_mut() {
        verdict::decide(changes);
    }
}
