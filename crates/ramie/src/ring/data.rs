//! Reads and writes: at a position or at the current one, of one buffer or of several.
//!
//! # The current position
//! A ring's op at the current position (offset -1) does not advance the position in two cases (seen
//! on Linux 6.18). First, if the kernel writes part of the bytes and then fails, because the disk
//! is full or the file has reached its size limit; the result is then the length of that part.
//! Second, if the device transfers the bytes directly (`O_DIRECT`) in the background. The next
//! write would overwrite these bytes. So the op takes place at an explicit offset, and afterwards
//! the position is moved by its result ([`read_at_position`], [`write_at_position`]). In append
//! mode the kernel chooses the offset of a write, and only the position is corrected. Streams have
//! no position, which the failure of lseek(2) shows.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use ramie_driver::{
    CURRENT_POSITION, IoVec, Op, OpFrame,
    sys::{self, Errno, FileKind, OFlags},
};

use super::leftover;
use crate::{
    core::{cancel, wait::park::WaitKind},
    op::{
        self, blocking_io,
        fixed_file::FdName,
        route::{Route, route},
    },
};

static READ: WaitKind = WaitKind::of_op("data to be read");
static WRITE: WaitKind = WaitKind::of_op("data to be written");

/// The most bytes that one call moves, which is also the limit of Linux.
const MAX_BYTES: usize = 0x7fff_f000;
/// The most buffers of one vectored call (`IOV_MAX`).
pub(crate) const MAX_BUFFERS: usize = 1024;

/// Reads at `offset`, or at the file's current position (streams have none): `read` and `pread`, a
/// ring's op since Linux 5.6. Returns the number of bytes read, which may be smaller than the
/// buffer; 0 means the end.
///
/// Two calls at the current position of one file at the same time may transfer the same bytes.
/// Calls of [`File`](crate::fs::File) wait for each other.
///
/// Data that an iterator over a socket (`recv_each`) has received and the program has not taken
/// comes first if `offset` is `None`. The same applies to [`readv`], to
/// [`RegisteredBuffer::read`](super::RegisteredBuffer::read), and to [`splice`](super::splice()).
///
/// # Blocking
/// Parks the strand until there is something to read.
///
/// # Cancellation
/// A cancel point. Bytes that arrived are returned.
///
/// # Errors
/// Those of pread(2), but never `EINTR`; if a nonblocking stream is not ready, the call waits.
///
/// # Examples
/// ```
/// use ramie::ring;
///
/// ramie::run(|| {
///     let (from, to) = ring::pipe()?;
///     assert_eq!(ring::write(&to, b"through the ring", None)?, 16);
///     let mut text = [0; 7];
///     assert_eq!(ring::read(&from, &mut text, None)?, 7);
///     assert_eq!(&text, b"through");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn read(fd: impl AsFd, buf: &mut [u8], offset: Option<u64>) -> io::Result<usize> {
    let (fd, offset) = (fd.as_fd(), file_offset(offset)?);
    if !is_for_the_pool(fd) {
        return read_at_position(fd, offset, |at| {
            match leftover::read(fd, &mut [IoSliceMut::new(buf)], at)? {
                Some(count) => Ok(count),
                None => read_op(&READ, fd.into(), buf, at),
            }
        });
    }
    read_on_pool(fd, &mut [IoSliceMut::new(buf)], offset)
}

