//! The findings: sentences that compare the figures. Each is computed from the readings.

use super::{
    figure::{amount, factor, thousands},
    plan::{Experiment, Quantity, View},
    results::{Finished, Results, Series},
};
use crate::workload::Engine;

/// Two figures count as even if their ratio is smaller than this.
const EVEN: f64 = 1.1;

/// The faster (or smaller) of two engines at one x.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lead {
    First,
    Second,
    Even,
}

/// The figures of two engines at one x.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    pub(super) x: u64,
    /// The second figure divided by the first: above 1 the first engine is ahead.
    pub(super) ratio: f64,
}

impl Comparison {
    pub(super) fn lead(&self) -> Lead {
        match self.ratio {
            ratio if ratio > EVEN => Lead::First,
            ratio if ratio < 1.0 / EVEN => Lead::Second,
            _ => Lead::Even,
        }
    }

    /// The ratio of the larger figure to the smaller one; at least 1.
    pub(super) fn margin(&self) -> f64 {
        self.ratio.max(1.0 / self.ratio)
    }
}

/// The comparisons at each x where both engines have figures.
pub(super) fn comparisons(first: &Series, second: &Series) -> Vec<Comparison> {
    let at = |(x, mine): &(u64, super::results::Summary)| {
        let (_, other) = second.iter().find(|(other, _)| other == x)?;
        Some(Comparison { x: *x, ratio: other.median / mine.median })
    };
    first.iter().filter_map(at).collect()
}

/// A few representative figures, for the terminal and the top of the page.
pub(super) fn headlines(results: &Results) -> Vec<String> {
    let mut lines: Vec<_> = results
        .finished
        .iter()
        .filter(|finished| !finished.experiment.name.starts_with("feed"))
        .filter_map(headline)
        .collect();
    lines.extend(feed_overview(results));
    lines
}

/// Compares fibers with their baseline at the largest x at which both have figures.
fn headline(finished: &Finished) -> Option<String> {
    let view = finished.experiment.views.first()?;
    let series = finished.series(view.quantity);
    let rival = finished.experiment.baseline()?;
    let (fibers, others) = (series.get(&Engine::Fibers)?, series.get(&rival)?);
    let x = comparisons(fibers, others).last()?.x;
    let of = |series: &Series| series.iter().find(|(other, _)| *other == x).map(|(_, s)| s.median);
    let (fiber, other) = (of(fibers)?, of(others)?);
    Some(format!(
        "{}, at {} {}: a fiber {}, {} {}",
        view.title,
        thousands(x),
        finished.experiment.x_noun,
        amount(view.quantity, fiber),
        rival.one(),
        amount(view.quantity, other)
    ))
}

/// Compares fibers with threads across the feeding experiments, for the largest number of people
/// that both fed in each: at which numbers of nutrients is each ahead?
pub(super) fn feed_overview(results: &Results) -> Option<String> {
    let mut wins: Vec<(u64, Comparison)> = Vec::new();
    for finished in &results.finished {
        let nutrients = finished.experiment.name.strip_prefix("feed-").and_then(|n| n.parse().ok());
        let last = nutrients.and_then(|n| Some((n, *fibers_against_threads(finished)?.last()?)));
        wins.extend(last);
    }
    let people = wins.iter().map(|(_, comparison)| comparison.x).min()?;
    wins.retain(|(_, comparison)| comparison.x == people);
    Some(overview(&wins, &thousands(people)))
}

/// The engine that is ahead at each number of nutrients, in as few words as possible.
fn overview(wins: &[(u64, Comparison)], people: &str) -> String {
    let at = |lead| {
        let won = wins.iter().filter(|(_, comparison)| comparison.lead() == lead);
        let places: Vec<_> =
            won.map(|(nutrients, comparison)| place(*nutrients, *comparison)).collect();
        (!places.is_empty()).then(|| listed(&places))
    };
    let parts = [("fibers win", Lead::First), ("threads win", Lead::Second), ("even", Lead::Even)];
    let parts = parts.map(|(leader, lead)| at(lead).map(|places| format!("{leader} at {places}")));
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!(
        "Feeding {people} people, by the nutrients for each: {}; a fiber yields after each \
         nutrient, a thread does not",
        parts.join("; ")
    )
}

