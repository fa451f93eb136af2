//! The command line: what can be asked for, and the help that teaches it.

use std::{ffi::OsStr, path::PathBuf, str::FromStr};

use clap::{
    Arg, Args, CommandFactory, Error, FromArgMatches, Parser, Subcommand, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
    error::{ContextKind, ContextValue},
};

use crate::workload::{On, Workload};

/// Fibers for Rust on Linux, and a lab that shows on your own machine what threads, fibers and a
/// hybrid of both (fibers on several threads) cost. A strand is a fiber or a thread.
///
/// Without a command, `ramie` runs the lab: about a hundred seconds, then a page to look at.
#[derive(Parser, Debug)]
#[command(name = "ramie", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  ramie                                        measure this machine, write ./ramie-lab/DATE/
  ramie run feed --people 2048 --nutrients 100 --on threads
  ramie run alive --count 1000000 --json       memory of a million parked fibers
  ramie serve --hello --addr 127.0.0.1:0       an HTTP server on a free port
  ramie doctor                                 what the kernel gives, and why not more

Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 130 ended by a second Ctrl-C.

Environment:
  RAMIE_CAPS=LIST                 features of io_uring not to use: -defer_taskrun,-msg_ring or
                                  as on an older kernel: linux-5.15, linux-6.1, linux-6.6
  RAMIE_DRIVER=uring|poll         the driver of fibers' I/O; by default what a trial finds
  RAMIE_ENTER=worker|kernel-thread|sidecar
                                  who enters the kernel for fibers; --on sidecar is the latter
  RAMIE_STACK=BYTES               a fiber's stack: 32768 (32 KiB) to 1073741824 (1 GiB);
                                  run's closure gets 2 MiB at least
  RAMIE_STRANDS=fibers|threads    what `serve` serves on; `run` and `lab` go by --on";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Lab(Lab),
    Run(Run),
    Serve(Serve),
    Doctor(Doctor),
}

/// Measure a grid of workloads on this machine and write a report with charts
///
/// The workloads of many strands on fibers, threads and a hybrid (fibers on several workers), and
/// those of one task on a fiber, as futures and as a coroutine, in about two minutes. Each point
/// runs in a process of its own, rounds are interleaved, figures are medians. Ctrl-C ends it early
/// and reports the figures measured so far; a second Ctrl-C ends it at once.
#[derive(Args, Debug, Default)]
pub(crate) struct Lab {
    /// Write here instead of ./ramie-lab/DATE/ (if something is there, to the next free name)
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Measure a few small points only, to see the report's shape
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,
}

/// Run one workload, check its result and print what it cost
///
/// There is one line for each repetition. A line is: the workload, its numbers, seconds= from
/// before the first spawn to after the last join (the runtime's start is not in it), per_op_ns= for
/// the operation that the workload counts.
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES, subcommand_value_name = "WORKLOAD")]
#[command(subcommand_help_heading = "Workloads")]
pub(crate) struct Run {
    #[command(subcommand)]
    pub(crate) workload: Workload,

    #[command(flatten)]
    pub(crate) manner: Manner,
}

const RUN_EXAMPLES: &str = "\
Examples:
  ramie run switch --count 10000000
  ramie run ring --size 500 --hops 1000000 --repeat 5
  ramie run feed --people 1024 --nutrients 10000 --on hybrid --workers 2 --json
  ramie run pipe --pairs 48 --messages 10000 --bytes 1024 --workers 2
  ramie run recurse --depth 1000 --on futures

Every number of a workload is required and is a whole number of 1 or more. A wrong result exits
with 1. In `feed`, fibers yield after each nutrient; threads do not, the kernel preempts them.

basic, recurse and recurse2 are of one task, which runs on fibers, coroutines or futures; the others
are of many strands, which are fibers, threads or a hybrid; those of pipe and socketpair, which
do I/O, also fibers with a sidecar.";

/// How a workload is run.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "How to run it")]
pub(crate) struct Manner {
    /// What it runs on: strands that are fibers of one worker, OS threads, fibers of several
    /// workers, or fibers with a thread beside that enters the kernel; one task on a fiber, as a
    /// bare coroutine, or as a future
    #[arg(long, global = true, value_enum, default_value_t = On::Fibers, value_name = "WHAT")]
    pub(crate) on: On,

    /// Worker threads under the fibers, 1 to 1024 [default: fibers and sidecar 1; hybrid one for
    /// each CPU, and at least 2]
    #[arg(long, global = true, value_name = "N", value_parser = workers)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) workers: Option<u32>,

    /// Run it this many times; `alive` in a fresh process each time
    #[arg(long, global = true, value_name = "R", value_parser = count::<u32>, default_value = "1")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) repeat: u32,

    /// Print one JSON object for each repetition
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// This process is the fresh one.
    #[arg(long, global = true, hide = true)]
    pub(crate) fresh: bool,
}

/// Parses the command line of this process.
pub(crate) fn parse() -> Result<Arguments, Error> {
    Arguments::from_arg_matches_mut(&mut command().try_get_matches()?)
}

/// The commands, of which each workload offers only what it runs on.
pub(crate) fn command() -> clap::Command {
    let with_its_own = |workload: clap::Command| {
        let choice = Workload::named_runs_on(workload.get_name());
        workload.arg(
            Arg::new("on")
                .long("on")
                .value_name("WHAT")
                .value_parser(Offered(choice))
                .default_value(On::Fibers.name())
                .help("What it runs on")
                .help_heading("How to run it"),
        )
    };
    Arguments::command().mut_subcommand("run", |run| run.mut_subcommands(with_its_own))
}

