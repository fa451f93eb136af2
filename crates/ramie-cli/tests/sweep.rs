//! `ramie run` with lists of numbers, and its output as CSV.

mod support;

use serde_json::Value;
use support::{assert_sentence, output, ramie, text};

#[track_caller]
fn printed(arguments: &str) -> String {
    let output = output(ramie(arguments));
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn rows(arguments: &str) -> Vec<Value> {
    printed(arguments).lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn each_combination_runs_in_order() {
    let rows = rows("run ring --size 2,3 --hops 9,10 --on hybrid --workers 2,3 --repeat 2 --json");
    let of = |row: &Value| {
        [&row["params"]["size"], &row["params"]["hops"], &row["workers"]]
            .map(|number| number.as_u64().unwrap())
    };
    let mut expected = Vec::new();
    for (size, hops) in [(2, 9), (2, 10), (3, 9), (3, 10)] {
        for workers in [2, 3] {
            expected.extend([[size, hops, workers]; 2]);
        }
    }
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), expected);
}

#[test]
fn sweeps_of_alive_and_of_mix_pass_their_parameters_on() {
    let lines = printed("run alive --count 3,4,5");
    let counts: Vec<_> = lines.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(counts, ["3", "4", "5"]);
    let rows = rows(
        "run mix --concurrency 2 --cpu-us 3,4 --wait-us 50 --wait timer --seconds 0.02 --jitter 10 \
         --on processes --processes 1,2 --json",
    );
    let of = |row: &Value| {
        let params = &row["params"];
        assert_eq!((&params["jitter"], &params["seconds"]), (&10.into(), &0.02.into()));
        (params["cpu-us"].as_u64().unwrap(), row["workers"].as_u64().unwrap())
    };
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), [(3, 1), (3, 2), (4, 1), (4, 2)]);
}

#[test]
fn lines_of_a_sweep_name_the_engine_and_its_workers() {
    let names = |arguments: &str| -> Vec<String> {
        let lines = printed(arguments);
        let until_seconds = |line: &str| line.split(" seconds=").next().unwrap().to_owned();
        lines.lines().map(until_seconds).collect()
    };
    assert_eq!(
        names("run ring --size 2,3 --hops 9 --on hybrid --workers 2,3"),
        [
            "ring 2 9 on=hybrid workers=2",
            "ring 2 9 on=hybrid workers=3",
            "ring 3 9 on=hybrid workers=2",
            "ring 3 9 on=hybrid workers=3"
        ]
    );
    assert_eq!(
        names("run alive --count 3,4 --on threads"),
        ["alive 3 on=threads", "alive 4 on=threads"]
    );
    let feed = "run feed --people 4 --nutrients 2 --on processes --processes 1,2";
    assert_eq!(
        names(feed),
        ["feed 4 2 on=processes processes=1", "feed 4 2 on=processes processes=2"]
    );
    assert_eq!(names("run spawn --count 3"), ["spawn 3"], "one run is no sweep");
}

#[test]
fn numbers_have_no_digits_behind_their_precision() {
    let mix = "run mix --concurrency 3 --cpu-us 3 --wait-us 50 --wait timer --seconds 0.2,0.3";
    for on in ["fibers", "processes"] {
        for row in rows(&format!("{mix} --on {on} --json")) {
            assert!(row["rss_bytes"].is_u64(), "{row}");
            let cpu_s = row["cpu_s"].to_string();
            let digits = cpu_s.split_once('.').map_or(0, |(_, digits)| digits.len());
            assert!(digits <= 9, "{cpu_s} has more than nanoseconds");
        }
    }
}

