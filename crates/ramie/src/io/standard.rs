//! The standard streams' descriptors, which are never closed.
//!
//! Each call checks the kind of the file, because a program may redirect a stream, and a file on a
//! disk is read and written in another way than a pipe or a terminal. As in std, reads of a closed
//! stream return the end, and writes to it succeed.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::ManuallyDrop,
    os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use ramie_driver::sys::{self, FileKind};

use super::pipe::PipeEnd;
use crate::fs::File;

/// A standard stream. It is kept forever, and its resources are never released.
pub(super) struct Standard {
    fd: RawFd,
    /// Used if the stream is a file. All users share it, so that their calls follow one another. It
    /// is not dropped, because that would close the stream.
    file: ManuallyDrop<File>,
}

/// The current file of a standard stream, for one call. A [`PipeEnd`] owns only its descriptor, so
/// nothing leaks if it is not dropped.
enum CurrentFile<'a> {
    Stream(ManuallyDrop<PipeEnd>),
    File(&'a File),
}

impl Standard {
    pub(super) fn new(fd: RawFd) -> Self {
        debug_assert!((0..=2).contains(&fd), "a standard stream");
        Standard { fd, file: ManuallyDrop::new(File::from(lend(fd))) }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd
    }

    fn look(&self) -> CurrentFile<'_> {
        match sys::file_kind(standard_fd(self.fd)) {
            FileKind::Stream => {
                CurrentFile::Stream(ManuallyDrop::new(PipeEnd::of_lent(lend(self.fd))))
            }
            FileKind::Local | FileKind::Remote => CurrentFile::File(&self.file),
        }
    }

    #[track_caller]
    pub(super) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let result = match self.look() {
            CurrentFile::Stream(end) => end.read(buf),
            CurrentFile::File(mut file) => file.read(buf),
        };
        closed_is(0, result)
    }

    #[track_caller]
    pub(super) fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let result = match self.look() {
            CurrentFile::Stream(end) => end.read_vectored(bufs),
            CurrentFile::File(mut file) => file.read_vectored(bufs),
        };
        closed_is(0, result)
    }

    #[track_caller]
    pub(super) fn write(&self, buf: &[u8]) -> io::Result<usize> {
        let result = match self.look() {
            CurrentFile::Stream(end) => end.write(buf),
            CurrentFile::File(mut file) => file.write(buf),
        };
        closed_is(buf.len(), result)
    }

    #[track_caller]
    pub(super) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = match self.look() {
            CurrentFile::Stream(end) => end.write_vectored(bufs),
            CurrentFile::File(mut file) => file.write_vectored(bufs),
        };
        closed_is(bufs.iter().map(|buf| buf.len()).sum(), result)
    }
}

/// Writes on this thread, which may block.
pub(super) fn write_here(fd: RawFd, buf: &[u8]) -> io::Result<usize> {
    closed_is(buf.len(), sys::write(standard_fd(fd), buf))
}

/// Lends a standard stream's descriptor to a value that is never dropped.
fn lend(fd: RawFd) -> OwnedFd {
    // SAFETY: as for `standard_fd`; both callers wrap the result in `ManuallyDrop`, so the
    // descriptor is never closed.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn closed_is<T>(value: T, result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(value),
        result => result,
    }
}

/// Lends a standard stream's descriptor.
pub(super) fn standard_fd(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: as in std, a standard stream's descriptor belongs to the whole process and is taken
    // to be open always. If it is closed, calls fail with `EBADF`.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Implements the parts that a handle and its lock share.
macro_rules! standard_descriptor {
    ($number:literal, $handle:ty, $lock:ty) => {
        $crate::io::standard::standard_descriptor!(@one $number, $handle);
        $crate::io::standard::standard_descriptor!(@one $number, $lock);
    };
    (@one $number:literal, $ours:ty) => {
        impl AsFd for $ours {
            fn as_fd(&self) -> BorrowedFd<'_> {
                $crate::io::standard::standard_fd($number)
            }
        }

        impl AsRawFd for $ours {
            fn as_raw_fd(&self) -> RawFd {
                $number
            }
        }

        impl fmt::Debug for $ours {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = stringify!($ours).split([' ', '<']).next().unwrap_or_default();
                f.debug_struct(name).finish_non_exhaustive()
            }
        }
    };
}

pub(super) use standard_descriptor;