/// Offers a choice. Takes the others as well: a workload has a sentence about each.
#[derive(Clone)]
struct Offered(&'static [On]);

impl TypedValueParser for Offered {
    type Value = On;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<On, Error> {
        let on = EnumValueParser::new().parse_ref(command, argument, value);
        on.map_err(|mut error| {
            let names = self.0.iter().map(|on| on.name().to_owned()).collect();
            error.insert(ContextKind::ValidValue, ContextValue::Strings(names));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue>>> {
        Some(Box::new(self.0.iter().filter_map(ValueEnum::to_possible_value)))
    }
}

/// Serve HTTP/1.1, a fiber for each connection
///
/// Until SIGTERM or Ctrl-C: idle connections are then closed, requests in flight get up to
/// ten seconds, and it exits with 0. A second Ctrl-C exits at once with 130.
///
/// The first line on stdout names the address it listens on. Under a limit on memory (`ulimit -v`)
/// it closes new connections while there is no room for them, and says so once.
#[derive(Args, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct Serve {
    /// Answer every GET with "Hello, world!" (the one thing that can be served so far)
    #[arg(long, required = true)]
    pub(crate) hello: bool,

    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    pub(crate) addr: String,

    /// Worker threads, 1 to 1024 [default: one for each CPU; one in each of several processes]
    #[arg(long, value_name = "N", value_parser = workers, allow_negative_numbers = true)]
    pub(crate) workers: Option<u32>,

    /// Serve by this number of processes, 1 to 1024, under a supervisor
    ///
    /// A process that ends, for whatever reason, is started again, after a pause: 10 ms, doubled
    /// with each end in a row up to 10 s, and 10 ms again after a life of more than 10 s. SIGHUP
    /// restarts all processes in turn, and at once. Meanwhile no connection is refused: it waits
    /// for the next process. The supervisor never gives up, unless no process has ever been able
    /// to serve.
    #[arg(long, value_name = "N", value_parser = workers, allow_negative_numbers = true)]
    pub(crate) processes: Option<u32>,

    /// How connections come to the workers [default: per-worker; shared with --processes]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) accept: Option<Accept>,

    /// Close a connection that is idle for so long, whose request takes longer to arrive, or that
    /// does not take its answer
    #[arg(long, value_name = "SECONDS", value_parser = count::<u32>, default_value = "30")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) timeout: u32,
}

/// How the connections of a server come to its workers.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accept {
    /// Each worker has a listener, the kernel deals connections out by a hash
    PerWorker,
    /// One worker accepts, and hands each connection to the worker that has the fewest
    LeastLoaded,
    /// All workers accept from one listener
    Shared,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  ramie serve --hello
  ramie serve --hello --addr 0.0.0.0:8080 --workers 1
  ramie serve --hello --processes 2
  curl http://127.0.0.1:8080/
  wrk -t1 -c256 -d5 http://127.0.0.1:8080/";

/// Say what the kernel gives to fibers and io_uring here, and why not more
///
/// Tries what Ramie would use and names the likely cause of each refusal: seccomp, a sysctl, a
/// limit, the kernel's age.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses a number of workers: as many as a runtime takes.
fn workers(text: &str) -> Result<u32, String> {
    const MOST: u32 = 1024;
    let workers = count(text)?;
    if workers > MOST {
        return Err(format!("is too large; at most {MOST} will do"));
    }
    Ok(workers)
}

/// Parses a number of things: a whole number of 1 or more.
pub(crate) fn count<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("must be a whole number of 1 or more, in digits".to_owned());
    }
    let too_large = || format!("is too large; at most {} will do", largest::<T>());
    let value = u64::from_str(digits).map_err(|_| too_large())?;
    if value == 0 {
        return Err("must be 1 or more".to_owned());
    }
    T::try_from(value).map_err(|_| too_large())
}

fn largest<T>() -> u64 {
    u64::MAX >> (64 - 8 * size_of::<T>())
}

/// Checks that an address looks like one; whether it resolves is found out when it is bound.
fn address(text: &str) -> Result<String, String> {
    let example = "must be ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:8080";
    let Some((host, port)) = text.rsplit_once(':') else { return Err(example.to_owned()) };
    let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
    if host.is_empty() || is_bare_ipv6 || port.parse::<u16>().is_err() {
        return Err(example.to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{address, count};

    #[test]
    fn counts_are_whole_numbers_of_one_or_more() {
        assert_eq!(count::<u32>("2048"), Ok(2048));
        assert_eq!(count::<u32>("4294967295"), Ok(u32::MAX));
        assert_eq!(count::<u64>("18446744073709551615"), Ok(u64::MAX));
        for bad in ["0", "-3", "", "+", "ten", "1.5", "1e3", " 1", "4294967296", "1_000"] {
            assert!(count::<u32>(bad).is_err(), "{bad:?} was taken for a count");
        }
        assert!(count::<u64>("18446744073709551616").unwrap_err().contains("at most"));
    }

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for good in ["127.0.0.1:0", "[::1]:80", "localhost:8080"] {
            assert!(address(good).is_ok(), "{good}");
        }
        for bad in ["8080", "127.0.0.1", ":80", "::1:80", "a:port", "a:70000", "a:-1"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