fn place(nutrients: u64, comparison: Comparison) -> String {
    match comparison.lead() {
        Lead::Even => thousands(nutrients),
        _ => format!("{} ({})", thousands(nutrients), factor(comparison.margin())),
    }
}

pub(super) fn fibers_against_threads(finished: &Finished) -> Option<Vec<Comparison>> {
    let view = finished.experiment.views.first()?;
    let series = finished.series(view.quantity);
    let all = comparisons(series.get(&Engine::Fibers)?, series.get(&Engine::Threads)?);
    (!all.is_empty()).then_some(all)
}

/// All findings, for the files of results.
pub(super) fn all(results: &Results) -> Vec<String> {
    let mut all: Vec<_> = feed_overview(results).into_iter().collect();
    for finished in &results.finished {
        for view in &finished.experiment.views {
            all.push(format!("{}: {}", finished.experiment.title, of_view(finished, *view)));
        }
    }
    all.extend(where_threads_win(results));
    all
}

/// The finding of one chart: fibers against each other engine, or the figures of the only engine.
pub(super) fn of_view(finished: &Finished, view: View) -> String {
    let series = finished.series(view.quantity);
    let empty = Series::new();
    let get = |on| series.get(&on).unwrap_or(&empty);
    let x_noun = finished.experiment.x_noun;
    let against = |other: Engine| {
        compare(
            &comparisons(get(Engine::Fibers), get(other)),
            ["fibers", other.all()],
            x_noun,
            view,
        )
    };
    let engines = finished.experiment.engines();
    let sentences: Vec<_> = match engines.as_slice() {
        [one] => alone(*one, get(*one), x_noun, view).into_iter().collect(),
        engines => engines.iter().skip(1).filter_map(|other| against(*other)).collect(),
    };
    if sentences.is_empty() {
        "There are not enough figures to compare.".to_owned()
    } else {
        sentences.join(" ")
    }
}

/// The first and the last figure of an engine that has no other to compare with.
fn alone(on: Engine, series: &Series, x_noun: &str, view: View) -> Option<String> {
    let ((from, least), (to, most)) = (series.first()?, series.last()?);
    let at = |x: u64, median| format!("{} at {}", amount(view.quantity, median), thousands(x));
    let first = at(*from, least.median);
    let last = if from == to { String::new() } else { format!(", {}", at(*to, most.median)) };
    Some(format!("{} {first}{last} {x_noun}.", capital(&verb(on.all(), "take"))))
}

fn compare(
    comparisons: &[Comparison],
    names: [&str; 2],
    x_noun: &str,
    view: View,
) -> Option<String> {
    let [first, second] = names;
    let quantity = match view.quantity {
        Quantity::Memory => "less memory",
        Quantity::Cpu => "less CPU time",
        Quantity::Seconds | Quantity::PerOp => "less time",
    };
    let decided: Vec<_> =
        comparisons.iter().filter(|comparison| comparison.lead() != Lead::Even).copied().collect();
    let Some(leader) = decided.first() else {
        let (from, to) = (comparisons.first()?.x, comparisons.last()?.x);
        let places = match from == to {
            true => format!("at {} {x_noun}", thousands(from)),
            false => format!("from {} to {} {x_noun}", thousands(from), thousands(to)),
        };
        return Some(format!("{} and {second} are even {places}.", capital(first)));
    };
    let changes = decided.windows(2).filter(|pair| pair[0].lead() != pair[1].lead()).count();
    let (ahead, behind) = match leader.lead() {
        Lead::First => (first, second),
        _ => (second, first),
    };
    match changes {
        0 => Some(format!(
            "{} {quantity} than {behind} {}, by {}.",
            capital(&verb(ahead, "take")),
            span(&decided, comparisons, x_noun),
            margins(&decided)
        )),
        1 => Some(one_crossing(&decided, names, x_noun)),
        _ => Some(many_crossings(&decided, names)),
    }
}

