//! A stream's descriptor, with its place in a ring's table of files, if it has one.
//!
//! The place is given back before the descriptor is closed or given away: as long as it is taken,
//! the file is open, and its peer would wait for an end that does not come.

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
    place: Place,
    fd: OwnedFd,
}

#[derive(Debug)]
struct Place(FixedFile);

impl StreamFd {
    /// Takes on a descriptor that is the caller's for the length of a call only.
    pub(crate) fn of_lent(fd: OwnedFd) -> Self {
        StreamFd { place: Place(FixedFile::never()), fd }
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        drop(self.place);
        self.fd
    }

    /// What an op may call the stream by.
    #[inline(always)]
    pub(crate) fn named(&self) -> FdName<'_> {
        FdName { fd: self.fd.as_raw_fd(), place: Some(&self.place.0), _borrowed: PhantomData }
    }
}

impl From<OwnedFd> for StreamFd {
    fn from(fd: OwnedFd) -> Self {
        StreamFd { place: Place(FixedFile::default()), fd }
    }
}

impl AsFd for StreamFd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Place {
    #[inline]
    fn drop(&mut self) {
        if self.0.has_place() {
            release(&self.0);
        }
    }
}

/// Gives a stream's place in a ring's table back: here, or where that ring is.
#[cold]
fn release(file: &FixedFile) {
    let is_here =
        worker::with_existing(|worker| worker.with_idle_driver(|driver| driver.release_file(file)));
    if is_here.flatten() != Some(true) {
        file.release_elsewhere();
    }
}

/// What an op calls its file by: a borrowed descriptor, and the place of the stream it belongs to,
/// if it is one. Or a place alone.
#[derive(Clone, Copy)]
pub(crate) struct FdName<'a> {
    fd: RawFd,
    /// INVARIANT: that of the stream with this descriptor.
    place: Option<&'a FixedFile>,
    _borrowed: PhantomData<BorrowedFd<'a>>,
}

impl<'a> FdName<'a> {
    #[inline(always)]
    pub(crate) fn place(&self) -> Option<&'a FixedFile> {
        self.place
    }
}

impl<'a> From<BorrowedFd<'a>> for FdName<'a> {
    #[inline]
    fn from(fd: BorrowedFd<'a>) -> Self {
        FdName { fd: fd.as_raw_fd(), place: None, _borrowed: PhantomData }
    }
}

impl AsRawFd for FdName<'_> {
    #[inline(always)]
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

/// A file that lies in the table of this thread's ring, and has no descriptor.
#[derive(Debug)]
pub(crate) struct DirectFile(Place);

impl DirectFile {
    /// Takes an empty place for it; none where there are no such files.
    pub(crate) fn reserve() -> Option<Self> {
        let file = DirectFile(Place(FixedFile::never()));
        let reserved = worker::current().with_driver(|driver| driver.reserve_place(&file.0.0));
        reserved.unwrap_or(false).then_some(file)
    }

    /// What an op may call it by; the descriptor is none.
    pub(crate) fn named(&self) -> FdName<'_> {
        FdName { fd: -1, place: Some(&self.0.0), _borrowed: PhantomData }
    }

    /// Gives it a descriptor of its own.
    pub(crate) fn install(&self) -> io::Result<RawFd> {
        worker::current().with_driver(|driver| driver.install_file(&self.0.0))?
    }
}
