//! The readiness of many descriptors at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;

/// Asks poll(2), without waiting, which of each descriptor's events hold now, in their order;
/// errors and hang-ups are always reported.
///
/// # Errors
/// Out of memory, or there are more descriptors than `RLIMIT_NOFILE` allows.
pub fn poll_all_now(fds: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<Vec<PollFlags>> {
    let mut set: Vec<_> =
        fds.iter().map(|(fd, interest)| PollFd::from_borrowed_fd(*fd, *interest)).collect();
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        match rustix::event::poll(&mut set, Some(&zero)) {
            Err(Errno::INTR) => {}
            Ok(_) => return Ok(set.iter().map(PollFd::revents).collect()),
            // The only limit on the number that poll(2) has.
            Err(Errno::INVAL) => return Err(too_many(fds.len())),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until one of `events` holds for a descriptor, for `limit` at most; returns whether one
/// does. Errors and hang-ups count, too.
///
/// # Errors
/// Out of memory.
pub fn wait_until_ready(fd: impl AsFd, events: u32, limit: Duration) -> io::Result<bool> {
    let end = super::monotonic_ns().saturating_add(limit.as_nanos() as u64);
    let mut set = [PollFd::new(&fd, PollFlags::from_bits_retain(events as _))];
    loop {
        let left = Duration::from_nanos(end.saturating_sub(super::monotonic_ns()));
        let (tv_sec, tv_nsec) = (left.as_secs() as i64, left.subsec_nanos().into());
        match rustix::event::poll(&mut set, Some(&Timespec { tv_sec, tv_nsec })) {
            Err(Errno::INTR) => {}
            Ok(ready) => return Ok(ready > 0),
            Err(error) => return Err(error.into()),
        }
    }
}

fn too_many(count: usize) -> io::Error {
    let limit = super::nofile_limit().soft.unwrap_or(u64::MAX);
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "too many descriptors to wait for at once: {count}, and this process may have {limit}; \
             raise `ulimit -n`, or wait for fewer"
        ),
    )
}

/// Waits until nobody can write to a pipe any more, for `limit` at most; signals interrupt nothing.
pub(crate) fn await_hang_up(reader: BorrowedFd<'_>, limit: Duration) {
    let end = super::monotonic_ns() + limit.as_nanos() as u64;
    loop {
        let left = Duration::from_nanos(end.saturating_sub(super::monotonic_ns()));
        let (tv_sec, tv_nsec) = (left.as_secs() as i64, left.subsec_nanos().into());
        let mut set = [PollFd::from_borrowed_fd(reader, PollFlags::empty())];
        match rustix::event::poll(&mut set, Some(&Timespec { tv_sec, tv_nsec })) {
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}

/// Makes a descriptor that is readable when one of these is ready.
///
/// Files on a disk are omitted, because they are always ready.
///
/// # Errors
/// Those of epoll_create1(2) and epoll_ctl(2): out of descriptors or memory, or epoll sets that
/// contain one another.
pub fn readiness_of(fds: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<OwnedFd> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let nothing = epoll::EventData::new_u64(0);
    for (fd, interest) in fds {
        match epoll::add(&set, fd, nothing, events_of(*interest)) {
            Ok(()) | Err(Errno::PERM) => {}
            // The descriptor is in `fds` twice, for example to read and to write, but a set holds
            // a descriptor only once.
            Err(Errno::EXIST) => {
                let same = fds.iter().filter(|(other, _)| other.as_raw_fd() == fd.as_raw_fd());
                let all = same.fold(PollFlags::empty(), |all, (_, interest)| all | *interest);
                epoll::modify(&set, fd, nothing, events_of(all))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(set)
}

/// The bits of poll(2) and epoll(7) are the same.
fn events_of(interest: PollFlags) -> epoll::EventFlags {
    // Under Miri, where rustix calls libc, the bits are signed.
    epoll::EventFlags::from_bits_retain(interest.bits() as u32 & 0xffff)
}
