//! The arguments of `ramie inspect` and `ramie top`.

use std::time::Duration;

use clap::Args;
use ramie_workloads::count;

/// Summarise a running process: its workers' load, its strands by state and by wait, stalls
///
/// Prints the summary once; with --web, serves it as a page that is refreshed each second. The
/// process is asked as by `ramie dump`: it must have been started with RAMIE_INSPECT=1 or the like,
/// and belong to the same user. A summary is small and quick also with a million fibers.
///
/// The page has no login. So the URL, which is printed on stdout, has a random token without which
/// the server refuses requests, and by default only addresses of this machine are accepted.
#[derive(Args, Debug)]
#[command(after_help = INSPECT_EXAMPLES)]
pub(crate) struct InspectArguments {
    /// Process to inspect; `ramie dump` lists those that answer
    #[arg(value_name = "PID", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) pid: u32,

    /// Print JSON
    #[arg(long, conflicts_with = "web")]
    pub(crate) json: bool,

    /// Serve a page on this address and port; port 0 selects a free port [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    #[arg(value_parser = super::serve::address)]
    pub(crate) web: Option<String>,

    /// Let --web listen on an address that other machines can reach; anybody who sees the traffic
    /// can read the token
    #[arg(long, requires = "web")]
    pub(crate) allow_remote: bool,

    /// Time between two refreshes of the page, 0.1 to 3600 seconds
    #[arg(long, value_name = "SECONDS", value_parser = interval, default_value = "1")]
    #[arg(allow_negative_numbers = true, requires = "web")]
    pub(crate) interval: Duration,

    /// How long the process may take to begin its answer, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = count::<u32>, default_value = "15")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) timeout: u32,
}

const INSPECT_EXAMPLES: &str = "\
Examples:
  RAMIE_INSPECT=1 ramie serve --hello &    a process that can be inspected
  ramie inspect $!                         its workers, waits and stalls
  ramie inspect --json $! | jq .states     the number of its strands in each state
  ramie inspect $! --web                   prints the URL of a live page
  ramie inspect $! --web localhost:8081    the same on a port of your choice

Exit codes: 0 success, or the page was stopped by Ctrl-C or SIGTERM; 1 no summary, or the process of
the page has ended; 2 invalid command line.";

/// Show a running process in the terminal, live: load, waits, stalls, backtraces
///
/// The process is asked as by `ramie dump`: it must have been started with RAMIE_INSPECT=1 or the
/// like, and belong to the same user. The program must have been built with the feature `top`.
///
/// Keys: arrows select a wait, Enter shows its backtrace, p pauses, ? lists all keys, q ends.
#[derive(Args, Debug)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct TopArguments {
    /// Process to show; `ramie dump` lists those that answer
    #[arg(value_name = "PID", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) pid: u32,

    /// Time between two refreshes, 0.1 to 3600 seconds
    #[arg(long, value_name = "SECONDS", value_parser = interval, default_value = "1")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) interval: Duration,
}

const TOP_EXAMPLES: &str = "\
Examples:
  RAMIE_INSPECT=1 ramie run ring --size 500 --hops 4294967295 &
  ramie top $!
  cargo run --release -p ramie-cli --features top -- top 4711    with the feature `top`

Exit codes: 0 ended by q, Ctrl-C or SIGTERM; 1 the process has ended or does not answer, there is no
terminal, or the program was built without the feature `top`; 2 invalid command line.";

/// Parses a time between two refreshes.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let expected = || "expected 0.1 to 3600 seconds, such as 0.5".to_owned();
    seconds.map(Duration::from_secs_f64).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::interval;

    #[test]
    fn intervals_are_of_a_tenth_of_a_second_to_an_hour() {
        for (text, ms) in [("0.1", 100), ("1", 1000), ("2.5", 2500), ("3600", 3_600_000)] {
            assert_eq!(interval(text).unwrap().as_millis(), ms, "{text}");
        }
        for wrong in ["", "0", "0.05", "-1", "3601", "inf", "NaN", "1s"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
