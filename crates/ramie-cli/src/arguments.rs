//! The command line: commands, options and their help texts.

use std::{ffi::OsStr, path::PathBuf};

use clap::{
    Arg, Args, CommandFactory, Error, FromArgMatches, Parser, Subcommand, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
    error::{ContextKind, ContextValue},
};
use ramie_workloads::count;

use crate::workload::{Engine, Workload};

/// Benchmarks, an HTTP server and diagnostics of Ramie, a fiber runtime for Linux
///
/// The benchmarks compare fibers on one worker thread, OS threads, and a hybrid: fibers on several
/// worker threads. A strand is a fiber or an OS thread.
///
/// Without a command, `ramie` runs `ramie lab`: it measures for about two minutes and writes an
/// HTML report.
#[derive(Parser, Debug)]
#[command(name = "ramie", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  ramie                                        benchmark this machine, write ./ramie-lab/DATE/
  ramie run feed --people 2048 --nutrients 100 --on threads
  ramie run alive --count 1000000 --json       memory of a million parked fibers
  ramie serve --hello --addr 127.0.0.1:0       an HTTP server on a free port
  ramie doctor                                 features of this kernel, and why some are missing

Exit codes: 0 success, 1 failure, 2 invalid command line or environment variable, 130 stopped by a
second Ctrl-C.

Environment:
  RAMIE_CAPS=LIST                 io_uring features to leave unused: -defer_taskrun,-msg_ring, or
                                  an older kernel to imitate: linux-5.15, linux-6.1, linux-6.6
  RAMIE_DRIVER=uring|poll         I/O driver of fibers [default: uring if a trial succeeds]
  RAMIE_SUBMIT=worker|kernel-thread|sidecar
                                  thread that submits ops; --on sidecar selects sidecar
  RAMIE_STACK=BYTES               stack size of a fiber: 32768 (32 KiB) to 1073741824 (1 GiB);
                                  the closure of `run` gets 2 MiB at least
  RAMIE_STRANDS=fibers|threads    strands that `serve` uses; `run` and `lab` follow --on";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Lab(Lab),
    Run(Run),
    Serve(Serve),
    Doctor(Doctor),
}

/// Benchmark this machine with a grid of workloads and write a report with charts
///
/// Takes about two minutes. Workloads of many strands run on fibers, threads and a hybrid (fibers
/// on several workers); workloads of one task run on a fiber, as futures and as a coroutine. Each
/// point of the grid runs in its own process, rounds are interleaved, and figures are medians.
/// Ctrl-C stops the benchmark and writes the report from the readings so far; a second Ctrl-C exits
/// at once.
#[derive(Args, Debug, Default)]
pub(crate) struct Lab {
    /// Directory of the report [default: ./ramie-lab/DATE/]; DIR-2, DIR-3 ... if it is not empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Measure a few small points only, to see the report's shape
    #[arg(long, hide = true)]
    pub(crate) tiny: bool,
}

/// Run one workload, check its result and print its cost
///
/// Prints one line per repetition: the workload, its parameters, seconds= (from before the first
/// spawn to after the last join, without the start of the runtime) and per_op_ns= (the time divided
/// by the number of operations).
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES, subcommand_value_name = "WORKLOAD")]
#[command(subcommand_help_heading = "Workloads")]
pub(crate) struct Run {
    #[command(subcommand)]
    pub(crate) workload: Workload,

    #[command(flatten)]
    pub(crate) options: RunOptions,
}

const RUN_EXAMPLES: &str = "\
Examples:
  ramie run switch --count 10000000
  ramie run ring --size 500 --hops 1000000 --repeat 5
  ramie run feed --people 1024 --nutrients 10000 --on hybrid --workers 2 --json
  ramie run pipe --pairs 48 --messages 10000 --bytes 1024 --workers 2
  ramie run recurse --depth 1000 --on futures

Every parameter of a workload is required and is a whole number of 1 or more. If the result of a
workload is wrong, the exit code is 1. In `feed`, fibers yield after each nutrient; threads do not,
because the kernel preempts them.

basic, recurse and recurse2 run one task, on a fiber, as a coroutine or as futures. The other
workloads run many strands: fibers, threads or a hybrid. pipe and socketpair do I/O, so they also
run on fibers with a sidecar thread.";

/// Options of every workload.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "How to run it")]
pub(crate) struct RunOptions {
    /// Engine that runs the workload. For many strands: fibers on one worker, OS threads, fibers on
    /// several workers, or fibers with a sidecar thread that enters the kernel. For one task: a
    /// fiber, a bare coroutine or a future
    #[arg(long, global = true, value_enum, default_value_t = Engine::Fibers)]
    #[arg(value_name = "ENGINE")]
    pub(crate) on: Engine,

