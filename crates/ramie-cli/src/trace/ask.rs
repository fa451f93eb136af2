//! The request for a trace to a running process.

use std::{
    io::{self, Read},
    time::Duration,
};

use crate::{
    dump::{answer, connect, find},
    failure::Failure,
};

/// The most bytes of a trace; a process sends less.
const MOST_BYTES: u64 = 1 << 30;

/// Lets a process record for some seconds, and returns its trace, or the part of it that has come.
/// `timeout_s` is the time until it begins.
pub(super) fn ask(pid: u32, seconds: u32, timeout_s: u32) -> Result<Vec<u8>, Failure> {
    let process = find(pid)?;
    let stream = connect(&process)?;
    let limit = Duration::from_secs(timeout_s.into());
    let (body, head) = answer::begin(&process, &stream, &format!("trace {seconds}"), limit)?;
    if head != "trace" {
        return Err(Failure::other(format!(
            "process {pid} answered `ok {head}` instead of a trace; use the program `ramie` of the \
             version with which the process was built"
        )));
    }
    let mut bytes = Vec::new();
    match body.take(MOST_BYTES).read_to_end(&mut bytes) {
        // A process that has ended may reset the connection.
        Err(error) if bytes.is_empty() || error.kind() == io::ErrorKind::OutOfMemory => {
            Err(Failure::other(format!("process {pid} sent no trace ({error}); try again")))
        }
        Ok(0) => Err(Failure::other(format!("process {pid} sent no trace; try again"))),
        Ok(_) | Err(_) => Ok(bytes),
    }
}
