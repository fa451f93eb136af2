//! `ramie lab`: its files, its directory, and interrupts.

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::Stdio,
};

use rustix::process::Signal;
use serde_json::Value;
use support::{Folder, assert_sentence, has_ring, output, ramie, ramie_under, signal, text};

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_lab_writes_its_files_and_keeps_older_ones() {
    let home = Folder::new("lab");
    let out = home.0.join("out");
    for name in ["out", "out-2"] {
        let output = output(ramie(&format!("lab --tiny --out {}", out.display())));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let folder = home.0.join(name);
        assert!(text(&output.stdout).contains(&folder.join("report.html").display().to_string()));
        check_files(&folder);
    }
    assert_eq!(fs::read_dir(&home.0).unwrap().count(), 2);
}

fn check_files(folder: &Path) {
    let json: Value = serde_json::from_str(&read(folder, "results.json")).unwrap();
    assert_eq!(json["partial"], false);
    for fact in ["cpu", "kernel", "commit", "toolchain", "date", "memory"] {
        assert!(json["machine"][fact].is_string(), "{fact}");
    }
    let points = json["points"].as_array().unwrap();
    let readings: usize = points.iter().map(|p| p["readings"].as_array().unwrap().len()).sum();
    let has_ring = has_ring();
    for point in points {
        if !has_ring && point["on"] == "sidecar" {
            continue;
        }
        assert_eq!((&point["failed"], &point["skipped"]), (&Value::Null, &Value::Null), "{point}");
    }

    let csv = read(folder, "results.csv");
    let mut rows = csv.lines();
    let columns = rows.next().unwrap().split(',').count();
    assert_eq!(rows.clone().count(), readings);
    assert!(rows.all(|row| row.split(',').count() == columns));

    let page = read(folder, "report.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.matches("<svg ").count() >= 10, "charts");
    for part in [
        "Where threads win",
        "Yielding at each level of a recursion",
        "Calls that register a timer",
        "Time for one message through a pipe",
        "Sending through sockets and receiving",
        "a fiber yields to the scheduler after each nutrient, a thread does",
        "<table",
        "Kernel",
        "Commit",
    ] {
        assert!(page.contains(part), "no {part:?}");
    }
    assert!(!page.contains("src=") && !page.contains("<link"), "nothing is loaded from elsewhere");
}

#[test]
fn without_a_command_the_lab_runs_and_an_interrupt_keeps_the_readings() {
    let home = Folder::new("bare");
    let mut command = ramie("");
    command.current_dir(&home.0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut lab = command.spawn().unwrap();
    let mut stdout = BufReader::new(lab.stdout.take().unwrap());
    let mut first = String::new();
    stdout.read_line(&mut first).unwrap();
    assert!(first.contains("lab") && first.contains("--help"), "{first}");

    // The second experiment has begun, so the first has figures.
    let mut stderr = BufReader::new(lab.stderr.take().unwrap()).lines();
    assert!(stderr.any(|line| line.unwrap().contains("100 nutrients")));
    // `timeout` sends the signal twice: to its child, and to the process group of the child.
    signal(&lab, Signal::INT);
    signal(&lab, Signal::INT);
    assert!(lab.wait().unwrap().success());

    let dates: Vec<_> = fs::read_dir(home.0.join("ramie-lab")).unwrap().collect();
    assert_eq!(dates.len(), 1);
    let folder = dates[0].as_ref().unwrap().path();
    let json: Value = serde_json::from_str(&read(&folder, "results.json")).unwrap();
    assert_eq!(json["partial"], true);
    assert!(read(&folder, "report.html").contains("This report is partial"));
}

#[test]
fn points_that_fail_are_named_and_cost_only_themselves() {
    let home = Folder::new("failing");
    let out = home.0.join("out");
    // The address space suffices for some threads, and not for a hundred.
    let arguments = format!("lab --tiny --out {}", out.display());
    let output = output(ramie_under("ulimit -v 100000", &arguments));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = read(&out, "report.html");
    assert!(page.contains("Not measured") && page.contains(" of 100 threads"));
    let message = text(&output.stderr);
    assert!(message.lines().any(|line| line.contains("on threads failed: only ")), "{message}");
}

#[test]
fn figures_are_printed_if_the_report_cannot_be_written() {
    let home = Folder::new("gone");
    let out = home.0.join("out");
    let mut command = ramie(&format!("lab --tiny --out {}", out.display()));
    let mut lab = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(lab.stderr.take().unwrap());
    stderr.read_line(&mut String::new()).unwrap();
    fs::remove_dir(&out).unwrap();
    let mut message = String::new();
    stderr.read_to_string(&mut message).unwrap();
    let output = lab.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("Time for one hop"), "{}", text(&output.stdout));
    assert!(message.contains("cannot write") && message.contains("results.csv"), "{message}");
}

#[test]
fn variables_are_checked_before_anything_is_measured() {
    for name in ["RAMIE_DRIVER", "RAMIE_STACK", "RAMIE_STRANDS"] {
        let home = Folder::new("variables");
        let mut command = ramie(&format!("lab --tiny --out {}/out", home.0.display()));
        command.env(name, "garbage");
        assert_sentence(&output(command), 2, &[name, "garbage"]);
        assert_eq!(fs::read_dir(&home.0).unwrap().count(), 0, "no folder is made");
    }
}

#[test]
fn only_a_folder_can_be_written_to() {
    let home = Folder::new("file");
    let file = home.0.join("file");
    fs::write(&file, "precious").unwrap();
    for out in [file.to_str().unwrap(), "/dev/null"] {
        let output = output(ramie(&format!("lab --tiny --out {out}")));
        assert_sentence(&output, 2, &[out, "--out", "no folder"]);
    }
    assert_eq!(fs::read_dir(&home.0).unwrap().count(), 1);
}
