//! Strands that compute and wait in turn: the work of a server, without its protocol.
//!
//! Modules: `work` (the computed part, and the plan of the steps), `waits` (the calls by which
//! strands wait), `exchange` (sockets and pipes), `blocks` (files), `lock`, `run` (the loop
//! of a strand, and the run as a whole), `tally` (the sum).

mod blocks;
mod exchange;
mod lock;
mod run;
mod seconds;
mod tally;
mod waits;
mod work;

use clap::{Args, ValueEnum};

pub(crate) use self::work::jump;
pub use self::{
    exchange::respond,
    run::MixSetup,
    seconds::Seconds,
    tally::Tally,
    waits::Waits,
    work::{compute, iterations_per_ms},
};
use crate::count::count;

/// N strands each compute for X us, wait for Y us, and so on: the mix that a server's work is
///
/// One op is one step: computing and waiting. The clock starts when all strands are spawned. For
/// steps_per_s, the first quarter of the time is a warm-up and does not count, and a step that is
/// partly in the counted time counts in part; CPU time (of the whole process) is divided by all
/// steps. Lateness is how much longer than Y us a wait took, until the strand ran again. rss_bytes
/// is the peak of the resident memory, without the kernel's memory for threads.
///
/// Computing is a fixed number of iterations, calibrated when the program starts, so all engines
/// compute the same. The result of all iterations is checked, and so is each answer and each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Mix {
    /// Number of strands
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub concurrency: u32,
    /// CPU time of a step, in microseconds
    #[arg(long, value_name = "X", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub cpu_us: u32,
    /// Wait of a step, in microseconds
    #[arg(long, value_name = "Y", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub wait_us: u32,
    /// The event that a step waits for
    #[arg(long, value_enum)]
    pub wait: WaitFor,
    /// Spread of X and Y in percent, 0 to 100: each step's are evenly distributed around the mean
    #[arg(long, value_name = "J", value_parser = percent, default_value = "0")]
    #[arg(allow_negative_numbers = true)]
    pub jitter: u32,
    /// Seconds to run, at least 0.01
    #[arg(long, value_name = "S", default_value = "1", allow_negative_numbers = true)]
    pub seconds: Seconds,
    /// Wait by calls that block the OS thread, as in a library that knows no fibers; fibers yield
    /// after each step
    #[arg(long)]
    pub blocking: bool,
}

/// The event that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum WaitFor {
    /// A sleep of Y us
    Timer,
    /// A request over a Unix socket of the strand's own to a responder in another process, which
    /// answers after Y us; its CPU time is not in the figures
    Socket,
    /// The same over two pipes
    Pipe,
    /// A read of 4 KiB that misses the page cache; if the disk is faster than Y us, a sleep for the
    /// rest
    File,
    /// A lock that another strand, one for each, takes on request and holds for Y us
    Lock,
}

impl WaitFor {
    /// All of them.
    pub const ALL: [WaitFor; 5] =
        [WaitFor::Timer, WaitFor::Socket, WaitFor::Pipe, WaitFor::File, WaitFor::Lock];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            WaitFor::Timer => "timer",
            WaitFor::Socket => "socket",
            WaitFor::Pipe => "pipe",
            WaitFor::File => "file",
            WaitFor::Lock => "lock",
        }
    }

    /// Whether there must be a responder.
    pub fn has_responder(self) -> bool {
        matches!(self, WaitFor::Socket | WaitFor::Pipe)
    }
}

impl Mix {
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("concurrency", self.concurrency.into()),
            ("cpu-us", self.cpu_us.into()),
            ("wait-us", self.wait_us.into()),
            ("jitter", self.jitter.into()),
        ]
    }

    /// The arguments beside the numbers.
    pub(crate) fn other_arguments(&self) -> Vec<String> {
        let blocking = self.blocking.then(|| "--blocking".to_owned());
        let others =
            [format!("--wait={}", self.wait.name()), format!("--seconds={}", self.seconds)];
        others.into_iter().chain(blocking).collect()
    }

    /// The number of steps if the machine had a CPU for each strand.
    pub(crate) fn ops(&self) -> u64 {
        let step_us = u64::from(self.cpu_us) + u64::from(self.wait_us);
        let each = self.seconds.as_f64() * 1e6 / step_us as f64;
        ((each * f64::from(self.concurrency)) as u64).max(1)
    }

    /// The strands, and the holders of locks.
    pub(crate) fn strands(&self) -> u64 {
        let each = if self.wait == WaitFor::Lock { 2 } else { 1 };
        each * u64::from(self.concurrency)
    }

    /// How many of the strands, and of the holders of locks, are OS threads on fibers or threads.
    pub fn threads(&self, on_threads: bool) -> u64 {
        let holders = self.strands() - u64::from(self.concurrency);
        match on_threads {
            true => self.strands(),
            false if self.blocking => holders,
            false => 0,
        }
    }

    /// Descriptors that each strand has in this process, and as many in the responder.
    pub fn descriptors_per_strand(&self) -> u64 {
        match self.wait {
            WaitFor::Socket => 1,
            WaitFor::Pipe => 2,
            WaitFor::Timer | WaitFor::File | WaitFor::Lock => 0,
        }
    }

    /// The share of one of several processes.
    #[must_use]
    pub fn share(&self, number: u32, of: u32) -> Self {
        let concurrency = self.concurrency / of + u32::from(number < self.concurrency % of);
        Mix { concurrency, ..*self }
    }
}

/// Parses a whole percentage up to 100.
pub fn percent(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(percent @ 0..=100) => Ok(percent),
        _ => Err("expected a whole number from 0 to 100".to_owned()),
    }
}
