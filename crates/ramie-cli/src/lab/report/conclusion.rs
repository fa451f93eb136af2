//! Whether the conclusions of a post hold on this machine: one sentence for each post, computed
//! from the record.

use super::finding::{EVEN, listed, verb};
use crate::lab::{
    figure::{amount, factor},
    plan::{
        Arm,
        post::{Claim, Post, Relation},
    },
    results::{Finished, NotMeasured, Outcome, Results},
};

/// A growth is linear if it differs from that of x by this factor at most.
const LINEAR: f64 = 1.5;

/// A claim held against the figures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Judgement {
    /// With a clause that describes the figures.
    Holds(String),
    Fails(String),
    NotMeasured(String),
}

/// The sentences of all posts.
pub(crate) fn all(results: &Results) -> Vec<String> {
    results.posts.iter().map(|post| sentence(post, results)).collect()
}

/// The sentence of one post.
pub(crate) fn sentence(post: &Post, results: &Results) -> String {
    let (mut holds, mut fails, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for claim in &post.claims {
        match judge(claim, results) {
            Judgement::Holds(clause) => holds.push(clause),
            Judgement::Fails(clause) => fails.push(clause),
            Judgement::NotMeasured(clause) => missing.push(clause),
        }
    }
    let verdict = match (holds.is_empty(), fails.is_empty()) {
        (true, true) => "cannot be judged here".to_owned(),
        (false, true) if missing.is_empty() => "holds here".to_owned(),
        (false, true) => "holds here as far as it was measured".to_owned(),
        (true, false) => "does not hold here".to_owned(),
        (false, false) => {
            format!("holds here in {} of {} points", holds.len(), holds.len() + fails.len())
        }
    };
    let parts = [("", holds), ("but ", fails), ("not measured: ", missing)];
    let parts = parts.into_iter().filter(|(_, clauses)| !clauses.is_empty());
    let mut text = String::new();
    for (name, clauses) in parts {
        // A contrast needs something before it.
        let name = if text.is_empty() && name == "but " { "" } else { name };
        let before = if text.is_empty() { "" } else { "; " };
        text += &format!("{before}{name}{}", clauses.join("; "));
    }
    format!("The conclusion of “{}” ({}, {}) {verdict}: {text}", post.title, post.author, post.year)
}

/// Holds a claim against the figures.
pub(crate) fn judge(claim: &Claim, results: &Results) -> Judgement {
    let Some(finished) = results.find(&claim.experiment) else {
        return Judgement::NotMeasured(claim.place.clone());
    };
    let place = &claim.place;
    match &claim.relation {
        Relation::Ahead { winner, loser, published } => {
            let Some([won, lost]) = medians(finished, claim, [*winner, *loser]) else {
                return not_measured(finished, claim, &[*winner, *loser]);
            };
            let published = published.map(|by| format!(", {} there", factor(by)));
            let published = published.unwrap_or_default();
            let (first, second) = (winner.all(), loser.all());
            match claim.quantity.advantage(won, lost) {
                ratio if ratio > EVEN => Judgement::Holds(format!(
                    "{place} {} against {second} ({} here{published})",
                    verb(&first, "win"),
                    factor(ratio)
                )),
                ratio if ratio < 1.0 / EVEN => Judgement::Fails(format!(
                    "{place} {} against {first} ({} here), while it is the other way round there{}",
                    verb(&second, "win"),
                    factor(1.0 / ratio),
                    published.replace(", ", " (").replace(" there", ")")
                )),
                _ => Judgement::Fails(format!(
                    "{place} {first} and {second} are even here, while {} there{}",
                    verb(&first, "win"),
                    published.replace(", ", " (").replace(" there", ")")
                )),
            }
        }
        Relation::Even { arms, published } => {
            let Some([one, other]) = medians(finished, claim, *arms) else {
                return not_measured(finished, claim, arms);
            };
            let ratio = (one / other).max(other / one);
            let [first, second] = arms.map(Arm::all);
            let figures = format!("({} here, {} there)", factor(ratio), factor(*published));
            if ratio <= EVEN.max(*published) {
                Judgement::Holds(format!("{place} {first} and {second} are even {figures}"))
            } else {
                let is_first = claim.quantity.advantage(one, other) > 1.0;
                let ahead = if is_first { &first } else { &second };
                let behind = if is_first { &second } else { &first };
                Judgement::Fails(format!(
                    "{place} {} against {behind} {figures}",
                    verb(ahead, "win")
                ))
            }
        }
        Relation::Linear { arm, from } => linear(finished, claim, *arm, *from),
        Relation::Possible { arm } => possible(finished, claim, *arm, true),
        Relation::Impossible { arm } => possible(finished, claim, *arm, false),
    }
}

fn linear(finished: &Finished, claim: &Claim, arm: Arm, from: u64) -> Judgement {
    let median = |x| median(finished, claim, arm, x);
    let (Some(start), Some(end)) = (median(from), median(claim.x)) else {
        return not_measured(finished, claim, &[arm]);
    };
    let (grown, expected) = (end / start, claim.x as f64 / from as f64);
    let clause = format!(
        "{} {} times the {} cost {} {} times as much",
        claim.place,
        expected,
        finished.experiment.x_noun,
        arm.all(),
        (grown * 10.0).round() / 10.0
    );
    match (grown / expected).max(expected / grown) <= LINEAR {
        true => Judgement::Holds(clause),
        false => Judgement::Fails(format!("{clause}, while the growth is linear there")),
    }
}

fn possible(finished: &Finished, claim: &Claim, arm: Arm, wanted: bool) -> Judgement {
    let Some(outcome) = outcome(finished, arm, claim.x) else {
        return not_measured(finished, claim, &[arm]);
    };
    let summary = outcome.summary(claim.quantity);
    let (holds, clause) = match (&outcome.not_measured, summary) {
        (_, Some(summary)) => {
            let time = amount(claim.quantity, summary.median);
            (wanted, format!("{} run {}, in {time}", arm.all(), claim.place))
        }
        (Some(NotMeasured::Failed(why)), None) => {
            (!wanted, format!("{} fail {} ({why})", arm.all(), claim.place))
        }
        _ => return not_measured(finished, claim, &[arm]),
    };
    if holds { Judgement::Holds(clause) } else { Judgement::Fails(clause) }
}

fn outcome(finished: &Finished, arm: Arm, x: u64) -> Option<&Outcome> {
    finished.outcomes.iter().find(|other| other.subject.arm == arm && other.subject.x == x)
}

/// A median that a ratio can be made of.
fn median(finished: &Finished, claim: &Claim, arm: Arm, x: u64) -> Option<f64> {
    let summary = outcome(finished, arm, x)?.summary(claim.quantity)?;
    Some(summary.median).filter(|median| *median > 0.0)
}

fn medians(finished: &Finished, claim: &Claim, arms: [Arm; 2]) -> Option<[f64; 2]> {
    let [one, other] = arms.map(|arm| median(finished, claim, arm, claim.x));
    Some([one?, other?])
}

/// Names the arms that have no figure, with the reason if there is one.
fn not_measured(finished: &Finished, claim: &Claim, arms: &[Arm]) -> Judgement {
    let missing = arms.iter().filter(|arm| median(finished, claim, **arm, claim.x).is_none());
    let missing: Vec<_> = missing
        .map(|arm| {
            let reason = outcome(finished, *arm, claim.x).and_then(|of| of.not_measured.as_ref());
            match reason {
                Some(NotMeasured::Skipped(why)) => {
                    format!("{} (skipped, because {why})", arm.all())
                }
                Some(NotMeasured::Failed(why)) => format!("{} (failed: {why})", arm.all()),
                None => arm.all(),
            }
        })
        .collect();
    Judgement::NotMeasured(match missing.is_empty() {
        true => claim.place.clone(),
        false => format!("{} {}", listed(&missing), claim.place),
    })
}
