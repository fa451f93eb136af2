//! `ramie lab`: its files, its directory, and interrupts.

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Lines, Read},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use support::{Folder, assert_sentence, has_ring, output, ramie, ramie_under, signal, text};

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_lab_writes_its_files_and_keeps_older_ones() {
    let home = Folder::new("lab");
    let out = home.0.join("out");
    for (name, size) in [("out", "--tiny"), ("out-2", "--sample")] {
        let output = output(ramie(&format!("lab {size} --out {}", out.display())));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let page = home.0.join(name).join("report.html");
        assert!(text(&output.stdout).contains(&page.display().to_string()) && page.exists());
    }
    check_files(&out);
    assert_eq!(fs::read_dir(&home.0).unwrap().count(), 2);
}

fn check_files(folder: &Path) {
    let json: Value = serde_json::from_str(&read(folder, "results.json")).unwrap();
    assert_eq!(json["partial"], false);
    for fact in [
        "cpu",
        "kernel",
        "commit",
        "toolchain",
        "date",
        "memory",
        "governor",
        "virtual_machine",
        "flags",
    ] {
        assert!(json["machine"][fact].is_string(), "{fact}");
    }
    assert!(json["machine"]["mitigations"].is_object());
    let noise = json["noise"].as_array().unwrap();
    assert!(noise.len() >= 2 && noise.iter().all(|check| check["control_ns"].is_number()));
    let points = json["points"].as_array().unwrap();
    let readings: usize = points.iter().map(|p| p["readings"].as_array().unwrap().len()).sum();
    let has_ring = has_ring();
    for point in points {
        if !has_ring && point["on"] == "sidecar" {
            continue;
        }
        assert_eq!((&point["failed"], &point["skipped"]), (&Value::Null, &Value::Null), "{point}");
    }

    // Each figure can be measured again by the command beside it.
    let of_basic = points.iter().find(|point| point["experiment"] == "basic-medium").unwrap();
    assert_eq!(of_basic["words"]["call"], "medium");
    let command = of_basic["command"].as_str().unwrap();
    let again = output(ramie(command.strip_prefix("ramie ").unwrap()));
    assert!(again.status.success() && text(&again.stdout).contains("per_op_ns"), "{command}");

    let csv = read(folder, "results.csv");
    let mut rows = csv.lines();
    let columns = rows.next().unwrap().split(',').count();
    let counted = points.iter().filter(|point| point["counters"].is_object()).count();
    assert_eq!(rows.clone().count(), readings + counted);
    let header = csv.lines().next().unwrap();
    assert!(header.ends_with(",branch_misses,cache_misses"), "{header}");
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
    assert!(stderr.any(|line| line.unwrap().contains("10 nutrients")));
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

/// A terminal sends Ctrl-C to the lab and to the process that measures a point.
#[test]
fn an_interrupt_of_all_its_processes_is_no_failure_of_a_point() {
    let home = Folder::new("group");
    // Each time at another experiment, and not at the first, which may have no figure yet.
    for experiment in 1..3 {
        let out = home.0.join(experiment.to_string());
        let mut command = Command::new("env");
        // A shell that starts the tests in the background has them ignore SIGINT.
        command
            .args(["--default-signal=INT", support::RAMIE, "lab", "--sample", "--out"])
            .arg(&out);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut lab = command.process_group(0).spawn().unwrap();
        let mut stderr = BufReader::new(lab.stderr.take().unwrap()).lines();
        let mut begun =
            stderr.by_ref().filter(|line| line.as_ref().unwrap().contains("round 1 of 1: "));
        assert!(begun.nth(experiment).is_some());
        kill_process_group(Pid::from_child(&lab), Signal::INT).unwrap();
        let rest: Vec<_> = stderr.map(Result::unwrap).collect();
        assert!(!rest.iter().any(|line| line.contains("failed")), "{rest:?}");
        assert!(lab.wait().unwrap().success(), "{rest:?}");
        assert_eq!(json(&out)["partial"], true);
        assert!(!read(&out, "readings.jsonl").contains("killed by signal"));
    }
}

#[test]
fn points_that_fail_are_named_and_cost_only_themselves() {
    let home = Folder::new("failing");
    let out = home.0.join("out");
    // The address space suffices for some threads, and not for a hundred.
    let arguments = format!("lab --sample --out {}", out.display());
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
    let mut command = ramie(&format!("lab --sample --out {}", out.display()));
    let mut lab = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(lab.stderr.take().unwrap());
    stderr.read_line(&mut String::new()).unwrap();
    fs::remove_dir_all(&out).unwrap();
    let mut message = String::new();
    stderr.read_to_string(&mut message).unwrap();
    let output = lab.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("Time for one hop"), "{}", text(&output.stdout));
    assert!(message.contains("cannot write") && message.contains("results.csv"), "{message}");
    assert!(message.contains("its folder is gone"), "{message}");
}

