//! The arguments of `ramie trace`.

use std::path::PathBuf;

use clap::Args;
use ramie_workloads::count;

/// The longest trace, in seconds.
const MOST_SECONDS: u32 = 600;

/// Record the waits and wake-ups of a running process, for the viewer of Perfetto
///
/// Writes a trace in the format of Perfetto, which https://ui.perfetto.dev shows without sending it
/// anywhere: a track for each fiber with its waits, a track for each worker with the fibers that it
/// runs, and an arrow from each wake-up to the fiber that it wakes. Calls of `yield_now` are not
/// recorded.
///
/// The process must have been started with RAMIE_INSPECT=1, or have a runtime that was built with
/// `Builder::inspect(true)`, and belong to the same user, unless root asks. Recording costs it
/// about 3 % of its CPU time. Instead of a process, a file of the flight recorder can be converted
/// (RAMIE_FLIGHT_RECORDER).
#[derive(Args, Debug)]
#[command(after_help = TRACE_EXAMPLES)]
pub(crate) struct TraceArguments {
    /// Process to record, or file that a flight recorder has written
    #[arg(value_name = "PID|FILE", value_parser = target, allow_negative_numbers = true)]
    pub(crate) target: TraceTarget,

    /// How long to record the process, in seconds, 600 at most [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) seconds: Option<u32>,

    /// File to write [default: ./ramie-PID.pftrace, or the name of FILE with this ending]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// How long the process may take to begin its answer, in seconds [default: 15]
    #[arg(long, value_name = "SECONDS", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) timeout: Option<u32>,
}

const TRACE_EXAMPLES: &str = "\
Examples:
  RAMIE_INSPECT=1 ramie serve --hello &                   a process that can be recorded
  ramie trace $! --seconds 5                              write ramie-PID.pftrace
  RAMIE_FLIGHT_RECORDER=/var/tmp/traces ./server          write the last events on trouble
  ramie trace /var/tmp/traces/ramie-4711-88203-1.trace    convert them

Exit codes: 0 success, 1 no trace, 2 invalid command line.";

/// The source of a trace.
#[derive(Clone, Debug)]
pub(crate) enum TraceTarget {
    Process(u32),
    File(PathBuf),
}

/// A whole number is the id of a process; everything else is a path.
fn target(text: &str) -> Result<TraceTarget, String> {
    let is_number = text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    match is_number {
        true => count::<u32>(text).map(TraceTarget::Process),
        false => Ok(TraceTarget::File(PathBuf::from(text))),
    }
}

fn seconds(text: &str) -> Result<u32, String> {
    let seconds = count(text)?;
    if seconds > MOST_SECONDS {
        return Err(format!("too large; expected at most {MOST_SECONDS}"));
    }
    Ok(seconds)
}
