//! `ramie lab --peers`: the programs that it finds, the points that they run, and their answers.
//!
//! The programs here are scripts, so the tests need no other toolchain.

mod support;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::Value;
use support::{Folder, assert_sentence, output, ramie, text};

/// Prints the line of a program of `bench/peers/`, in which each operation takes a microsecond.
/// `--threads 1` comes first.
const HONEST: &str = r#"
shift 2
case $1 in
    feed | ring) ops=$(($2 * $3)); [ "$1" = feed ] || ops=$3 ;;
    spawn | alive) ops=$2 ;;
    switch) ops=$((2 * $2)) ;;
    pipe | socketpair) ops=$(($2 * $3)) ;;
    basic) ops=$((15000 * $2)) ;;
    recurse) ops=15000 ;;
    recurse2) ops=$((1500 * $2)) ;;
esac
seconds=$((ops / 1000000)).$(printf %06d $((ops % 1000000)))
memory=; [ "$1" != alive ] || memory=" rss_kb=$2"
echo "$* seconds=$seconds per_op_ns=1000.00$memory"
"#;

fn write(folder: &Path, peer: &str, script: &str) {
    let path = folder.join(peer);
    fs::write(&path, format!("#!/bin/sh{script}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn measured(home: &Folder) -> (Value, String, String) {
    let out = home.0.join("out");
    let lab =
        ramie(&format!("lab --tiny --peers-dir {} --out {}", home.0.display(), out.display()));
    let output = output(lab);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json = fs::read_to_string(out.join("results.json")).unwrap();
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    (serde_json::from_str(&json).unwrap(), page, text(&output.stderr))
}

fn points<'a>(json: &'a Value, on: &str) -> Vec<&'a Value> {
    json["points"].as_array().unwrap().iter().filter(|point| point["on"] == on).collect()
}

