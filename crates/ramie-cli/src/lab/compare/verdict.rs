//! The statistics of one point: did it change?
//!
//! The samples of a point are its rounds, because each round is a process of its own: repetitions
//! within a process share the addresses of its memory and the luck of that moment. The sample of a
//! round is the median of its readings. A lab of a single round has only the readings themselves,
//! so they are its samples. In a lab of several rounds they are not: a point that was measured in
//! one of them has one sample.
//!
//! A point has *moved* if the medians differ by more than the threshold and the ranges from the
//! least to the most sample do not overlap. It has moved *clearly* if the gap between the ranges is
//! also as wide as the wider of the two, and as the usual range of its series, because a few
//! samples may lie close together by chance. Noise moves single points now and then, since there
//! are hundreds of them, but rarely clearly, and rarely half of a series. So a change counts if it
//! is clear, or if at least half of the points of its series, two or more, moved the same way.

use std::collections::BTreeMap;

use crate::lab::{
    plan::Quantity,
    results::{Outcome, Summary},
};

/// Fewer samples show no spread worth the name.
pub(super) const SAMPLES_MIN: usize = 3;

/// Whether a figure became worse or better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    Worse,
    Better,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There are too few samples, or a figure is zero.
    CannotTell,
    /// The medians differ by no more than the threshold.
    Same,
    /// The medians differ by more than that, but the ranges overlap.
    WithinSpread,
    /// Moved, but neither clearly nor together with half of its series.
    Isolated(Direction),
    Changed(Direction),
}

/// A quantity of a point in two labs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) old: Summary,
    pub(super) new: Summary,
    pub(super) verdict: Verdict,
    /// The gap between the ranges, and the wider of them, as shares of the lower median.
    gap: f64,
    widest: f64,
}

impl Change {
    /// Compares the samples; `None` if one lab has none.
    pub(super) fn of(quantity: Quantity, old: &[f64], new: &[f64], threshold: f64) -> Option<Self> {
        let (before, after) = (Summary::of(old.to_vec())?, Summary::of(new.to_vec())?);
        let has_risen = after.median > before.median;
        let is_worse = has_risen != quantity.prefers_more();
        let (low, high) = if has_risen { (before, after) } else { (after, before) };
        let share = |value: f64| value / low.median;
        let gap = share(high.least - low.most);
        let widest = share((low.most - low.least).max(high.most - high.least));
        // A tiny amount of memory may be measured as zero or less, and has no ratio.
        let verdict = if old.len().min(new.len()) < SAMPLES_MIN || low.median <= 0.0 {
            Verdict::CannotTell
        } else if high.median <= low.median * (1.0 + threshold) {
            Verdict::Same
        } else if gap <= 0.0 {
            Verdict::WithinSpread
        } else {
            Verdict::Isolated(if is_worse { Direction::Worse } else { Direction::Better })
        };
        Some(Change { old: before, new: after, verdict, gap, widest })
    }

    /// The new median divided by the old one.
    pub(super) fn ratio(&self) -> f64 {
        self.new.median / self.old.median
    }
}

/// The samples of a quantity: the median of each round, or the readings if the lab had one round.
pub(super) fn samples(outcome: &Outcome, quantity: Quantity, lab_rounds: u32) -> Vec<f64> {
    let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for reading in outcome.counted() {
        if let Some(value) = reading.quantity(quantity) {
            rounds.entry(reading.round).or_default().push(value);
        }
    }
    match lab_rounds {
        0 | 1 => rounds.into_values().flatten().collect(),
        _ => rounds.into_values().filter_map(Summary::of).map(|of| of.median).collect(),
    }
}

/// Decides which of the points that moved have changed. All points are of one series.
pub(super) fn decide(series: &mut [&mut Change]) {
    let told = series.iter().filter(|change| change.verdict != Verdict::CannotTell);
    let usual = Summary::of(told.map(|change| change.widest)).map_or(0.0, |usual| usual.median);
    for direction in [Direction::Worse, Direction::Better] {
        let moved = Verdict::Isolated(direction);
        let count = series.iter().filter(|change| change.verdict == moved).count();
        let is_common = count >= 2 && 2 * count >= series.len();
        for change in series.iter_mut().filter(|change| change.verdict == moved) {
            if is_common || change.gap >= change.widest.max(usual) {
                change.verdict = Verdict::Changed(direction);
            }
        }
    }
}
