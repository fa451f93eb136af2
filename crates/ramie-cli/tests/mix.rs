//! `ramie run mix` and the engine `processes`: rows, checks, refusals, and no process left behind.

mod support;

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{
    PATIENCE, RAMIE, assert_gone, assert_sentence, children, command_line, drivers, output, ramie,
    ramie_under, signal, text,
};

const SMALL: &str = "--concurrency 12 --cpu-us 3 --wait-us 200 --seconds 0.1";
const ENGINES: [&str; 4] = ["fibers", "threads", "hybrid", "processes"];

fn row(arguments: &str) -> Value {
    let output = output(ramie(&format!("run mix {arguments} --json")));
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[track_caller]
fn check(row: &Value, wait: &str, on: &str) {
    let number = |field: &str| row[field].as_f64().unwrap_or_else(|| panic!("no {field} in {row}"));
    assert_eq!(
        (&row["workload"], &row["wait"], &row["on"]),
        (&"mix".into(), &wait.into(), &on.into())
    );
    assert!(number("ops") >= 1.0 && number("steps_per_s") > 0.0, "{row}");
    // The calibration takes the fastest attempt, so a step computes for about 3 us at least.
    assert!(number("cpu_us_per_step") > 1.0, "{row}");
    assert!(number("rss_bytes") > 100_000.0, "{row}");
    assert!(number("seconds") >= 0.1, "{row}");
    let [p50, p99, p999] = ["p50", "p99", "p999"].map(|p| row["lateness_us"][p].as_f64().unwrap());
    assert!(0.0 < p50 && p50 <= p99 && p99 <= p999, "{row}");
}

#[test]
fn every_wait_runs_on_every_engine() {
    for wait in ["timer", "socket", "pipe", "lock"] {
        for on in ENGINES {
            check(&row(&format!("{SMALL} --wait {wait} --on {on}")), wait, on);
        }
    }
}

#[test]
fn files_are_read_from_a_disk_or_the_run_fails() {
    for on in ENGINES {
        let output = output(ramie(&format!("run mix {SMALL} --wait file --on {on} --json")));
        if output.status.success() {
            check(&serde_json::from_slice(&output.stdout).unwrap(), "file", on);
        } else {
            let why = ["reached a disk", "TMPDIR"];
            let message = assert_sentence(&output, 1, &why);
            support::skipped(&format!("the folder for temporary files is no disk: {message}"));
        }
    }
}

#[test]
fn requests_are_answered_by_polling_too() {
    for driver in drivers() {
        for wait in ["socket", "pipe"] {
            let mut command = ramie(&format!("run mix {SMALL} --wait {wait} --on processes"));
            command.env("RAMIE_DRIVER", driver);
            let output = output(command);
            assert!(output.status.success(), "{driver}: {}", text(&output.stderr));
        }
    }
}

#[test]
fn blocking_waits_block_the_workers_of_fibers() {
    for wait in ["timer", "socket", "pipe", "lock"] {
        let row = row(&format!("{SMALL} --wait {wait} --on fibers --blocking"));
        check(&row, wait, "fibers");
        assert_eq!(row["params"]["blocking"], true);
        // One strand waits at a time, for 200 us, so there are fewer steps than time allows.
        assert!(row["ops"].as_u64().unwrap() <= 501 + 12, "{row}");
    }
    check(&row(&format!("{SMALL} --wait timer --on threads --blocking")), "timer", "threads");
}

#[test]
fn the_row_has_all_parameters() {
    let row =
        row("--concurrency 5 --cpu-us 3 --wait-us 50 --wait timer --jitter 50 --seconds 0.05");
    let params = serde_json::json!({
        "concurrency": 5, "cpu-us": 3, "wait-us": 50, "jitter": 50, "seconds": 0.05,
        "blocking": false,
    });
    assert_eq!(row["params"], params);
    let line = text(&output(ramie(&format!("run mix {SMALL} --wait timer"))).stdout);
    assert!(line.starts_with("mix 12 3 200 0 timer seconds=0."), "{line}");
    assert!(line.contains(" steps_per_s=") && line.contains(" lateness_us.p99="), "{line}");
}

#[test]
fn processes_share_the_strands() {
    assert!(row(&format!("{SMALL} --wait timer --on processes"))["workers"].as_u64() >= Some(2));
    let row = row(&format!("{SMALL} --wait timer --on processes --processes 5 --repeat 1"));
    assert_eq!(row["workers"], 5);
}

#[test]
fn wrong_numbers_and_combinations_are_refused() {
    for (arguments, parts) in [
        ("--concurrency 1", &["missing", "--cpu-us", "--wait-us", "--wait"] as &[&str]),
        (
            &format!("{SMALL} --wait sleep"),
            &["`sleep` for --wait", "timer, socket, pipe, file, lock"],
        ),
        (&format!("{SMALL} --wait timer --jitter 101"), &["--jitter", "0 to 100"]),
        (&format!("{SMALL} --wait timer --on sidecar"), &["does not run on sidecar", "processes"]),
        (&format!("{SMALL} --wait timer --processes 2"), &["--processes", "use --on processes"]),
        (
            &format!("{SMALL} --wait timer --on processes --workers 2"),
            &["--workers does not apply to --on processes", "--processes"],
        ),
        (
            &format!("{SMALL} --wait timer --on processes --processes 13"),
            &["12 strands are too few for 13 processes"],
        ),
    ] {
        assert_sentence(&output(ramie(&format!("run mix {arguments}"))), 2, parts);
    }
    let mix = "run mix --concurrency 1 --cpu-us 1 --wait-us 1 --wait timer --seconds";
    for bad in ["0", "x", "-1", "100000"] {
        assert_sentence(
            &output(ramie(&format!("{mix} {bad}"))),
            2,
            &["--seconds", "0.01 to 86400"],
        );
    }
    let spawn = "run spawn --count 1";
    assert_sentence(&output(ramie(&format!("{spawn} --on processes"))), 2, &["does not run on"]);
    assert_sentence(&output(ramie(&format!("{spawn} --processes 2"))), 2, &["--processes"]);
}

#[test]
fn a_step_longer_than_the_time_is_no_figure() {
    let arguments = "--concurrency 1 --cpu-us 1 --wait-us 300000 --wait timer --seconds 0.02";
    let output = output(ramie(&format!("run mix {arguments}")));
    assert_sentence(&output, 1, &["no step was complete after 0.02 s", "--seconds"]);
}

#[test]
fn more_threads_than_are_safe_are_refused() {
    let rest = "--cpu-us 1 --wait-us 1 --seconds 0.01";
    for arguments in ["--wait timer --on threads", "--wait lock --blocking --on fibers"] {
        let output = output(ramie(&format!("run mix --concurrency 3000000 {rest} {arguments}")));
        // Not the memory, because the number that fits into memory would be refused in turn.
        assert_sentence(&output, 1, &["threads are not safe", "at most", "ask for fewer"]);
    }
}

#[test]
fn too_few_descriptors_for_so_many_strands() {
    let run = "run mix --concurrency 1000 --cpu-us 1 --wait-us 1 --wait pipe";
    let few = output(ramie_under("ulimit -n 300", run));
    assert_sentence(&few, 1, &["1000 strands need", "300 at most", "ulimit -Hn"]);
    // These need more memory than there is, too, but the number that fits into it is too large.
    let run = run.replace("1000", "4000000000");
    let many = output(ramie_under("ulimit -n 300", &run));
    assert_sentence(&many, 1, &["4000000000 strands need", "ask for 1", "ulimit -Hn"]);
}

/// A mix that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A mix in three processes that would run for a minute, once all of them run.
fn started() -> (Running, Vec<u32>) {
    let arguments = "--concurrency 6 --cpu-us 1 --wait-us 500 --wait socket --seconds 60";
    // A shell that starts the tests in the background has them ignore SIGINT.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM", RAMIE, "run", "mix", "--on", "processes"]);
    command.args(["--processes", "3"]).args(arguments.split(' ')).stdin(Stdio::null());
    let parent = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let parent = Running(parent);
    let start = Instant::now();
    loop {
        let children = children(parent.0.id());
        let is_member = |child: &&u32| command_line(**child).contains("--member");
        if children.iter().filter(is_member).count() == 3 {
            return (parent, children);
        }
        assert!(start.elapsed() < PATIENCE, "its processes do not start");
        std::thread::yield_now();
    }
}

#[test]
fn a_process_that_dies_is_named() {
    let (mut parent, children) = started();
    let member = *children.iter().find(|id| command_line(**id).contains("--member")).unwrap();
    kill_process(Pid::from_raw(member as i32).unwrap(), Signal::KILL).unwrap();
    let others: Vec<_> = children.iter().copied().filter(|id| *id != member).collect();
    let mut message = String::new();
    BufReader::new(parent.0.stderr.take().unwrap()).read_line(&mut message).unwrap();
    let id = format!("(id {member})");
    assert!(message.contains(&id) && message.contains("killed by signal 9"), "{message}");
    assert_eq!(parent.0.wait().unwrap().code(), Some(1));
    assert_gone(&others);
}

#[test]
fn no_process_outlives_its_parent() {
    for end in [Signal::INT, Signal::TERM, Signal::KILL] {
        let (mut parent, children) = started();
        signal(&parent.0, end);
        assert!(!parent.0.wait().unwrap().success());
        assert_gone(&children);
    }
}
