//! `ramie doctor`: its report on a capable machine and on one that refuses much.

mod support;

use serde_json::Value;
use support::{assert_sentence, has_ring, output, ramie, ramie_under, skipped, text};

#[test]
fn it_reports_the_features_of_the_machine() {
    let output = output(ramie("doctor"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    for part in [
        "Linux ",
        "driver  ",
        "guards  ",
        "stacks  ",
        "Tried",
        "Files",
        "pool",
        "Limits",
        "ulimit -n",
    ] {
        assert!(report.contains(part), "no {part:?} in {report}");
    }
}

#[test]
fn its_json_has_every_check_with_cause_and_remedy() {
    let output = output(ramie("doctor --json"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for field in ["kernel", "cpus", "driver", "reason", "guards", "files", "checks", "limits"] {
        assert!(!report[field].is_null(), "{field}");
    }
    for check in report["checks"].as_array().unwrap() {
        let is_ok = check["outcome"] == "ok";
        assert_eq!(check["cause"].is_string(), !is_ok, "{check}");
        assert_eq!(check["cure"].is_string(), !is_ok, "{check}");
    }
}

#[test]
fn where_nothing_works_it_still_reports_and_fails() {
    let output = output(ramie_under("ulimit -n 4", "doctor"));
    assert!(text(&output.stdout).contains("ulimit -n"));
    assert_sentence(&output, 1, &["fibers cannot run here"]);
}

#[test]
fn it_reports_the_environment() {
    let has_ring = has_ring();
    let run_with = |variable: &str, value: &str| {
        let mut command = ramie("doctor");
        command.env(variable, value);
        output(command)
    };
    for (variable, value, line) in [
        ("RAMIE_DRIVER", "poll", "driver  poll: set by RAMIE_DRIVER"),
        ("RAMIE_CAPS", "-msg_ring", "caps    without MSG_RING: masked by RAMIE_CAPS"),
        ("RAMIE_SUBMIT", "sidecar", "submit  sidecar: set by RAMIE_SUBMIT"),
        ("RAMIE_SUBMIT", "kernel-thread", "submit  kernel-thread: set by RAMIE_SUBMIT"),
        ("RAMIE_STACK", "65536", "stacks  64 KiB usable"),
        ("RAMIE_STRANDS", "threads", "strands threads: set by RAMIE_STRANDS"),
    ] {
        let is_about_rings = ["RAMIE_CAPS", "RAMIE_SUBMIT"].contains(&variable);
        if is_about_rings && !has_ring {
            continue;
        }
        let output = run_with(variable, value);
        assert!(output.status.success(), "{variable}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains(line), "{}", text(&output.stdout));
    }
    let mut polling = ramie("doctor");
    polling.env("RAMIE_SUBMIT", "sidecar").env("RAMIE_DRIVER", "poll");
    let polling = text(&output(polling).stdout);
    assert!(polling.contains("submit  worker: RAMIE_SUBMIT asks for sidecar, which"), "{polling}");
    assert!(!polling.contains("in use"), "nothing of a ring is used: {polling}");
    for variable in ramie_driver::VARIABLES {
        let output = run_with(variable, "garbage");
        assert_sentence(&output, 2, &[variable, "garbage"]);
        let report = text(&output.stdout);
        assert!(report.contains("Limits"), "it reports all the same");
        assert!(!report.contains("garbage: "), "{variable} was taken for an answer: {report}");
    }
}

#[test]
fn it_warns_about_variables_that_ramie_does_not_read() {
    for options in ["doctor", "doctor --json"] {
        let mut command = ramie(options);
        command.env("RAMIE_ENTER", "sidecar").env("RAMIE_STAK", "1");
        let output = output(command);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report = text(&output.stdout);
        for part in ["RAMIE_ENTER, RAMIE_STAK", "RAMIE_SUBMIT", "RAMIE_STACK"] {
            assert!(report.contains(part), "{part}: {report}");
        }
    }
    assert!(!text(&output(ramie("doctor")).stdout).contains("unknown environment"));
}

/// Whether the program can inject faults, as the lane `.ci/faults` builds it.
fn injects_faults() -> bool {
    let mut command = ramie("doctor");
    command.env("RAMIE_FAULTS", "1");
    !text(&output(command).stdout).contains("RAMIE_FAULTS")
}

#[test]
fn faults_that_this_build_does_not_inject_are_mentioned_once() {
    if std::env::var_os("RAMIE_FAULTS").is_some() || injects_faults() {
        return skipped("this build injects faults");
    }
    let switch = "run switch --count 10";
    for arguments in [switch, "run switch --count 10,20", "run alive --count 3 --repeat 2"] {
        let mut command = ramie(arguments);
        command.env("RAMIE_FAULTS", "7");
        let parts = ["ignoring RAMIE_FAULTS", "the feature `faults`"];
        assert_sentence(&output(command), 0, &parts);
    }
    for value in ["", "7"] {
        let mut command = ramie("doctor");
        command.env("RAMIE_FAULTS", value);
        let output = output(command);
        let report = text(&output.stdout);
        assert_eq!(report.contains("ignoring RAMIE_FAULTS"), value == "7", "{report}");
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    }
    assert!(output(ramie(switch)).stderr.is_empty());
}

#[test]
fn a_wrong_variable_is_named_first() {
    for variable in ramie_driver::VARIABLES {
        let mut command = ramie_under("exec 2>&1", "doctor");
        command.env(variable, "garbage");
        let message = text(&output(command).stdout);
        let first = message.lines().next().unwrap_or_default();
        let expected = format!("ramie: invalid value `garbage` for {variable}: expected ");
        assert!(first.starts_with(&expected), "{message}");

        let mut command = ramie("doctor --json");
        command.env(variable, "garbage");
        let report: Value = serde_json::from_slice(&output(command).stdout).unwrap();
        assert!(report["wrong"].as_str().is_some_and(|wrong| wrong.contains(variable)), "{report}");
    }
    let report: Value = serde_json::from_slice(&output(ramie("doctor --json")).stdout).unwrap();
    assert!(report["wrong"].is_null(), "{report}");
}

#[test]
fn without_memory_for_a_fiber_it_fails() {
    // The program itself takes 20 MB; its fibers need some 130.
    assert_sentence(&output(ramie_under("ulimit -v 60000", "doctor")), 1, &["`ulimit -v`"]);
}