#[test]
fn variables_are_checked_before_anything_is_measured() {
    for name in ["RAMIE_DRIVER", "RAMIE_STACK", "RAMIE_STRANDS"] {
        let home = Folder::new("variables");
        let mut command = ramie(&format!("lab --sample --out {}/out", home.0.display()));
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
        let output = output(ramie(&format!("lab --sample --out {out}")));
        assert_sentence(&output, 2, &[out, "--out", "no folder"]);
    }
    assert_eq!(fs::read_dir(&home.0).unwrap().count(), 1);
}

/// A copy of the report of a lab of a few points, which is measured once for all tests.
fn sample(home: &Folder) -> PathBuf {
    static FILES: OnceLock<Vec<(String, String)>> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let out = home.0.join("measured");
        let output = output(ramie(&format!("lab --sample --out {}", out.display())));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let names = ["readings.jsonl", "results.json", "results.csv", "report.html"];
        names.map(|name| (name.to_owned(), read(&out, name))).into()
    });
    let out = home.0.join("out");
    fs::create_dir(&out).unwrap();
    for (name, content) in files {
        fs::write(out.join(name), content).unwrap();
    }
    out
}

fn json(folder: &Path) -> Value {
    serde_json::from_str(&read(folder, "results.json")).unwrap()
}

#[test]
fn a_killed_lab_goes_on_where_it_was_cut_off() {
    let home = Folder::new("resume");
    let out = sample(&home);
    let whole = json(&out);
    let journal = read(&out, "readings.jsonl");
    // A kill leaves some lines behind, and a part of the next one.
    let lines: Vec<_> = journal.lines().collect();
    let kept = lines.len() / 2;
    let torn = lines[..kept].join("\n") + "\n" + &lines[kept][..10];
    fs::write(out.join("readings.jsonl"), torn).unwrap();
    for file in ["results.json", "results.csv", "report.html"] {
        fs::remove_file(out.join(file)).unwrap();
    }

    let resumed = output(ramie(&format!("lab --resume {}", out.display())));
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    let resumed = json(&out);
    let points = |lab: &Value| lab["points"].as_array().unwrap().clone();
    assert_eq!(resumed["partial"], false);
    assert_eq!(points(&resumed).len(), points(&whole).len());
    let mut kept = 0;
    for (before, after) in points(&whole).iter().zip(points(&resumed)) {
        assert_eq!(before["params"], after["params"]);
        let count = |point: &Value| point["readings"].as_array().unwrap().len();
        assert_eq!(count(before), count(&after), "{after}");
        kept += usize::from(before["readings"][0] == after["readings"][0]);
    }
    assert!(kept > 0 && kept < points(&whole).len(), "{kept} points were kept");

    // There is nothing left to measure, so the report is written again from the journal.
    let again = output(ramie(&format!("lab --sample --resume {}", out.display())));
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_sentence(&again, 0, &["is a finished lab", "written again"]);
    assert_eq!(points(&json(&out)), points(&resumed));
}

