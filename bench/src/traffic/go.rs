//! Go, in a program of its own that `go build` builds beside this one.

use std::{path::PathBuf, process::Command, time::Duration};

use crate::workload::{Sample, Workload};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/traffic/peer.go");

fn program() -> Result<PathBuf, String> {
    let ours = std::env::current_exe().map_err(|error| format!("no path here: {error}"))?;
    Ok(ours.with_file_name("ramie-bench-go"))
}

/// Builds the program, or returns the reason why there is none.
pub fn build() -> Result<(), String> {
    let built = Command::new("go").args(["build", "-o"]).arg(program()?).arg(SOURCE).output();
    let output = built.map_err(|error| format!("cannot run `go build`: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("`go build`: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

pub fn run(workload: Workload, threads: usize) -> Option<Sample> {
    let output = Command::new(program().expect("built before"))
        .args(workload.to_string().split(':'))
        .env("GOMAXPROCS", threads.to_string())
        .output()
        .expect("built before");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ns = String::from_utf8_lossy(&output.stdout).trim().parse().expect("nanoseconds");
    Some(Sample::timed(Duration::from_nanos(ns)))
}