/// A name with its verb: `fibers take`, `the hybrid takes`.
fn verb(name: &str, does: &str) -> String {
    let ending = if name.starts_with("the ") { "s" } else { "" };
    format!("{name} {does}{ending}")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}

/// Where the leader leads: everywhere, or at a number of the points.
fn span(decided: &[Comparison], all: &[Comparison], x_noun: &str) -> String {
    match (decided, all.len()) {
        ([one], 1) => format!("at {} {x_noun}", thousands(one.x)),
        _ if decided.len() == all.len() => format!(
            "everywhere from {} to {} {x_noun}",
            thousands(all[0].x),
            thousands(all[all.len() - 1].x)
        ),
        _ => format!("at {} of {} points, even at the rest", decided.len(), all.len()),
    }
}

fn margins(decided: &[Comparison]) -> String {
    let margins = || decided.iter().map(Comparison::margin);
    let least = factor(margins().fold(f64::INFINITY, f64::min));
    let most = factor(margins().fold(0.0, f64::max));
    if least == most { least } else { format!("{least} to {most}") }
}

fn one_crossing(decided: &[Comparison], names: [&str; 2], x_noun: &str) -> String {
    let at = decided.windows(2).position(|pair| pair[0].lead() != pair[1].lead()).unwrap_or(0);
    let (before, after) = (decided[at], decided[at + 1]);
    let (start, end) = (decided[0], decided[decided.len() - 1]);
    let [winner, loser] = if before.lead() == Lead::First { names } else { [names[1], names[0]] };
    format!(
        "{} against {loser} up to {} {x_noun} ({} at {}) and {} from {} on ({} at {}); they cross \
         near {}.",
        capital(&verb(winner, "win")),
        thousands(before.x),
        factor(start.margin()),
        thousands(start.x),
        if winner.starts_with("the ") { "loses" } else { "lose" },
        thousands(after.x),
        factor(end.margin()),
        thousands(end.x),
        thousands(crossing(before, after))
    )
}

/// The x at which the ratio is 1, interpolated on logarithmic axes.
fn crossing(before: Comparison, after: Comparison) -> u64 {
    let (from, to) = ((before.x as f64).ln(), (after.x as f64).ln());
    let (left, right) = (before.ratio.ln(), after.ratio.ln());
    let share = left / (left - right);
    (from + (to - from) * share).exp().round() as u64
}

/// Lists the points by name, because a single crossing would be a line through noise.
fn many_crossings(decided: &[Comparison], names: [&str; 2]) -> String {
    let wins = |lead| {
        let won: Vec<_> =
            decided.iter().filter(|comparison| comparison.lead() == lead).copied().collect();
        let places: Vec<_> = won.iter().map(|comparison| thousands(comparison.x)).collect();
        format!("at {} (by {})", listed(&places), margins(&won))
    };
    format!(
        "Between {} and {} the lead changes more than once: {} {}, {} {}.",
        names[0],
        names[1],
        verb(names[0], "win"),
        wins(Lead::First),
        verb(names[1], "win"),
        wins(Lead::Second)
    )
}

/// `1`, `1 and 2`, `1, 2 and 3`.
fn listed(items: &[String]) -> String {
    match items {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => items.concat(),
    }
}

/// One sentence for each view in which threads beat both fibers and the hybrid somewhere.
pub(super) fn where_threads_win(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for Finished { experiment, .. } in &results.finished {
        for view in &experiment.views {
            let finished = results.find(&experiment.name);
            sentences.extend(finished.and_then(|finished| threads_win(finished, *view)));
        }
    }
    if sentences.is_empty() {
        sentences.push("Nowhere on this grid, on this machine.".to_owned());
    }
    sentences
}

