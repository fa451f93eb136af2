//! A request to a process, and its answer: `ok LENGTH` and as many bytes, or `error TEXT`.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use super::{process::Process, terminal::SafeAnswer};
use crate::{failure::Failure, output};

/// How long the process may take between two parts of its answer.
const PAUSE: Duration = Duration::from_secs(10);
/// The most bytes of the first line.
const MAX_LINE: u64 = 256;
/// The bytes that are read at a time.
const PART: usize = 64 * 1024;

/// Sends a request and prints the answer as it arrives, without anything that would control a
/// terminal. `limit` is the time until it begins.
pub(super) fn print(
    process: &Process,
    stream: UnixStream,
    request: &str,
    mut answer: SafeAnswer,
    limit: Duration,
) -> Result<(), Failure> {
    receive(process, &stream, request, limit, |part| output::text(&answer.add(part)))?;
    output::text(answer.end())
}

/// Sends a request and returns the whole answer, if it is not longer than `most` bytes.
pub(super) fn whole(
    process: &Process,
    stream: UnixStream,
    request: &str,
    limit: Duration,
    most: usize,
) -> Result<String, Failure> {
    let mut answer = Vec::new();
    receive(process, &stream, request, limit, |part| {
        if answer.len() + part.len() > most {
            let pid = process.pid;
            return Err(Failure::other(format!(
                "the answer of process {pid} is longer than {most} bytes; ask by `ramie dump {pid}`"
            )));
        }
        answer.extend_from_slice(part);
        Ok(())
    })?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Sends a request and hands the answer to `take`, part by part.
fn receive(
    process: &Process,
    stream: &UnixStream,
    request: &str,
    limit: Duration,
    take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut answer, head) = begin(process, stream, request, limit)?;
    let length = head.parse().map_err(|_| foreign(process, &format!("ok {head}")))?;
    copy(process, &mut answer, length, take)
}

/// Sends a request, and reads the first line of the answer. Returns the rest of the answer, and the
/// part of the line behind `ok`. `limit` is the time until the answer begins.
pub(crate) fn begin<'a>(
    process: &Process,
    stream: &'a UnixStream,
    request: &str,
    limit: Duration,
) -> Result<(BufReader<&'a UnixStream>, String), Failure> {
    let broken = |error: io::Error| cannot_read(process, limit, &error);
    stream.set_read_timeout(Some(limit)).map_err(broken)?;
    stream.set_write_timeout(Some(limit)).map_err(broken)?;
    let mut writer = stream;
    writer.write_all(format!("{request}\n").as_bytes()).map_err(broken)?;
    let mut answer = BufReader::with_capacity(PART, stream);
    let mut line = Vec::new();
    answer.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(broken)?;
    let head = head_of(process, &line)?;
    stream.set_read_timeout(Some(PAUSE)).map_err(broken)?;
    Ok((answer, head))
}

/// The part of the first line behind `ok`.
fn head_of(process: &Process, line: &[u8]) -> Result<String, Failure> {
    let pid = process.pid;
    let line = String::from_utf8_lossy(line);
    if line.is_empty() {
        return Err(Failure::other(format!(
            "process {pid} closed the connection without an answer, because it or its runtime has \
             ended; `ramie dump` lists the processes that can be dumped"
        )));
    }
    let whole = line.strip_suffix('\n');
    if let Some(why) = whole.and_then(|line| line.strip_prefix("error ")) {
        return Err(Failure::other(format!("process {pid} refuses: {why}")));
    }
    let head = whole.and_then(|line| line.strip_prefix("ok "));
    head.map(str::to_owned).ok_or_else(|| foreign(process, line.trim_end()))
}

fn foreign(process: &Process, line: &str) -> Failure {
    Failure::other(format!(
        "process {} gave an answer that is not one of Ramie (`{line}`); use the program `ramie` of \
         the version with which the process was built",
        process.pid
    ))
}

fn copy(
    process: &Process,
    answer: &mut impl Read,
    length: u64,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut part = vec![0; PART];
    let mut left = length;
    while left > 0 {
        let room = left.min(PART as u64) as usize;
        let why = match answer.read(&mut part[..room]) {
            Ok(0) => "the process has closed the connection".to_owned(),
            Ok(len) => {
                take(&part[..len])?;
                left -= len as u64;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_timeout(&error) => format!("nothing came for {} s", PAUSE.as_secs()),
            Err(error) => error.to_string(),
        };
        return Err(Failure::other(format!(
            "the answer of process {} is cut off after {} of {length} bytes ({why}); try again",
            process.pid,
            length - left
        )));
    }
    Ok(())
}

fn cannot_read(process: &Process, limit: Duration, error: &io::Error) -> Failure {
    let pid = process.pid;
    if is_timeout(error) {
        return Failure::other(format!(
            "process {pid} did not answer within {} s; it may be busy with another request: try \
             again, wait longer with --timeout, or look at it with a debugger",
            limit.as_secs()
        ));
    }
    Failure::other(format!("process {pid} closed the connection ({error}); try again"))
}

/// The kernel reports a timeout of a socket as a call that would block.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
