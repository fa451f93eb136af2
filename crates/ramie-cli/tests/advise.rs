//! `ramie advise`: descriptions, refusals, and the shape of the answer.

mod support;

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
};

use rustix::{
    process::Signal,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use serde_json::Value;
use support::{Folder, assert_sentence, output, ramie, signal, text};

const WORK: &str = "--concurrency 8 --cpu-us 20 --wait-us 300 --wait timer";

fn answer(arguments: &str) -> Value {
    let output = output(ramie(&format!("advise {arguments} --json")));
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[track_caller]
fn check(answer: &Value) {
    let arms = answer["arms"].as_array().unwrap();
    let recommended = arms.iter().find(|arm| {
        (&arm["name"], &arm["workers"]) == (&answer["recommended"], &answer["workers"])
    });
    let recommended = recommended.unwrap_or_else(|| panic!("no such arm in {answer}"));
    assert!(
        ["fibers", "threads", "hybrid", "processes"]
            .map(Value::from)
            .contains(&recommended["name"])
    );
    for arm in arms {
        let range: Vec<_> =
            arm["steps_per_s_range"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        let median = arm["steps_per_s"].as_f64().unwrap();
        assert!(range[0] <= median && median <= range[1], "{arm}");
        assert!(arm["memory"].is_u64(), "{arm}");
        for figure in ["cpu_us_per_step", "p99", "memory"] {
            assert!(arm[figure].as_f64().unwrap() > 0.0, "{arm}");
        }
    }
    // The rule keeps the recommended arm within 5 % of the fastest.
    let speeds = arms.iter().filter_map(|arm| arm["steps_per_s"].as_f64());
    let fastest = speeds.fold(0.0, f64::max);
    assert!(recommended["steps_per_s"].as_f64().unwrap() >= 0.949 * fastest, "{answer}");
    assert!(["low", "medium", "high"].map(Value::from).contains(&answer["confidence"]));
    assert_ne!(answer["runner_up"]["name"], answer["recommended"]);
    let skeleton = answer["skeleton"].as_str().unwrap();
    let strands = format!("STRANDS: usize = {};", answer["description"]["concurrency"]);
    assert!(skeleton.contains("fn main()") && skeleton.contains(&strands), "{skeleton}");
}

#[test]
fn every_engine_is_measured_and_one_is_recommended() {
    let answer = answer(&format!("{WORK} --jitter 20 --seconds 4"));
    check(&answer);
    let names: Vec<_> = answer["arms"].as_array().unwrap().iter().map(|arm| &arm["name"]).collect();
    for name in ["fibers", "threads", "hybrid", "processes"] {
        assert!(names.contains(&&name.into()), "no {name} in {names:?}");
    }
    let tipping = answer["tipping"]["sentence"].as_str().unwrap();
    assert_eq!(tipping, "not measured, because the time was too short; raise --seconds");
    assert_eq!((&answer["partial"], &answer["description"]["jitter"]), (&false.into(), &20.into()));
}

#[test]
fn neighbouring_values_are_measured_if_there_is_time() {
    let answer = answer(&format!("{WORK} --seconds 10"));
    check(&answer);
    let measured = answer["tipping"]["measured"].as_array().unwrap();
    let has_more = measured.iter().any(|neighbour| neighbour["cpu_us"].as_u64() > Some(20));
    assert!(has_more, "{}", answer["tipping"]);
}

/// While the one worker of fibers waits in a library that blocks, no other fiber runs.
#[test]
fn libraries_that_block_speak_against_fibers() {
    let work = "--concurrency 8 --cpu-us 1 --wait-us 2000 --wait timer --blocking --seconds 3";
    let answer = answer(work);
    check(&answer);
    assert_eq!(answer["recommended"], "threads");
}

#[test]
fn without_json_it_is_a_page_of_text() {
    let output = output(ramie(&format!("advise {WORK} --seconds 2")));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    for part in [
        "8 strands, each step 20 µs of CPU and 300 µs of waiting (timer)",
        "recommendation  ",
        "runner-up  ",
        "confidence  ",
        "tipping point  ",
        "steps/s",
        "A program to start from:",
        "fn main()",
    ] {
        assert!(page.contains(part), "no {part:?} in:\n{page}");
    }
    assert!(text(&output.stderr).contains("round 1 of"), "progress is a line per stage");
}

#[test]
fn a_file_describes_the_work_and_flags_have_precedence() {
    let folder = Folder::new("advise");
    let file = folder.0.join("work.toml");
    fs::write(
        &file,
        "concurrency = 4\ncpu-us = 10\nwait-us = 100\nwait = \"timer\"\nseconds = 1.5\n",
    )
    .unwrap();
    let answer = answer(&format!("--file {} --wait-us 200", file.display()));
    check(&answer);
    assert_eq!(answer["description"]["wait_us"], 200);
    assert_eq!(answer["description"]["seconds"], 1.5);
    for (content, parts) in [
        ("colour = 1", &["`colour`", "unknown key", "concurrency, cpu-us"] as &[&str]),
        ("cpu-us = 0", &["invalid value `0` for cpu-us", "1 or more"]),
        ("colour = \"red\"", &["`colour`", "unknown key"]),
        ("wait = \"sleep\"", &["invalid value `sleep` for wait", "timer, socket"]),
        ("wait = 5", &["`wait`", "is of type integer; write a string", "wait = \"socket\""]),
        ("jitter = [1]", &["`jitter`", "is of type array; write a number", "jitter = 10"]),
        ("cpu-us = \"10\"", &["`cpu-us`", "of type string; write a number, without quotation"]),
        ("cpu-us = 1.5", &["invalid value `1.5` for cpu-us", "whole number"]),
        ("seconds = \"5\"", &["`seconds`", "of type string; write a number"]),
        ("blocking = \"no\"", &["`blocking`", "of type string; write a boolean"]),
        ("blocking = 1", &["`blocking`", "of type integer; write a boolean"]),
        ("cpu-us =", &["work.toml is no TOML: line 1, column 9: "]),
        ("cpu-us = 5\nwait == 5", &["work.toml is no TOML: line 2, column 7: "]),
        ("cpu-us = 5\ncpu-us = 6", &["work.toml is no TOML: line 2, column 1: "]),
        ("cpu-us = 5", &["missing --concurrency, --wait-us, --wait;"]),
    ] {
        fs::write(&file, content).unwrap();
        let output = output(ramie(&format!("advise --file {}", file.display())));
        assert_sentence(&output, 2, parts);
    }
    let missing = output(ramie(&format!("advise --file {}/none", folder.0.display())));
    assert_sentence(&missing, 2, &["cannot read", "none", "--file"]);
}

#[test]
fn a_description_that_is_not_complete_is_refused() {
    let asked = "give nothing at a terminal to be asked";
    for arguments in ["", "--seconds 5", "--json"] {
        let output = output(ramie(&format!("advise {arguments}")));
        assert_sentence(
            &output,
            2,
            &["missing --concurrency, --cpu-us, --wait-us, --wait;", asked],
        );
    }
    let output = output(ramie("advise --concurrency 5 --cpu-us 1 --wait-us 0"));
    assert_sentence(&output, 2, &["invalid value `0` for --wait-us"]);
}

/// A terminal: our side of it, and the program's.
fn terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (File::from(ours), theirs)
}

#[test]
fn at_a_terminal_it_asks() {
    let (mut ours, theirs) = terminal();
    let mut command = ramie("advise --json");
    command.stdin(theirs.try_clone().unwrap()).stderr(theirs).stdout(Stdio::piped());
    let advise = command.spawn().unwrap();
    // Ours is the last descriptor of the program's side, without which reads on our side end.
    drop(command);
    ours.write_all(b"0\n8\n20\n300\ntimer\n\n\n64\n1.5\n").unwrap();
    // The program would wait for a terminal that nobody reads. The end of it is an error.
    let mut screen = Vec::new();
    let _ = ours.read_to_end(&mut screen);
    let output = advise.wait_with_output().unwrap();
    let screen = text(&screen);
    assert!(output.status.success(), "{screen}");
    assert!(screen.contains("How many tasks") && screen.contains("expected 1 or more"), "{screen}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&answer);
    let description = &answer["description"];
    let parts = ["concurrency", "cpu_us", "wait_us", "memory_limit"].map(|key| &description[key]);
    assert_eq!(parts, [8, 20, 300, 64 << 20]);
    assert_eq!(
        [&description["wait"], &description["blocking"], &description["seconds"]],
        [&Value::from("timer"), &false.into(), &1.5.into()]
    );
}

#[test]
fn a_memory_limit_that_nothing_fits_into() {
    let output = output(ramie(&format!("advise {WORK} --memory-limit 1 --seconds 1")));
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    let last = message.lines().last().unwrap();
    assert!(last.contains("more than 1 MiB") && last.contains("--memory-limit"), "{message}");
}

#[test]
fn ctrl_c_answers_from_the_readings_so_far() {
    let mut command = ramie(&format!("advise {WORK} --seconds 40 --json"));
    let mut advise = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The second round has begun, so each arm has a reading.
    let mut stderr = BufReader::new(advise.stderr.take().unwrap()).lines();
    assert!(stderr.any(|line| line.unwrap().contains("round 2 of")));
    signal(&advise, Signal::INT);
    let mut answer = String::new();
    advise.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(advise.wait().unwrap().success());
    let answer: Value = serde_json::from_str(&answer).unwrap();
    check(&answer);
    assert_eq!((&answer["partial"], &answer["confidence"]), (&true.into(), &"low".into()));
    let tipping = answer["tipping"]["sentence"].as_str().unwrap();
    assert_eq!(tipping, "not measured, because of the interrupt");
    let note = answer["notes"][0].as_str().unwrap();
    let parts =
        ["interrupted: an arm has 1", " of 5 readings, and the tipping point was not measured"];
    assert!(parts.iter().all(|part| note.contains(part)), "{note}");
}

#[test]
fn ctrl_c_before_the_first_reading_is_no_advice() {
    let mut command = ramie(&format!("advise {WORK} --seconds 100"));
    let mut advise = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(advise.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("warm-up"), "{line}");
    signal(&advise, Signal::INT);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(advise.wait().unwrap().code(), Some(1));
    assert!(rest.contains("ended before anything was measured"), "{rest}");
}
