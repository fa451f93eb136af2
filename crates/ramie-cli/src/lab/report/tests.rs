//! The sentences are true of the record: at ties, single readings and missing arms, and when a
//! record changes.

use proptest::prelude::*;

use super::{
    conclusion::{self, Judgement, judge},
    finding, page,
};
use crate::{
    lab::{
        plan::{
            Arm, Preset, Selection,
            post::{Claim, Relation},
        },
        results::{NotMeasured, Results, Subject, record, sample::lab},
    },
    workload::Engine,
};

const FIBERS: Arm = Arm::of(Engine::Fibers);
const THREADS: Arm = Arm::of(Engine::Threads);

fn preset(preset: Preset, cost: impl Fn(&Subject) -> Option<f64>) -> Results {
    lab(Selection::Preset(preset), 1, |subject, _| cost(subject))
}

/// The ring of the second post, with these seconds on fibers and on threads.
fn ring(fibers: Option<f64>, threads: Option<f64>) -> (Results, Claim) {
    let results = preset(Preset::Quasar, |subject| match subject.arm {
        FIBERS => fibers,
        THREADS => threads,
        _ => None,
    });
    let claim = results.posts[0].claims[0].clone();
    (results, claim)
}

#[test]
fn a_conclusion_holds_fails_or_cannot_be_judged() {
    let sentence = |fibers, threads| {
        let (mut results, claim) = ring(fibers, threads);
        results.posts[0].claims = vec![claim];
        conclusion::all(&results).concat()
    };
    let post = "The conclusion of “Fibers from out of (user) space – Hands on” (Jordan Sheinfeld, \
                2018) ";
    for (fibers, threads, expected) in [
        (
            Some(0.001),
            Some(0.02),
            "holds here: in a ring of 500 fibers win against threads (20× here, 9.7× there)",
        ),
        (
            Some(0.02),
            Some(0.01),
            "does not hold here: in a ring of 500 threads win against fibers (2.0× here), while it \
             is the other way round there (9.7×)",
        ),
        (
            Some(0.01),
            Some(0.01),
            "does not hold here: in a ring of 500 fibers and threads are even here, while fibers \
             win there (9.7×)",
        ),
        (Some(0.01), None, "cannot be judged here: not measured: threads in a ring of 500"),
        (None, None, "cannot be judged here: not measured: fibers and threads in a ring of 500"),
    ] {
        assert_eq!(sentence(fibers, threads), format!("{post}{expected}"));
    }
}

#[test]
fn threads_that_fail_are_a_point_of_the_second_post() {
    let (mut results, _) = ring(Some(0.001), Some(0.02));
    let failed = NotMeasured::Failed("only 30,000 of 100000 threads started".to_owned());
    for finished in &mut results.finished {
        for outcome in &mut finished.outcomes {
            if outcome.subject.workload == "alive" && outcome.subject.arm == THREADS {
                outcome.readings.clear();
                outcome.not_measured = Some(failed.clone());
            }
        }
    }
    let sentence = conclusion::all(&results).concat();
    assert!(sentence.contains(" holds here: "), "{sentence}");
    assert!(sentence.contains("threads fail with 100,000 at once (only 30,000 of"), "{sentence}");
}

