//! The findings: sentences that compare the figures. Each is computed from the readings.

use crate::{
    lab::{
        figure::{amount, counted, factor, thousands},
        plan::{Arm, Experiment, On, Quantity, View},
        results::{Finished, Results, Series, Summary},
    },
    workload::Engine,
};

/// Two figures count as even if their ratio is smaller than this.
pub(super) const EVEN: f64 = 1.1;

const FIBERS: Arm = Arm::of(Engine::Fibers);
const THREADS: Arm = Arm::of(Engine::Threads);

/// The faster (or smaller) of two engines at one x.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lead {
    First,
    Second,
    Even,
}

/// The figures of two engines at one x.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    pub(crate) x: u64,
    /// The [advantage](Quantity::advantage) of the first engine: above 1 it is ahead.
    pub(crate) ratio: f64,
}

impl Comparison {
    pub(crate) fn lead(&self) -> Lead {
        match self.ratio {
            ratio if ratio > EVEN => Lead::First,
            ratio if ratio < 1.0 / EVEN => Lead::Second,
            _ => Lead::Even,
        }
    }

    /// The ratio of the larger figure to the smaller one; at least 1.
    pub(crate) fn margin(&self) -> f64 {
        self.ratio.max(1.0 / self.ratio)
    }
}

/// The comparisons at each x where both engines have figures.
pub(crate) fn comparisons(quantity: Quantity, first: &Series, second: &Series) -> Vec<Comparison> {
    let at = |(x, mine): &(u64, Summary)| {
        let (_, other) = second.iter().find(|(other, _)| other == x)?;
        // A tiny amount of memory may be measured as zero or less, and has no ratio.
        let has_ratio = mine.median > 0.0 && other.median > 0.0;
        has_ratio
            .then(|| Comparison { x: *x, ratio: quantity.advantage(mine.median, other.median) })
    };
    first.iter().filter_map(at).collect()
}

/// A few representative figures, for the terminal and the top of the page.
pub(crate) fn headlines(results: &Results) -> Vec<String> {
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
    let rival = finished.baseline()?;
    let (fibers, others) = (series.get(&FIBERS)?, series.get(&rival)?);
    let x = comparisons(view.quantity, fibers, others).last()?.x;
    let of = |series: &Series| series.iter().find(|(other, _)| *other == x).map(|(_, s)| s.median);
    let (fiber, other) = (of(fibers)?, of(others)?);
    // A rate is that of all strands together.
    let noun = |arm: Arm| if view.quantity.prefers_more() { arm.all() } else { arm.one() };
    Some(format!(
        "{}, at {}: {} {}, {} {}",
        view.title,
        counted(x, &finished.experiment.x_noun),
        noun(FIBERS),
        amount(view.quantity, fiber),
        noun(rival),
        amount(view.quantity, other)
    ))
}

