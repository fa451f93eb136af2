//! `ramie run --counters`: its counts, and the reasons for those that are missing.

mod support;

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::process::CommandExt,
    process::{Command, Output},
};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::Value;
use support::{Folder, has_ring, output, ramie, skipped, text};

/// The counters of one repetition.
fn counters_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let row: Value = serde_json::from_slice(&output.stdout).expect("one object");
    row["counters"].clone()
}

fn counters(arguments: &str) -> Value {
    counters_of(&output(ramie(&format!("run {arguments} --counters --json"))))
}

#[track_caller]
fn count(counters: &Value, name: &str) -> u64 {
    counters[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {counters}"))
}

/// Every counter is a number, or `null` with a reason.
#[track_caller]
fn assert_complete(counters: &Value) {
    let names = "voluntary_switches involuntary_switches migrations minor_faults major_faults \
                 user_s system_s peak_rss_bytes ring_enters ring_ops runs_min runs_median runs_max \
                 allocations allocated_bytes allocations_per_op allocated_bytes_per_op cycles \
                 instructions branches branch_misses cache_misses";
    for name in names.split_whitespace() {
        let reason = counters["unavailable"][name].as_str().unwrap_or_default();
        match &counters[name] {
            Value::Number(_) => assert_eq!(reason, "", "{name} in {counters}"),
            Value::Null => assert!(!reason.is_empty(), "no reason for {name} in {counters}"),
            other => panic!("{name} is {other}"),
        }
    }
}

/// The counters of a lab, beside its readings and in its page.
#[test]
fn a_lab_has_the_counters_of_each_arm() {
    let home = Folder::new("counters");
    let out = home.0.join("out");
    let lab = output(ramie(&format!("lab --tiny --out {}", out.display())));
    assert!(lab.status.success(), "{}", text(&lab.stderr));
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let record: Value = serde_json::from_str(&read("results.json")).unwrap();
    let points = record["points"].as_array().unwrap();
    let mut counted: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for point in points {
        let arms = counted.entry(point["experiment"].as_str().unwrap()).or_default();
        arms.extend(point["counters"].is_object().then_some(point));
    }
    let page = read("report.html");
    for (experiment, of_arms) in &counted {
        let of = points.iter().filter(|point| point["experiment"] == *experiment);
        let has_readings = |point: &&Value| !point["readings"].as_array().unwrap().is_empty();
        let mut arms: Vec<_> =
            of.filter(has_readings).map(|point| [&point["on"], &point["workers"]]).collect();
        arms.dedup();
        arms.truncate(of_arms.len());
        let same: Vec<_> = of_arms.iter().map(|point| [&point["on"], &point["workers"]]).collect();
        assert_eq!(same, arms, "{experiment}");
        for point in of_arms {
            assert_eq!(point["x"], of_arms[0]["x"], "{experiment}");
            let run = &point["counters"];
            assert_eq!(run["covers"], "interval", "{point}");
            let mut all = run["values"].clone();
            all["unavailable"] = run["unavailable"].clone();
            assert_complete(&all);
            assert_eq!(run["ops"], point["readings"][0]["ops"], "the same run: {point}");
        }
    }
    // A record of a counter is in the page.
    let switch = counted["switch"].iter().find(|point| point["on"] == "fibers").unwrap();
    let runs = count(&switch["counters"]["values"], "runs_max");
    assert_eq!(Some(runs), switch["params"]["count"].as_u64().map(|count| count + 1));
    assert_eq!(page.matches(": counters</summary>").count(), counted.len());
    assert!(page.contains("<th scope=\"row\">runs max</th>") && page.contains("no figure uses"));
    // The times of these runs are nowhere.
    let journal = read("readings.jsonl");
    let events = journal.matches("\"event\":\"counters\"").count();
    assert_eq!(events, counted.values().map(Vec::len).sum::<usize>());
    let has_first =
        journal.lines().skip_while(|line| !line.contains("\"counters\"")).count() > events;
    assert!(has_first, "a noise check and the end follow");
}

#[test]
fn ring_ops_and_runs_of_a_pipe() {
    if !has_ring() {
        return;
    }
    for on in ["fibers", "sidecar"] {
        let counters = counters(&format!("pipe --pairs 3 --messages 50 --bytes 64 --on {on}"));
        assert_complete(&counters);
        // Each message is written by one op and read by one.
        assert_eq!(count(&counters, "ring_ops"), 2 * 3 * 50, "{on}: {counters}");
        let enters = count(&counters, "ring_enters");
        // An op takes one to be submitted and one to be awaited at most; usually many share one.
        assert!((1..=2 * 2 * 3 * 50).contains(&enters), "{on}: {counters}");
        // A fiber runs when it starts, and after each op.
        for runs in ["runs_min", "runs_median", "runs_max"] {
            assert_eq!(count(&counters, runs), 51, "{on}: {counters}");
        }
    }
}

#[test]
fn a_switch_does_not_allocate() {
    let [few, many] = [1_000, 20_000].map(|count| counters(&format!("switch --count {count}")));
    // The watchdog's thread allocates, too: a little, and at times of its own.
    assert!(count(&many, "allocations") < count(&few, "allocations") + 100, "{few}, {many}");
    assert!(count(&many, "allocated_bytes") < count(&few, "allocated_bytes") + 19_000, "{few}");
    assert_eq!(count(&many, "runs_min"), 20_001);
    assert_eq!(count(&many, "runs_max"), 20_001);
}

#[test]
fn threads_switch_in_the_kernel_and_have_no_ring() {
    let counters = counters("ring --size 4 --hops 400 --on threads");
    assert_complete(&counters);
    assert!(count(&counters, "voluntary_switches") >= 100, "{counters}");
    assert!(count(&counters, "allocations") >= 4, "{counters}");
    assert!(count(&counters, "runs_max") >= 2, "{counters}");
    for name in ["ring_enters", "ring_ops"] {
        assert!(counters[name].is_null(), "{name} in {counters}");
        let reason = counters["unavailable"][name].as_str().unwrap_or_default();
        assert!(reason.contains("fibers"), "{name} in {counters}");
    }
}

#[test]
fn each_repetition_and_each_process_of_its_own_counts() {
    let output = output(ramie("run alive --count 20 --repeat 2 --counters --json"));
    let lines = text(&output.stdout);
    assert_eq!(lines.lines().count(), 2, "{}", text(&output.stderr));
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).expect("one object");
        assert_complete(&row["counters"]);
        assert_eq!(count(&row["counters"], "runs_max"), 2, "it is parked once: {line}");
    }
}