    /// Worker threads that run the fibers, 1 to 1024 [default: 1; with --on hybrid one per CPU, at
    /// least 2]
    #[arg(long, global = true, value_name = "N", value_parser = workers)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) workers: Option<u32>,

    /// Number of repetitions; each repetition of `alive` runs in a new process
    #[arg(long, global = true, value_name = "R", value_parser = count::<u32>, default_value = "1")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) repeat: u32,

    /// Print one JSON object per repetition
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Set by the parent process: this process has run no workload before.
    #[arg(long, global = true, hide = true)]
    pub(crate) fresh: bool,
}

/// Parses the command line of this process.
pub(crate) fn parse() -> Result<Arguments, Error> {
    Arguments::from_arg_matches_mut(&mut command().try_get_matches()?)
}

/// The commands. Each workload lists only the engines that it supports.
pub(crate) fn command() -> clap::Command {
    let with_its_own = |workload: clap::Command| {
        let choice = Engine::choice_for(workload.get_name());
        workload.arg(
            Arg::new("on")
                .long("on")
                .value_name("ENGINE")
                .value_parser(EngineParser(choice))
                .default_value(Engine::Fibers.name())
                .help("Engine that runs the workload")
                .help_heading("How to run it"),
        )
    };
    Arguments::command().mut_subcommand("run", |run| run.mut_subcommands(with_its_own))
}

/// Lists the engines of one workload as possible values, but accepts every engine, because the
/// workload's own check reports an unsupported one in a better sentence.
#[derive(Clone)]
struct EngineParser(&'static [Engine]);

impl TypedValueParser for EngineParser {
    type Value = Engine;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Engine, Error> {
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

/// Serve HTTP/1.1 with one fiber per connection
///
/// SIGTERM or Ctrl-C stops the server: idle connections are closed, requests in flight get up to
/// 10 seconds, and the exit code is 0. A second Ctrl-C exits at once with 130.
///
/// The first line on stdout names the address that the server listens on. If memory is limited
/// (`ulimit -v`) and runs short, the server closes new connections and prints one warning.
#[derive(Args, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct Serve {
    /// Answer every GET with "Hello, world!" (the only service so far)
    #[arg(long, required = true)]
    pub(crate) hello: bool,

    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    pub(crate) addr: String,

    /// Worker threads, 1 to 1024 [default: one per CPU; with --processes one in each process]
    #[arg(long, value_name = "N", value_parser = workers, allow_negative_numbers = true)]
    pub(crate) workers: Option<u32>,

    /// Number of server processes under a supervisor, 1 to 1024
    ///
    /// The supervisor restarts every process that ends, after a pause of 10 ms. The pause doubles
    /// with each restart in a row, up to 10 s, and returns to 10 ms once a process has run for more
    /// than 10 s. SIGHUP restarts the processes one after another, without a pause. No connection
    /// is refused meanwhile, because connections wait in the listener's queue. The supervisor gives
    /// up only if no process has ever become ready.
    #[arg(long, value_name = "N", value_parser = workers, allow_negative_numbers = true)]
    pub(crate) processes: Option<u32>,

    /// How connections are distributed to workers [default: per-worker; shared with --processes]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) accept: Option<Accept>,

    /// Idle, request and write timeout of a connection, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = count::<u32>, default_value = "30")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) timeout: u32,
}

/// How the server distributes connections to its workers.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accept {
    /// One listener per worker; the kernel distributes connections by a hash
    PerWorker,
    /// One worker accepts and passes each connection to the least loaded worker
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

/// Report which features this kernel provides for fibers and io_uring, and why others are missing
///
/// Tries the features that Ramie would use and names the likely cause of each failure: seccomp, a
/// sysctl, a resource limit or an old kernel.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses a number of workers, up to the maximum of a runtime.
fn workers(text: &str) -> Result<u32, String> {
    const MOST: u32 = 1024;
    let workers = count(text)?;
    if workers > MOST {
        return Err(format!("too large, at most {MOST}"));
    }
    Ok(workers)
}

/// Checks the form of an address. Whether it resolves turns out when the server binds it.
fn address(text: &str) -> Result<String, String> {
    let example = "expected ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:8080";
    let Some((host, port)) = text.rsplit_once(':') else { return Err(example.to_owned()) };
    let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
    if host.is_empty() || is_bare_ipv6 || port.parse::<u16>().is_err() {
        return Err(example.to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::address;

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
