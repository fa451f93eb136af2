//! What the program says: results on stdout, everything else on stderr.

use std::io::{self, Write};

use crate::failure::Failure;

/// Prints a line on stdout at once.
///
/// A reader that has gone (`| head`) ends the program without a word; a full disk is an error.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::unread(),
        _ => Failure::other(format!("cannot write to stdout: {error}; check where it leads")),
    })
}

/// Prints a sentence on stderr; if stderr is gone there is nobody left to tell.
pub(crate) fn complain(sentence: &str) {
    let _ = writeln!(io::stderr().lock(), "ramie: {sentence}");
}