#[test]
fn peers_run_the_points_of_fibers_and_stand_on_their_charts() {
    let home = Folder::new("peers");
    write(&home.0, "go", HONEST);
    write(&home.0, "boost-fiber", HONEST);
    let (json, page, warnings) = measured(&home);
    for workload in ["feed", "ring", "spawn", "alive", "switch", "basic", "recurse", "pipe"] {
        let of_go = points(&json, "go");
        let Some(point) = of_go.iter().find(|point| point["workload"] == workload) else {
            let all = points(&json, "fibers");
            assert!(all.iter().all(|point| point["workload"] != workload), "no go in {workload}");
            continue;
        };
        assert_eq!((&point["failed"], &point["skipped"]), (&Value::Null, &Value::Null), "{point}");
        let readings = point["readings"].as_array().unwrap();
        assert!(!readings.is_empty(), "{point}");
        for reading in readings {
            assert!((reading["per_op_ns"].as_f64().unwrap() - 1000.0).abs() < 1.0, "{reading}");
            assert_eq!(reading["cpu_s"], Value::Null);
        }
        let command = point["command"].as_str().unwrap();
        assert!(command.starts_with(&format!("bench/peers/target/go --threads 1 {workload} ")));
    }
    // The order of the arguments is that of the programs, not that of the names.
    let feed = points(&json, "go").into_iter().find(|point| point["workload"] == "feed").unwrap();
    let [people, nutrients] = ["people", "nutrients"].map(|name| &feed["params"][name]);
    let command = feed["command"].as_str().unwrap();
    assert!(command.ends_with(&format!("feed {people} {nutrients}")), "{command}");
    let alive = points(&json, "go").into_iter().find(|point| point["workload"] == "alive").unwrap();
    assert_eq!(alive["readings"][0]["rss_bytes_per_strand"], 1024.0);

    // Pairs run on several threads, too, if there are several CPUs.
    let cpus = std::thread::available_parallelism().unwrap().get();
    let of_pipe = points(&json, "go").into_iter().filter(|point| point["workload"] == "pipe");
    let several: Vec<_> = of_pipe.filter(|point| point["workers"].is_u64()).collect();
    assert_eq!(several.is_empty(), cpus == 1, "on {cpus} CPUs");
    for point in several {
        let command = point["command"].as_str().unwrap();
        assert!(command.starts_with(&format!("bench/peers/target/go --threads {cpus} pipe ")));
        let readings = point["readings"].as_array().unwrap();
        assert!(readings.iter().all(|reading| reading["pinned_to"].is_null()), "{point}");
    }

    // The kernel counts for each process, so a peer needs no counters of its own.
    let counted = points(&json, "go").into_iter().find(|point| point["counters"].is_object());
    let run = &counted.expect("a run that was counted")["counters"];
    assert_eq!((&run["covers"], run["ops"].is_u64()), (&"process".into(), true));
    for name in ["user_s", "system_s", "minor_faults", "voluntary_switches"] {
        assert!(run["values"][name].is_number() && run["unavailable"][name].is_null(), "{run}");
    }
    for name in ["ring_ops", "runs_max", "allocations", "cycles"] {
        let reason = run["unavailable"][name].as_str().unwrap_or_default();
        assert!(run["values"][name].is_null() && reason.contains("peer"), "{run}");
    }
    assert!(page.contains("go, whole process</th>"), "its counters");

    let is_io = |point: &&Value| point["workload"] == "pipe" || point["workload"] == "socketpair";
    assert!(!points(&json, "boost-fiber").is_empty());
    assert!(!points(&json, "boost-fiber").iter().any(is_io), "Boost.Fiber has no I/O");
    // The lab measures them in turn with the other arms.
    let all = json["points"].as_array().unwrap();
    let of_feed: Vec<_> = all.iter().filter(|point| point["workload"] == "feed").collect();
    let first = of_feed.iter().position(|point| point["on"] == "go").unwrap();
    assert!(of_feed[first..].iter().any(|point| point["on"] == "fibers"), "go comes last");

    assert!(
        page.contains("tasks of Go") && page.contains(">\ngo\n</text>"),
        "its line and sentence"
    );
    assert!(warnings.contains("skipped the peer java-virtual"), "{warnings}");
    assert!(warnings.contains("build it by `bench/peers/build java`"), "{warnings}");
}

#[test]
fn a_peer_that_fails_is_a_failed_point_with_a_sentence() {
    let home = Folder::new("peers-fail");
    write(&home.0, "go", "\nkill -9 $$\n");
    // A launcher whose toolchain was removed.
    write(&home.0, "java-virtual", "\nexec /nonexistent/jdk/bin/java \"$@\"\n");
    write(&home.0, "tokio", "\necho 'the sum is 1, not 2' >&2\nexit 1\n");
    write(&home.0, "boost-fiber", "\nshift 2\necho \"$* seconds=1.0 per_op_ns=3.00\"\n");
    let (json, _, warnings) = measured(&home);
    for (peer, why) in [
        ("go", "it was killed by signal 9"),
        ("tokio", "the sum is 1, not 2"),
        ("java-virtual", "/nonexistent/jdk/bin/java: not found"),
        ("boost-fiber", "does not count"),
    ] {
        let failed: Vec<_> =
            points(&json, peer).into_iter().filter_map(|point| point["failed"].as_str()).collect();
        assert!(!failed.is_empty() && failed.iter().all(|text| text.contains(why)), "{failed:?}");
        assert!(warnings.contains(why), "{warnings}");
        assert!(points(&json, peer).iter().all(|point| point["readings"] == Value::Array(vec![])));
    }
    let fibers = points(&json, "fibers");
    assert!(fibers.iter().all(|point| !point["readings"].as_array().unwrap().is_empty()));
}

#[test]
fn a_folder_without_a_peer_is_refused() {
    let home = Folder::new("peers-none");
    let output = output(ramie(&format!("lab --tiny --peers-dir {}", home.0.display())));
    assert_sentence(&output, 2, &["has no program of a peer", "bench/peers/build"]);
}
