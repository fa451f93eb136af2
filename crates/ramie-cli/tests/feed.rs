//! `ramie run feed` on all its engines.

mod support;

use serde_json::Value;
use support::{assert_sentence, output, ramie, ramie_under, text};

fn rows(arguments: &str) -> Vec<Value> {
    let output = output(ramie(arguments));
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    let rows = text(&output.stdout);
    rows.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

#[test]
fn people_are_fed_on_every_engine_whatever_the_interval_of_yields() {
    for (on, workers, default) in [
        ("fibers", Value::from(1), 1),
        ("hybrid --workers 2", 2.into(), 1),
        ("threads", Value::Null, 0),
        ("coroutines", Value::Null, 1),
        ("processes --processes 3", 3.into(), 1),
    ] {
        let run = format!("run feed --people 5 --nutrients 12 --on {on} --json");
        let every = |row: &Value| row["params"]["yield-every"].as_u64().unwrap();
        assert_eq!(rows(&run).iter().map(every).collect::<Vec<_>>(), [default], "{on}");
        let rows = rows(&format!("{run} --yield-every 0,1,5,12,100"));
        assert_eq!(rows.iter().map(every).collect::<Vec<_>>(), [0, 1, 5, 12, 100], "{on}");
        for row in rows {
            assert_eq!((&row["ops"], &row["workers"]), (&60.into(), &workers), "{on}");
            let has_pass = row["params"].get("pass").is_some();
            assert_eq!(has_pass, on == "coroutines", "{row}");
        }
    }
}

#[test]
fn coroutines_are_resumed_by_a_loop_or_by_each_other() {
    for people in [1, 2, 300] {
        for (flag, pass) in [("", "loop"), ("--pass loop", "loop"), ("--pass next", "next")] {
            let run = format!("run feed --people {people} --nutrients 4 --on coroutines {flag}");
            let rows = rows(&format!("{run} --yield-every 0,1,3 --json --repeat 2"));
            assert_eq!(rows.len(), 6);
            assert!(rows.iter().all(|row| row["params"]["pass"] == pass), "{rows:?}");
        }
    }
}

#[test]
fn parameters_with_a_default_are_printed_if_they_are_given() {
    let line = |flags: &str| {
        text(&output(ramie(&format!("run feed --people 3 --nutrients 4 {flags}"))).stdout)
    };
    let given = line("--on coroutines --yield-every 2 --pass next");
    assert!(given.starts_with("feed 3 4 2 next seconds="), "{given}");
    let default = line("--on coroutines");
    assert!(default.starts_with("feed 3 4 seconds="), "{default}");
}

#[test]
fn shares_differ_by_one_person_at_most() {
    for (people, processes) in [(1, 1), (4, 4), (7, 3)] {
        let run = format!("run feed --people {people} --nutrients 3 --on processes");
        let rows = rows(&format!("{run} --processes {processes} --json"));
        assert_eq!(rows[0]["ops"], 3 * people);
        assert!(rows[0]["cpu_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn too_many_coroutines_for_the_address_space_are_refused() {
    let run = "run feed --people 100000 --nutrients 1 --on coroutines --pass next";
    let output = output(ramie_under("ulimit -v 400000", run));
    assert_sentence(&output, 1, &["100000 coroutines need", "ulimit -v", "ask for about"]);
}
