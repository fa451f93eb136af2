//! The arguments of `ramie lab` and `ramie lab compare`.

use std::{fmt, path::PathBuf};

use clap::{Args, Subcommand};

use crate::lab::Preset;

/// Benchmark this machine with a grid of workloads and write a report with charts
///
/// Takes about two minutes. Workloads of many strands run on fibers, threads and a hybrid (fibers
/// on several workers); workloads of one task run on a fiber, as futures and as a coroutine. Each
/// point of the grid runs in its own process, rounds are interleaved, and figures are medians. The
/// first line of the result is a verdict on the noise of the machine. docs/lab.md has the method.
/// Ctrl-C (or SIGTERM) stops the benchmark and writes the report from the readings so far. A second
/// Ctrl-C exits at once, without a report; --resume continues from the readings.
#[derive(Args, Debug, Default)]
#[command(disable_help_subcommand = true, after_help = EXIT_CODES)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: Option<LabCommand>,

    /// Directory of the report [default: ./ramie-lab/DATE/]; if it is not empty, DIR-2, DIR-3 and
    /// so on
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Measure the experiments of one post with its own parameters, and show its figures for
    /// comparison
    ///
    /// Takes up to seven minutes. The report says whether the conclusions of the post hold on this
    /// machine.
    #[arg(long, value_enum, value_name = "POST")]
    pub(crate) preset: Option<Preset>,

    /// Measure the quick grid and all presets, in up to 30 minutes
    #[arg(long)]
    pub(crate) full: bool,

    /// Measure other runtimes on the same points, too: Go, Java, Boost.Fiber, tokio and others
    ///
    /// bench/peers/build in the sources of Ramie builds their programs. A lab with peers takes up
    /// to three times as long. Each peer runs on one thread, and pairs of tasks that exchange
    /// messages also on several. A peer that is not built is skipped.
    #[arg(long)]
    pub(crate) peers: bool,

    /// Directory of the peers' programs [default: bench/peers/target]; implies --peers
    #[arg(long, value_name = "DIR")]
    pub(crate) peers_dir: Option<PathBuf>,

    /// Continue an interrupted lab in its directory
    ///
    /// Ctrl-C, a kill or a full disk loses no reading, because each one is written to
    /// DIR/readings.jsonl at once. The machine, the program and the plan must be the same.
    #[arg(long, value_name = "DIR")]
    pub(crate) resume: Option<PathBuf>,

    /// Measure a few small points only, to check the report
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,

    /// Measure even fewer points of four experiments, for tests.
    #[arg(long, hide = true)]
    pub(crate) sample: bool,
}

const EXIT_CODES: &str = "\
Exit codes: 0 if a report was written (after Ctrl-C it is partial), 1 if nothing was measured or the
report could not be written, 2 for a wrong command line or a lab that cannot be resumed,
130 after a second Ctrl-C (143 after a second SIGTERM). Points that fail are named in the report and
do not change the exit code.";

/// Commands on the reports of labs.
#[derive(Subcommand, Debug)]
pub(crate) enum LabCommand {
    Compare(CompareArguments),
}

/// Compare two labs and list the changes that exceed the spread and a threshold
///
/// A point has changed if its medians differ by more than the threshold, the ranges of its rounds
/// do not overlap, and either the gap between the ranges is as wide as the wider range, or half of
/// the points of the same line of a chart have changed in the same direction. Points with fewer
/// than three rounds are unclear; for a lab of one round, the readings are compared instead.
///
/// The exit code is 1 if a line of a chart became worse, 0 if none did, and 2 if the two cannot be
/// compared. docs/lab.md has a workflow for CI.
#[derive(Args, Debug)]
pub(crate) struct CompareArguments {
    /// Folder of the report to compare with, or its results.json
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,

    /// Folder of the new report, or its results.json
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,

    /// Smallest change of a median that counts, in percent
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percentage)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) threshold: Percentage,

    /// Also write the comparison to an HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// A share, given and printed in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Percentage(f64);

impl Percentage {
    /// Makes a percentage from a number of percent.
    pub(crate) const fn of(percent: f64) -> Self {
        Percentage(percent)
    }

    /// Returns the share: 0.05 for 5 %.
    pub(crate) fn share(self) -> f64 {
        self.0 / 100.0
    }
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

/// Parses `5%` or `5`.
fn percentage(text: &str) -> Result<Percentage, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let is_sensible = |number: &f64| (0.0..=1000.0).contains(number);
    number
        .filter(is_sensible)
        .map(Percentage::of)
        .ok_or_else(|| "expected a percentage from 0% to 1000%, such as 5%".to_owned())
}
