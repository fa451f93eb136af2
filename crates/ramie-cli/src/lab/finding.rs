//! What the figures say, in sentences. Each is computed; none is written beforehand.

use super::{
    figure::{amount, factor, thousands},
    plan::{Experiment, Quantity, View},
    results::{Finished, Results, Series},
};
use crate::workload::On;

/// Closer together than this, two figures are called even.
const EVEN: f64 = 1.1;

/// Who is ahead at one x.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lead {
    First,
    Second,
    Even,
}

/// Two kinds of strands at one x.
#[derive(Clone, Copy, Debug)]
pub(super) struct Duel {
    pub(super) x: u64,
    /// What the second takes, divided by what the first takes: above 1 the first is ahead.
    pub(super) ratio: f64,
}

impl Duel {
    pub(super) fn lead(&self) -> Lead {
        match self.ratio {
            ratio if ratio > EVEN => Lead::First,
            ratio if ratio < 1.0 / EVEN => Lead::Second,
            _ => Lead::Even,
        }
    }

    /// By how much the one ahead is ahead; at least 1.
    pub(super) fn margin(&self) -> f64 {
        self.ratio.max(1.0 / self.ratio)
    }
}

/// Where both have figures.
pub(super) fn duels(first: &Series, second: &Series) -> Vec<Duel> {
    let at = |(x, mine): &(u64, super::results::Summary)| {
        let (_, other) = second.iter().find(|(other, _)| other == x)?;
        Some(Duel { x: *x, ratio: other.median / mine.median })
    };
    first.iter().filter_map(at).collect()
}

/// A few figures that stand for the rest, for the terminal and the top of the page.
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

/// The largest x at which fibers and their rival both have figures.
fn headline(finished: &Finished) -> Option<String> {
    let view = finished.experiment.views.first()?;
    let series = finished.series(view.quantity);
    let rival = finished.experiment.rival()?;
    let (fibers, others) = (series.get(&On::Fibers)?, series.get(&rival)?);
    let x = duels(fibers, others).last()?.x;
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

/// Across the feeding experiments, at the most people that both fibers and threads fed in each:
/// at which nutrients does who win?
pub(super) fn feed_overview(results: &Results) -> Option<String> {
    let mut wins: Vec<(u64, Duel)> = Vec::new();
    for finished in &results.finished {
        let nutrients = finished.experiment.name.strip_prefix("feed-").and_then(|n| n.parse().ok());
        let last = nutrients.and_then(|n| Some((n, *fibers_against_threads(finished)?.last()?)));
        wins.extend(last);
    }
    let people = wins.iter().map(|(_, duel)| duel.x).min()?;
    wins.retain(|(_, duel)| duel.x == people);
    Some(overview(&wins, &thousands(people)))
}

/// In whose favour it is at each count of nutrients, in so few words as the figures allow.
fn overview(wins: &[(u64, Duel)], people: &str) -> String {
    let at = |lead| {
        let won = wins.iter().filter(|(_, duel)| duel.lead() == lead);
        let places: Vec<_> = won.map(|(nutrients, duel)| place(*nutrients, *duel)).collect();
        (!places.is_empty()).then(|| listed(&places))
    };
    let parts = [("fibers win", Lead::First), ("threads win", Lead::Second), ("even", Lead::Even)];
    let parts = parts.map(|(who, lead)| at(lead).map(|places| format!("{who} at {places}")));
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    format!(
        "Feeding {people} people, by the nutrients for each: {}; a fiber yields after each \
         nutrient, a thread does not",
        parts.join("; ")
    )
}

fn place(nutrients: u64, duel: Duel) -> String {
    match duel.lead() {
        Lead::Even => thousands(nutrients),
        _ => format!("{} ({})", thousands(nutrients), factor(duel.margin())),
    }
}

pub(super) fn fibers_against_threads(finished: &Finished) -> Option<Vec<Duel>> {
    let view = finished.experiment.views.first()?;
    let series = finished.series(view.quantity);
    let all = duels(series.get(&On::Fibers)?, series.get(&On::Threads)?);
    (!all.is_empty()).then_some(all)
}

/// Every finding, as the files have them.
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

/// What one chart shows: fibers against each of the others; what they take if there are none.
pub(super) fn of_view(finished: &Finished, view: View) -> String {
    let series = finished.series(view.quantity);
    let empty = Series::new();
    let get = |on| series.get(&on).unwrap_or(&empty);
    let x_noun = finished.experiment.x_noun;
    let against = |other: On| {
        compare(&duels(get(On::Fibers), get(other)), ["fibers", other.all()], x_noun, view)
    };
    let ons = finished.experiment.ons();
    let said: Vec<_> = match ons.as_slice() {
        [one] => alone(*one, get(*one), x_noun, view).into_iter().collect(),
        ons => ons.iter().skip(1).filter_map(|other| against(*other)).collect(),
    };
    if said.is_empty() {
        "There are not enough figures to compare.".to_owned()
    } else {
        said.join(" ")
    }
}

/// The least and the most that is taken where there is nothing to compare with.
fn alone(on: On, series: &Series, x_noun: &str, view: View) -> Option<String> {
    let ((from, least), (to, most)) = (series.first()?, series.last()?);
    let at = |x: u64, median| format!("{} at {}", amount(view.quantity, median), thousands(x));
    let first = at(*from, least.median);
    let last = if from == to { String::new() } else { format!(", {}", at(*to, most.median)) };
    Some(format!("{} {first}{last} {x_noun}.", capital(&verb(on.all(), "take"))))
}

fn compare(duels: &[Duel], names: [&str; 2], x_noun: &str, view: View) -> Option<String> {
    let [first, second] = names;
    let what = match view.quantity {
        Quantity::Memory => "less memory",
        Quantity::Cpu => "less CPU time",
        Quantity::Seconds | Quantity::PerOp => "less time",
    };
    let decided: Vec<_> = duels.iter().filter(|duel| duel.lead() != Lead::Even).copied().collect();
    let Some(leader) = decided.first() else {
        let (from, to) = (duels.first()?.x, duels.last()?.x);
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
            "{} {what} than {behind} {}, by {}.",
            capital(&verb(ahead, "take")),
            span(&decided, duels, x_noun),
            margins(&decided)
        )),
        1 => Some(one_crossing(&decided, names, x_noun)),
        _ => Some(many_crossings(&decided, names)),
    }
}