fn threads_win(finished: &Finished, view: View) -> Option<String> {
    let series = finished.series(view.quantity);
    let threads = series.get(&Engine::Threads)?;
    let beaten = |on| Some(comparisons(threads, series.get(&on)?));
    let (fibers, hybrid) = (beaten(Engine::Fibers)?, beaten(Engine::Hybrid).unwrap_or_default());
    let best_other = |comparison: &Comparison| {
        let other = hybrid.iter().find(|other| other.x == comparison.x);
        Comparison {
            x: comparison.x,
            ratio: other.map_or(comparison.ratio, |other| other.ratio.min(comparison.ratio)),
        }
    };
    let all: Vec<_> = fibers.iter().map(best_other).collect();
    let won: Vec<_> =
        all.iter().filter(|comparison| comparison.lead() == Lead::First).copied().collect();
    let (first, last) = (won.first()?, won.last()?);
    let Experiment { title, x_noun, .. } = &finished.experiment;
    let places = match won.len() {
        count if count == all.len() && count > 1 => format!("at all {count} points"),
        1 => format!("at {} {x_noun}", thousands(first.x)),
        count => format!(
            "at {count} of {} points, between {} and {} {x_noun}",
            all.len(),
            thousands(first.x),
            thousands(last.x)
        ),
    };
    Some(format!(
        "{title} ({}): threads beat fibers and the hybrid {places}, by {}.",
        view.title.to_lowercase(),
        margins(&won)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: View = View { title: "Time", quantity: Quantity::Seconds };

    fn sentence(ratios: &[f64]) -> String {
        let comparison =
            |(index, ratio): (usize, &f64)| Comparison { x: 1 << (2 * index), ratio: *ratio };
        let all: Vec<_> = ratios.iter().enumerate().map(comparison).collect();
        compare(&all, ["fibers", "threads"], "people", VIEW).unwrap_or_default()
    }

    #[test]
    fn a_clear_lead_is_reported_with_its_margins() {
        let expected = "Fibers take less time than threads everywhere from 1 to 16 people, by \
                        2.0× to 8.0×.";
        assert_eq!(sentence(&[8.0, 4.0, 2.0]), expected);
        let expected = "Threads take less time than fibers everywhere from 1 to 4 people, by \
                        2.0×.";
        assert_eq!(sentence(&[0.5, 0.5]), expected);
    }

    #[test]
    fn a_crossing_is_found_between_the_points() {
        let expected = "Fibers win against threads up to 4 people (8.0× at 1) and lose from 16 on \
                        (4.0× at 64); they cross near 8.";
        assert_eq!(sentence(&[8.0, 2.0, 0.5, 0.25]), expected);
    }

    #[test]
    fn close_figures_are_even_and_wild_ones_are_listed() {
        assert_eq!(sentence(&[1.01, 0.99]), "Fibers and threads are even from 1 to 4 people.");
        assert_eq!(sentence(&[]), "");
        let expected = "Between fibers and threads the lead changes more than once: fibers win at \
                        1 and 16 (by 2.0×), threads win at 4 and 64 (by 4.0×).";
        assert_eq!(sentence(&[2.0, 0.25, 2.0, 0.25]), expected);
    }

    #[test]
    fn the_overview_names_the_winner_at_each_point_once() {
        let comparison = |(nutrients, ratio)| (nutrients, Comparison { x: 2048, ratio });
        let sentences = |wins: &[(u64, f64)]| {
            let all: Vec<_> = wins.iter().copied().map(comparison).collect();
            overview(&all, "2,048")
        };
        let yields = "; a fiber yields after each nutrient, a thread does not";
        assert_eq!(
            sentences(&[(10, 8.0), (100, 2.0), (1000, 1.0), (10_000, 0.5)]),
            format!(
                "Feeding 2,048 people, by the nutrients for each: fibers win at 10 (8.0×) and 100 \
                 (2.0×); threads win at 10,000 (2.0×); even at 1,000{yields}"
            )
        );
        assert_eq!(
            sentences(&[(10_000, 1.0)]),
            format!("Feeding 2,048 people, by the nutrients for each: even at 10,000{yields}")
        );
    }
}
