//! Comparisons of synthetic labs.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    Both,
    pairing::Pair,
    text,
    verdict::{Direction, Verdict},
};
use crate::{
    arguments::Percentage,
    lab::{
        plan::{Preset, Selection},
        results::{
            Results, Subject,
            sample::{chance, lab},
        },
    },
};

const THRESHOLD: Percentage = Percentage::of(5.0);

/// A cost that depends on the point, with noise of up to `spread` that depends on `seed`, too.
fn noisy(seed: u64, spread: f64) -> impl Fn(&Subject, u32) -> f64 {
    move |subject, round| {
        let label = subject.label();
        let number = label.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        let base = 0.001 + chance(number);
        base * (1.0 + spread * (chance(number ^ (seed << 32) ^ (u64::from(round) << 8)) - 0.5))
    }
}

fn quick(rounds: u32, cost: impl Fn(&Subject, u32) -> f64) -> Results {
    lab(Selection::Quick, rounds, |subject, round| Some(cost(subject, round)))
}

fn compared(old: Results, new: Results) -> Both {
    Both::of(old, new, THRESHOLD)
}

fn worse(both: &Both) -> BTreeSet<String> {
    let changed = both.pairing.changed(Direction::Worse);
    changed.keys().map(|(experiment, arm, _)| format!("{experiment} on {}", arm.name())).collect()
}

#[test]
fn identical_labs_have_no_change() {
    let both = compared(quick(5, noisy(1, 0.04)), quick(5, noisy(1, 0.04)));
    assert!(both.pairing.pairs.iter().all(|pair| pair.change.verdict == Verdict::Same));
    assert!(!both.pairing.has_regression() && both.warnings().is_empty());
    assert_eq!(text::verdict(&both), "verdict: no change beyond the spread and 5 %");
    assert!(both.pairing.only_old.is_empty() && both.pairing.only_new.is_empty());
}

#[test]
fn noise_within_the_spread_is_no_change() {
    for seed in 0..20 {
        for spread in [0.03, 0.1, 0.4] {
            let both = compared(quick(5, noisy(seed, spread)), quick(5, noisy(seed + 100, spread)));
            let named: Vec<_> = both.pairing.changed(Direction::Worse).into_keys().collect();
            assert!(!both.pairing.has_regression(), "seed {seed}, spread {spread}: {named:?}");
        }
    }
}

/// A lab that was interrupted has points with several readings in its only finished round.
#[test]
fn readings_of_one_round_of_several_are_one_sample() {
    let lab_with_readings = |factor: f64, rounds: u32| {
        let mut results = quick(rounds, |_, _| factor);
        for outcome in results.finished.iter_mut().flat_map(|finished| &mut finished.outcomes) {
            outcome.readings.retain(|reading| reading.round == 1);
            let reading = outcome.readings[0].clone();
            outcome.readings.extend([reading.clone(), reading]);
        }
        results
    };
    let verdicts = |rounds: u32| {
        let both = compared(lab_with_readings(1.0, rounds), lab_with_readings(2.0, rounds));
        both.pairing.pairs.iter().map(|pair| pair.change.verdict).collect::<Vec<_>>()
    };
    assert!(verdicts(2).iter().all(|verdict| *verdict == Verdict::CannotTell));
    assert!(verdicts(1).iter().all(|verdict| matches!(verdict, Verdict::Changed(_))));
}

#[test]
fn a_slowdown_of_a_tenth_names_exactly_the_slow_workloads() {
    let slow = |subject: &Subject| {
        let is_switch = subject.workload == "switch";
        let is_ring = subject.experiment == "ring";
        (is_switch || is_ring) && subject.arm.name() == "fibers"
    };
    let new = quick(5, |subject, round| {
        let cost = noisy(2, 0.04)(subject, round);
        if slow(subject) { cost * 1.1 } else { cost }
    });
    let both = compared(quick(5, noisy(1, 0.04)), new);
    let expected = ["ring on fibers", "switch on fibers"].map(str::to_owned);
    assert_eq!(worse(&both), BTreeSet::from(expected));
    assert!(both.pairing.changed(Direction::Better).is_empty());
    assert!(both.pairing.has_regression());
    let verdict = text::verdict(&both);
    assert!(
        verdict.starts_with("verdict: worse: ring on fibers (time, 6 of 6 points"),
        "{verdict}"
    );
}

