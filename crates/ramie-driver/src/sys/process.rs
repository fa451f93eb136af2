//! Calls on processes and threads.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags};
use rustix::thread::futex::{self, Flags};
use rustix::time::Timespec;

/// Opens a descriptor of a child, which is readable (`POLL_IN`) once the child has ended.
///
/// # Errors
/// `ENOSYS` (before Linux 5.3), `EMFILE`, `ESRCH`.
pub fn pidfd_open(id: u32) -> io::Result<OwnedFd> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    Ok(rustix::process::pidfd_open(id.ok_or(rustix::io::Errno::SRCH)?, PidfdFlags::empty())?)
}

/// Chooses whether this process becomes the parent of its orphaned descendants.
///
/// # Errors
/// `EINVAL`, before Linux 3.4.
pub fn set_subreaper(is_subreaper: bool) -> io::Result<()> {
    // Any number but 0 means yes.
    let yes = is_subreaper.then(rustix::process::getpid);
    Ok(rustix::process::set_child_subreaper(yes)?)
}

/// Returns whether this process becomes the parent of its orphaned descendants.
///
/// # Errors
/// `EINVAL`, before Linux 3.4.
pub fn is_subreaper() -> io::Result<bool> {
    Ok(rustix::process::child_subreaper()?.is_some())
}

/// Waits until a futex is woken, if `word` is `expected`, for `limit` at most.
///
/// # Errors
/// `EAGAIN`: `word` is not `expected`. `ETIMEDOUT`, `EINTR`.
pub fn futex_wait_for(
    word: &AtomicU32,
    expected: u32,
    is_shared: bool,
    limit: Duration,
) -> io::Result<()> {
    let flags = if is_shared { Flags::empty() } else { Flags::PRIVATE };
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    Ok(futex::wait(word, flags, expected, Some(&limit))?)
}

/// Wakes one thread that waits for a futex of this process. May be called in a signal handler.
pub fn futex_wake(word: &AtomicU32) {
    let _ = futex::wake(word, Flags::PRIVATE, 1);
}

/// The id of the calling thread, as `/proc` and debuggers name it.
#[must_use]
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Whether this is the thread whose end is that of the process.
#[must_use]
pub fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

/// Returns the effective id of this process's user, to whom its new files belong.
#[must_use]
pub fn effective_user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}
