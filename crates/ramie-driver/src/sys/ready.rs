//! The readiness of many descriptors at once.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;

/// Asks poll(2), without waiting, which of each descriptor's events hold now, in their order;
/// errors and hang-ups always count.
///
/// # Errors
/// Out of memory, or there are more descriptors than the process may have.
pub fn poll_all_now(fds: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<Vec<PollFlags>> {
    let mut set: Vec<_> =
        fds.iter().map(|(fd, interest)| PollFd::from_borrowed_fd(*fd, *interest)).collect();
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        match rustix::event::poll(&mut set, Some(&zero)) {
            Err(Errno::INTR) => {}
            Ok(_) => return Ok(set.iter().map(PollFd::revents).collect()),
            Err(error) => return Err(error.into()),
        }
    }
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
            // It is on the list twice, perhaps to read and to write: a set has it once.
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