#[test]
fn a_wrong_combination_is_refused_before_the_first_run() {
    for (run, parts) in [
        ("spawn --count 1,x", &["invalid value `x` for --count"][..]),
        ("spawn --count=1,,2", &["invalid value `` for --count"]),
        ("spawn --count 1,-2", &["invalid value `-2` for --count"]),
        ("spawn --count 1,--json", &["invalid value `--json` for --count"]),
        ("spawn --count 1 --workers 1,5000", &["invalid value `5000` for --workers"]),
        ("spawn --count 1 --on hybrid --workers 2,1", &["--workers is 1", "--on fibers"]),
        ("spawn --count 1 --repeat 1,2", &["invalid value `1,2` for --repeat"]),
        ("spawn --count 1 --on threads,fibers", &["invalid value `threads,fibers` for --on"]),
    ] {
        let output = output(ramie(&format!("run {run}")));
        assert_sentence(&output, 2, parts);
        assert!(output.stdout.is_empty(), "{run}");
    }
    let processes = "run mix --concurrency 2 --cpu-us 1 --wait-us 1 --wait timer --on processes \
                     --processes 1,3";
    assert_sentence(&output(ramie(processes)), 2, &["2 strands are too few for 3 processes"]);
    let many: Vec<_> = (1..=101).map(|n| n.to_string()).collect();
    let many = many.join(",");
    let output = output(ramie(&format!("run ring --size {many} --hops {many}")));
    assert_sentence(&output, 2, &["more than 10000 runs", "shorten a list"]);
}

#[test]
fn a_combination_that_does_not_fit_is_refused_before_the_first_run() {
    let mut command = ramie("run recurse --depth 10,1000000");
    command.env("RAMIE_STACK", "65536");
    let output = output(command);
    assert_sentence(&output, 1, &["a recursion 1000000 deep"]);
    assert!(output.stdout.is_empty());
}

/// The rows of CSV, each with the names of the columns.
fn table(arguments: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let text = printed(arguments);
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let rows: Vec<_> = lines.collect();
    assert!(rows.iter().all(|row| row.len() == header.len()), "{text}");
    (header, rows)
}

#[test]
fn csv_has_one_header_and_a_row_per_repetition() {
    let figures = ["seconds", "ops", "per_op_ns", "cpu_s"];
    let spawn = ["workload", "params.count", "on", "workers"];
    for (run, count) in [("--count 5 --repeat 3", 3), ("--count 4,5 --repeat 2", 4)] {
        let (header, rows) = table(&format!("run spawn {run} --csv"));
        assert_eq!(header, [&spawn[..], &figures].concat());
        assert_eq!(rows.len(), count);
        for row in rows {
            assert_eq!((&row[0][..], &row[2][..], &row[3][..]), ("spawn", "fibers", "1"));
            let [seconds, per_op_ns] = [4, 6].map(|column: usize| row[column].parse().unwrap());
            let [ops, exact]: [f64; 2] = [row[5].parse().unwrap(), per_op_ns];
            assert_eq!(seconds * 1e9 / ops, exact, "numbers are not rounded");
        }
    }
    let (header, rows) = table("run alive --count 2,3 --repeat 2 --on threads --csv");
    assert_eq!(header[8..], ["rss_bytes_per_strand", "pte_bytes_per_strand"]);
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row[3].is_empty()), "threads have no workers");
}

#[test]
fn csv_has_the_columns_of_json() {
    let mix = "run mix --concurrency 2 --cpu-us 3 --wait-us 50 --wait timer --seconds 0.2";
    let (header, rows) = table(&format!("{mix} --csv"));
    assert_eq!(rows.len(), 1);
    let object = &self::rows(&format!("{mix} --json"))[0];
    let mut names = Vec::new();
    for (name, value) in object.as_object().unwrap() {
        match value.as_object() {
            Some(parts) => names.extend(parts.keys().map(|part| format!("{name}.{part}"))),
            None => names.push(name.clone()),
        }
    }
    let mut header = header;
    header.sort();
    names.sort();
    assert_eq!(header, names);
    assert!(header.iter().any(|name| name == "lateness_us.p999"), "{header:?}");
}

#[test]
fn a_sweep_ends_when_nobody_reads_its_lines() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // The second run would fail, because 40,000 threads are too many for one process.
    let mut command = ramie("run alive --count 1,40000 --on threads");
    command.stdout(writer);
    let output = output(command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn json_and_csv_exclude_each_other() {
    let output = output(ramie("run spawn --count 1 --json --csv"));
    assert_sentence(&output, 2, &["--json", "--csv", "exclude each other"]);
}
