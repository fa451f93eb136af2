//! `ramie run` with one task: its calls and its rounds.

mod support;

use serde_json::Value;
use support::{assert_sentence, output, ramie, text};

fn rows(arguments: &str) -> Vec<Value> {
    let output = output(ramie(arguments));
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    let rows = text(&output.stdout);
    rows.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

const TASKS: [(&str, u64, u64); 3] =
    [("basic --yields", 3, 21), ("recurse --depth", 30, 7), ("recurse2 --depth", 4, 28)];

/// The calls of each engine: a coroutine has no timer.
const CALLS: [(&str, &[&str]); 5] = [
    ("fibers", &["quick", "medium", "slow"]),
    ("threads", &["quick", "medium", "slow"]),
    ("hybrid", &["quick", "medium", "slow"]),
    ("coroutines", &["quick", "medium"]),
    ("futures", &["quick", "medium", "slow"]),
];

#[test]
fn every_task_makes_every_call_that_its_engine_has() {
    for (task, number, ops) in TASKS {
        for (on, calls) in CALLS {
            for call in calls {
                let run = format!("run {task} {number} --rounds 7 --on {on} --call {call} --json");
                let row = &rows(&run)[0];
                assert_eq!((&row["ops"], &row["call"]), (&ops.into(), &(*call).into()), "{run}");
                assert_eq!(row["params"]["rounds"], 7);
                let says = row["note"].as_str().is_some_and(|note| note.contains("milliseconds"));
                assert_eq!(says, on == "futures" && *call == "slow", "{row}");
            }
        }
    }
}

#[test]
fn a_slow_call_takes_a_microsecond_and_a_millisecond_as_futures() {
    for (on, least) in [("fibers", 1e3), ("threads", 1e3), ("hybrid", 1e3), ("futures", 1e6)] {
        let run = format!("run basic --yields 1 --rounds 20 --call slow --on {on}");
        let row = &rows(&format!("{run} --json"))[0];
        assert!(row["per_op_ns"].as_f64().unwrap() >= least, "{row}");
        let line = text(&output(ramie(&run)).stdout);
        assert!(line.starts_with("basic 1 20 slow seconds="), "{line}");
        assert_eq!(line.contains("milliseconds"), on == "futures", "{line}");
    }
}

#[test]
fn a_thread_gets_the_stack_that_its_recursion_needs() {
    // Far deeper than std's own stack of a thread allows.
    for (task, depth) in [("recurse", 200_000), ("recurse2", 200_000)] {
        let run = format!("run {task} --depth {depth} --rounds 1 --call quick --on threads --json");
        let row = &rows(&run)[0];
        assert_eq!((&row["on"], &row["workers"]), (&"threads".into(), &Value::Null), "{row}");
    }
    let too_deep = output(ramie("run recurse --depth 30000000 --on threads"));
    let message = assert_sentence(&too_deep, 1, &["30000000 deep may overflow", "at most"]);
    assert!(!message.contains("RAMIE_STACK"), "{message}");
}

#[test]
fn rounds_have_a_default_and_a_limit() {
    for (task, rounds) in [("basic --yields", 15_000), ("recurse2 --depth", 1_500)] {
        let row = &rows(&format!("run {task} 1 --call quick --json"))[0];
        assert_eq!((&row["params"]["rounds"], &row["ops"]), (&rounds.into(), &rounds.into()));
    }
    for (rounds, why) in [("0", "1 or more"), ("100001", "too large, at most 100000")] {
        let output = output(ramie(&format!("run recurse --depth 1 --rounds {rounds}")));
        assert_sentence(&output, 2, &[&format!("invalid value `{rounds}` for --rounds"), why]);
    }
}

#[test]
fn grids_of_published_benchmarks_are_lists() {
    let lines =
        "run basic --yields 50,100,200,300,400,600,800,1000 --call quick --on fibers --json";
    let yields: Vec<_> =
        rows(lines).iter().map(|row| row["params"]["yields"].as_u64().unwrap()).collect();
    assert_eq!(yields, [50, 100, 200, 300, 400, 600, 800, 1000]);
}

#[test]
fn a_preset_is_the_size_and_the_hops_of_a_ring() {
    for on in ["fibers", "threads"] {
        let row = &rows(&format!("run ring --preset quasar --on {on} --json"))[0];
        assert_eq!(row["params"], serde_json::json!({"size": 500, "hops": 10_000}));
        assert_eq!(row["ops"], 10_000);
    }
    for (flags, parts) in [
        ("--preset quasar --size 3", &["--size", "--preset", "exclude each other"][..]),
        ("--hops 3 --preset quasar", &["--hops", "--preset", "exclude each other"]),
        ("--preset quasar --hops 3,4", &["--hops", "--preset", "exclude each other"]),
        ("--preset java", &["invalid value `java` for --preset", "quasar"]),
        ("--size 3", &["missing --hops"]),
        ("", &["missing", "--size", "--hops"]),
    ] {
        assert_sentence(&output(ramie(&format!("run ring {flags}"))), 2, parts);
    }
}
