//! Runs samples in processes of their own, in turn, and takes medians.

use std::{process::Stdio, time::Duration};

use crate::{
    cases::Case,
    peers::Peer,
    process,
    workload::{Sample, Workload},
};

/// A timeout for a peer that hangs. No sample takes a tenth of it.
const SAMPLE_MAX: Duration = Duration::from_secs(120);

/// A peer's medians in one case.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub peer: Peer,
    /// The workload that this peer ran, which may be smaller than the case's.
    pub workload: Workload,
    pub ns_per_op: f64,
    /// The fastest and the slowest round. If they are far apart, the median is unreliable.
    pub ns_range: (f64, f64),
    pub bytes_per_op: f64,
    /// Entries into the kernel for reads and writes through a ring; 0 if a peer does not count
    /// them.
    pub enters_per_1000: f64,
}

/// Runs every peer of a case `rounds` times, A B C A B C, and returns the medians.
pub fn measure(
    case: &Case,
    peers: &[Peer],
    workload: Workload,
    rounds: usize,
) -> Result<Vec<Figure>, String> {
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); peers.len()];
    for round in 0..rounds {
        for (peer, samples) in peers.iter().zip(&mut samples) {
            eprint!("\r{:<18} round {} of {rounds}: {:<16}", case.name, round + 1, peer.name());
            samples.push(sample(*peer, workload.cut_for(*peer))?);
        }
    }
    eprint!("\r{:60}\r", "");
    let figure = |(peer, samples): (&Peer, &Vec<Sample>)| {
        let workload = workload.cut_for(*peer);
        let per_op = |value: fn(&Sample) -> f64| median(samples, value) / workload.ops() as f64;
        Figure {
            peer: *peer,
            workload,
            ns_range: range(samples, workload.ops()),
            ns_per_op: per_op(|sample| sample.time.as_nanos() as f64),
            bytes_per_op: per_op(|sample| sample.bytes as f64),
            // Each message is written and read.
            enters_per_1000: per_op(|sample| sample.enters as f64) * 1000.0 / 2.0,
        }
    };
    Ok(peers.iter().zip(&samples).map(figure).collect())
}

fn range(samples: &[Sample], ops: u64) -> (f64, f64) {
    let ns = samples.iter().map(|sample| sample.time.as_nanos() as f64 / ops as f64);
    ns.fold((f64::INFINITY, 0.0), |(low, high), ns| (low.min(ns), high.max(ns)))
}

pub fn median<S>(samples: &[S], value: impl Fn(&S) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn sample(peer: Peer, workload: Workload) -> Result<Sample, String> {
    if matches!(workload, Workload::Shared(shared) if shared.wants_fresh_process()) {
        // The first of two processes pays for the virtual machine's memory, which costs several
        // times as much as the kernel's own work on a page.
        sample_in_child(peer, workload)?;
    }
    sample_in_child(peer, workload)
}

fn sample_in_child(peer: Peer, workload: Workload) -> Result<Sample, String> {
    let failed = |why: &str| format!("{} failed at {workload}: {why}", peer.name());
    let child = process::ourselves()?
        .args(["sample", peer.name(), &workload.to_string()])
        .env("RAMIE_CAPS", peer.masked())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error.to_string()))?;
    let output = process::output_within(child, SAMPLE_MAX).map_err(|why| failed(&why))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers.as_slice() {
        &[ns, bytes, enters] if output.status.success() => {
            Ok(Sample { time: Duration::from_nanos(ns), bytes, enters })
        }
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(failed(&format!("{}: {}", output.status, said.trim())))
        }
    }
}

/// Runs one sample in this process, on one CPU unless it needs several, and prints its figures.
pub fn run_sample(peer: Peer, workload: Workload) -> Result<(), String> {
    if !workload.is_parallel(peer) {
        process::pin_to_first_cpu()?;
    }
    let sample = peer.run(workload).ok_or_else(|| format!("{} has none", peer.name()))?;
    println!("{} {} {}", sample.time.as_nanos(), sample.bytes, sample.enters);
    Ok(())
}
