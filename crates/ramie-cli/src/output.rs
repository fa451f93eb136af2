//! Output: results go to stdout, everything else to stderr.

use std::io::{self, Write};

use ramie_driver::visible;

use crate::failure::Failure;

/// Prints a line on stdout and flushes it.
///
/// If the reader has closed the pipe (`| head`), the failure is silent. A full disk is an error.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| cannot_write(&error))
}

/// Prints a part of a result on stdout and flushes it; fails as [`line`] does.
pub(crate) fn text(part: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(part.as_bytes()).and_then(|()| out.flush()).map_err(|error| cannot_write(&error))
}

fn cannot_write(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::broken_pipe(),
        _ => Failure::other(format!("cannot write to stdout: {error}; check its target")),
    }
}

/// Prints a sentence on stderr, by one write, because other processes may write to the same file.
/// If stderr is closed, the sentence is lost. It may quote another process, or a path.
pub(crate) fn warn(sentence: &str) {
    let line = format!("ramie: {}\n", visible::line(sentence));
    let _ = io::stderr().lock().write_all(line.as_bytes());
}
