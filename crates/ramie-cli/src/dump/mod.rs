//! `ramie dump` and `ramie metrics`: ask a running process for a description of its strands, and
//! for its figures.
//!
//! Modules: [`process`] (facts about a process, and the directories in which its socket may lie),
//! [`answer`] (the request, and its answer), [`terminal`] (answers that are safe to print).

pub(crate) mod answer;
mod process;
mod terminal;

use std::{io, os::unix::net::UnixStream, time::Duration};

use ramie_driver::{sys, visible};
use serde_json::json;

pub(crate) use self::process::Process;
use self::terminal::SafeAnswer;
use crate::{
    arguments::{DumpArguments, MetricsArguments},
    failure::Failure,
    output,
};

/// The remedy for a process without a socket.
const START: &str =
    "start it with RAMIE_INSPECT=1, or build its runtime with Builder::inspect(true)";

pub(crate) fn dump(arguments: &DumpArguments) -> Result<(), Failure> {
    match arguments.pid {
        None => list(arguments.json),
        Some(pid) => {
            let form = if arguments.json { "json" } else { "text" };
            let calls = if arguments.backtraces { " backtraces" } else { "" };
            let name = arguments.name.as_ref().map(|name| format!(" name {name}"));
            let request = format!("dump {form}{calls}{}", name.unwrap_or_default());
            ask(pid, &request, arguments.json, arguments.timeout)
        }
    }
}

pub(crate) fn metrics(arguments: &MetricsArguments) -> Result<(), Failure> {
    ask(arguments.pid, "metrics", false, arguments.timeout)
}

/// Sends a request to a process, and returns its answer, of `most` bytes at most.
pub(crate) fn fetch(
    pid: u32,
    request: &str,
    limit: Duration,
    most: usize,
) -> Result<String, Failure> {
    let process = find(pid)?;
    let stream = connect(&process)?;
    answer::whole(&process, stream, request, limit, most)
}

/// The command line of a process; `None`: it has ended.
pub(crate) fn command_of(pid: u32) -> Option<String> {
    let process = Process::find(pid).filter(|process| process.state != 'Z')?;
    Some(process.command())
}

/// Sends a request to a process, and prints its answer.
pub(crate) fn ask(pid: u32, request: &str, is_json: bool, timeout_s: u32) -> Result<(), Failure> {
    let process = find(pid)?;
    let stream = connect(&process)?;
    let limit = Duration::from_secs(timeout_s.into());
    answer::print(&process, stream, request, SafeAnswer::new(is_json), limit)
}

/// Finds a process that may be dumped.
pub(crate) fn find(pid: u32) -> Result<Process, Failure> {
    let Some(process) = Process::find(pid).filter(|process| process.state != 'Z') else {
        return Err(Failure::other(format!(
            "there is no process {pid}; `ramie dump` lists the processes that can be dumped"
        )));
    };
    let user = sys::effective_user_id();
    if user != 0 && user != process.user {
        return Err(Failure::other(format!(
            "process {pid} belongs to user {}; run `ramie` as that user, or as root",
            process.user
        )));
    }
    let cure = match process.state {
        'T' => format!("is stopped, so it cannot answer; continue it with `kill -CONT {pid}`"),
        't' => "is stopped by a debugger, so it cannot answer; continue it there".to_owned(),
        _ => return Ok(process),
    };
    Err(Failure::other(format!("process {pid} {cure}")))
}

pub(crate) fn connect(process: &Process) -> Result<UnixStream, Failure> {
    let pid = process.pid;
    for directory in process.directories() {
        match process.connect_in(&directory) {
            Ok(Some(stream)) => return Ok(stream),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(Failure::other(format!(
                    "process {pid} is busy with other requests for dumps; try again"
                )));
            }
            Err(error) => {
                return Err(Failure::other(format!(
                    "cannot connect to process {pid} ({error}: a socket in {}); run `ramie dump` \
                     as user {}, or as root",
                    directory.display(),
                    process.user
                )));
            }
        }
    }
    Err(Failure::other(format!("process {pid} has no socket for dumps; {START}")))
}

/// Lists the processes of this user that can be dumped.
fn list(is_json: bool) -> Result<(), Failure> {
    let processes = process::all();
    if is_json {
        let row = |process: &Process| json!({ "pid": process.pid, "command": process.command() });
        let rows: Vec<_> = processes.iter().map(row).collect();
        return output::line(&visible::json(&json!(rows).to_string()).to_string());
    }
    if processes.is_empty() {
        output::warn(&format!("no process of this user can be dumped; {START}"));
        return Ok(());
    }
    let mut text = format!("{:>7}  COMMAND", "PID");
    for process in &processes {
        text += &format!("\n{:>7}  {}", process.pid, visible::line(&process.command()));
    }
    output::line(&text)
}
