//! Reads and writes of a file, at a given position or at the current one.
//!
//! A file on a disk has positions and no readiness: cached bytes are copied at once, in parts of
//! [`PART`] bytes with other fibers in between, and other bytes are read through the ring or on the
//! pool. A stream (a pipe, a terminal) has readiness and no positions, so the driver waits for its
//! readiness.
//!
//! # The current position
//! A ring reads the current position and later moves it by the number of bytes transferred, without
//! the lock that read(2) holds in between ([`ring::data`](crate::ring)). So calls that use the
//! position of one file take a lock of Ramie ([`SharedFileState::position`]). Handles on the same
//! open file that were not made by [`try_clone`](super::File::try_clone) (those of another process,
//! or a descriptor duplicated elsewhere) do not take it, because Ramie does not know them. Streams
//! need no lock, because they have no position; with one, a reader that waits would keep a writer
//! waiting.

use std::{
    fs,
    io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write},
    os::{fd::AsFd, unix::fs::FileExt},
    sync::Arc,
};

use ramie_driver::{
    CURRENT_POSITION,
    sys::{self, FileKind},
};

use crate::{
    core::{
        cancel,
        primitive::{AtomicBool, AtomicU32, Ordering},
        wait::park::WaitKind,
    },
    fiber,
    op::{
        blocking_io,
        route::{Route, route, uninterrupted},
    },
    ring::data::{
        MAX_BUFFERS, read_at_position, read_op, read_vectored_op, write_at_position,
        write_buffered_at_position, write_op, write_vectored_op,
    },
    sync::{Mutex, MutexGuard},
};

static READ: WaitKind = WaitKind::of_op("data from a file");
static WRITE: WaitKind = WaitKind::of_op("data to be written to a file");

/// The most bytes that are copied before other fibers may run: about 6 us.
pub(super) const PART: usize = 64 * 1024;

const KIND_UNKNOWN: u32 = 0;
const KIND_LOCAL: u32 = 1;
const KIND_REMOTE: u32 = 2;
const KIND_STREAM: u32 = 3;

const CACHING_UNKNOWN: u32 = 0;
const BUFFERED: u32 = 1;
const DIRECT: u32 = 2;

/// The state that duplicates of a file share.
#[derive(Default)]
struct SharedFileState {
    kind: AtomicU32,
    /// Whether the page cache takes written bytes.
    caching: AtomicU32,
    /// Whether the file system has refused a write that must not wait (as ext4 does), so that no
    /// further one is tried.
    never_writes_now: AtomicBool,
    /// Held during each call that uses the current position.
    position: Mutex<()>,
}

/// The outcome of one part of a read.
enum ReadPart {
    /// This number of bytes was read without waiting; more may be read by waiting.
    AtOnce(usize),
    /// This number of bytes, as from read(2): fewer than requested means the end of the file.
    Whole(usize),
}

/// An open file and the state that its duplicates share.
pub(super) struct Transfer {
    pub(super) file: fs::File,
    shared: Arc<SharedFileState>,
}

impl From<fs::File> for Transfer {
    fn from(file: fs::File) -> Self {
        Transfer { file, shared: Arc::default() }
    }
}