#[test]
fn a_lab_that_is_killed_keeps_its_readings() {
    let home = Folder::new("killed");
    let out = home.0.join("out");
    let mut command = ramie(&format!("lab --sample --out {}", out.display()));
    let mut lab = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(lab.stderr.take().unwrap());
    // The warm-up is over, and the first point of the first round is being measured.
    stderr.read_line(&mut String::new()).unwrap();
    signal(&lab, Signal::KILL);
    lab.wait().unwrap();
    let readings = |journal: &str| journal.matches("\"event\":\"readings\"").count();
    let kept = readings(&read(&out, "readings.jsonl"));
    assert!(kept > 10, "{kept} processes of the warm-up");
    assert!(!out.join("results.json").exists());

    let resumed = output(ramie(&format!("lab --resume {}", out.display())));
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert!(readings(&read(&out, "readings.jsonl")) > kept);
    let record = json(&out);
    let mut points = record["points"].as_array().unwrap().iter();
    assert!(points.all(|point| !point["readings"].as_array().unwrap().is_empty()));
}

#[test]
fn a_lab_of_something_else_is_not_resumed() {
    let home = Folder::new("other");
    let out = sample(&home);
    let journal = read(&out, "readings.jsonl");
    let resume = format!("lab --resume {}", out.display());
    for (from, to, part) in [
        ("\"kernel\":\"Linux", "\"kernel\":\"Minix", "its kernel was Minix"),
        ("\"program\":\"", "\"program\":\"0", "its build of the program was 0"),
        ("\"selection\":\"sample\"", "\"selection\":\"huge\"", "`huge`"),
        ("\"title\":\"Feeding", "\"title\":\"Starving", "another plan"),
        ("\"schema\":2", "\"schema\":1", "form 1"),
        ("{\"schema\"", "{\"schema", "damaged"),
    ] {
        let changed = journal.replacen(from, to, 1);
        assert_ne!(changed, journal, "{from}");
        fs::write(out.join("readings.jsonl"), changed).unwrap();
        let refused = output(ramie(&resume));
        assert_sentence(&refused, 2, &["cannot resume", &out.display().to_string(), part]);
    }
    fs::write(out.join("readings.jsonl"), journal).unwrap();
    let mut command = ramie(&resume);
    command.env("RAMIE_DRIVER", "poll");
    assert_sentence(&output(command), 2, &["RAMIE_DRIVER=poll", "none of the variables"]);
    let both = format!("{resume} --out {}", home.0.join("more").display());
    assert_sentence(&output(ramie(&both)), 2, &["--out does not apply to --resume"]);
    let missing = format!("lab --resume {}", home.0.join("missing").display());
    assert_sentence(&output(ramie(&missing)), 2, &["cannot resume", "readings.jsonl"]);
}

#[test]
fn two_labs_do_not_share_a_folder() {
    let home = Folder::new("two");
    let out = sample(&home);
    let journal = fs::File::open(out.join("readings.jsonl")).unwrap();
    rustix::fs::flock(&journal, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let second = output(ramie(&format!("lab --resume {}", out.display())));
    assert_sentence(&second, 1, &["another lab is measuring into", "--out"]);
}

#[test]
fn a_full_disk_is_reported_and_the_figures_are_printed() {
    let home = Folder::new("full");
    let out = home.0.join("out");
    // Files may grow to 32 KiB; the journal is longer.
    let arguments = format!("lab --sample --out {}", out.display());
    let full = output(ramie_under("trap '' XFSZ; ulimit -f 32", &arguments));
    assert_eq!(full.status.code(), Some(1));
    let message = text(&full.stderr);
    assert_eq!(message.matches("readings.jsonl (").count(), 1, "{message}");
    assert!(message.contains("free some disk space: the lab goes on"), "{message}");
    assert!(message.contains("results.") && text(&full.stdout).contains("Time for one hop"));
    let last = message.lines().last().unwrap();
    let parts = ["some of the last readings are lost", "--resume", "measures them again"];
    assert!(parts.iter().all(|part| last.contains(part)), "{last}");
    // Each line of the journal is whole, so the lab can go on once there is space.
    let resumed = output(ramie(&format!("lab --resume {}", out.display())));
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert_eq!(json(&out)["partial"], false);
}

/// Runs a script of bash with a disk of its own, which is mounted in `$0/disk`; `None` if this
/// machine does not allow it. `$1` is the program.
fn on_a_disk(home: &Folder, script: &str) -> Option<Output> {
    let disk = home.0.join("disk");
    fs::create_dir(&disk).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "bash", "-c", script]).arg(&home.0);
    command.arg(support::RAMIE).stdin(Stdio::null());
    let output = command.output().ok()?;
    if output.status.code() == Some(99) || text(&output.stderr).contains("unshare") {
        support::skipped("no disk can be mounted here");
        return None;
    }
    Some(output)
}