/// Compares fibers with threads across the feeding experiments, for the largest number of people
/// that both fed in each: at which numbers of nutrients is each ahead?
pub(crate) fn feed_overview(results: &Results) -> Option<String> {
    let mut wins: Vec<(u64, Comparison)> = Vec::new();
    for finished in &results.finished {
        let nutrients = finished.experiment.name.strip_prefix("feed-").and_then(|n| n.parse().ok());
        let last = nutrients.and_then(|n| Some((n, *fibers_against_threads(finished)?.last()?)));
        wins.extend(last);
    }
    let people = wins.iter().map(|(_, comparison)| comparison.x).min()?;
    wins.retain(|(_, comparison)| comparison.x == people);
    Some(overview(&wins, &counted(people, "people")))
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
        "Feeding {people}, by the nutrients for each: {}; a fiber yields after each \
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

pub(crate) fn fibers_against_threads(finished: &Finished) -> Option<Vec<Comparison>> {
    let view = finished.experiment.views.first()?;
    let series = finished.series(view.quantity);
    let all = comparisons(view.quantity, series.get(&FIBERS)?, series.get(&THREADS)?);
    (!all.is_empty()).then_some(all)
}

/// All findings, for the files of results.
pub(crate) fn all(results: &Results) -> Vec<String> {
    let mut all: Vec<_> = feed_overview(results).into_iter().collect();
    for finished in &results.finished {
        for view in &finished.experiment.views {
            all.push(format!("{}: {}", finished.experiment.title, of_view(finished, view)));
        }
    }
    all.extend(where_threads_win(results));
    all
}

/// The finding of one chart: fibers against each other engine, or the figures of the only engine.
pub(crate) fn of_view(finished: &Finished, view: &View) -> String {
    let series = finished.series(view.quantity);
    let empty = Series::new();
    let get = |arm| series.get(&arm).unwrap_or(&empty);
    let x_noun = finished.experiment.x_noun.as_str();
    let against = |first: Arm, other: Arm| {
        let comparisons = comparisons(view.quantity, get(first), get(other));
        compare(&comparisons, [&first.all(), &other.all()], x_noun, view)
    };
    let sentences: Vec<_> = match finished.arms().as_slice() {
        [] => Vec::new(),
        [one] => alone(*one, get(*one), x_noun, view).into_iter().collect(),
        [first, rest @ ..] => rest.iter().filter_map(|other| against(*first, *other)).collect(),
    };
    if sentences.is_empty() {
        "There are not enough figures to compare.".to_owned()
    } else {
        sentences.join(" ")
    }
}

/// The first and the last figure of an arm that has no other to compare with.
fn alone(arm: Arm, series: &Series, x_noun: &str, view: &View) -> Option<String> {
    let ((from, least), (to, most)) = (series.first()?, series.last()?);
    let at = |x: String, median| format!("{} at {x}", amount(view.quantity, median));
    let first = match from == to {
        true => String::new(),
        false => at(thousands(*from), least.median) + ", ",
    };
    let last = at(counted(*to, x_noun), most.median);
    let does = if view.quantity.prefers_more() { "answer" } else { "take" };
    Some(format!("{} {first}{last}.", capital(&verb(&arm.all(), does))))
}

pub(super) fn compare(
    comparisons: &[Comparison],
    names: [&str; 2],
    x_noun: &str,
    view: &View,
) -> Option<String> {
    let [first, second] = names;
    let (does, quantity) = match view.quantity {
        Quantity::Memory => ("take", "less memory"),
        Quantity::Cpu => ("take", "less CPU time"),
        Quantity::Seconds | Quantity::PerOp => ("take", "less time"),
        Quantity::Requests => ("answer", "more requests/s"),
        Quantity::Accept | Quantity::LongestAccept => ("have", "a shorter accept wait"),
        Quantity::Latency => ("have", "a lower latency"),
    };
    let decided: Vec<_> =
        comparisons.iter().filter(|comparison| comparison.lead() != Lead::Even).copied().collect();
    let Some(leader) = decided.first() else {
        let (from, to) = (comparisons.first()?.x, comparisons.last()?.x);
        let places = match from == to {
            true => format!("at {}", counted(from, x_noun)),
            false => format!("from {} to {}", thousands(from), counted(to, x_noun)),
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
            capital(&verb(ahead, does)),
            span(&decided, comparisons, x_noun),
            margins(&decided)
        )),
        1 => Some(one_crossing(&decided, names, x_noun)),
        _ => Some(many_crossings(&decided, names)),
    }
}

