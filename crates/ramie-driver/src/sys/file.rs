//! Reads and writes of files that do not wait, and the flags of opening one.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, SeekFrom, StatxFlags};
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
/// `O_CREAT`: the file is made if it does not exist.
pub const O_CREAT: i32 = 0x40;
/// `O_EXCL`: with `O_CREAT`, the open fails if the file exists.
pub const O_EXCL: i32 = 0x80;
/// `O_TRUNC`: the file is emptied.
pub const O_TRUNC: i32 = 0x200;
/// `O_CLOEXEC`: closed on exec.
pub const O_CLOEXEC: i32 = 0x8_0000;

/// Reads bytes that are in the page cache, or in a pipe, without waiting; `offset` is a position or
/// [`CURRENT_POSITION`](crate::CURRENT_POSITION).
///
/// # Errors
/// `EAGAIN`: the read would wait. `EOPNOTSUPP`: the file has no reads that do not wait. Otherwise
/// those of preadv2(2).
pub fn read_now(fd: impl AsFd, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::preadv2(fd, bufs, offset, ReadWriteFlags::NOWAIT)?)
}

/// Writes as many bytes as is possible without waiting; otherwise as [`read_now`].
///
/// # Errors
/// As [`read_now`].
pub fn write_now(fd: impl AsFd, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::pwritev2(fd, bufs, offset, ReadWriteFlags::NOWAIT)?)
}

/// Reads, waiting for a disk; `offset` as for [`read_now`].
///
/// # Errors
/// Those of preadv(2), but never `EINTR`.
pub fn read_vectored(fd: impl AsFd, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
    let none = ReadWriteFlags::empty();
    Ok(rustix::io::retry_on_intr(|| rustix::io::preadv2(&fd, bufs, offset, none))?)
}

/// Writes, waiting for a disk; `offset` as for [`read_now`].
///
/// # Errors
/// Those of pwritev(2), but never `EINTR`.
pub fn write_vectored(fd: impl AsFd, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    let none = ReadWriteFlags::empty();
    Ok(rustix::io::retry_on_intr(|| rustix::io::pwritev2(&fd, bufs, offset, none))?)
}

/// Returns the current position of an open file.
///
/// # Errors
/// `ESPIPE`: it has none, because it is a stream.
pub fn position(fd: impl AsFd) -> io::Result<u64> {
    let at = rustix::fs::seek(fd, SeekFrom::Current(0));
    super::return_predictor::renew();
    Ok(at?)
}

/// Sets the current position of an open file.
///
/// # Errors
/// Those of lseek(2).
pub fn set_position(fd: impl AsFd, at: u64) -> io::Result<()> {
    let set = rustix::fs::seek(fd, SeekFrom::Start(at));
    super::return_predictor::renew();
    Ok(set.map(drop)?)
}

/// Sets the current position of an open file to its end.
///
/// # Errors
/// Those of lseek(2).
pub fn set_position_to_end(fd: impl AsFd) -> io::Result<()> {
    rustix::fs::seek(fd, SeekFrom::End(0))?;
    Ok(())
}

/// Returns how a file was opened, with later changes: the access mode, `O_APPEND`, `O_DIRECT`,
/// `O_NONBLOCK`.
///
/// # Errors
/// Those of fcntl(2).
pub fn status_flags(fd: impl AsFd) -> io::Result<OFlags> {
    Ok(rustix::fs::fcntl_getfl(fd)?)
}

/// The kind of a descriptor's file, which decides how its calls wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file, directory or device of blocks on a local disk: its attributes are in memory.
    Local,
    /// A file on a file system without a device, such as a network file system: reading its
    /// attributes may wait.
    Remote,
    /// Anything else: pipes, terminals, sockets, other devices. They have no position, but can be
    /// polled for readiness.
    Stream,
}

/// Returns the kind of a descriptor's file, without waiting for a disk or a server.
pub fn file_kind(fd: impl AsFd) -> FileKind {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let Ok(stat) = rustix::fs::statx(fd, c"", flags, StatxFlags::TYPE) else {
        return FileKind::Stream;
    };
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile | FileType::Directory | FileType::Symlink
            if stat.stx_dev_major != 0 =>
        {
            FileKind::Local
        }
        FileType::RegularFile | FileType::Directory | FileType::Symlink => FileKind::Remote,
        FileType::BlockDevice => FileKind::Remote,
        _ => FileKind::Stream,
    }
}

/// Looks a path up without opening the file (`O_PATH`) if the kernel has all of it cached, and so
/// without waiting; None if it has not, or on any error.
pub fn look_up_cached(path: &Path, follow: bool) -> Option<OwnedFd> {
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !follow);
    rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).ok()
}

/// Opens a file on a local disk if the kernel has all of the path cached, and so without waiting,
/// as [`Op::Open`](crate::Op::Open) does on a ring; None if it has not, or on any error. `flags`
/// must not create or truncate a file.
pub fn open_cached(path: &Path, flags: i32) -> Option<OwnedFd> {
    let found = look_up_cached(path, true)?;
    if file_kind(&found) != FileKind::Local {
        return None;
    }
    // Opens the file that was inspected, even if its name belongs to another file by now. A lease
    // on it would make an open wait.
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::from_bits_retain(flags as u32) | OFlags::NONBLOCK;
    let opened = rustix::fs::open(same, flags, Mode::empty()).ok()?;
    super::set_nonblocking(&opened, false).ok()?;
    Some(opened)
}