#[test]
fn a_disk_that_is_full_from_the_start_ends_the_lab_at_once() {
    let home = Folder::new("no-space");
    let script = "mount -t tmpfs -o size=4k tmpfs $0/disk || exit 99; \
                  $1 lab --sample --out $0/disk/out; code=$?; ls $0/disk >&2; exit $code";
    let Some(output) = on_a_disk(&home, script) else { return };
    // Nothing was measured, and no folder is left.
    assert_sentence(&output, 1, &["cannot write into", "disk/out", "free some disk", "--out"]);
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_disk_too_small_for_the_report_keeps_the_readings() {
    let home = Folder::new("little-space");
    // The journal and the table fit, the record and the page do not.
    let script = "mount -t tmpfs -o size=80k tmpfs $0/disk || exit 99; out=$0/disk/out; \
                  $1 lab --sample --out $out; echo \"code $?\"; ls $out; \
                  mount -o remount,size=64m tmpfs $0/disk; \
                  $1 lab --resume $out; echo \"code $?\"; ls $out";
    let Some(output) = on_a_disk(&home, script) else { return };
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let (first, second) = stdout.split_once("code 1\n").expect(&stdout);
    assert!(first.contains("Time for one hop"), "the figures are printed: {stdout}");
    assert!(second.starts_with("readings.jsonl\nresults.csv\n"), "no file is cut off: {second}");
    let failed = stderr.lines().find(|line| line.contains("cannot write")).expect(&stderr);
    for part in ["results.json", "all readings are kept", "--resume", "writes the report"] {
        assert!(failed.contains(part), "no {part} in {failed}");
    }
    assert!(stderr.contains("is a finished lab"), "{stderr}");
    let whole = "code 0\nreadings.jsonl\nreport.html\nresults.csv\nresults.json\n";
    assert!(second.ends_with(whole), "{second}");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let output = output(ramie("lab --sample --out /proc/none/out"));
    assert_sentence(&output, 1, &["cannot create the folder /proc/none/out", "--out"]);
}

/// Starts a small lab and waits until it prints a line that contains `stage`.
fn started(out: &Path, stage: &str) -> (Child, Lines<BufReader<ChildStderr>>) {
    started_at(out, stage, 0)
}

/// The same for the line after `earlier` such lines.
fn started_at(out: &Path, stage: &str, earlier: usize) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut command = ramie(&format!("lab --sample --out {}", out.display()));
    let mut lab = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(lab.stderr.take().unwrap()).lines();
    let mut stages = stderr.by_ref().filter(|line| line.as_ref().unwrap().contains(stage));
    assert!(stages.nth(earlier).is_some(), "no {stage}");
    (lab, stderr)
}