/// Reads into several buffers: `readv` and `preadv`, a ring's op since Linux 5.1. Buffers after the
/// first 1,024 are ignored.
///
/// # Blocking
/// As [`read`].
///
/// # Cancellation
/// A cancel point. Bytes that arrived are returned.
///
/// # Errors
/// As [`read`].
#[track_caller]
pub fn readv(fd: impl AsFd, bufs: &mut [IoSliceMut<'_>], offset: Option<u64>) -> io::Result<usize> {
    let (fd, offset) = (fd.as_fd(), file_offset(offset)?);
    if !is_for_the_pool(fd) {
        return read_at_position(fd, offset, |at| match leftover::read(fd, bufs, at)? {
            Some(count) => Ok(count),
            None => read_vectored_op(&READ, fd, bufs, at, false),
        });
    }
    read_on_pool(fd, bufs, offset)
}

/// Writes at `offset`, or at the file's current position (streams have none): `write` and `pwrite`,
/// a ring's op since Linux 5.6. Returns the number of bytes written, which may be smaller than the
/// buffer.
///
/// # Blocking
/// Parks the strand until bytes were written.
///
/// # Cancellation
/// A cancel point. If bytes were written, the call returns their number.
///
/// # Errors
/// Those of pwrite(2), but never `EINTR`; if a nonblocking stream is not ready, the call waits.
#[track_caller]
pub fn write(fd: impl AsFd, buf: &[u8], offset: Option<u64>) -> io::Result<usize> {
    let (fd, offset) = (fd.as_fd(), file_offset(offset)?);
    if !is_for_the_pool(fd) {
        let len = buf.len();
        return write_at_position(fd, offset, len, |at| write_op(&WRITE, fd.into(), buf, at));
    }
    blocking_io(|| sys::write_vectored(fd, &[IoSlice::new(buf)], offset))
}

/// Writes several buffers: `writev` and `pwritev`, a ring's op since Linux 5.1. Buffers after the
/// first 1,024 are ignored.
///
/// # Blocking
/// As [`write()`].
///
/// # Cancellation
/// A cancel point. If bytes were written, the call returns their number.
///
/// # Errors
/// As [`write()`].
#[track_caller]
pub fn writev(fd: impl AsFd, bufs: &[IoSlice<'_>], offset: Option<u64>) -> io::Result<usize> {
    let (fd, offset) = (fd.as_fd(), file_offset(offset)?);
    let bufs = &bufs[..bufs.len().min(MAX_BUFFERS)];
    if !is_for_the_pool(fd) {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        let write = |at| write_vectored_op(&WRITE, fd, bufs, at, false);
        return write_at_position(fd, offset, len, write);
    }
    blocking_io(|| sys::write_vectored(fd, bufs, offset))
}

/// Reads at `offset`. If `offset` means the current position and the file has one, moves the
/// position by the number of bytes read.
///
/// The caller must prevent other uses of the position of the same file during the call.
#[track_caller]
pub(crate) fn read_at_position(
    fd: BorrowedFd<'_>,
    offset: u64,
    read: impl FnOnce(u64) -> io::Result<usize>,
) -> io::Result<usize> {
    match position(fd, offset) {
        None => read(offset),
        Some(at) => advance(fd, at, read(at)),
    }
}

/// As `read_at_position`, for a write of `len` bytes.
#[track_caller]
pub(crate) fn write_at_position(
    fd: BorrowedFd<'_>,
    offset: u64,
    len: usize,
    write: impl FnOnce(u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let Some(at) = position(fd, offset) else { return write(offset) };
    if sys::status_flags(fd)?.contains(OFlags::APPEND) {
        return advance_if_short(fd, at, len, write(CURRENT_POSITION));
    }
    advance(fd, at, write(at))
}

/// As `write_at_position`, at the current position and for a file whose writes go to the page
/// cache. A ring then advances the position itself, unless the write is short, which saves two
/// system calls.
#[track_caller]
pub(crate) fn write_buffered_at_position(
    fd: BorrowedFd<'_>,
    len: usize,
    write: impl FnOnce(u64) -> io::Result<usize>,
) -> io::Result<usize> {
    match position(fd, CURRENT_POSITION) {
        None => write(CURRENT_POSITION),
        Some(at) => advance_if_short(fd, at, len, write(CURRENT_POSITION)),
    }
}

/// Returns the current position if `offset` means the current one and the file has one.
fn position(fd: BorrowedFd<'_>, offset: u64) -> Option<u64> {
    if offset == CURRENT_POSITION { sys::position(fd).ok() } else { None }
}

fn advance(fd: BorrowedFd<'_>, at: u64, moved: io::Result<usize>) -> io::Result<usize> {
    let count = moved?;
    if count > 0 {
        sys::set_position(fd, at + count as u64)?;
    }
    Ok(count)
}

/// After a write at the position `at`: advances the position if the write was short, because the
/// ring has not.
fn advance_if_short(
    fd: BorrowedFd<'_>,
    at: u64,
    len: usize,
    written: io::Result<usize>,
) -> io::Result<usize> {
    let count = written?;
    if 0 < count && count < len && sys::position(fd)? == at {
        match sys::status_flags(fd)?.contains(OFlags::APPEND) {
            true => sys::set_position_to_end(fd)?,
            false => sys::set_position(fd, at + count as u64)?,
        }
    }
    Ok(count)
}

/// Converts an offset for the op. Refuses values that could mean the current position, with the
/// kernel's error.
pub(super) fn file_offset(offset: Option<u64>) -> io::Result<u64> {
    match offset {
        None => Ok(CURRENT_POSITION),
        Some(at) if at > i64::MAX as u64 => Err(Errno::INVAL.into()),
        Some(at) => Ok(at),
    }
}

/// Whether the call goes to the blocking pool: on the polling driver, which waits for readiness, a
/// file on a disk does, because it has no readiness.
#[track_caller]
fn is_for_the_pool(fd: BorrowedFd<'_>) -> bool {
    route() == Route::WithoutRing && sys::file_kind(fd) != FileKind::Stream
}

#[track_caller]
fn read_on_pool(fd: BorrowedFd<'_>, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
    cancel::check_io()?;
    let count = bufs.len().min(MAX_BUFFERS);
    let bufs = &mut bufs[..count];
    // Cached bytes are copied at once.
    sys::read_now(fd, bufs, offset)
        .or_else(|_| blocking_io(|| sys::read_vectored(fd, bufs, offset)))
}

/// Makes one read through the strand's driver. Inlined into the fiber's code, because that makes
/// the switch cheaper.
#[inline(always)]
#[track_caller]
pub(crate) fn read_op(
    kind: &'static WaitKind,
    fd: FdName<'_>,
    buf: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let len = buf.len().min(MAX_BYTES) as u32;
    let op = Op::Read { fd: fd.as_raw_fd(), buf: buf.as_mut_ptr(), len, offset };
    // SAFETY: the buffer is borrowed mutably for the length of this call; `fd.fixed_file()` is the
    // registered file of the same descriptor.
    Ok(unsafe { op::request(kind, op).on(fd.fixed_file()).perform_inline() }? as usize)
}

/// Makes one read into several buffers. If `is_large`, a ring leaves the read to a kernel thread.
#[track_caller]
pub(crate) fn read_vectored_op(
    kind: &'static WaitKind,
    fd: BorrowedFd<'_>,
    bufs: &mut [IoSliceMut<'_>],
    offset: u64,
    is_large: bool,
) -> io::Result<usize> {
    let count = bufs.len().min(MAX_BUFFERS) as u32;
    // The cast is valid because std guarantees that `IoSliceMut` has the layout of `iovec`.
    let iov = bufs.as_mut_ptr().cast::<IoVec>();
    let op = Op::ReadVectored { fd: fd.as_raw_fd(), iov, count, offset };
    // SAFETY: the buffers are borrowed mutably for the length of this call.
    Ok(unsafe { op::request_frame(kind, frame(op, is_large)).perform() }? as usize)
}

/// Makes one write through the strand's driver; inlined as [`read_op`].
#[inline(always)]
#[track_caller]
pub(crate) fn write_op(
    kind: &'static WaitKind,
    fd: FdName<'_>,
    buf: &[u8],
    offset: u64,
) -> io::Result<usize> {
    let len = buf.len().min(MAX_BYTES) as u32;
    let op = Op::Write { fd: fd.as_raw_fd(), buf: buf.as_ptr(), len, offset };
    // SAFETY: the buffer is borrowed for the length of this call; `fd.fixed_file()` is the
    // registered file of the same descriptor.
    Ok(unsafe { op::request(kind, op).on(fd.fixed_file()).perform_inline() }? as usize)
}

/// Makes one write of several buffers. If `is_large`, a ring leaves the write to a kernel thread.
#[track_caller]
pub(crate) fn write_vectored_op(
    kind: &'static WaitKind,
    fd: BorrowedFd<'_>,
    bufs: &[IoSlice<'_>],
    offset: u64,
    is_large: bool,
) -> io::Result<usize> {
    let count = bufs.len().min(MAX_BUFFERS) as u32;
    // The cast is valid because std guarantees that `IoSlice` has the layout of `iovec`.
    let iov = bufs.as_ptr().cast::<IoVec>();
    let op = Op::WriteVectored { fd: fd.as_raw_fd(), iov, count, offset };
    // SAFETY: the buffers are borrowed for the length of this call.
    Ok(unsafe { op::request_frame(kind, frame(op, is_large)).perform() }? as usize)
}

#[inline]
fn frame(op: Op, is_large: bool) -> OpFrame {
    let frame = OpFrame::new(op);
    if is_large { frame.in_background() } else { frame }
}
