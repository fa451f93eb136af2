//! Reads and writes of files that do not wait, and the flags of opening one.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsFd;

use rustix::io::ReadWriteFlags;

/// `AT_FDCWD`: paths start at the working directory.
pub const WORKING_DIRECTORY: i32 = -100;
/// `O_RDONLY`.
pub const O_RDONLY: i32 = 0;
/// `O_WRONLY`.
pub const O_WRONLY: i32 = 1;
/// `O_RDWR`.
pub const O_RDWR: i32 = 2;
/// `O_APPEND`: every write goes to the end.
pub const O_APPEND: i32 = 0x400;
/// `O_CLOEXEC`: closed on exec.
pub const O_CLOEXEC: i32 = 0x8_0000;

/// Reads what is in the page cache, or in a pipe, without waiting; `offset` is a position or
/// [`CURRENT_POSITION`](crate::CURRENT_POSITION).
///
/// # Errors
/// `EAGAIN`: it would wait. `EOPNOTSUPP`: the file does not know. Else those of preadv2(2).
pub fn read_now(fd: impl AsFd, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::preadv2(fd, bufs, offset, ReadWriteFlags::NOWAIT)?)
}

/// Writes what can be written without waiting; else as [`read_now`].
///
/// # Errors
/// As [`read_now`].
pub fn write_now(fd: impl AsFd, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pwritev2(fd, bufs, offset, ReadWriteFlags::NOWAIT)?)
}