#[test]
fn two_labs_that_begin_at_once_get_folders_of_their_own() {
    let home = Folder::new("at-once");
    let out = home.0.join("out");
    let begin = || {
        // The third experiment has begun, so the first ones have figures.
        let (mut lab, stderr) = started_at(&out, "round 1 of 1: ", 2);
        signal(&lab, Signal::INT);
        let rest: Vec<_> = stderr.map(Result::unwrap).collect();
        assert!(lab.wait().unwrap().success(), "{rest:?}");
    };
    // Each on a thread of its own, because a lab that is interrupted late ends by itself.
    thread::scope(|scope| [(); 2].map(|()| scope.spawn(begin)).map(|lab| lab.join().unwrap()));
    for name in ["out", "out-2"] {
        assert_eq!(json(&home.0.join(name))["partial"], true, "{name}");
    }
    assert_eq!(fs::read_dir(&home.0).unwrap().count(), 2);
}

#[test]
fn an_interrupt_while_arms_are_counted_keeps_the_readings() {
    let home = Folder::new("counted");
    let out = home.0.join("out");
    let (mut lab, stderr) = started(&out, "counters: ");
    signal(&lab, Signal::INT);
    let rest: Vec<_> = stderr.map(Result::unwrap).collect();
    assert!(lab.wait().unwrap().success(), "{rest:?}");
    let record = json(&out);
    assert_eq!(record["partial"], true);
    let points = record["points"].as_array().unwrap();
    assert!(points.iter().all(|point| !point["readings"].as_array().unwrap().is_empty()));
    // The rest is counted later.
    let resumed = output(ramie(&format!("lab --resume {}", out.display())));
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    let counted = |record: &Value| {
        let points = record["points"].as_array().unwrap();
        points.iter().filter(|point| point["counters"].is_object()).count()
    };
    assert!(counted(&json(&out)) > counted(&record), "{} counted", counted(&record));
}

#[test]
fn a_resumed_lab_counts_the_largest_point_that_is_short() {
    let home = Folder::new("count-short");
    let out = sample(&home);
    let counted_x = || -> Vec<Value> {
        let points = json(&out)["points"].as_array().unwrap().clone();
        let is_counted =
            |point: &&Value| point["experiment"] == "spawn" && point["counters"].is_object();
        points.iter().filter(is_counted).map(|point| point["x"].clone()).collect()
    };
    let first = counted_x();
    assert!(!first.is_empty());

    // The lab was killed before it counted, and the largest points were slow.
    let journal = read(&out, "readings.jsonl");
    let lines = journal.lines().take_while(|line| !line.contains("\"event\":\"counters\""));
    let lines = lines.map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        for reading in event["readings"].as_array_mut().into_iter().flatten() {
            reading["seconds"] = if reading["ops"] == 100 { 1.0 } else { 0.001 }.into();
        }
        event.to_string() + "\n"
    });
    fs::write(out.join("readings.jsonl"), lines.collect::<String>()).unwrap();
    let resumed = output(ramie(&format!("lab --resume {}", out.display())));
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    let again = counted_x();
    assert_eq!(again.len(), first.len());
    assert!(again.iter().all(|x| *x == 10), "{again:?}");
}

#[test]
fn two_signals_end_the_lab_at_once_and_keep_the_readings() {
    let home = Folder::new("signals");
    let out = home.0.join("out");
    let (mut lab, stderr) = started(&out, "round 1 of 1: ");
    // Two different ones, because the second of the same kind may be an echo of the first.
    signal(&lab, Signal::INT);
    signal(&lab, Signal::TERM);
    drop(stderr);
    let code = lab.wait().unwrap().code();
    assert!([Some(128 + 2), Some(128 + 15)].contains(&code), "{code:?}");
    assert!(!out.join("results.json").exists());
    let kept = read(&out, "readings.jsonl").matches("\"event\":\"readings\"").count();
    assert!(kept > 10, "{kept} processes of the warm-up");
}

#[test]
fn an_interrupt_before_the_first_reading_leaves_no_folder() {
    let home = Folder::new("too-early");
    let out = home.0.join("out");
    let mut command = ramie(&format!("lab --sample --out {}", out.display()));
    let mut lab = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // The lab watches for signals before it makes its folder, and then begins with the warm-up.
    let start = Instant::now();
    while !out.join("readings.jsonl").exists() {
        assert!(start.elapsed() < support::PATIENCE, "no folder");
        thread::yield_now();
    }
    signal(&lab, Signal::INT);
    let mut message = String::new();
    lab.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(lab.wait().unwrap().code(), Some(1), "{message}");
    assert!(message.contains("ended before anything was measured"), "{message}");
    assert_eq!(fs::read_dir(&home.0).unwrap().count(), 0, "the folder is removed again");
}

