//! The command line: commands, options and their help texts.

mod dump;
mod engine;
mod inspect;
mod lab;
mod run;
mod serve;
mod trace;

use std::ffi::OsString;

use clap::{Arg, Args, CommandFactory, Error, FromArgMatches, Parser, Subcommand};
use ramie_workloads::count;

use self::engine::EngineParser;
pub(crate) use self::{
    dump::{DumpArguments, MetricsArguments},
    inspect::{InspectArguments, TopArguments},
    lab::{CompareArguments, Lab, LabCommand, Percentage},
    run::{Run, RunOptions},
    serve::{Accept, Serve},
    trace::{TraceArguments, TraceTarget},
};
use crate::{
    advise::Advise,
    workload::{Engine, load_generator::LoadArguments, server::Clients},
};

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
  ramie lab --preset uringmachine              the experiments of a post, with its figures
  ramie lab compare ramie-lab/A ramie-lab/B    changes between two reports; exit code 1 if worse
  ramie run feed --people 2048 --nutrients 100 --on threads
  ramie run alive --count 1000000 --json       memory of a million parked fibers
  ramie advise                                 recommend threads or fibers for your program
  ramie serve --hello --addr 127.0.0.1:0       an HTTP server on a free port
  ramie dump 4711                              strands of a running process, and their waits
  ramie top 4711                               the same, live, in the terminal
  ramie trace 4711 --seconds 5                 its waits and wake-ups, for ui.perfetto.dev
  ramie doctor                                 features of this kernel, and why others are missing

Exit codes: 0 success, 1 failure, 2 invalid command line or environment variable, 130 stopped by a
second Ctrl-C.

Environment:
  NO_COLOR=1                      no colours in `ramie top`
  RAMIE_CAPS=LIST                 io_uring features to leave unused: -defer_taskrun,-msg_ring, or
                                  those that a kernel lacks: linux-5.15
  RAMIE_DRIVER=uring|poll         I/O driver of fibers [default: uring if a trial succeeds]
  RAMIE_DUMP_FILE=FILE            file for the dumps of `serve` on SIGQUIT [default: stderr]
  RAMIE_FLIGHT_RECORDER=DIRECTORY
                                  write the last events of all strands there on a stall, a
                                  deadlock, a panic or SIGQUIT [default: no]
  RAMIE_INSPECT=1                 answer `ramie dump`, `metrics`, `inspect`, `top` and `trace`
                                  [default: no]
  RAMIE_SUBMIT=worker|kernel-thread|sidecar
                                  thread that submits ops; --on sidecar selects sidecar
  RAMIE_STACK=BYTES               stack size of a fiber: 32768 (32 KiB) to 1073741824 (1 GiB);
                                  the closure of `run` gets 2 MiB at least
  RAMIE_STALL_MS=MS               report fibers that run longer without a switch; 0: none
                                  [default: 25]
  RAMIE_STRANDS=fibers|threads    strands that `serve` uses; `run` and `lab` follow --on";

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Lab(Lab),
    Run(Run),
    Advise(Advise),
    Serve(Serve),
    Dump(DumpArguments),
    Metrics(MetricsArguments),
    Inspect(InspectArguments),
    Top(TopArguments),
    Trace(TraceArguments),
    Doctor(Doctor),
    /// Answers the requests of the strands of `mix`.
    #[command(hide = true)]
    Responder,
    /// Sends the requests of `http`.
    #[command(hide = true)]
    LoadGenerator(LoadArguments),
    /// Runs the clients of `server`.
    #[command(hide = true)]
    Clients(Clients),
}

/// Parses a command line, whose first word is the name of the program.
pub(crate) fn parse(words: &[OsString]) -> Result<Arguments, Error> {
    Arguments::from_arg_matches_mut(&mut command().try_get_matches_from(words)?)
}

/// Returns the commands. Each workload lists only the engines that it supports.
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

/// Report which features for fibers and io_uring this kernel has, and why others are missing
///
/// Tries the features that Ramie would use and names the likely cause of each failure: seccomp, a
/// sysctl, a resource limit or an old kernel.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Parses a number of workers, at most the maximum of a runtime.
fn workers(text: &str) -> Result<u32, String> {
    const MOST: u32 = 1024;
    let workers = count(text)?;
    if workers > MOST {
        return Err(format!("too large; expected at most {MOST}"));
    }
    Ok(workers)
}
