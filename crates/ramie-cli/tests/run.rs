//! `ramie run`: its output.

mod support;

use serde_json::Value;
use support::{assert_sentence, has_ring, output, ramie, ramie_under, text};

fn rows(arguments: &str) -> Vec<Value> {
    let output = output(ramie(arguments));
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    let rows = text(&output.stdout);
    rows.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// The parameters, by the names of their flags.
type Params = &'static [(&'static str, u64)];

const WORKLOADS: [(&str, Params, u64); 7] = [
    ("feed", &[("people", 20), ("nutrients", 30)], 600),
    ("ring", &[("size", 7), ("hops", 100)], 100),
    ("spawn", &[("count", 50)], 50),
    ("alive", &[("count", 40)], 40),
    ("switch", &[("count", 25)], 50),
    ("pipe", &[("pairs", 5), ("messages", 30), ("bytes", 700)], 150),
    ("socketpair", &[("pairs", 5), ("messages", 30), ("bytes", 700)], 150),
];

#[test]
fn every_workload_of_strands_runs_on_every_engine() {
    for (workload, params, ops) in WORKLOADS {
        let flags: String = params.iter().map(|(flag, n)| format!(" --{flag} {n}")).collect();
        for on in ["fibers", "threads", "hybrid"] {
            let rows = rows(&format!("run {workload}{flags} --on {on} --repeat 2 --json"));
            assert_eq!(rows.len(), 2, "{workload} on {on}");
            for row in rows {
                check(&row, workload, params, ops, on);
            }
        }
    }
}

const TASKS: [(&str, Params, u64); 3] = [
    ("basic", &[("yields", 2)], 30_000),
    ("recurse", &[("depth", 30)], 15_000),
    ("recurse2", &[("depth", 20)], 30_000),
];

#[test]
fn every_task_runs_on_every_engine_of_tasks() {
    for (workload, params, ops) in TASKS {
        let (flag, n) = params[0];
        for on in ["fibers", "coroutines", "futures"] {
            let rows = rows(&format!("run {workload} --{flag} {n} --on {on} --repeat 2 --json"));
            assert_eq!(rows.len(), 2, "{workload} on {on}");
            for row in rows {
                check(&row, workload, params, ops, on);
                assert_eq!(row["call"], "medium");
            }
        }
    }
}

fn check(row: &Value, workload: &str, params: Params, ops: u64, on: &str) {
    assert_eq!(row["workload"], workload);
    assert_eq!(row["on"], on);
    assert_eq!(row["ops"], ops);
    let defaults = match workload {
        "feed" => 1,
        _ if row.get("call").is_some() => 1,
        _ => 0,
    };
    assert_eq!(row["params"].as_object().unwrap().len(), params.len() + defaults);
    for (flag, value) in params {
        assert_eq!(row["params"][flag], *value);
    }
    match on {
        "fibers" => assert_eq!(row["workers"], 1),
        "hybrid" => assert!(row["workers"].as_u64().unwrap() >= 2),
        _ => assert_eq!(row["workers"], Value::Null),
    }
    let seconds = row["seconds"].as_f64().unwrap();
    let per_op_ns = row["per_op_ns"].as_f64().unwrap();
    assert!(seconds > 0.0);
    assert!((per_op_ns - seconds * 1e9 / ops as f64).abs() < per_op_ns * 1e-6);
    assert!(row["cpu_s"].as_f64().unwrap() > 0.0);
    let has_memory = row.get("rss_bytes_per_strand").is_some_and(Value::is_number)
        && row.get("pte_bytes_per_strand").is_some_and(Value::is_number);
    assert_eq!(has_memory, workload == "alive");
}

#[test]
fn workers_mean_the_same_on_fibers_and_a_hybrid() {
    for on in ["fibers", "hybrid"] {
        let rows = rows(&format!("run spawn --count 5 --on {on} --workers 3 --json"));
        assert_eq!(rows[0]["workers"], 3);
    }
}

#[test]
fn without_json_it_is_one_line_of_words_and_numbers() {
    let feed = text(&output(ramie("run feed --people 3 --nutrients 4")).stdout);
    assert!(feed.starts_with("feed 3 4 seconds="), "{feed}");
    assert!(feed.contains(" per_op_ns="), "{feed}");
    let alive = text(&output(ramie("run alive --count 3")).stdout);
    assert_eq!(alive.lines().count(), 1, "the process before it prints nothing");
    assert!(alive.contains(" rss_kb="), "{alive}");
}

