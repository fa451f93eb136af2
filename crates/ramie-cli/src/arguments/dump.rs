//! The arguments of `ramie dump` and `ramie metrics`.

use clap::Args;
use ramie_workloads::count;

/// Print every strand of a running process, its state and what it waits for
///
/// The process must have been started with RAMIE_INSPECT=1, or have a runtime that was built with
/// `Builder::inspect(true)`, and belong to the same user, unless root asks. A thread of its own
/// answers, so a process that hangs can be dumped, too. The process is not stopped meanwhile.
///
/// A worker that runs one fiber without suspending is named after 5 seconds.
#[derive(Args, Debug)]
#[command(after_help = DUMP_EXAMPLES)]
pub(crate) struct DumpArguments {
    /// Process to dump; without it, list the processes of this user that can be dumped
    #[arg(value_name = "PID", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) pid: Option<u32>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Add the calls of each suspended fiber, with files and lines if the program has debug
    /// information
    #[arg(long, requires = "pid")]
    pub(crate) backtraces: bool,

    /// Only strands whose names contain this text, and the strands that opened the scopes around
    /// them
    #[arg(long, value_name = "TEXT", value_parser = name, requires = "pid")]
    pub(crate) name: Option<String>,

    /// How long the process may take to begin its answer, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = count::<u32>, default_value = "15")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) timeout: u32,
}

/// The most bytes of a name that processes compare.
const MOST_NAME: usize = 256;

/// A part of a name, which goes into a request of one line.
fn name(text: &str) -> Result<String, String> {
    match text {
        "" => Err("expected a part of a name".to_owned()),
        _ if text.contains('\n') => {
            Err("expected a text without a line break; give a part before or after it".to_owned())
        }
        _ if text.len() > MOST_NAME => Err(format!("too long; expected at most {MOST_NAME} bytes")),
        _ => Ok(text.to_owned()),
    }
}

const DUMP_EXAMPLES: &str = "\
Examples:
  RAMIE_INSPECT=1 ramie serve --hello &    a process that can be dumped
  ramie dump                               its PID
  ramie dump $!                            its workers and strands
  ramie dump --backtraces $!               and the calls in which each fiber is
  ramie dump --name 'client 7' $!          those of one client
  ramie dump --json $! | jq '.strands[] | select(.state == \"waiting\") | .wait.purpose'

Exit codes: 0 success, 1 no dump or not all of it, 2 invalid command line.";

/// Print the figures of a running process, as Prometheus reads them
///
/// Counts and histograms since the process began: spawns, switches, waits, wakes, ops by kind, the
/// time that fibers wait for their turn and run. The process is asked as by `ramie dump`, so it
/// must have been started with RAMIE_INSPECT=1 or the like; its workers are not interrupted.
#[derive(Args, Debug)]
#[command(after_help = METRICS_EXAMPLES)]
pub(crate) struct MetricsArguments {
    /// Process whose figures to print; `ramie dump` lists those that answer
    #[arg(value_name = "PID", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) pid: u32,

    /// How long the process may take to begin its answer, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = count::<u32>, default_value = "15")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) timeout: u32,
}

const METRICS_EXAMPLES: &str = "\
Examples:
  ramie metrics $(pgrep -x server) | grep ramie_strands
  watch ramie metrics 28379

Exit codes: 0 success, 1 no figures or not all of them, 2 invalid command line.";
