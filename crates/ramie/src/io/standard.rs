//! The standard streams' descriptors, which are never closed.
//!
//! What they refer to is looked at in each call: a program may redirect them, and a file on a disk
//! is read and written in another way than a pipe or a terminal. As in std, a stream that is closed
//! is empty, and takes everything.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::ManuallyDrop,
    os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
};

use ramie_driver::sys::{self, FileKind};

use super::pipe::End;
use crate::fs::File;

const EBADF: i32 = 9;

pub(super) struct Standard {
    fd: RawFd,
}

/// What a standard stream is at the moment, for one call. The descriptor is not closed.
enum Lent {
    Stream(ManuallyDrop<End>),
    File(ManuallyDrop<File>),
}

impl Drop for Lent {
    fn drop(&mut self) {
        match self {
            // It owns the descriptor and nothing else.
            Lent::Stream(_) => {}
            Lent::File(file) => {
                // SAFETY: taken once, here: `drop` runs once.
                let file = unsafe { ManuallyDrop::take(file) };
                let _still_open = file.into_raw_fd();
            }
        }
    }
}

impl Standard {
    pub(super) fn new(fd: RawFd) -> Self {
        debug_assert!((0..=2).contains(&fd), "a standard stream");
        Standard { fd }
    }

    fn borrow(&self) -> BorrowedFd<'static> {
        standard_fd(self.fd)
    }

    fn lend(&self) -> Lent {
        // SAFETY: as for `standard_fd`; and what is made of it below does not close it, so that it
        // takes nobody's ownership.
        let fd = unsafe { OwnedFd::from_raw_fd(self.fd) };
        match sys::file_kind(&fd) {
            FileKind::Stream => Lent::Stream(ManuallyDrop::new(End::adopt(fd))),
            FileKind::Local | FileKind::Remote => Lent::File(ManuallyDrop::new(File::from(fd))),
        }
    }

    #[track_caller]
    pub(super) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let result = match &self.lend() {
            Lent::Stream(end) => end.read(buf),
            Lent::File(file) => (&**file).read(buf),
        };
        closed_is(0, result)
    }

    #[track_caller]
    pub(super) fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let result = match &self.lend() {
            Lent::Stream(end) => end.read_vectored(bufs),
            Lent::File(file) => (&**file).read_vectored(bufs),
        };
        closed_is(0, result)
    }

    #[track_caller]
    pub(super) fn write(&self, buf: &[u8]) -> io::Result<usize> {
        let result = match &self.lend() {
            Lent::Stream(end) => end.write(buf),
            Lent::File(file) => (&**file).write(buf),
        };
        closed_is(buf.len(), result)
    }

    #[track_caller]
    pub(super) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = match &self.lend() {
            Lent::Stream(end) => end.write_vectored(bufs),
            Lent::File(file) => (&**file).write_vectored(bufs),
        };
        closed_is(bufs.iter().map(|buf| buf.len()).sum(), result)
    }

    /// Writes on this thread, which may block.
    pub(super) fn write_here(&self, buf: &[u8]) -> io::Result<usize> {
        closed_is(buf.len(), sys::write(self.borrow(), buf))
    }
}

fn closed_is<T>(value: T, result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error) if error.raw_os_error() == Some(EBADF) => Ok(value),
        result => result,
    }
}

/// Lends a standard stream's descriptor.
pub(super) fn standard_fd(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: as in std, a standard stream's descriptor belongs to the whole process and is taken
    // to be open always. Where it is closed, calls say `EBADF`.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Implements what a handle and its lock have alike.
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
                f.debug_struct(stringify!($ours)).finish_non_exhaustive()
            }
        }
    };
}

pub(super) use standard_descriptor;
