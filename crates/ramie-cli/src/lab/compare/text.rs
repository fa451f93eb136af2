//! The comparison as lines for the terminal and for the log of a CI run.

use super::{
    Both,
    pairing::{Pair, Pairing},
    verdict::{Direction, SAMPLES_MIN, Verdict},
};
use crate::lab::{
    figure::{amount, percent},
    results::Subject,
};

pub(super) fn lines(both: &Both) -> Vec<String> {
    let mut lines = vec![heading(both)];
    for direction in [Direction::Worse, Direction::Better] {
        let changed: Vec<_> = both.pairing.with(Verdict::Changed(direction)).collect();
        if !changed.is_empty() {
            lines.push(format!("{}:", name_of(direction)));
            lines.extend(table(&changed));
        }
    }
    lines.extend(rest(&both.pairing));
    lines.push(verdict(both));
    lines
}

fn heading(both: &Both) -> String {
    let of = |machine: &crate::lab::results::machine::Machine| {
        format!("commit {}, {}", machine.commit, machine.date)
    };
    format!(
        "old: {}; new: {}; {} figures of both, threshold {}",
        of(&both.old.machine),
        of(&both.new.machine),
        both.pairing.pairs.len(),
        both.threshold
    )
}

pub(super) fn name_of(direction: Direction) -> &'static str {
    match direction {
        Direction::Worse => "regressions",
        Direction::Better => "improvements",
    }
}

/// One row for each pair: point, quantity, old and new median, change, and the two ranges.
fn table(pairs: &[&Pair]) -> Vec<String> {
    let rows: Vec<[String; 5]> = pairs.iter().map(|pair| cells(pair)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..5).map(|column| width(column).unwrap_or(0)).collect();
    let padded = |row: &[String; 5]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
    };
    rows.iter().map(padded).collect()
}

/// Point, quantity, medians, change, ranges.
pub(super) fn cells(pair: &Pair) -> [String; 5] {
    let change = &pair.change;
    let amount = |value| amount(pair.quantity, value);
    [
        pair.subject.label(),
        pair.quantity.noun().to_owned(),
        format!("{} -> {}", amount(change.old.median), amount(change.new.median)),
        percent(change.ratio() - 1.0),
        format!(
            "{} to {} -> {} to {}",
            amount(change.old.least),
            amount(change.old.most),
            amount(change.new.least),
            amount(change.new.most)
        ),
    ]
}

/// Why the other figures do not count as changed.
pub(super) fn rest(pairing: &Pairing) -> Vec<String> {
    let mut lines = Vec::new();
    let isolated: Vec<_> = [Direction::Worse, Direction::Better]
        .into_iter()
        .flat_map(|direction| pairing.with(Verdict::Isolated(direction)))
        .map(|pair| format!("{} ({})", pair.subject.label(), percent(pair.change.ratio() - 1.0)))
        .collect();
    if !isolated.is_empty() {
        lines.push(format!(
            "moved by less than their spread, and most of their series did not, so perhaps by \
             chance: {}",
            isolated.join("; ")
        ));
    }
    let within = pairing.with(Verdict::WithinSpread).count();
    if within > 0 {
        lines.push(format!("beyond the threshold but within the spread: {}", figures(within)));
    }
    let unclear: Vec<_> = pairing.with(Verdict::CannotTell).map(|pair| &pair.subject).collect();
    if !unclear.is_empty() {
        lines.push(format!(
            "cannot tell, because there are fewer than {SAMPLES_MIN} rounds or readings, or a \
             figure is zero: {}",
            labels(&unclear)
        ));
    }
    for (name, missing) in [("old", &pairing.only_old), ("new", &pairing.only_new)] {
        if !missing.is_empty() {
            let missing: Vec<_> = missing.iter().collect();
            lines.push(format!("measured in the {name} lab only: {}", labels(&missing)));
        }
    }
    lines
}

fn figures(count: usize) -> String {
    if count == 1 { "1 figure".to_owned() } else { format!("{count} figures") }
}

fn labels(subjects: &[&Subject]) -> String {
    let mut labels: Vec<_> = subjects.iter().map(|subject| subject.label()).collect();
    // A point with two quantities is one point.
    labels.dedup();
    labels.join("; ")
}

/// The answer, in one sentence that names the series.
pub(super) fn verdict(both: &Both) -> String {
    let named = |direction| {
        let changed = both.pairing.changed(direction);
        let series = changed.iter().map(|(series, pairs)| {
            let (experiment, arm, quantity) = series;
            let changes = pairs.iter().map(|pair| pair.change.ratio() - 1.0);
            let least = changes.clone().map(f64::abs).fold(f64::INFINITY, f64::min);
            let most = changes.map(f64::abs).fold(0.0, f64::max);
            let by = match (percent_size(least), percent_size(most)) {
                (least, most) if least == most => most,
                (least, most) => format!("{least} to {most}"),
            };
            let (count, all) = (pairs.len(), both.pairing.compared(series));
            format!("{experiment} on {} ({quantity}, {count} of {all} points, by {by})", arm.name())
        });
        series.collect::<Vec<_>>().join("; ")
    };
    let (worse, better) = (named(Direction::Worse), named(Direction::Better));
    let told = both.pairing.pairs.iter().any(|pair| pair.change.verdict != Verdict::CannotTell);
    match (worse.is_empty(), better.is_empty()) {
        (true, true) if !told => {
            format!(
                "verdict: cannot tell, because no point has {SAMPLES_MIN} rounds or readings in \
                 both labs"
            )
        }
        (true, true) => {
            format!("verdict: no change beyond the spread and {}", both.threshold)
        }
        (true, false) => format!("verdict: better: {better}"),
        (false, true) => format!("verdict: worse: {worse}"),
        (false, false) => format!("verdict: worse: {worse}; better: {better}"),
    }
}

fn percent_size(share: f64) -> String {
    percent(share).trim_start_matches('+').to_owned()
}
