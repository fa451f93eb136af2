//! `ramie trace`: a trace of a running process, or of a file of its flight recorder, for Perfetto.
//!
//! Modules: [`ask`] (the request to a process), [`convert`] (from events to slices and flows),
//! [`tracks`] (the tracks of strands and workers), [`slices`] (what is on them), [`packets`]
//! (writing them), [`messages`] (the messages of Perfetto that are used), [`new_file`] (the file).

mod ask;
mod convert;
mod messages;
mod new_file;
mod packets;
mod slices;
#[cfg(test)]
mod tests;
mod tracks;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ramie::inspect::Trace;
use ramie_driver::visible;

use self::new_file::NewFile;
use crate::{
    arguments::{TraceArguments, TraceTarget},
    failure::Failure,
    output,
};

/// The defaults of `--seconds` and `--timeout`.
const SECONDS: u32 = 5;
const TIMEOUT_S: u32 = 15;
/// Where traces can be looked at.
const VIEWER: &str = "https://ui.perfetto.dev";

pub(crate) fn trace(arguments: &TraceArguments) -> Result<(), Failure> {
    refuse_options_for_a_process(arguments)?;
    let output = output_of(arguments);
    refuse_source(arguments, &output)?;
    // Before the process is asked, so that no trace is lost.
    let file = NewFile::create(&output)?;
    let bytes = match &arguments.target {
        TraceTarget::Process(pid) => {
            let seconds = arguments.seconds.unwrap_or(SECONDS);
            ask::ask(*pid, seconds, arguments.timeout.unwrap_or(TIMEOUT_S))
        }
        TraceTarget::File(path) => read(path),
    }?;
    let trace = parse(&bytes, arguments)?;
    drop(bytes);
    file.write(|sink| convert::convert(&trace, sink))?;
    report(&trace, arguments, &output)
}

fn output_of(arguments: &TraceArguments) -> PathBuf {
    match (&arguments.output, &arguments.target) {
        (Some(output), _) => output.clone(),
        (None, TraceTarget::Process(pid)) => PathBuf::from(format!("ramie-{pid}.pftrace")),
        (None, TraceTarget::File(path)) => path.with_extension("pftrace"),
    }
}

/// Refuses options that would be ignored, because a file is converted whole.
fn refuse_options_for_a_process(arguments: &TraceArguments) -> Result<(), Failure> {
    let TraceTarget::File(path) = &arguments.target else { return Ok(()) };
    let given = [("--seconds", arguments.seconds), ("--timeout", arguments.timeout)];
    match given.iter().find(|(_, value)| value.is_some()) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::usage(format!(
            "{option} is for a process, and `{}` is a file, which is converted whole; omit \
             {option}, or give the id of a process",
            path.display()
        ))),
    }
}

/// Refuses to write to the file that is read.
fn refuse_source(arguments: &TraceArguments, output: &Path) -> Result<(), Failure> {
    let TraceTarget::File(source) = &arguments.target else { return Ok(()) };
    match (fs::canonicalize(source), fs::canonicalize(output)) {
        (Ok(source), Ok(output)) if source == output => Err(Failure::other(format!(
            "{} would be replaced by its conversion; choose another file with --output",
            source.display()
        ))),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => {
                "; expected the id of a process, or a file that its flight \
                                        recorder has written"
            }
            _ => "",
        };
        Failure::other(format!("cannot read {}: {error}{hint}", path.display()))
    })
}

fn parse(bytes: &[u8], arguments: &TraceArguments) -> Result<Trace, Failure> {
    Trace::read(bytes).map_err(|error| {
        let source = match &arguments.target {
            TraceTarget::Process(pid) => format!("process {pid}"),
            TraceTarget::File(path) => path.display().to_string(),
        };
        Failure::other(format!("{source}: {error}"))
    })
}

fn report(trace: &Trace, arguments: &TraceArguments, path: &Path) -> Result<(), Failure> {
    let overwritten: u64 = trace.workers.iter().map(|worker| worker.overwritten).sum();
    // A flight recorder keeps the last events only.
    if overwritten > 0 && matches!(arguments.target, TraceTarget::Process(_)) {
        output::warn(&format!(
            "{overwritten} events are missing, because they were overwritten before they were read"
        ));
    }
    if trace.events.is_empty() && matches!(arguments.target, TraceTarget::Process(_)) {
        output::warn(
            "no worker recorded an event: all slept, or ran fibers that did not wait; `ramie dump` \
             names the workers that do not answer",
        );
    }
    if !trace.is_complete {
        output::warn("the trace is cut off, because the process or the connection has ended");
    }
    if trace.is_full {
        output::warn("the trace ends early, because it has reached its largest size");
    }
    if trace.workers_left_out > 0 {
        let count = trace.workers_left_out;
        output::warn(&format!("{count} threads were not recorded for lack of memory"));
    }
    output::line(&format!(
        "{}: {}, {}, {}; open it in {VIEWER}",
        visible::line(&path.display().to_string()),
        counted(trace.events.len(), "event"),
        counted(trace.strands.len(), "strand"),
        counted(trace.workers.len(), "thread")
    ))
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