#[test]
fn processes_that_are_killed_cost_their_points_only() {
    let home = Folder::new("child");
    let out = home.0.join("out");
    let (mut lab, stderr) = started(&out, "round 1 of 1: ");
    let children = format!("/proc/{0}/task/{0}/children", lab.id());
    let child = || -> Option<Pid> {
        let ids = fs::read_to_string(&children).unwrap_or_default();
        Pid::from_raw(ids.split_whitespace().next()?.parse().ok()?)
    };
    // Several, because one of them may end by itself at this moment.
    let mut killed_ids = Vec::new();
    let start = Instant::now();
    while killed_ids.len() < 3 {
        assert!(start.elapsed() < support::PATIENCE, "no children to kill");
        let child = child().filter(|child| !killed_ids.contains(child));
        if child.is_some_and(|child| kill_process(child, Signal::KILL).is_ok()) {
            killed_ids.extend(child);
        }
    }
    let rest: Vec<_> = stderr.map(Result::unwrap).collect();
    assert!(lab.wait().unwrap().success(), "{rest:?}");
    let record = json(&out);
    let points = record["points"].as_array().unwrap();
    let is_killed = |point: &&Value| point["failed"] == "it was killed by signal 9";
    let killed = points.iter().filter(is_killed).count();
    assert!((1..=3).contains(&killed), "{killed} points failed: {rest:?}");
    let others = points.iter().filter(|point| !is_killed(point));
    assert!(others.clone().all(|point| !point["readings"].as_array().unwrap().is_empty()));
    assert_eq!(record["partial"], false);
    let sentences = rest.iter().filter(|line| line.contains("failed: it was killed by signal 9"));
    assert_eq!(sentences.count(), killed, "{rest:?}");
}

/// Multiplies the times of all points that `is_slow` accepts, in all readings.
fn slowed(record: &Value, factor: f64, is_slow: impl Fn(&Value) -> bool) -> Value {
    let mut record = record.clone();
    for point in record["points"].as_array_mut().unwrap() {
        let factor = if is_slow(point) { factor } else { 1.0 };
        for reading in point["readings"].as_array_mut().unwrap() {
            for name in ["seconds", "per_op_ns", "cpu_s"] {
                reading[name] = (reading[name].as_f64().unwrap() * factor).into();
            }
        }
    }
    record
}

/// Gives each point five rounds that cost nearly the same.
fn steady(record: &Value) -> Value {
    let mut record = record.clone();
    record["noise"] = Value::Array(Vec::new());
    for point in record["points"].as_array_mut().unwrap() {
        let reading = point["readings"][0].clone();
        let rounds = (1..6).map(|round| {
            let mut reading = reading.clone();
            reading["round"] = round.into();
            reading["seconds"] = (1.0 + 0.001 * f64::from(round)).into();
            reading["per_op_ns"] = reading["seconds"].clone();
            reading["cpu_s"] = reading["seconds"].clone();
            reading
        });
        point["readings"] = rounds.collect();
    }
    record
}

