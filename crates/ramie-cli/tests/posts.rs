//! docs/posts.md: each command of its tables runs, with small numbers, and prints the fields that
//! the table names.

mod support;

use std::{fs, path::Path};

use serde_json::Value;
use support::{Server, ask, assert_sentence, has_ring, output, ramie, text};

/// A row of a table: its command, the variants of that, and the fields that it names.
struct Row {
    commands: Vec<Vec<String>>,
    fields: Vec<String>,
}

/// The words in `code` of the second cell.
fn codes(line: &str) -> Vec<&str> {
    let cell = line.trim_matches('|').split_once(" | ").map_or("", |(_, command)| command);
    cell.split('`').skip(1).step_by(2).collect()
}

/// A command with other values of some flags: `--on fibers`, or a word for the last flag.
fn variant(command: &[String], code: &str, last_flag: &mut String) -> Vec<String> {
    let mut variant = command.to_vec();
    let words: Vec<_> = code.split(' ').collect();
    let pairs: Vec<_> = match words[..] {
        [word] if !word.starts_with("--") => vec![(last_flag.clone(), word)],
        _ => words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1])).collect(),
    };
    for (flag, value) in pairs {
        match variant.iter().position(|word| *word == flag) {
            Some(index) => value.clone_into(&mut variant[index + 1]),
            None => variant.extend([flag.clone(), value.to_owned()]),
        }
        *last_flag = flag;
    }
    variant
}

fn rows() -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/posts.md");
    let table = fs::read_to_string(path).unwrap();
    let mut rows: Vec<Row> = Vec::new();
    for line in table.lines().filter(|line| line.starts_with("| ")) {
        let mut row = Row { commands: Vec::new(), fields: Vec::new() };
        let mut last_flag = String::new();
        for code in codes(line) {
            let base = row.commands.first().cloned();
            match (code, base) {
                ("ramie lab" | "--json", _) => {}
                (code, _) if code.starts_with("ramie ") || code.starts_with("RAMIE_") => {
                    let command: Vec<_> = code.split(' ').map(str::to_owned).collect();
                    let flag = command.iter().rfind(|word| word.starts_with("--"));
                    last_flag = flag.cloned().unwrap_or_default();
                    row.commands.push(command);
                }
                // "any of them with `--counters`"
                (flag, None) if flag.starts_with("--") => {
                    let above = rows.last().and_then(|row| row.commands.first()).unwrap();
                    row.commands.push(above.iter().cloned().chain([flag.to_owned()]).collect());
                }
                (field, None) => row.fields.push(field.to_owned()),
                (code, Some(base)) => row.commands.push(variant(&base, code, &mut last_flag)),
            }
        }
        match rows.last() {
            // "the fields … of the same"
            Some(above) if row.commands.is_empty() && !row.fields.is_empty() => {
                row.commands.clone_from(&above.commands);
            }
            _ => {}
        }
        rows.push(row);
    }
    rows
}

/// The same command with numbers that take no time.
fn small(command: &[String]) -> String {
    let most = |flag: &str| match flag {
        "--people" | "--pairs" | "--clients" | "--connections" | "--count" => 3,
        "--nutrients" | "--messages" | "--depth" | "--requests" => 7,
        "--yields" | "--workers" | "--rounds" => 2,
        "--concurrency" => 4,
        "--cpu-us" | "--wait-us" | "--work" => 100,
        _ => u64::MAX,
    };
    let mut words: Vec<String> = Vec::new();
    for word in command.iter().filter(|word| !word.starts_with("RAMIE_")) {
        let flag = words.last().cloned().unwrap_or_default();
        let capped = |number: &str| number.parse().map(|number: u64| number.min(most(&flag)));
        let numbers: Result<Vec<_>, _> = word.split(',').map(capped).collect();
        let word = numbers.map_or(word.clone(), |mut numbers| {
            numbers.dedup();
            numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
        });
        words.push(word);
    }
    let is = |name: &str| words.get(2).is_some_and(|word| word == name);
    let has = |flag: &str| words.iter().any(|word| word == flag);
    if is("mix") {
        words.extend(["--seconds".to_owned(), "0.1".to_owned()]);
    } else if ["basic", "recurse", "recurse2"].into_iter().any(is) && !has("--rounds") {
        words.extend(["--rounds".to_owned(), "2".to_owned()]);
    }
    words[1..].join(" ")
}

#[test]
fn each_run_of_the_tables_prints_its_fields() {
    let has_ring = has_ring();
    let mut ran = 0;
    for Row { commands, fields } in rows() {
        for command in commands.iter().filter(|command| command[1] == "run") {
            let arguments = small(command);
            if arguments.contains("--on sidecar") && !has_ring {
                continue;
            }
            let is_csv = arguments.contains("--csv");
            let json = if is_csv || arguments.contains("--json") { "" } else { " --json" };
            let output = output(ramie(&format!("{arguments}{json}")));
            let why = format!("{}: {}", command.join(" "), text(&output.stderr));
            let is_about_the_disk = why.contains("reached a disk");
            assert!(output.status.success() || is_about_the_disk, "{why}");
            let printed = text(&output.stdout);
            if is_csv {
                assert!(printed.starts_with("workload,") && printed.lines().count() > 1, "{why}");
            }
            for line in printed.lines().filter(|_| !is_csv) {
                let row: Value = serde_json::from_str(line).unwrap();
                for field in ["seconds", "per_op_ns"].into_iter().chain(fields.iter().map(|f| &**f))
                {
                    assert!(!row[field].is_null(), "no {field} in {line}");
                }
                let wants_counters = arguments.contains("--counters");
                assert_eq!(row["counters"].is_object(), wants_counters, "{line}");
            }
            ran += 1;
        }
    }
    assert!(ran > 50, "{ran} commands");
}

#[test]
fn the_other_commands_of_the_tables_are_understood() {
    let others: Vec<_> = rows().into_iter().flat_map(|row| row.commands).collect();
    let advise: Vec<_> = others.iter().filter(|command| command[1] == "advise").collect();
    assert_eq!(advise.len(), 2);
    for command in advise {
        // It understands all but this.
        let refused = output(ramie(&format!("{} --seconds never", command[1..].join(" "))));
        assert_sentence(&refused, 2, &["--seconds", "never"]);
    }
    let serve: Vec<_> = others.iter().filter(|command| command[0].starts_with("RAMIE_")).collect();
    let [serve] = serve[..] else { panic!("{} servers", serve.len()) };
    let (variable, value) = serve[0].split_once('=').unwrap();
    let mut command = ramie(&format!("{} --addr 127.0.0.1:0 --workers 1", serve[2..].join(" ")));
    command.env(variable, value);
    let server = Server::started(command);
    let answer = ask(&mut server.connect(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.ends_with("Hello, world!\n"), "{answer}");
}
