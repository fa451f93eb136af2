//! A stream's descriptor, with its index in a ring's file table, if it has one.
//!
//! The index is released before the descriptor is closed or given away: as long as it is taken, the
//! file is open, and its peer would wait for an end of file that does not come.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use ramie_driver::FixedFile;

use crate::core::worker;

/// The descriptor of a stream.
#[derive(Debug)]
pub(crate) struct StreamFd {
    /// Before the descriptor, so that it is dropped first.
    index: OwnedIndex,
    fd: OwnedFd,
}

#[derive(Debug)]
struct OwnedIndex(FixedFile);

impl StreamFd {
    /// Wraps a descriptor that belongs to the caller and is lent for one call.
    pub(crate) fn of_lent(fd: OwnedFd) -> Self {
        StreamFd { index: OwnedIndex(FixedFile::never()), fd }
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        drop(self.index);
        self.fd
    }

    /// The names by which an op may refer to the stream.
    #[inline(always)]
    pub(crate) fn named(&self) -> FdName<'_> {
        FdName { fd: self.fd.as_raw_fd(), fixed_file: Some(&self.index.0), _borrowed: PhantomData }
    }
}

impl From<OwnedFd> for StreamFd {
    fn from(fd: OwnedFd) -> Self {
        StreamFd { index: OwnedIndex(FixedFile::default()), fd }
    }
}

impl AsFd for StreamFd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for OwnedIndex {
    #[inline]
    fn drop(&mut self) {
        if self.0.has_index() {
            release(&self.0);
        }
    }
}

/// Releases a stream's index in a ring's file table: here, or on the thread of that ring.
#[cold]
fn release(file: &FixedFile) {
    let is_here = worker::with_existing(|worker| {
        worker.io.with_idle_driver(|driver| driver.release_file(file))
    });
    if is_here.flatten() != Some(true) {
        file.release_elsewhere();
    }
}

/// The name by which an op refers to its file: a borrowed descriptor, together with the index of
/// the stream if it is a stream's; or an index alone.
#[derive(Clone, Copy)]
pub(crate) struct FdName<'a> {
    fd: RawFd,
    /// INVARIANT: belongs to the stream with this descriptor.
    fixed_file: Option<&'a FixedFile>,
    _borrowed: PhantomData<BorrowedFd<'a>>,
}

impl<'a> FdName<'a> {
    #[inline(always)]
    pub(crate) fn fixed_file(&self) -> Option<&'a FixedFile> {
        self.fixed_file
    }
}

impl<'a> From<BorrowedFd<'a>> for FdName<'a> {
    #[inline]
    fn from(fd: BorrowedFd<'a>) -> Self {
        FdName { fd: fd.as_raw_fd(), fixed_file: None, _borrowed: PhantomData }
    }
}

impl AsRawFd for FdName<'_> {
    #[inline(always)]
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

/// A file that is in the file table of this thread's ring, and has no descriptor.
#[derive(Debug)]
pub(crate) struct DirectFile(OwnedIndex);

impl DirectFile {
    /// Takes an index for the file; None where the driver has no file table.
    pub(crate) fn reserve() -> Option<Self> {
        let file = DirectFile(OwnedIndex(FixedFile::never()));
        let reserved = worker::current().io.with_driver(|driver| driver.reserve_index(&file.0.0));
        reserved.unwrap_or(false).then_some(file)
    }

    /// The index by which an op refers to the file, without a descriptor.
    pub(crate) fn named(&self) -> FdName<'_> {
        FdName { fd: -1, fixed_file: Some(&self.0.0), _borrowed: PhantomData }
    }

    /// Gives the file a descriptor.
    pub(crate) fn install(&self) -> io::Result<RawFd> {
        worker::current().io.with_driver(|driver| driver.install_file(&self.0.0))?
    }
}
