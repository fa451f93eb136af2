//! `ramie-bench peer`: one run of a peer, told in the line that the programs in `peers/` print.

use std::process::ExitCode;

use clap::Args;

use crate::{peers::Peer, process, workload::Workload};

/// The arguments, as those of the programs in `peers/`.
#[derive(Args)]
pub struct Options {
    /// The peer
    peer: Peer,
    /// Worker threads; more than one for pipe and socketpair only
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// The workload: feed, ring, spawn, alive, switch, basic, recurse, recurse2, pipe, socketpair
    workload: String,
    /// Its numbers
    #[arg(required = true, value_parser = ramie_workloads::count::<u32>)]
    numbers: Vec<u32>,
}

/// Runs the peer in this process and prints its line. Exits with 2 if there is no such run.
pub fn run(options: &Options) -> ExitCode {
    let complain = |why: String| {
        eprintln!("ramie-bench: {why}");
        ExitCode::from(2)
    };
    let workload = match options.workload() {
        Ok(workload) => workload,
        Err(why) => return complain(why),
    };
    if !workload.is_parallel(options.peer)
        && let Err(why) = process::pin_to_first_cpu()
    {
        eprintln!("ramie-bench: {why}");
        return ExitCode::FAILURE;
    }
    let Some(sample) = options.peer.run(workload) else {
        return complain(format!("{} has no {}", options.peer.name(), options.workload));
    };
    let ns = sample.time.as_nanos() as f64;
    let numbers: String = options.numbers.iter().map(|number| format!(" {number}")).collect();
    let memory = match sample.bytes {
        0 => String::new(),
        bytes => format!(" rss_kb={}", bytes / 1024),
    };
    println!(
        "{}{numbers} seconds={:.9} per_op_ns={:.2}{memory}",
        options.workload,
        ns / 1e9,
        ns / workload.ops() as f64
    );
    ExitCode::SUCCESS
}

impl Options {
    fn workload(&self) -> Result<Workload, String> {
        let numbers: String = self.numbers.iter().map(|number| format!(":{number}")).collect();
        let has_threads = matches!(self.workload.as_str(), "pipe" | "socketpair");
        match (has_threads, self.threads) {
            (true, threads) => format!("{}{numbers}:{threads}", self.workload).parse(),
            (false, 1) => format!("{}{numbers}", self.workload).parse(),
            (false, _) => Err(format!(
                "--threads does not apply to {}, because the peers in Rust run it on one thread",
                self.workload
            )),
        }
    }
}