#[test]
fn a_changed_record_changes_the_text_and_the_page() {
    let (results, _) = ring(Some(0.001), Some(0.02));
    let json = record::to_json(&results, finding::all(&results));
    assert_eq!(record::of_json(&json).unwrap(), results, "the record is complete");

    let mut changed: serde_json::Value = serde_json::from_str(&json).unwrap();
    let point = changed["points"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .find(|point| point["experiment"] == "ring-500" && point["on"] == "threads");
    let reading = &mut point.unwrap()["readings"][0];
    for name in ["seconds", "per_op_ns"] {
        reading[name] = (reading[name].as_f64().unwrap() * 2.0).into();
    }
    let after = record::of_json(&changed.to_string()).unwrap();

    let texts = |results: &Results| {
        let conclusion = conclusion::all(results).concat();
        [conclusion, finding::all(results).join("\n"), page::page(results).unwrap()]
    };
    for (before, after) in texts(&results).iter().zip(texts(&after)) {
        assert_ne!(*before, after);
    }
    assert!(texts(&results)[2].contains("(20× here, 9.7× there)"));
    let [conclusion, _, page] = texts(&after);
    assert!(conclusion.contains("(40× here, 9.7× there)") && page.contains("(40× here"));
    assert!(!page.contains(">20.0 ms</a>") && page.contains(">40.0 ms</a>"));
}

#[test]
fn the_page_of_a_preset_has_the_published_figures() {
    for each in Preset::ALL {
        let results = preset(each, |_| Some(0.01));
        let page = page::page(&results).unwrap();
        for post in &results.posts {
            let [author, year] = [post.author.clone(), post.year.to_string()];
            for part in [&author, &year, "Measured there on", "The conclusion of"] {
                assert!(page.contains(part), "no {part}");
            }
        }
        for finished in &results.finished {
            for series in &finished.experiment.published {
                let heading = format!("{}, {}<br>", series.name.replace('&', "&amp;"), series.year);
                assert!(page.contains(&heading), "no {heading}");
            }
        }
    }
}

/// Costs as they may be measured: a few values, so that ties are frequent, and missing ones.
fn cost() -> impl Strategy<Value = Option<f64>> {
    prop::option::weighted(
        0.8,
        prop_oneof![Just(0.01), Just(0.0105), Just(0.02), Just(0.0), 0.001_f64..1.0],
    )
}

fn costs() -> impl Strategy<Value = Vec<Option<f64>>> {
    prop::collection::vec(cost(), 40..200)
}

fn median(results: &Results, claim: &Claim, arm: Arm, x: u64) -> Option<f64> {
    let of = |results: &Results| {
        let finished = results.find(&claim.experiment)?;
        let is_it = |subject: &Subject| subject.arm == arm && subject.x == x;
        let outcome = finished.outcomes.iter().find(|outcome| is_it(&outcome.subject))?;
        Some(outcome.summary(claim.quantity)?.median)
    };
    of(results).filter(|median| *median > 0.0)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(40)
    })]

    #[test]
    fn conclusions_are_true(costs in costs(), rounds in 1_u32..4) {
        for preset in Preset::ALL {
            let mut next = costs.iter().copied().cycle();
            let results =
                lab(Selection::Preset(preset), rounds, |_, _| next.next().flatten());
            let post = &results.posts[0];
            for claim in &post.claims {
                let judgement = judge(claim, &results);
                let figure = |arm| median(&results, claim, arm, claim.x);
                if let Relation::Ahead { winner, loser, .. } = claim.relation {
                    match (figure(winner), figure(loser)) {
                        (Some(won), Some(lost)) => {
                            let holds = matches!(judgement, Judgement::Holds(_));
                            prop_assert_eq!(holds, claim.quantity.advantage(won, lost) > 1.1);
                            let is_missing = matches!(judgement, Judgement::NotMeasured(_));
                            prop_assert!(!is_missing);
                        }
                        _ => {
                            let is_missing = matches!(judgement, Judgement::NotMeasured(_));
                            prop_assert!(is_missing, "{judgement:?}");
                        }
                    }
                }
            }
            let sentence = conclusion::sentence(post, &results);
            let all = |wanted: fn(&Judgement) -> bool| {
                post.claims.iter().all(|claim| wanted(&judge(claim, &results)))
            };
            let holds = all(|judgement| matches!(judgement, Judgement::Holds(_)));
            prop_assert_eq!(sentence.contains(" holds here: "), holds);
            let none = all(|judgement| matches!(judgement, Judgement::NotMeasured(_)));
            prop_assert_eq!(sentence.contains(" cannot be judged here: "), none);
            prop_assert!(!sentence.contains("NaN") && !sentence.contains("inf×"), "{sentence}");
        }
    }

    #[test]
    fn findings_are_true(costs in costs(), rounds in 1_u32..4) {
        let mut next = costs.iter().copied().cycle();
        let results = lab(Selection::Tiny, rounds, |_, _| next.next().flatten());
        for finished in &results.finished {
            for view in &finished.experiment.views {
                let series = finished.series(view.quantity);
                let arms = finished.arms();
                let sentence = finding::of_view(finished, view);
                prop_assert!(!sentence.contains("NaN") && !sentence.contains("inf×"), "{sentence}");
                for arm in &arms[1..] {
                    let of = |arm| series.get(arm).cloned().unwrap_or_default();
                    let all = finding::comparisons(view.quantity, &of(&arms[0]), &of(arm));
                    let everywhere = |first: &str, second: &str| {
                        sentence.to_lowercase().contains(
                            &format!("{first} than {second} everywhere")
                        )
                    };
                    let takes = |name: String| {
                        let verb = finding::verb(&name, "take");
                        ["less time", "less memory", "less cpu time"].map(|q| format!("{verb} {q}"))
                    };
                    let (first, second) = (arms[0].all(), arm.all());
                    for first_wins in takes(first.clone()) {
                        if everywhere(&first_wins, &second) {
                            prop_assert!(all.iter().all(|each| each.ratio > 1.1), "{sentence}");
                        }
                    }
                    for second_wins in takes(second.clone()) {
                        if everywhere(&second_wins, &first) {
                            let is_behind = all.iter().all(|each| each.ratio < 1.0 / 1.1);
                            prop_assert!(is_behind, "{sentence}");
                        }
                    }
                    // An arm without figures is not spoken of.
                    if of(arm).is_empty() {
                        let named = sentence.to_lowercase().contains(&(second + " "));
                        prop_assert!(!named);
                    }
                }
            }
        }
        for sentence in finding::where_threads_win(&results) {
            let Some((title, rest)) = sentence.split_once(" (") else { continue };
            let found = results.finished.iter().find(|each| each.experiment.title == title);
            let series = found.unwrap().experiment.views.iter().find(|view| {
                rest.starts_with(&view.title_inside())
            });
            let quantity = series.unwrap().quantity;
            let series = found.unwrap().series(quantity);
            let best = finding::comparisons(quantity, &series[&THREADS], &series[&FIBERS]);
            prop_assert!(best.iter().any(|each| each.ratio > 1.1), "{sentence}");
        }
        // The page of any record can be written.
        prop_assert!(page::page(&results).is_ok());
    }
}

#[test]
fn points_with_one_round_have_their_reason() {
    let mut results = lab(Selection::Tiny, 1, |_, _| Some(1.0));
    results.request.rounds = 5;
    for (is_partial, why) in [(false, "because time ran out"), (true, "the lab was interrupted")] {
        results.is_partial = is_partial;
        let warnings = results.warnings();
        assert!(warnings.iter().any(|warning| warning.contains(why)), "{why}: {warnings:?}");
    }
}
