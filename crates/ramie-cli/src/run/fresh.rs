//! Runs in processes of their own: the repetitions of workloads that need a process that has run
//! no workload before, and the combinations of a sweep, so that one does not disturb the next.

use std::{
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
};

use super::csv::Csv;
use crate::{arguments::Run, child, failure::Failure, output};

/// Runs each repetition in a new process, and one more before them whose line is not printed: that
/// one pays for memory that a virtual machine does not have yet.
pub(super) fn run_each_repetition(run: &Run, csv: &mut Csv) -> Result<(), Failure> {
    let process = || command(run, 1);
    verdict(process()?.stdout(Stdio::null()).status().map_err(cannot)?)?;
    (0..run.options.repeat).try_for_each(|_| print(process()?, run, csv))
}

/// Runs all repetitions in one new process.
pub(super) fn run_all_repetitions(run: &Run, csv: &mut Csv) -> Result<(), Failure> {
    print(command(run, run.options.repeat)?, run, csv)
}

fn cannot(error: std::io::Error) -> Failure {
    Failure::other(format!("cannot start a fresh process: {error}; try again"))
}

fn command(run: &Run, repeat: u32) -> Result<Command, Failure> {
    let options = &run.options;
    let mut command = Command::new(child::own_program().map_err(cannot)?);
    command.arg("run").args(run.workload.arguments()).args(["--on", options.on.name(), "--fresh"]);
    command.args(["--repeat", &repeat.to_string()]);
    if let Some(workers) = options.workers {
        command.args(["--workers", &workers.to_string()]);
    }
    if let Some(processes) = options.processes {
        command.args(["--processes", &processes.to_string()]);
    }
    let flags = [
        ("--json", options.json),
        ("--csv", options.csv),
        ("--counters", options.counters),
        ("--sweep", options.member.sweep),
    ];
    for (flag, is_set) in flags {
        if is_set {
            command.arg(flag);
        }
    }
    Ok(command)
}

/// Runs the process and prints its lines, with the header of CSV only once.
///
/// The lines pass through this process, so that it notices when the reader of stdout is gone.
fn print(mut command: Command, run: &Run, csv: &mut Csv) -> Result<(), Failure> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut printed = Ok(());
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        // If the child fails, it may have printed no line.
        let header = if run.options.csv { lines.next() } else { None };
        printed = header.map_or(Ok(()), |header| csv.header(&header));
        printed = printed.and_then(|()| lines.try_for_each(|row| output::line(&row)));
    }
    // The pipe is closed, so a child that goes on printing ends.
    let status = child.wait().map_err(cannot)?;
    printed?;
    verdict(status)
}

fn verdict(status: ExitStatus) -> Result<(), Failure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        // The child has printed the reason on the stderr that both processes share.
        (Some(code), _) => Err(Failure::already_reported(u8::try_from(code).unwrap_or(1))),
        (None, signal) => Err(Failure::other(format!(
            "the process that ran the workload was killed by signal {}, perhaps because memory \
             ran out; ask for fewer strands",
            signal.unwrap_or_default()
        ))),
    }
}