/// A name with what it does: fibers take, the hybrid takes.
fn verb(name: &str, does: &str) -> String {
    let ending = if name.starts_with("the ") { "s" } else { "" };
    format!("{name} {does}{ending}")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}

/// Where the leader leads: everywhere, or at so many of the points.
fn span(decided: &[Duel], all: &[Duel], x_noun: &str) -> String {
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

fn margins(decided: &[Duel]) -> String {
    let margins = || decided.iter().map(Duel::margin);
    let least = factor(margins().fold(f64::INFINITY, f64::min));
    let most = factor(margins().fold(0.0, f64::max));
    if least == most { least } else { format!("{least} to {most}") }
}

fn one_crossing(decided: &[Duel], names: [&str; 2], x_noun: &str) -> String {
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

/// Where the ratio is 1, on logarithmic axes.
fn crossing(before: Duel, after: Duel) -> u64 {
    let (from, to) = ((before.x as f64).ln(), (after.x as f64).ln());
    let (left, right) = (before.ratio.ln(), after.ratio.ln());
    let share = left / (left - right);
    (from + (to - from) * share).exp().round() as u64
}

/// With the points by name: a crossing would be a line through noise.
fn many_crossings(decided: &[Duel], names: [&str; 2]) -> String {
    let wins = |lead| {
        let won: Vec<_> = decided.iter().filter(|duel| duel.lead() == lead).copied().collect();
        let places: Vec<_> = won.iter().map(|duel| thousands(duel.x)).collect();
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
    let threads = series.get(&On::Threads)?;
    let beaten = |on| Some(duels(threads, series.get(&on)?));
    let (fibers, hybrid) = (beaten(On::Fibers)?, beaten(On::Hybrid).unwrap_or_default());
    let best_other = |duel: &Duel| {
        let other = hybrid.iter().find(|other| other.x == duel.x);
        Duel { x: duel.x, ratio: other.map_or(duel.ratio, |other| other.ratio.min(duel.ratio)) }
    };
    let all: Vec<_> = fibers.iter().map(best_other).collect();
    let won: Vec<_> = all.iter().filter(|duel| duel.lead() == Lead::First).copied().collect();
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
        let duel = |(index, ratio): (usize, &f64)| Duel { x: 1 << (2 * index), ratio: *ratio };
        let all: Vec<_> = ratios.iter().enumerate().map(duel).collect();
        compare(&all, ["fibers", "threads"], "people", VIEW).unwrap_or_default()
    }

    #[test]
    fn a_clear_lead_is_told_with_its_margins() {
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
    fn the_overview_says_who_wins_where_and_nothing_twice() {
        let duel = |(nutrients, ratio)| (nutrients, Duel { x: 2048, ratio });
        let said = |wins: &[(u64, f64)]| {
            let all: Vec<_> = wins.iter().copied().map(duel).collect();
            overview(&all, "2,048")
        };
        let yields = "; a fiber yields after each nutrient, a thread does not";
        assert_eq!(
            said(&[(10, 8.0), (100, 2.0), (1000, 1.0), (10_000, 0.5)]),
            format!(
                "Feeding 2,048 people, by the nutrients for each: fibers win at 10 (8.0×) and 100 \
                 (2.0×); threads win at 10,000 (2.0×); even at 1,000{yields}"
            )
        );
        assert_eq!(
            said(&[(10_000, 1.0)]),
            format!("Feeding 2,048 people, by the nutrients for each: even at 10,000{yields}")
        );
    }
}