#[test]
fn text_has_a_second_line() {
    let output = output(ramie("run switch --count 10 --counters"));
    let lines = text(&output.stdout);
    let [_, second] = lines.lines().collect::<Vec<_>>()[..] else { panic!("{lines}") };
    assert!(second.starts_with("  counters: voluntary_switches="), "{second}");
    assert!(second.contains(" runs_median=11 "), "{second}");
}

#[test]
fn csv_has_a_column_for_each_counter() {
    let output = output(ramie("run switch --count 5,10 --repeat 2 --counters --csv"));
    let lines = text(&output.stdout);
    let lines: Vec<_> = lines.lines().collect();
    let [header, rows @ ..] = &lines[..] else { panic!("{}", text(&output.stderr)) };
    assert_eq!(rows.len(), 4, "{rows:?}");
    let column = header.split(',').position(|name| name == "counters.allocations");
    // Only reasons have commas, and they stand in a later column.
    let cells = rows.iter().map(|row| row.split(',').nth(column.expect("the column")));
    assert!(cells.flatten().all(|cell| cell.parse::<u64>().is_ok()), "{rows:?}");
    assert!(header.contains("counters.runs_min") && header.contains("counters.unavailable"));
}

#[test]
fn without_the_option_there_are_no_counters() {
    let output = output(ramie("run switch --count 10 --json"));
    assert!(!text(&output.stdout).contains("counters"), "{}", text(&output.stdout));
}

/// The fewest, the median and the most runs.
fn runs(arguments: &str) -> [u64; 3] {
    let counters = counters(arguments);
    ["runs_min", "runs_median", "runs_max"].map(|name| count(&counters, name))
}

#[test]
fn runs_are_counted_on_every_engine() {
    // A strand runs when it starts, and after each of five yields.
    for on in ["fibers", "hybrid", "processes", "coroutines", "coroutines --pass next"] {
        assert_eq!(runs(&format!("feed --people 7 --nutrients 5 --on {on}")), [6; 3], "{on}");
    }
    // It yields after every second of five nutrients.
    let seldom = "feed --people 4 --nutrients 5 --yield-every 2";
    for on in ["fibers", "processes --processes 3", "coroutines"] {
        assert_eq!(runs(&format!("{seldom} --on {on}")), [3; 3], "{on}");
    }
    // One task yields twice in each of three rounds.
    for on in ["fibers", "hybrid", "coroutines", "futures"] {
        let arguments = format!("basic --yields 2 --call medium --rounds 3 --on {on}");
        assert_eq!(runs(&arguments), [7; 3], "{on}");
    }
    // A strand of this one is parked once. On several workers its permit may come before it parks.
    assert_eq!(runs("alive --count 5 --on fibers"), [2; 3]);
}