#[test]
fn fewer_requests_a_second_are_worse() {
    let server = |factor: f64| {
        lab(Selection::Preset(Preset::Uringmachine), 5, move |subject, round| {
            let cost = noisy(1, 0.01)(subject, round);
            Some(if subject.workload == "http" { cost * factor } else { cost })
        })
    };
    let names = |both: &Both, direction| -> BTreeSet<_> {
        let changed = both.pairing.changed(direction);
        assert!(changed.keys().all(|(experiment, ..)| experiment == "http-256"), "{changed:?}");
        changed.into_keys().map(|(_, _, quantity)| quantity).collect()
    };
    let all = BTreeSet::from(["requests/s", "latency", "CPU time"]);
    let slower = compared(server(1.0), server(2.0));
    assert_eq!(names(&slower, Direction::Worse), all);
    assert!(names(&slower, Direction::Better).is_empty());
    let faster = compared(server(2.0), server(1.0));
    assert_eq!(names(&faster, Direction::Better), all);
    assert!(!faster.pairing.has_regression());
}

#[test]
fn single_readings_cannot_tell() {
    let slower = |subject: &Subject, round| 2.0 * noisy(1, 0.0)(subject, round);
    for rounds in [1, 2] {
        let both = compared(quick(5, noisy(1, 0.0)), quick(rounds, slower));
        assert!(both.pairing.pairs.iter().all(|pair| pair.change.verdict == Verdict::CannotTell));
        assert!(!both.pairing.has_regression());
        assert!(text::verdict(&both).starts_with("verdict: cannot tell"));
    }
}

#[test]
fn labs_of_two_plans_are_compared_where_they_agree() {
    let tiny = lab(Selection::Tiny, 5, |subject, round| Some(noisy(1, 0.04)(subject, round)));
    let both = compared(tiny, quick(5, noisy(1, 0.04)));
    assert!(both.pairing.is_partial() && !both.pairing.pairs.is_empty());
    let warnings = both.warnings();
    assert!(warnings[0].contains("plans differ (tiny and quick)"), "{warnings:?}");
    let lines = text::lines(&both).join("\n");
    for missing in ["in the new lab only: feed nutrients=", "in the old lab only: ring hops=200"] {
        assert!(lines.contains(missing), "{missing}");
    }
}

#[test]
fn another_machine_is_named() {
    let (old, mut new) = (quick(3, noisy(1, 0.04)), quick(3, noisy(1, 0.04)));
    new.machine.cpu = "another".to_owned();
    let warnings = compared(old, new).warnings();
    assert!(warnings[0].contains("the CPU is ") && warnings[0].contains("another"), "{warnings:?}");
}

/// Costs of the points of one small lab, some missing, some zero, often equal.
fn costs() -> impl Strategy<Value = Vec<Option<u8>>> {
    prop::collection::vec(prop::option::weighted(0.9, 0_u8..12), 200)
}

fn lab_of(costs: &[Option<u8>], rounds: u32) -> Results {
    let mut next = costs.iter().cycle();
    lab(Selection::Tiny, rounds, |_, _| next.next().copied().flatten().map(f64::from))
}

fn has_moved(pair: &Pair, direction: Direction) -> bool {
    pair.change.verdict == Verdict::Changed(direction)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(60)
    })]

    #[test]
    fn a_change_is_one_of_the_figures(
        old in costs(), new in costs(), before in 1_u32..6, after in 1_u32..6
    ) {
        let both = compared(lab_of(&old, before), lab_of(&new, after));
        let verdict = text::verdict(&both);
        for pair in &both.pairing.pairs {
            let (old, new) = (pair.change.old, pair.change.new);
            if has_moved(pair, Direction::Worse) {
                prop_assert!(new.least > old.most && new.median > old.median * 1.05);
            }
            if has_moved(pair, Direction::Better) {
                prop_assert!(new.most < old.least && old.median > new.median * 1.05);
            }
        }
        for direction in [Direction::Worse, Direction::Better] {
            for (experiment, arm, _) in both.pairing.changed(direction).keys() {
                let name = format!("{experiment} on {} (", arm.name());
                prop_assert!(verdict.contains(&name), "{verdict} lacks {name}");
            }
        }
        prop_assert!(!text::lines(&both).join(" ").contains("NaN"));
        prop_assert_eq!(verdict.contains("worse: "), both.pairing.has_regression());
    }

    #[test]
    fn the_other_way_round_is_the_other_direction(old in costs(), new in costs()) {
        let there = compared(lab_of(&old, 4), lab_of(&new, 4));
        let back = compared(lab_of(&new, 4), lab_of(&old, 4));
        prop_assert_eq!(
            there.pairing.changed(Direction::Worse).into_keys().collect::<Vec<_>>(),
            back.pairing.changed(Direction::Better).into_keys().collect::<Vec<_>>()
        );
    }
}