impl Transfer {
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Transfer { file: self.file.try_clone()?, shared: Arc::clone(&self.shared) })
    }

    /// Returns the kind of the file. The kernel is asked once, because the file of a descriptor
    /// does not change.
    pub(super) fn kind(&self) -> FileKind {
        match self.shared.kind.load(Ordering::Relaxed) {
            KIND_LOCAL => FileKind::Local,
            KIND_REMOTE => FileKind::Remote,
            KIND_STREAM => FileKind::Stream,
            _ => self.find_kind(),
        }
    }

    #[cold]
    fn find_kind(&self) -> FileKind {
        let kind = sys::file_kind(&self.file);
        let code = match kind {
            FileKind::Local => KIND_LOCAL,
            FileKind::Remote => KIND_REMOTE,
            FileKind::Stream => KIND_STREAM,
        };
        debug_assert_ne!(code, KIND_UNKNOWN);
        self.shared.kind.store(code, Ordering::Relaxed);
        kind
    }

    fn is_stream(&self) -> bool {
        self.kind() == FileKind::Stream
    }

    /// Whether the calling thread makes the call and blocks in it. A thread in a scope that can be
    /// cancelled does not block in a call on a stream, because its data may never come.
    pub(super) fn is_made_here(&self, route: Route) -> bool {
        let can_be_ended = || cancel::may_be_cancelled() && !std::thread::panicking();
        route == Route::Here && !(can_be_ended() && self.is_stream())
    }

    #[track_caller]
    fn lock_position(&self) -> MutexGuard<'_, ()> {
        self.shared.position.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    #[track_caller]
    pub(super) fn seek(&self, to: SeekFrom) -> io::Result<u64> {
        let on_fiber = route() != Route::Here;
        let _position = (on_fiber && !self.is_stream()).then(|| self.lock_position());
        (&self.file).seek(to)
    }

    #[track_caller]
    pub(super) fn read(&self, buf: &mut [u8], at: Option<u64>) -> io::Result<usize> {
        cancel::check_io()?;
        let route = place_of(at, route());
        if self.is_made_here(route) {
            return uninterrupted(|| self.read_here(buf, at));
        }
        if self.is_stream() {
            return match at {
                None => match self.read_stream(&mut [IoSliceMut::new(buf)]) {
                    Ok(0) if buf.is_empty() => self.read_nothing(None),
                    result => result,
                },
                Some(_) => blocking_io(|| uninterrupted(|| self.read_here(buf, at))),
            };
        }
        let _position = at.is_none().then(|| self.lock_position());
        let mut done = 0;
        loop {
            let rest = buf.len() - done;
            let part = &mut buf[done..done + rest.min(PART)];
            let is_last = part.len() == rest;
            match self.read_part(route, part, at.map(|at| at + done as u64)) {
                Ok(ReadPart::AtOnce(0) | ReadPart::Whole(0)) if part.is_empty() => {
                    return self.read_nothing(at);
                }
                Ok(ReadPart::AtOnce(0)) => return Ok(done),
                // Fewer bytes than requested may mean the end, or that further bytes are not
                // cached, so the loop tries again.
                Ok(ReadPart::AtOnce(count)) => done += count,
                Ok(ReadPart::Whole(count)) if count < part.len() || is_last => {
                    return Ok(done + count);
                }
                Ok(ReadPart::Whole(count)) => done += count,
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
            fiber::yield_now();
            if done == buf.len() {
                return Ok(done);
            }
        }
    }

    fn read_here(&self, buf: &mut [u8], at: Option<u64>) -> io::Result<usize> {
        match at {
            None => (&self.file).read(buf),
            Some(at) => self.file.read_at(buf, at),
        }
    }

    /// Makes a read of 0 bytes by read(2), as std does, because read(2) of a directory is an error,
    /// whereas a vectored call for 0 bytes succeeds without asking the file. The same applies to
    /// write(2) to a full device.
    #[cold]
    #[track_caller]
    fn read_nothing(&self, at: Option<u64>) -> io::Result<usize> {
        blocking_io(|| uninterrupted(|| self.read_here(&mut [], at)))
    }

    /// Makes a write of 0 bytes by write(2); see [`read_nothing`](Self::read_nothing).
    #[cold]
    #[track_caller]
    fn write_nothing(&self) -> io::Result<usize> {
        blocking_io(|| uninterrupted(|| self.write_here(&[], None)))
    }

    /// Reads at most [`PART`] bytes of a file on a disk: at once, or by waiting for them.
    #[track_caller]
    fn read_part(&self, route: Route, buf: &mut [u8], at: Option<u64>) -> io::Result<ReadPart> {
        let offset = at.unwrap_or(CURRENT_POSITION);
        match sys::read_now(&self.file, &mut [IoSliceMut::new(buf)], offset) {
            Err(error) if would_wait(&error) => {}
            result => return result.map(ReadPart::AtOnce),
        }
        if route == Route::WithoutRing {
            return blocking_io(|| uninterrupted(|| self.read_here(buf, at))).map(ReadPart::Whole);
        }
        let fd = self.file.as_fd();
        read_at_position(fd, offset, |at| read_op(&READ, fd.into(), buf, at)).map(ReadPart::Whole)
    }

    #[track_caller]
    pub(super) fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        cancel::check_io()?;
        let route = route();
        if self.is_made_here(route) {
            return uninterrupted(|| (&self.file).read_vectored(bufs));
        }
        let count = bufs.len().min(MAX_BUFFERS);
        let bufs = &mut bufs[..count];
        if self.is_stream() {
            return self.read_stream(bufs);
        }
        let _position = self.lock_position();
        let total = bufs.iter().map(|buf| buf.len()).sum::<usize>();
        if total > PART {
            return self.wait_vectored(route, bufs, true);
        }
        let first = match sys::read_now(&self.file, bufs, CURRENT_POSITION) {
            Err(error) if would_wait(&error) => return self.wait_vectored(route, bufs, false),
            result => result?,
        };
        fiber::yield_now();
        if first == 0 || first == total {
            return Ok(first);
        }
        // The file may end here, or further bytes are not cached. `rest` is a copy of the slices,
        // because advancing them changes them, and the caller's must stay as they are.
        let mut rest: Vec<_> = bufs.iter_mut().map(|buf| IoSliceMut::new(buf)).collect();
        let mut rest = &mut rest[..];
        IoSliceMut::advance_slices(&mut rest, first);
        let more = match sys::read_now(&self.file, rest, CURRENT_POSITION) {
            Err(error) if would_wait(&error) => self.wait_vectored(route, rest, false),
            result => result,
        };
        Ok(first + more.unwrap_or(0))
    }

    /// Reads into vectors bytes that are not cached, or more than [`PART`] bytes.
    #[track_caller]
    fn wait_vectored(
        &self,
        route: Route,
        bufs: &mut [IoSliceMut<'_>],
        is_large: bool,
    ) -> io::Result<usize> {
        if route == Route::WithoutRing {
            return blocking_io(|| uninterrupted(|| (&self.file).read_vectored(bufs)));
        }
        let fd = self.file.as_fd();
        let read = |at| read_vectored_op(&READ, fd, bufs, at, is_large);
        read_at_position(fd, CURRENT_POSITION, read)
    }

    /// Reads from a file without positions, once there is something to read.
    #[track_caller]
    fn read_stream(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match sys::read_now(&self.file, bufs, CURRENT_POSITION) {
            Err(error) if would_wait(&error) => {}
            result => {
                fiber::yield_now();
                return result;
            }
        }
        if sys::is_nonblocking(&self.file)? {
            return uninterrupted(|| (&self.file).read_vectored(bufs));
        }
        // The polling driver supports this op, too: it waits for readiness.
        read_vectored_op(&READ, self.file.as_fd(), bufs, CURRENT_POSITION, false)
    }

    #[track_caller]
    pub(super) fn write(&self, buf: &[u8], at: Option<u64>) -> io::Result<usize> {
        cancel::check_io()?;
        let route = place_of(at, route());
        if self.is_made_here(route) {
            return uninterrupted(|| self.write_here(buf, at));
        }
        if self.is_stream() {
            return match at {
                None => match self.write_stream(&[IoSlice::new(buf)]) {
                    Ok(0) if buf.is_empty() => self.write_nothing(),
                    result => result,
                },
                Some(_) => blocking_io(|| uninterrupted(|| self.write_here(buf, at))),
            };
        }
        let offset = at.unwrap_or(CURRENT_POSITION);
        let _position = self.lock_to_write(route, at);
        if let Some(result) = self.write_at_once(&[IoSlice::new(buf)], offset) {
            return result;
        }
        if route == Route::WithoutRing {
            return blocking_io(|| uninterrupted(|| self.write_here(buf, at)));
        }
        let fd = self.file.as_fd();
        self.write_by_ring(offset, buf.len(), |at| {
            if buf.len() > PART {
                return write_vectored_op(&WRITE, fd, &[IoSlice::new(buf)], at, true);
            }
            write_op(&WRITE, fd.into(), buf, at)
        })
    }

    fn write_here(&self, buf: &[u8], at: Option<u64>) -> io::Result<usize> {
        match at {
            None => (&self.file).write(buf),
            Some(at) => self.file.write_at(buf, at),
        }
    }

    /// The kernel lets only one thread write to a file at a time. On the pool the other writers
    /// would occupy threads while they wait, so they wait here.
    #[track_caller]
    fn lock_to_write(&self, route: Route, at: Option<u64>) -> Option<MutexGuard<'_, ()>> {
        (at.is_none() || route == Route::WithoutRing).then(|| self.lock_position())
    }

    /// Writes without waiting, if the amount and the file system allow it.
    fn write_at_once(&self, bufs: &[IoSlice<'_>], offset: u64) -> Option<io::Result<usize>> {
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        if len > PART || self.shared.never_writes_now.load(Ordering::Relaxed) {
            return None;
        }
        match sys::write_now(&self.file, bufs, offset) {
            Err(error) if would_wait(&error) => {
                let never = error.raw_os_error() != Some(libc::EAGAIN);
                self.shared.never_writes_now.fetch_or(never, Ordering::Relaxed);
                None
            }
            result => {
                fiber::yield_now();
                Some(result)
            }
        }
    }

    #[track_caller]
    pub(super) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        cancel::check_io()?;
        let route = route();
        if self.is_made_here(route) {
            return uninterrupted(|| (&self.file).write_vectored(bufs));
        }
        let bufs = &bufs[..bufs.len().min(MAX_BUFFERS)];
        if self.is_stream() {
            return self.write_stream(bufs);
        }
        let _position = self.lock_position();
        if let Some(result) = self.write_at_once(bufs, CURRENT_POSITION) {
            return result;
        }
        if route == Route::WithoutRing {
            return blocking_io(|| uninterrupted(|| (&self.file).write_vectored(bufs)));
        }
        let (fd, len) = (self.file.as_fd(), bufs.iter().map(|buf| buf.len()).sum::<usize>());
        let write = |at| write_vectored_op(&WRITE, fd, bufs, at, len > PART);
        self.write_by_ring(CURRENT_POSITION, len, write)
    }

    /// Makes a write of `len` bytes through the ring, and moves the position if the write is at the
    /// current position.
    #[track_caller]
    fn write_by_ring(
        &self,
        offset: u64,
        len: usize,
        write: impl FnOnce(u64) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match offset {
            CURRENT_POSITION if self.is_buffered() => {
                write_buffered_at_position(self.file.as_fd(), len, write)
            }
            _ => write_at_position(self.file.as_fd(), offset, len, write),
        }
    }

    /// Whether writes go to the page cache. The kernel is asked once, because `O_DIRECT` is
    /// normally set when the file is opened.
    fn is_buffered(&self) -> bool {
        match self.shared.caching.load(Ordering::Relaxed) {
            CACHING_UNKNOWN => {
                let flags = sys::status_flags(&self.file);
                let is_buffered = flags.is_ok_and(|flags| !flags.contains(sys::OFlags::DIRECT));
                let caching = if is_buffered { BUFFERED } else { DIRECT };
                self.shared.caching.store(caching, Ordering::Relaxed);
                is_buffered
            }
            caching => caching == BUFFERED,
        }
    }

    /// Writes to a file without positions, once there is room.
    #[track_caller]
    fn write_stream(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if sys::is_nonblocking(&self.file)? {
            return uninterrupted(|| (&self.file).write_vectored(bufs));
        }
        write_vectored_op(&WRITE, self.file.as_fd(), bufs, CURRENT_POSITION, false)
    }
}

/// Chooses the route. A call with an invalid position goes to the kernel directly, which refuses
/// the call, because an op with the position `u64::MAX` would mean the current one.
fn place_of(at: Option<u64>, route: Route) -> Route {
    if at.is_some_and(|at| at > i64::MAX as u64) { Route::Here } else { route }
}

/// Whether a call that must not wait failed because it would wait, or because the file does not
/// support such calls.
fn would_wait(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOSYS | libc::EOPNOTSUPP))
}
