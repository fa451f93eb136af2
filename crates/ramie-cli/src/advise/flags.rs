//! The flags of `ramie advise`, and its help.

use std::path::PathBuf;

use clap::Args;
use ramie_workloads::{
    count,
    mix::{Seconds, WaitFor, percent},
};

/// Recommend threads, fibers, a hybrid or processes for your program, by measuring its mix here
///
/// Describe the work by flags, by a TOML file with the same names, or by answers to questions (give
/// nothing, at a terminal). The mix is that of `ramie run mix`. It is measured on OS threads, on
/// fibers with one worker, on hybrids with several numbers of workers and on processes with fibers,
/// in interleaved rounds. The answer is a recommendation with the figures and their spread, the
/// confidence, the tipping point (from which CPU time per step another engine is better), and a
/// program to start from. Ctrl-C ends the measurement and answers from the readings so far.
///
/// The rule: arms above the memory limit are excluded; the arm with the most steps per second wins.
/// Arms within half of the fastest arm's spread (at least 2 %, at most 5 %) count as equally fast,
/// and among them the least CPU time per step wins, then the least memory.
#[derive(Args, Debug)]
#[command(after_help = ADVISE_EXAMPLES)]
pub(crate) struct Advise {
    /// Number of tasks at the same time (connections, requests, jobs)
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) concurrency: Option<u32>,

    /// CPU time of a step before it waits, in microseconds
    #[arg(long, value_name = "X", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) cpu_us: Option<u32>,

    /// Wait of a step, in microseconds
    #[arg(long, value_name = "Y", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) wait_us: Option<u32>,

    /// The event that a step waits for
    #[arg(long, value_enum)]
    pub(crate) wait: Option<WaitFor>,

    /// Spread of X and Y in percent, 0 to 100 [default: 0]
    #[arg(long, value_name = "J", value_parser = percent, allow_negative_numbers = true)]
    pub(crate) jitter: Option<u32>,

    /// Steps wait inside libraries that block the OS thread
    #[arg(long)]
    pub(crate) blocking: bool,

    /// Memory that the program may use, in MiB
    #[arg(long, value_name = "MiB", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) memory_limit: Option<u32>,

    /// Time for the measurement, in seconds, from 0.01 to 86400 [default: 60]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) seconds: Option<Seconds>,

    /// TOML file with the description; flags have precedence
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Print the answer as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

const ADVISE_EXAMPLES: &str = "\
Examples:
  ramie advise
  ramie advise --concurrency 1000 --cpu-us 5 --wait-us 200 --wait socket --seconds 20 --json
  ramie advise --file work.toml

work.toml:
  concurrency = 1000
  cpu-us = 5
  wait-us = 200
  wait = \"socket\"
  jitter = 50
  memory-limit = 512";
