//! Each part of a sentence is compared with the figures that it is about: at ties, single points
//! and missing ones. These tests find the numbers in the text and know nothing of how it was made.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    finding::{self, Comparison, Lead, compare},
    page,
};
use crate::{
    lab::{
        figure::{amount, counted, factor},
        plan::{Arm, Quantity, Selection, View},
        results::{Reading, Results, record, sample::lab},
    },
    workload::Engine,
};

const NAMES: [&str; 2] = ["fibers", "threads"];
const FIBERS: Arm = Arm::of(Engine::Fibers);
const THREADS: Arm = Arm::of(Engine::Threads);

/// Ratios as they occur: ties, clear leads, and both sides of the limit of what counts as even.
fn ratios() -> impl Strategy<Value = Vec<f64>> {
    let ratio = prop_oneof![
        Just(1.0),
        Just(1.1),
        Just(1.0 / 1.1),
        Just(1.1001),
        Just(0.5),
        Just(2.0),
        0.01_f64..100.0,
    ];
    prop::collection::vec(ratio, 0..7)
}

fn comparisons(ratios: &[f64]) -> Vec<Comparison> {
    let at = |(index, ratio): (usize, &f64)| Comparison { x: 1 << (2 * index), ratio: *ratio };
    ratios.iter().enumerate().map(at).collect()
}

/// The number behind `before`, without its commas.
fn number(text: &str, before: &str) -> u64 {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {text}")).1;
    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    digits
        .replace(',', "")
        .parse()
        .unwrap_or_else(|_| panic!("no number behind {before:?}: {text}"))
}

/// `by 2.0×` or `by 2.0× to 8.0×` is the range of the margins.
fn check_margins(sentence: &str, led: &[Comparison]) {
    let margins = led.iter().map(Comparison::margin);
    let least = factor(margins.clone().fold(f64::INFINITY, f64::min));
    let most = factor(margins.fold(0.0, f64::max));
    let range = if least == most { least } else { format!("{least} to {most}") };
    assert!(sentence.contains(&format!("by {range}")), "not {range}: {sentence}");
}

/// Who leads where, by the sentence about a comparison.
fn check(sentence: &str, all: &[Comparison]) {
    let of = |lead| all.iter().copied().filter(|each| each.lead() == lead).collect::<Vec<_>>();
    let (first, second, even) = (of(Lead::First), of(Lead::Second), of(Lead::Even));
    let lower = sentence.to_lowercase();
    if sentence.contains(" are even ") {
        assert_eq!(even.len(), all.len(), "{sentence}");
        match all {
            [one] => assert!(sentence.ends_with(&format!("at {}.", counted(one.x, "people")))),
            _ => assert_eq!(
                [number(sentence, "from "), number(sentence, " to ")],
                [all[0].x, all[all.len() - 1].x]
            ),
        }
    } else if sentence.contains(" less time than ") {
        let leads_first = lower.starts_with("fibers take less time than threads");
        assert!(leads_first || lower.starts_with("threads take less time than fibers"));
        let (led, lost) = if leads_first { (&first, &second) } else { (&second, &first) };
        assert!(!led.is_empty() && lost.is_empty(), "{sentence}");
        check_margins(sentence, led);
        if sentence.contains(" everywhere ") {
            assert!(even.is_empty() && all.len() > 1, "{sentence}");
            assert_eq!(number(sentence, "everywhere from "), all[0].x, "{sentence}");
        } else if sentence.contains("even at the rest") {
            let counts = [number(sentence, " at "), number(sentence, " of ")];
            assert_eq!(counts, [led.len() as u64, all.len() as u64], "{sentence}");
            assert!(!even.is_empty(), "{sentence}");
        } else {
            assert_eq!((all.len(), number(sentence, " at ")), (1, all[0].x), "{sentence}");
        }
    } else if sentence.contains("they cross near") {
        let (last, next) = (number(sentence, "up to "), number(sentence, "lose from "));
        let starts_first = lower.starts_with("fibers win against threads");
        let (before, after) = if starts_first { (&first, &second) } else { (&second, &first) };
        assert!(before.iter().all(|each| each.x <= last), "{sentence}");
        assert!(after.iter().all(|each| each.x >= next), "{sentence}");
        assert!(before.iter().any(|each| each.x == last), "{sentence}");
        assert!(after.iter().any(|each| each.x == next), "{sentence}");
        let crossing = number(sentence, "cross near ");
        assert!((last..=next).contains(&crossing), "{sentence}");
    } else {
        assert!(sentence.contains("the lead changes more than once"), "{sentence}");
        let decided: Vec<_> = all.iter().filter(|each| each.lead() != Lead::Even).collect();
        let changes = decided.windows(2).filter(|pair| pair[0].lead() != pair[1].lead()).count();
        assert!(changes > 1, "{sentence}");
        let (_, lists) = sentence.split_once(": ").unwrap();
        let (fibers, threads) = lists.split_once(", threads win").unwrap();
        for (list, led) in [(fibers, &first), (threads, &second)] {
            check_margins(list, led);
            let list = list.split_once(" (by").unwrap().0.replace(" and ", " ").replace(", ", " ");
            let named: Vec<u64> =
                list.split(' ').filter_map(|word| word.replace(',', "").parse().ok()).collect();
            assert_eq!(named, led.iter().map(|each| each.x).collect::<Vec<_>>(), "{sentence}");
        }
    }
}