/// A name with its verb: `fibers take`, `the hybrid takes`.
pub(super) fn verb(name: &str, does: &str) -> String {
    match (name.starts_with("the "), does) {
        (false, _) => format!("{name} {does}"),
        (true, "have") => format!("{name} has"),
        (true, _) => format!("{name} {does}s"),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}

/// Where the leader leads: everywhere, or at a number of the points.
fn span(decided: &[Comparison], all: &[Comparison], x_noun: &str) -> String {
    match (decided, all.len()) {
        ([one], 1) => format!("at {}", counted(one.x, x_noun)),
        _ if decided.len() == all.len() => format!(
            "everywhere from {} to {}",
            thousands(all[0].x),
            counted(all[all.len() - 1].x, x_noun)
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
        "{} against {loser} up to {} ({} at {}) and {} from {} on ({} at {}); they cross \
         near {}.",
        capital(&verb(winner, "win")),
        counted(before.x, x_noun),
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
pub(super) fn listed(items: &[String]) -> String {
    match items {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => items.concat(),
    }
}

/// One sentence for each view in which threads beat fibers and all hybrids somewhere.
pub(crate) fn where_threads_win(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for finished in &results.finished {
        let views = finished.experiment.views.iter();
        sentences.extend(views.filter_map(|view| threads_win(finished, view)));
    }
    let has_threads = |finished: &Finished| {
        let first = finished.experiment.views.first();
        first.is_some_and(|view| finished.series(view.quantity).contains_key(&THREADS))
    };
    if sentences.is_empty() {
        sentences.push(match results.finished.iter().any(has_threads) {
            true => "Nowhere on this grid, on this machine.".to_owned(),
            false => "Threads were not measured.".to_owned(),
        });
    }
    sentences
}

fn threads_win(finished: &Finished, view: &View) -> Option<String> {
    let series = finished.series(view.quantity);
    let threads = series.get(&THREADS)?;
    let is_rival = |arm: &Arm| matches!(arm.on, On::Engine(Engine::Fibers | Engine::Hybrid));
    let rivals: Vec<Arm> = finished.arms().into_iter().filter(is_rival).collect();
    let against: Vec<Vec<Comparison>> = rivals
        .iter()
        .map(|arm| {
            let other = series.get(arm).cloned().unwrap_or_default();
            comparisons(view.quantity, threads, &other)
        })
        .collect();
    // Only where each rival has a figure, because the sentence names them all.
    let best_other = |first: &Comparison| {
        let at = |of: &Vec<Comparison>| of.iter().find(|other| other.x == first.x).copied();
        let all: Vec<_> = against.iter().map(at).collect::<Option<_>>()?;
        all.into_iter().min_by(|one, other| one.ratio.total_cmp(&other.ratio))
    };
    let all: Vec<_> = against.first()?.iter().filter_map(best_other).collect();
    let won: Vec<_> =
        all.iter().filter(|comparison| comparison.lead() == Lead::First).copied().collect();
    let (first, last) = (won.first()?, won.last()?);
    let Experiment { title, x_noun, .. } = &finished.experiment;
    let places = match won.len() {
        count if count == all.len() && count > 1 => format!("at all {count} points"),
        1 => format!("at {}", counted(first.x, x_noun)),
        count => format!(
            "at {count} of {} points, between {} and {}",
            all.len(),
            thousands(first.x),
            counted(last.x, x_noun)
        ),
    };
    Some(format!(
        "{title} ({}): threads beat {} {places}, by {}.",
        view.title_inside(),
        listed(&rivals.iter().map(|arm| arm.all()).collect::<Vec<_>>()),
        margins(&won)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(ratios: &[f64]) -> String {
        let comparison =
            |(index, ratio): (usize, &f64)| Comparison { x: 1 << (2 * index), ratio: *ratio };
        let all: Vec<_> = ratios.iter().enumerate().map(comparison).collect();
        compare(&all, ["fibers", "threads"], "people", &View::new("Time", Quantity::Seconds))
            .unwrap_or_default()
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
    fn more_requests_are_better() {
        let series = |figure| vec![(256, Summary { median: figure, least: figure, most: figure })];
        let (fast, slow) = (series(200.0), series(100.0));
        let all = comparisons(Quantity::Requests, &slow, &fast);
        assert_eq!(all[0].lead(), Lead::Second);
        let view = View::new("Requests/s", Quantity::Requests);
        let sentence = compare(&all, ["fibers", "threads"], "connections", &view);
        let expected = "Threads answer more requests/s than fibers at 256 connections, by 2.0×.";
        assert_eq!(sentence.as_deref(), Some(expected));
        assert_eq!(comparisons(Quantity::Latency, &slow, &fast)[0].lead(), Lead::First);
        let alone = alone(FIBERS, &fast, "connections", &view);
        assert_eq!(alone.as_deref(), Some("Fibers answer 200 requests/s at 256 connections."));
    }

    #[test]
    fn a_crossing_is_found_between_the_points() {
        let expected = "Fibers win against threads up to 4 people (8.0× at 1) and lose from 16 on \
                        (4.0× at 64); they cross near 8.";
        assert_eq!(sentence(&[8.0, 2.0, 0.5, 0.25]), expected);
    }

    #[test]
    fn one_of_a_thing_is_singular() {
        assert_eq!(sentence(&[1.0]), "Fibers and threads are even at 1 person.");
        assert_eq!(sentence(&[2.0]), "Fibers take less time than threads at 1 person, by 2.0×.");
        let expected = "Fibers win against threads up to 1 person (8.0× at 1) and lose from 4 on \
                        (4.0× at 4); they cross near 2.";
        assert_eq!(sentence(&[8.0, 0.25]), expected);
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
            overview(&all, "2,048 people")
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
