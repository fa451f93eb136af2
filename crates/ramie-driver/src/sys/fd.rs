//! Calls on descriptors of any sort.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;

/// Duplicates a descriptor; the copy is closed on exec.
///
/// # Errors
/// The process is out of descriptors (`EMFILE`).
pub fn dup_cloexec(fd: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 0)?)
}

/// Returns whether `O_NONBLOCK` is set on the open file description.
///
/// # Errors
/// Those of fcntl(2).
pub fn is_nonblocking(fd: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::fcntl_getfl(fd)?.contains(OFlags::NONBLOCK))
}

/// Returns the number of the inode.
///
/// # Errors
/// Those of fstat(2).
pub fn inode(fd: impl AsFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(fd)?.st_ino)
}

/// Sets or clears `O_NONBLOCK`, for all that share the open file description.
///
/// # Errors
/// Those of fcntl(2).
pub fn set_nonblocking(fd: impl AsFd, nonblocking: bool) -> io::Result<()> {
    let mut flags = rustix::fs::fcntl_getfl(&fd)?;
    flags.set(OFlags::NONBLOCK, nonblocking);
    Ok(rustix::fs::fcntl_setfl(fd, flags)?)
}

/// Makes a pipe, closed on exec: its reading end and its writing end.
///
/// # Errors
/// The process or the system is out of descriptors.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Returns whether the descriptor is an end of a pipe.
pub fn is_pipe(fd: impl AsFd) -> bool {
    rustix::pipe::fcntl_getpipe_size(fd).is_ok()
}

/// Makes an eventfd at 0, closed on exec, whose reads wait.
///
/// # Errors
/// The process or the system is out of descriptors.
pub fn eventfd() -> io::Result<OwnedFd> {
    Ok(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?)
}

/// Adds one to an eventfd.
pub fn eventfd_signal(fd: impl AsFd) {
    // The counter would have to reach 2^64 - 2 for this to wait or fail.
    while rustix::io::write(&fd, &1u64.to_ne_bytes()) == Err(rustix::io::Errno::INTR) {}
}

/// Reads an eventfd down to 0, waiting until it is not 0.
pub fn eventfd_take(fd: impl AsFd) -> u64 {
    let mut count = [0; 8];
    while rustix::io::read(&fd, &mut count) == Err(rustix::io::Errno::INTR) {}
    u64::from_ne_bytes(count)
}

/// Asks poll(2), without waiting, which of `events` hold now; errors and hang-ups are always
/// reported.
///
/// # Errors
/// `EBADF` if the descriptor is not open.
pub fn poll_now(fd: impl AsFd, events: u32) -> io::Result<u32> {
    let interest = PollFlags::from_bits_retain(events as _);
    let mut set = [PollFd::new(&fd, interest)];
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    while rustix::event::poll(&mut set, Some(&zero)) == Err(rustix::io::Errno::INTR) {}
    let ready = set[0].revents();
    if ready.contains(PollFlags::NVAL) {
        return Err(rustix::io::Errno::BADF.into());
    }
    // Under Miri, where rustix calls libc, the bits are signed.
    Ok(ready.bits() as u32 & 0xffff)
}

/// Returns whether nothing more can be received from a socket, or accepted, than is there now: it
/// was shut down, or the peer has ended the stream.
pub fn is_shut_down_for_reading(fd: impl AsFd) -> bool {
    poll_now(fd, super::POLL_RDHUP).is_ok_and(|ready| ready & super::POLL_RDHUP != 0)
}

/// Returns the number of bytes that a receive would find now; 0 if it is unknown.
pub fn bytes_queued(fd: impl AsFd) -> u64 {
    rustix::io::ioctl_fionread(fd).unwrap_or(0)
}

/// Takes the events of an epoll set that are there, without waiting, and returns their number.
///
/// # Errors
/// Those of epoll_wait(2): `epoll` is not an epoll set, or `events` has no room.
pub fn epoll_wait_now(
    epoll: impl AsFd,
    events: &mut [MaybeUninit<super::EpollEvent>],
) -> io::Result<usize> {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let (taken, _) = rustix::event::epoll::wait(epoll, &mut *events, Some(&zero))?;
    Ok(taken.len())
}

/// Closes a descriptor and returns the error, if there is one. It is closed in any case.
///
/// # Errors
/// Those of close(2), but never `EINTR`.
pub fn close(fd: OwnedFd) -> io::Result<()> {
    match super::raw::close(fd.into_raw_fd()) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
