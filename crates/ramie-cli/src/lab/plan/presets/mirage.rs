//! Anil Madhavapeddy, "Delimited Continuations vs Lwt for Threads", 2011: calls that may wait, by
//! delimited continuations (here fibers) and by Lwt's promises (here futures) of OCaml.

use ramie_workloads::{Basic, TaskWait};

use super::{Draft, FIBERS, FUTURES, Post, Quantity, Relation, ahead, claim, published};
use crate::{
    lab::plan::{
        Point, View,
        draft::{grid_on, small},
    },
    workload::{Engine, TaskCall, Workload},
};

const MACHINE: (&str, u32) = ("a machine that the post does not name, OCaml", 2011);
const XS: [u64; 8] = [50, 100, 200, 300, 400, 600, 800, 1000];

/// A line of a graph of the post, in seconds, over [`XS`].
type Line = (&'static str, [f64; 8]);

const QUICK: [Line; 2] = [
    ("delimcc", [0.101, 0.195, 0.388, 0.581, 0.775, 1.157, 1.548, 1.926]),
    ("Lwt", [0.095, 0.188, 0.371, 0.553, 0.737, 1.104, 1.469, 1.836]),
];
const MEDIUM: [Line; 2] = [
    ("delimcc", [2.433, 4.861, 9.692, 14.543, 19.702, 29.579, 39.458, 49.260]),
    ("Lwt", [1.270, 2.539, 5.089, 7.626, 10.188, 15.338, 20.385, 25.473]),
];
const SLOW: [Line; 2] = [
    ("delimcc", [4.011, 8.013, 15.973, 23.995, 32.075, 47.940, 63.966, 79.914]),
    ("Lwt", [2.601, 5.204, 10.401, 15.611, 20.783, 31.221, 41.606, 52.016]),
];
const RECURSE: [Line; 2] = [
    ("delimcc", [0.162, 0.216, 0.341, 0.499, 0.622, 0.875, 1.194, 1.435]),
    ("Lwt", [0.128, 0.207, 0.394, 0.619, 0.889, 1.538, 2.366, 3.373]),
];
const RECURSE2: [Line; 2] = [
    ("delimcc", [0.658, 1.587, 4.426, 8.837, 14.508, 31.066, 60.438, 94.708]),
    ("Lwt", [0.282, 0.566, 1.159, 1.784, 2.416, 3.719, 5.019, 6.278]),
];

pub(super) fn experiments() -> Vec<Draft> {
    let basic = |call| move |x| Workload::basic(small(x), call);
    let calls = "calls in each of 15,000 rounds";
    vec![
        draft(
            "mirage-quick",
            "15,000 rounds of calls that return at once",
            calls,
            "One task makes N calls that could wait and return at once, in each of 15,000 rounds.",
            grid_on(&Engine::TASKS_IN_LAB, XS, basic(TaskCall::Quick)),
            &QUICK,
        ),
        draft(
            "mirage-medium",
            "15,000 rounds of calls that yield",
            calls,
            "The same with calls that suspend the task and return to its scheduler.",
            grid_on(&Engine::TASKS_IN_LAB, XS, basic(TaskCall::Medium)),
            &MEDIUM,
        ),
        draft(
            "mirage-slow",
            "15,000 rounds of calls that register a timer",
            calls,
            "The same with calls that sleep: for a microsecond here, for no time in the \
             post. Only fibers, because a future sleeps for a millisecond at least, which would \
             take hours.",
            grid_on(&[Engine::Fibers], XS, basic(TaskCall::Slow)),
            &SLOW,
        ),
        draft(
            "mirage-slow-15",
            "15 rounds of calls that register a timer",
            "calls in each of 15 rounds",
            "A thousandth of the rounds, so that futures can be measured, too. The timers of tokio \
             count milliseconds, and Linux wakes a sleeping thread up to 50 µs late.",
            grid_on(&[Engine::Fibers, Engine::Threads, Engine::Futures], [50, 100, 200], |x| {
                let wait = TaskWait { call: TaskCall::Slow, rounds: Some(15) };
                Workload::Basic(Basic { yields: small(x), wait })
            }),
            &[],
        ),
        draft(
            "mirage-recurse",
            "15,000 recursions with a wait at the bottom",
            "levels",
            "One task recurses and waits once, at the bottom. The wait of the post registers a \
             timer; here it yields.",
            grid_on(&Engine::TASKS_IN_LAB, XS, |x| Workload::recurse(small(x))),
            &RECURSE,
        ),
        draft(
            "mirage-recurse2",
            "1,500 recursions with a wait at each level",
            "levels",
            "One task recurses and waits at each level. The waits of the post register timers; \
             here they yield.",
            grid_on(&Engine::TASKS_IN_LAB, XS, |x| Workload::recurse2(small(x))),
            &RECURSE2,
        ),
    ]
}

fn draft(
    name: &str,
    title: &str,
    x_noun: &'static str,
    about: &'static str,
    points: Vec<Point>,
    lines: &[Line],
) -> Draft {
    let figures = |(name, seconds): &Line| {
        published(name, MACHINE, Quantity::Seconds, XS.into_iter().zip(*seconds))
    };
    Draft {
        name: name.to_owned(),
        title: title.to_owned(),
        about,
        x_noun,
        points,
        views: vec![View::new(&format!("Time for {title}"), Quantity::Seconds)],
        published: lines.iter().map(figures).collect(),
    }
}

/// By how much one line of a graph was above the other at its end.
fn factor(lines: &[Line; 2]) -> f64 {
    let ratio = lines[0].1[7] / lines[1].1[7];
    ratio.max(1.0 / ratio)
}

pub(super) fn post() -> Post {
    let even = Relation::Even { arms: [FIBERS, FUTURES], published: factor(&QUICK) };
    let at = |experiment, place, winner, loser, lines| {
        claim(experiment, place, 1000, ahead(winner, loser, Some(factor(lines))))
    };
    Post {
        name: "mirage".to_owned(),
        author: "Anil Madhavapeddy".to_owned(),
        title: "Delimited Continuations vs Lwt for Threads".to_owned(),
        year: 2011,
        machine: MACHINE.0.to_owned(),
        claims: vec![
            claim("mirage-quick", "with 1,000 calls that return at once", 1000, even),
            at("mirage-medium", "with 1,000 calls that yield", FUTURES, FIBERS, &MEDIUM),
            at("mirage-recurse", "with a wait below 1,000 levels", FIBERS, FUTURES, &RECURSE),
            at(
                "mirage-recurse2",
                "with a wait at each of 1,000 levels",
                FUTURES,
                FIBERS,
                &RECURSE2,
            ),
        ],
        cut: vec![
            "A timer takes far longer here than a sleep of no time in the post, so the larger \
             grids of it do not fit into the lab's time, and futures sleep in 15 rounds instead of \
             15,000."
                .to_owned(),
        ],
    }
}
