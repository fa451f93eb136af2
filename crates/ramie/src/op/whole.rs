//! Calls that move a whole buffer: as std's, but the error of a cancelled call holds the number of
//! bytes that were moved.

use std::io::{self, ErrorKind};

use crate::core::cancel;

/// Passes over an interruption; otherwise returns the error, with the number of bytes moved.
#[cold]
pub(crate) fn check(error: io::Error, done: usize) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        _ => Err(cancel::after(error, done, &[])),
    }
}

#[cold]
pub(crate) fn not_all_written() -> io::Error {
    io::Error::new(ErrorKind::WriteZero, "failed to write whole buffer")
}

#[cold]
pub(crate) fn not_all_read() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "failed to fill whole buffer")
}

/// The body of `read_exact`. A macro, because a closure that reads would be the caller of its own
/// call, and dumps would name this file instead of the line of the program.
macro_rules! read_exact_by {
    ($buf:expr, |$rest:ident| $read:expr) => {
        'whole: {
            let mut done = 0;
            while done < $buf.len() {
                let $rest = &mut $buf[done..];
                match $read {
                    Ok(0) => break 'whole Err($crate::op::whole::not_all_read()),
                    Ok(count) => done += count,
                    Err(error) => {
                        if let Err(error) = $crate::op::whole::check(error, done) {
                            break 'whole Err(error);
                        }
                    }
                }
            }
            Ok(())
        }
    };
}

/// The body of `write_all`; a macro for the same reason.
macro_rules! write_all_by {
    ($buf:expr, |$rest:ident| $write:expr) => {
        'whole: {
            let mut done = 0;
            while done < $buf.len() {
                let $rest = &$buf[done..];
                match $write {
                    Ok(0) => break 'whole Err($crate::op::whole::not_all_written()),
                    Ok(count) => done += count,
                    Err(error) => {
                        if let Err(error) = $crate::op::whole::check(error, done) {
                            break 'whole Err(error);
                        }
                    }
                }
            }
            Ok(())
        }
    };
}

/// The method of an `impl Read`.
macro_rules! counted_read_exact {
    () => {
        #[track_caller]
        #[inline]
        fn read_exact(&mut self, buf: &mut [u8]) -> std::io::Result<()> {
            $crate::op::whole::read_exact_by!(buf, |rest| self.read(rest))
        }
    };
}

/// The method of an `impl Write`.
macro_rules! counted_write_all {
    () => {
        #[track_caller]
        #[inline]
        fn write_all(&mut self, buf: &[u8]) -> std::io::Result<()> {
            $crate::op::whole::write_all_by!(buf, |rest| self.write(rest))
        }
    };
}

pub(crate) use {counted_read_exact, counted_write_all, read_exact_by, write_all_by};