fn cost() -> impl Strategy<Value = Option<f64>> {
    prop::option::weighted(
        0.8,
        prop_oneof![Just(0.01), Just(0.0105), Just(0.02), Just(0.0), 0.001_f64..1.0],
    )
}

fn median(results: &Results, experiment: &str, arm: Arm, x: u64, of: Quantity) -> Option<f64> {
    let finished = results.find(experiment)?;
    let is_it = |subject: &crate::lab::results::Subject| subject.arm == arm && subject.x == x;
    let outcome = finished.outcomes.iter().find(|outcome| is_it(&outcome.subject))?;
    let mut all: Vec<f64> =
        outcome.counted().filter_map(|reading: &Reading| reading.quantity(of)).collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    match all.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(all[middle]),
        _ => Some(f64::midpoint(all[middle - 1], all[middle])),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(300)
    })]

    #[test]
    fn each_part_of_a_comparison_is_true(ratios in ratios()) {
        let all = comparisons(&ratios);
        let view = View::new("Time", Quantity::Seconds);
        match compare(&all, NAMES, "people", &view) {
            Some(sentence) => check(&sentence, &all),
            None => prop_assert!(all.is_empty()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(30)
    })]

    /// The headlines name the medians at the largest x that both arms have.
    #[test]
    fn headlines_are_true(costs in prop::collection::vec(cost(), 40..200), rounds in 1_u32..5) {
        let mut next = costs.iter().copied().cycle();
        let results = lab(Selection::Tiny, rounds, |_, _| next.next().flatten());
        let headlines = finding::headlines(&results);
        for finished in &results.finished {
            let (experiment, view) = (&finished.experiment, &finished.experiment.views[0]);
            let Some(rival) = finished.baseline() else { continue };
            let start = format!("{}, at ", view.title);
            let line = headlines.iter().find(|line| line.starts_with(&start));
            let Some(line) = line else { continue };
            let x = number(line, &start);
            let figure = |arm, x| median(&results, &experiment.name, arm, x, view.quantity);
            let (Some(fiber), Some(other)) = (figure(FIBERS, x), figure(rival, x)) else {
                panic!("a figure that was not taken: {line}");
            };
            let expected = format!(
                "{start}{}: a fiber {}, {} {}",
                counted(x, &experiment.x_noun),
                amount(view.quantity, fiber),
                rival.one(),
                amount(view.quantity, other)
            );
            prop_assert_eq!(line, &expected);
            let is_above = |other: &u64| *other > x;
            let mut above = finished.outcomes.iter().map(|o| o.subject.x).filter(is_above);
            let has = |arm, x| figure(arm, x).is_some_and(|figure| figure > 0.0);
            let has_larger = above.any(|x| has(FIBERS, x) && has(rival, x));
            prop_assert!(!has_larger, "{line} is not at the largest x");
        }
    }

    /// Each number of nutrients is named once, under the engine that is ahead there.
    #[test]
    fn the_overview_of_the_feeding_is_true(costs in prop::collection::vec(cost(), 40..200)) {
        let mut next = costs.iter().copied().cycle();
        let results = lab(Selection::Quick, 1, |_, _| next.next().flatten());
        let Some(overview) = finding::feed_overview(&results) else { return Ok(()) };
        let people = number(&overview, "Feeding ");
        let text = overview.split_once("for each: ").unwrap().1;
        let text = text.rsplit_once("; a fiber").unwrap().0;
        let mut named = BTreeMap::new();
        for part in text.split("; ") {
            let (leader, places) = part.split_once(" at ").unwrap();
            for place in places.replace(" and ", ", ").split(", ") {
                let nutrients = number(&format!("#{place}"), "#");
                prop_assert_eq!(named.insert(nutrients, leader), None, "{}", &overview);
            }
        }
        for nutrients in [10, 100, 1000, 10_000] {
            let name = format!("feed-{nutrients}");
            let of = |arm| median(&results, &name, arm, people, Quantity::Seconds);
            let Some(leader) = named.get(&nutrients) else { continue };
            let (Some(fibers), Some(threads)) = (of(FIBERS), of(THREADS)) else {
                panic!("{nutrients} nutrients were not measured: {overview}");
            };
            let ratio = threads / fibers;
            let expected = match ratio {
                ratio if ratio > 1.1 => "fibers win",
                ratio if ratio < 1.0 / 1.1 => "threads win",
                _ => "even",
            };
            prop_assert_eq!(*leader, expected, "{}", &overview);
        }
    }

    /// A record that changes shows in the figure, which leads to it, and in the table of readings.
    #[test]
    fn any_record_that_changes_shows(point in 0_usize..40, factor in 2.0_f64..9.0) {
        let results = lab(Selection::Tiny, 1, |subject, _| Some(1e-3 * (subject.x + 1) as f64));
        let json = record::to_json(&results, Vec::new());
        let mut changed: serde_json::Value = serde_json::from_str(&json).unwrap();
        let points = changed["points"].as_array_mut().unwrap();
        let point = point % points.len();
        let reading = &mut points[point]["readings"][0];
        for name in ["seconds", "per_op_ns", "cpu_s", "rss_bytes_per_strand"] {
            if let Some(value) = reading[name].as_f64() {
                reading[name] = (value * factor).into();
            }
        }
        let after = record::of_json(&changed.to_string()).unwrap();
        let outcome = after.outcomes().nth(point).unwrap();
        let experiment = &after.find(&outcome.subject.experiment).unwrap().experiment;
        let quantity = experiment.views[0].quantity;
        let of = |results: &Results| {
            let outcome = results.outcomes().nth(point).unwrap();
            amount(quantity, outcome.summary(quantity).unwrap().median)
        };
        let id = super::raw::id(&experiment.name, outcome.subject.arm, outcome.subject.x);
        let link = |results| format!("<a href=\"#{id}\">{}</a>", of(results));
        let [before_page, after_page] = [&results, &after].map(|each| page::page(each).unwrap());
        prop_assert!(before_page.contains(&link(&results)) && after_page.contains(&link(&after)));
        prop_assert!(!after_page.contains(&link(&results)), "the old figure is gone");
        let cell = format!("<td>{}</td>", super::raw::number(outcome.readings[0].seconds));
        prop_assert!(after_page.contains(&cell), "the table of readings has the new one");
    }
}
