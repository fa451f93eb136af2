//! Go, by the peer program that `peers/build` makes.

use std::{process::Command, time::Duration};

use crate::workload::{Sample, Workload};

const BUILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/build");
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/target/go");

/// Builds the program, or returns the reason why there is none.
pub fn build() -> Result<(), String> {
    let output = Command::new(BUILD).arg("go").output();
    let output = output.map_err(|error| format!("cannot run {BUILD}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

pub fn run(workload: Workload, threads: usize) -> Option<Sample> {
    let output = Command::new(PROGRAM)
        .args(["--threads", &threads.to_string()])
        .args(arguments(workload)?)
        .output()
        .expect("built before");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = String::from_utf8_lossy(&output.stdout);
    let seconds = line.split_whitespace().find_map(|word| word.strip_prefix("seconds="));
    let seconds = seconds.and_then(|seconds| seconds.parse().ok()).expect("a line with seconds=");
    Some(Sample::timed(Duration::from_secs_f64(seconds)))
}

fn arguments(workload: Workload) -> Option<Vec<String>> {
    match workload {
        Workload::Channel { .. } => {
            Some(workload.to_string().split(':').map(str::to_owned).collect())
        }
        // The ordinary means of passing a token is a channel in Go, too.
        Workload::RingChannel { size, hops } => {
            Some(vec!["ring".to_owned(), size.to_string(), hops.to_string()])
        }
        _ => None,
    }
}
