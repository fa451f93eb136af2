//! The `ramie` program: a lab that benchmarks threads, fibers and a hybrid on this machine, the
//! workloads that the lab runs, a small HTTP server, dumps, traces and live views of running
//! processes, and a doctor that diagnoses the kernel.
#![deny(unsafe_code)]

mod advise;
mod arguments;
mod child;
mod counters;
mod doctor;
mod dump;
mod failure;
mod inspect;
mod interrupt;
mod lab;
mod other_load;
mod output;
mod progress;
mod run;
mod runtime;
mod serve;
mod signals;
mod summary;
mod top;
mod trace;
mod usage_error;
mod workload;

use std::{env, ffi::OsString, process::ExitCode};

use crate::{
    arguments::{Arguments, Command},
    failure::Failure,
};

fn main() -> ExitCode {
    ramie_workloads::install_panic_hook();
    let words: Vec<OsString> = env::args_os().collect();
    let lines = match run::expand(&words) {
        Ok(lines) => lines,
        Err(failure) => return failure.report(),
    };
    let mut parsed =
        match lines.iter().map(|line| arguments::parse(line)).collect::<Result<Vec<_>, _>>() {
            Ok(parsed) => parsed,
            Err(error) => return usage_error::report(&error),
        };
    if let Some(ignored) = ramie_driver::ignored_faults()
        && !parsed.iter().any(reports_faults_elsewhere)
    {
        output::warn(&ignored);
    }
    let done = match parsed.len() {
        1 => dispatch(parsed.pop().and_then(|arguments| arguments.command)),
        _ => run::run_sweep(&runs(parsed)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Whether the process that started this one has mentioned ignored faults, or the command does.
fn reports_faults_elsewhere(arguments: &Arguments) -> bool {
    match &arguments.command {
        Some(Command::Run(run)) => run.options.fresh || run.options.member.member,
        Some(Command::Responder | Command::LoadGenerator(_) | Command::Clients(_)) => true,
        Some(Command::Doctor(_)) => true,
        _ => false,
    }
}

/// The runs of a sweep. No other command has lists.
fn runs(parsed: Vec<Arguments>) -> Vec<arguments::Run> {
    let run = |arguments: Arguments| match arguments.command {
        Some(Command::Run(run)) => Some(run),
        _ => None,
    };
    parsed.into_iter().filter_map(run).collect()
}

fn dispatch(command: Option<Command>) -> Result<(), Failure> {
    match command {
        Some(Command::Lab(lab)) => lab::lab(&lab),
        Some(Command::Run(run)) => run::run(&run),
        Some(Command::Advise(advise)) => advise::advise(&advise),
        Some(Command::Serve(serve)) => serve::serve(&serve),
        Some(Command::Dump(arguments)) => dump::dump(&arguments),
        Some(Command::Metrics(arguments)) => dump::metrics(&arguments),
        Some(Command::Inspect(arguments)) => inspect::inspect(&arguments),
        Some(Command::Top(arguments)) => top::top(&arguments),
        Some(Command::Trace(arguments)) => trace::trace(&arguments),
        Some(Command::Doctor(doctor)) => doctor::doctor(&doctor),
        Some(Command::Responder) => workload::responder::respond(),
        Some(Command::LoadGenerator(load)) => workload::load_generator::generate(&load),
        Some(Command::Clients(clients)) => workload::server::run_clients(&clients),
        None => {
            output::line(
                "ramie lab: no command given, so this benchmarks threads, fibers and a hybrid on \
                 this machine, in about two minutes; see ramie --help for all commands",
            )?;
            lab::lab(&arguments::Lab::default())
        }
    }
}
