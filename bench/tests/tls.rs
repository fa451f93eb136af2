//! `tls` measures all servers that are there, checks their answers, and names the one that is not.

use std::process::Command;

#[test]
fn without_hyper_the_others_are_measured() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_ramie-bench"));
    bench.args([
        "tls",
        "--seconds",
        "1",
        "--rounds",
        "1",
        "--idle",
        "10",
        "--peers",
        "/nonexistent",
    ]);
    let output = bench.output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    // So short a time is not judged.
    assert_eq!(output.status.code(), Some(1), "{message}");
    for name in ["memory ", "threads ", "ramie-http "] {
        let row = report.lines().find(|line| line.starts_with(name));
        let row = row.unwrap_or_else(|| panic!("no {name}in:\n{report}{message}"));
        let figures = row.split_whitespace().skip(1).filter(|word| word.parse::<f64>().is_ok());
        assert_eq!(figures.count(), if name == "memory " { 4 } else { 5 }, "{row}");
        assert_eq!(name == "memory ", row.ends_with('-'), "{row}");
    }
    assert_eq!(report.matches("target 0.90: NOT JUDGED").count(), 2, "{report}");
    assert!(message.contains("SKIPPED: hyper: there is no /nonexistent/rust-http; build it by"));
}