#[test]
fn small_rings_and_single_hops_work() {
    for (size, hops) in [(1, 1), (1, 10), (2, 1), (10, 3), (3, 10)] {
        for on in ["fibers", "threads", "hybrid"] {
            let rows = rows(&format!("run ring --size {size} --hops {hops} --on {on} --json"));
            assert_eq!(rows[0]["ops"], hops);
        }
    }
}

/// Messages of one byte, longer ones than a pipe holds, fewer pairs than workers, one pair.
#[test]
fn messages_of_any_size_go_through_any_number_of_pairs() {
    let sidecars: &[&str] = if has_ring() { &["sidecar", "sidecar --workers 2"] } else { &[] };
    for workload in ["pipe", "socketpair"] {
        for (pairs, messages, bytes) in [(3, 400, 1), (2, 5, 300_000), (1, 20, 1024), (9, 1, 9)] {
            let load = format!("--pairs {pairs} --messages {messages} --bytes {bytes}");
            for on in ["fibers", "threads", "hybrid --workers 4"].iter().chain(sidecars) {
                let rows = rows(&format!("run {workload} {load} --on {on} --json"));
                assert_eq!(rows[0]["ops"], pairs * messages);
            }
        }
    }
}

#[test]
fn messages_get_through_by_polling_too() {
    for arguments in ["run pipe", "run socketpair"] {
        let load = "--pairs 20 --messages 100 --bytes 1000 --on hybrid --workers 2";
        let mut command = ramie(&format!("{arguments} {load}"));
        command.env("RAMIE_DRIVER", "poll");
        let output = output(command);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
}

#[test]
fn without_a_sidecar_the_run_fails() {
    if !has_ring() {
        return;
    }
    let run = "run pipe --pairs 2 --messages 3 --bytes 4 --on sidecar";
    let row = &rows(&format!("{run} --json"))[0];
    assert_eq!((&row["on"], &row["workers"]), (&"sidecar".into(), &1.into()));
    for (variable, value, why) in [
        ("RAMIE_DRIVER", "poll", "only a ring has ops that are submitted by a sidecar thread"),
        ("RAMIE_CAPS", "-ext_arg", "a sidecar thread cannot"),
    ] {
        let mut command = ramie(run);
        command.env(variable, value);
        assert_sentence(&output(command), 1, &["no sidecar is available here", why, "--on fibers"]);
    }
}

#[test]
fn the_limit_on_descriptors_is_raised_where_that_is_allowed() {
    let run = "run pipe --pairs 100 --messages 2 --bytes 10";
    let output = output(ramie_under("ulimit -Sn 40", run));
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn options_may_come_before_the_workload() {
    let rows = rows("run --json --on threads --repeat 2 switch --count 3");
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["on"], "threads");
}

/// The command line decides which engine is measured, and the environment does not change it.
#[test]
fn fibers_are_measured_whatever_the_environment_sets() {
    let run = |strands: &str, arguments: &str| {
        let mut command = ramie(arguments);
        command.env("RAMIE_STRANDS", strands);
        output(command)
    };
    // Compared with threads of the same build, because a debug build's frames take another page.
    let memory = |arguments: &str| {
        let output = run("threads", arguments);
        let row: Value = serde_json::from_slice(&output.stdout).expect("a row");
        let bytes = |column: &str| row[column].as_f64().expect("a figure");
        (row["on"].clone(), bytes("rss_bytes_per_strand") + bytes("pte_bytes_per_strand"))
    };
    let (on, fiber) = memory("run alive --count 2000 --json");
    let (_, thread) = memory("run alive --count 2000 --on threads --json");
    assert_eq!(on, "fibers");
    assert!(fiber < 0.75 * thread, "{fiber} bytes is no fiber's weight, {thread} is a thread's");
    assert!(run("", "run spawn --count 1").status.success());
    assert_sentence(&run("garbage", "run spawn --count 1"), 2, &["RAMIE_STRANDS", "garbage"]);
}