#[test]
fn two_labs_are_compared() {
    let home = Folder::new("compare");
    let out = sample(&home);
    let (old, new) = (home.0.join("old.json"), home.0.join("new.json"));
    let base = steady(&json(&out));
    fs::write(&old, base.to_string()).unwrap();
    let compare = |rest: &str| {
        output(ramie(&format!("lab compare {} {} {rest}", old.display(), new.display())))
    };

    fs::write(&new, base.to_string()).unwrap();
    let same = compare("");
    assert!(same.status.success(), "{}", text(&same.stderr));
    let same = text(&same.stdout);
    assert!(same.contains("verdict: no change beyond the spread and 5 %"), "{same}");

    let is_slow = |point: &Value| point["workload"] == "switch" && point["on"] == "fibers";
    fs::write(&new, slowed(&base, 1.1, is_slow).to_string()).unwrap();
    let page = home.0.join("page.html");
    let slow = compare(&format!("--html {}", page.display()));
    assert_eq!(slow.status.code(), Some(1), "{}", text(&slow.stderr));
    let lines = text(&slow.stdout);
    let verdict = "verdict: worse: switch on fibers (time, 1 of 1 points, by 10 %)\n";
    assert!(lines.contains(verdict), "{lines}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("switch on fibers (time") && page.contains("<h2>Regressions</h2>"));
    assert!(!page.contains("src=") && !page.contains("<link"), "nothing is loaded");

    assert!(compare("--threshold 20%").status.success());
    assert_sentence(&compare("--threshold much"), 2, &["--threshold", "such as 5%"]);
    let gone = home.0.join("gone/page.html");
    let unwritten = compare(&format!("--html {}", gone.display()));
    assert_sentence(&unwritten, 1, &["cannot write", "--html"]);

    // The folder of a report is as good as its record, and single rounds cannot be told.
    let folder = output(ramie(&format!("lab compare {0} {0}", out.display())));
    assert!(folder.status.success(), "{}", text(&folder.stderr));

    for (content, part) in [
        ("{", "EOF"),
        ("{}", "schema"),
        ("{\"schema\": 99}", "form 99"),
        ("{\"schema\": 2}", "missing field"),
    ] {
        fs::write(&new, content).unwrap();
        assert_sentence(&compare(""), 2, &["new.json", part]);
    }
    fs::remove_file(&new).unwrap();
    assert_sentence(&compare(""), 2, &["cannot read", "new.json", "name the folder"]);
}

#[test]
fn a_preset_is_measured_beside_the_figures_of_its_post() {
    let home = Folder::new("preset");
    let out = home.0.join("out");
    let mut command = ramie(&format!("lab --preset quasar --out {}", out.display()));
    let mut lab = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The ring has figures, and that is enough.
    let mut stderr = BufReader::new(lab.stderr.take().unwrap()).lines();
    assert!(stderr.any(|line| line.unwrap().contains("100,000 strands")));
    signal(&lab, Signal::INT);
    // Read to the end, because the lab would otherwise block.
    let rest: Vec<_> = stderr.map(Result::unwrap).collect();
    let output = lab.wait_with_output().unwrap();
    assert!(output.status.success(), "{rest:?}");
    let stdout = text(&output.stdout);
    let conclusion = "The conclusion of “Fibers from out of (user) space – Hands on”";
    assert!(stdout.contains(conclusion), "{stdout}");
    let page = read(&out, "report.html");
    for part in ["Java threads, 2018", "Core i7-7500U", "93.9 ms", "9.69 ms", conclusion] {
        assert!(page.contains(part), "no {part}");
    }
    let first = &json(&out)["points"][0];
    assert_eq!(first["params"], serde_json::json!({"size": 500, "hops": 10_000}));

    let other = format!("lab --preset loom --resume {}", out.display());
    assert_sentence(&self::output(ramie(&other)), 2, &["--preset quasar", "omit --preset loom"]);
}

#[test]
fn one_selection_at_a_time() {
    for (flags, parts) in [
        ("--full --preset loom", ["--full and --preset loom", "omit one"]),
        ("--tiny --full", ["--tiny and --full", "omit one"]),
        ("--preset unknown", ["--preset", "uringmachine"]),
        ("--full compare a b", ["do not apply to compare", "omit"]),
        ("--out a compare a b", ["do not apply to compare", "omit"]),
        ("compare a", ["missing <NEW>", "ramie lab compare --help"]),
    ] {
        assert_sentence(&output(ramie(&format!("lab {flags}"))), 2, &parts);
    }
}
