//! The `ramie` program: a lab that benchmarks threads, fibers and a hybrid on this machine, the
//! workloads that the lab runs, a small HTTP server, and a doctor that diagnoses the kernel.
#![forbid(unsafe_code)]

mod arguments;
mod doctor;
mod failure;
mod lab;
mod output;
mod run;
mod runtime;
mod serve;
mod signals;
mod usage_error;
mod workload;

use std::process::ExitCode;

use crate::{arguments::Command, failure::Failure};

fn main() -> ExitCode {
    ramie_workloads::install_panic_hook();
    let arguments = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage_error::report(&error),
    };
    match dispatch(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn dispatch(command: Option<Command>) -> Result<(), Failure> {
    match command {
        Some(Command::Lab(lab)) => lab::lab(&lab),
        Some(Command::Run(run)) => run::run(&run),
        Some(Command::Serve(serve)) => serve::serve(&serve),
        Some(Command::Doctor(doctor)) => doctor::doctor(&doctor),
        None => {
            output::line(
                "ramie lab: no command given, so this benchmarks threads, fibers and a hybrid on \
                 this machine, in about two minutes; see ramie --help for all commands",
            )?;
            lab::lab(&arguments::Lab::default())
        }
    }
}
