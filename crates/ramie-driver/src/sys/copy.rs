//! Moving bytes from descriptor to descriptor within the kernel.

use std::io;
use std::os::fd::AsFd;

use rustix::pipe::SpliceFlags;

/// Writes as many bytes as possible, waiting as the descriptor does.
///
/// # Errors
/// Those of write(2), but never `EINTR`.
pub fn write(fd: impl AsFd, buf: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::io::write(&fd, buf))?)
}

/// Copies from one file's position to another's. It may wait for disks.
///
/// # Errors
/// Those of copy_file_range(2): among others, that the file systems cannot do it.
pub fn copy_file_range(from: impl AsFd, to: impl AsFd, len: usize) -> io::Result<usize> {
    let copy = || rustix::fs::copy_file_range(&from, None, &to, None, len);
    Ok(rustix::io::retry_on_intr(copy)?)
}

/// Sends from a file's position to a socket. It may wait for a disk, and for room in the socket.
///
/// # Errors
/// Those of sendfile(2).
pub fn sendfile(to: impl AsFd, from: impl AsFd, len: usize) -> io::Result<usize> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::sendfile(&to, &from, None, len))?)
}

/// Moves the bytes of one pipe to another without waiting, and without copying.
///
/// # Errors
/// `EAGAIN`: `from` is empty, or `to` is full. Those of splice(2).
pub fn splice_now(from: impl AsFd, to: impl AsFd, len: usize) -> io::Result<usize> {
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    let splice = || rustix::pipe::splice(&from, None, &to, None, len, flags);
    Ok(rustix::io::retry_on_intr(splice)?)
}