/// The kernel decides how often it runs a thread, but a thread that waits has to be run again.
#[test]
fn runs_of_threads_are_those_of_the_kernel() {
    let [min, median, max] = runs("alive --count 9 --on threads");
    assert!(min >= 2 && min <= median && median <= max, "{min} {median} {max}");
    let [min, ..] = runs("basic --yields 1 --call slow --rounds 20 --on threads");
    assert!(min >= 21, "it slept 20 times, and ran {min} times");
    let work = "mix --concurrency 3 --cpu-us 1 --wait-us 20000 --wait timer --seconds 0.3";
    let [min, ..] = runs(&format!("{work} --on threads"));
    assert!(min >= 5, "it slept for 20 ms again and again, and ran {min} times");
}

#[test]
fn processes_count_together() {
    let feed = "feed --people 6 --nutrients 50 --on processes --processes";
    let [one, three] = [1, 3].map(|processes| counters(&format!("{feed} {processes}")));
    for counters in [&one, &three] {
        assert_complete(counters);
        assert_eq!(count(counters, "runs_median"), 51);
    }
    // Each process has a runtime of its own, so three have more pages and more memory than one.
    for name in ["minor_faults", "peak_rss_bytes", "allocations"] {
        assert!(count(&three, name) > count(&one, name), "{name}: {one} {three}");
    }
    assert!(count(&three, "peak_rss_bytes") > 2 * count(&one, "peak_rss_bytes"), "{three}");
    let per_op = three["allocations_per_op"].as_f64().unwrap();
    assert_eq!(per_op, count(&three, "allocations") as f64 / 300.0);

    let work = "mix --concurrency 4 --cpu-us 1 --wait-us 500 --wait socket --seconds 0.3";
    let counters = counters(&format!("{work} --on processes --processes 2"));
    assert_complete(&counters);
    assert!(count(&counters, "runs_min") > 1 && counters["user_s"].is_f64(), "{counters}");
}

#[test]
fn a_forbidden_perf_event_open_is_named() {
    if cfg!(not(target_arch = "x86_64")) {
        return skipped("the filter is written for x86-64");
    }
    let mut command = Command::new(env::current_exe().expect("the test's program"));
    command.args(["--exact", "behind_a_filter", "--nocapture"]).env(BEHIND_FILTER, "1");
    let output = output(command);
    let lines = text(&output.stdout);
    // libtest may have printed the name of the test on the same line.
    let row = lines.lines().find_map(|line| line.find('{').map(|start| &line[start..]));
    let row = row.unwrap_or_else(|| panic!("no object in {lines}"));
    let counters = serde_json::from_str::<Value>(row).expect("one object")["counters"].clone();
    assert_complete(&counters);
    for name in ["migrations", "cycles", "instructions", "branches", "branch_misses"] {
        assert!(counters[name].is_null(), "{name} in {counters}");
        let reason = counters["unavailable"][name].as_str().unwrap_or_default();
        assert!(reason.contains("seccomp") && reason.contains("perf_event_paranoid"), "{reason}");
    }
    assert!(counters["events_of"].is_null(), "{counters}");
    assert_eq!(count(&counters, "runs_max"), 11, "the others still count: {counters}");
}

const BEHIND_FILTER: &str = "RAMIE_TEST_BEHIND_FILTER";

/// Not a test of its own: the child process that forbids perf_event_open(2) and then executes the
/// program.
#[test]
fn behind_a_filter() {
    if env::var_os(BEHIND_FILTER).is_none() {
        return;
    }
    const PERF_EVENT_OPEN: i64 = 298;
    let filter = SeccompFilter::new(
        BTreeMap::from([(PERF_EVENT_OPEN, vec![])]),
        SeccompAction::Allow,
        SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error() as u32),
        env::consts::ARCH.try_into().expect("seccompiler knows it"),
    );
    let filter: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
    seccompiler::apply_filter(&filter).expect("a filter can be added");
    panic!("{}", ramie("run switch --count 10 --counters --json").exec());
}
