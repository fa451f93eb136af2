//! Calls that move a whole buffer: as std's, but the error of a cancelled call holds the number of
//! bytes that were moved.

use std::io::{self, ErrorKind};

use crate::core::cancel;

/// `Write::write_all` by `write`.
#[track_caller]
#[inline]
pub(crate) fn write_all(
    buf: &[u8],
    mut write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match write(&buf[done..]) {
            Ok(0) => return Err(io::Error::new(ErrorKind::WriteZero, NOT_ALL_WRITTEN)),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(cancel::after(error, done, &[])),
        }
    }
    Ok(())
}

/// `Read::read_exact` by `read`.
#[track_caller]
#[inline]
pub(crate) fn read_exact(
    buf: &mut [u8],
    mut read: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match read(&mut buf[done..]) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, NOT_ALL_READ)),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(cancel::after(error, done, &[])),
        }
    }
    Ok(())
}

const NOT_ALL_WRITTEN: &str = "failed to write whole buffer";
const NOT_ALL_READ: &str = "failed to fill whole buffer";

/// The method of an `impl Read`.
macro_rules! counted_read_exact {
    () => {
        #[track_caller]
        #[inline]
        fn read_exact(&mut self, buf: &mut [u8]) -> std::io::Result<()> {
            $crate::op::whole::read_exact(buf, |rest| self.read(rest))
        }
    };
}

/// The method of an `impl Write`.
macro_rules! counted_write_all {
    () => {
        #[track_caller]
        #[inline]
        fn write_all(&mut self, buf: &[u8]) -> std::io::Result<()> {
            $crate::op::whole::write_all(buf, |rest| self.write(rest))
        }
    };
}

pub(crate) use {counted_read_exact, counted_write_all};
