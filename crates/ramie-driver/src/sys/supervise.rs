//! The tools of a process of one thread for supervising children: signals as a descriptor to poll,
//! children's ends, and the promise that no child outlives it.
//!
//! Signals are blocked, not handled, so no handler interrupts the process, and a child inherits
//! only the mask, which it resets.
//!
//! Dispositions and masks are inherited through exec from the program's parent. With SIGCHLD
//! ignored, the kernel reports no child's end; with SIGTERM ignored or blocked, a child cannot be
//! asked to end. So this module resets the disposition and the mask; the disposition is not
//! restored.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
pub use rustix::process::Pid;
use rustix::process::{Signal, WaitOptions};
use sc::nr;

/// The kernel's set of signals: bit n - 1 is signal n.
const SET_BYTES: usize = 8;
const SIG_BLOCK: usize = 0;
const SIG_UNBLOCK: usize = 1;
const SIG_SETMASK: usize = 2;
/// `SFD_CLOEXEC | SFD_NONBLOCK`.
const SIGNALFD_FLAGS: usize = 0x8_0000 | 0x800;
/// `sizeof(struct signalfd_siginfo)`; the number comes first.
const SIGNAL_INFO: usize = 128;

/// Signals of this thread, blocked and kept for [`next`](BlockedSignals::next).
#[derive(Debug)]
pub struct BlockedSignals {
    fd: OwnedFd,
    before: u64,
}

impl BlockedSignals {
    /// Blocks the signals, by number, and begins to collect them. If SIGCHLD, one of them, is
    /// ignored, it gets its default disposition, because the kernel does not send it otherwise.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn block(signals: &[i32]) -> io::Result<BlockedSignals> {
        let set = signals.iter().fold(0_u64, |set, signal| set | 1 << (signal - 1));
        let (minus_one, set_at) = (usize::MAX, &raw const set as usize);
        // SAFETY: the kernel reads a set of `SET_BYTES`.
        let fd =
            unsafe { sc::syscall4(nr::SIGNALFD4, minus_one, set_at, SET_BYTES, SIGNALFD_FLAGS) };
        let fd = checked(fd)? as RawFd;
        // SAFETY: a new descriptor, which nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if signals.contains(&libc::SIGCHLD) {
            stop_ignoring(libc::SIGCHLD);
        }
        Ok(BlockedSignals { fd, before: change_mask(SIG_BLOCK, set)? })
    }

    /// Takes the next signal that has come, by number, without waiting.
    pub fn next(&self) -> Option<i32> {
        let mut info = [0_u8; SIGNAL_INFO];
        match rustix::io::read(&self.fd, &mut info) {
            Ok(SIGNAL_INFO) => {
                let number = u32::from_ne_bytes(info[..4].try_into().ok()?);
                i32::try_from(number).ok()
            }
            _ => None,
        }
    }
}

impl Drop for BlockedSignals {
    /// Sets the earlier mask; signals that have come meanwhile take their effect now.
    fn drop(&mut self) {
        // This cannot fail, because the mask came from the kernel.
        let _ = change_mask(SIG_SETMASK, self.before);
    }
}

impl AsFd for BlockedSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Changes this thread's mask and returns the one before.
fn change_mask(how: usize, set: u64) -> io::Result<u64> {
    let mut before = 0_u64;
    let (set_at, before_at) = (&raw const set as usize, &raw mut before as usize);
    // SAFETY: the kernel reads and writes sets of `SET_BYTES`.
    let result = unsafe { sc::syscall4(nr::RT_SIGPROCMASK, how, set_at, before_at, SET_BYTES) };
    checked(result)?;
    Ok(before)
}

/// Gives a signal that is ignored its default disposition. A handler stays; for SIGCHLD,
/// `SA_NOCLDWAIT` is cleared, because with it the kernel discards the exit status of children.
fn stop_ignoring(signal: i32) {
    // SAFETY: zeros are an action: no handler, no flags, nothing blocked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes an action; without a new one it changes nothing.
    unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    let drops_ends = signal == libc::SIGCHLD && action.sa_flags & libc::SA_NOCLDWAIT != 0;
    if action.sa_sigaction == libc::SIG_IGN {
        action.sa_sigaction = libc::SIG_DFL;
    } else if !drops_ends {
        return;
    }
    action.sa_flags &= !libc::SA_NOCLDWAIT;
    // SAFETY: the default, or the handler that was there, installed by code that vouches for it.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

/// In a child: resets ignored SIGTERM and SIGCHLD to their defaults, and unblocks SIGHUP, SIGINT,
/// SIGTERM and SIGCHLD, regardless of the inherited mask.
pub fn be_open_to_signals() {
    stop_ignoring(libc::SIGTERM);
    stop_ignoring(libc::SIGCHLD);
    unblock(&[libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGCHLD]);
}

/// Unblocks signals, by number, on this thread, regardless of the inherited mask.
pub fn unblock(signals: &[i32]) {
    let set = signals.iter().fold(0_u64, |set, signal| set | 1 << (signal - 1));
    // This cannot fail, because the kernel knows all signals of the set.
    let _ = change_mask(SIG_UNBLOCK, set);
}

fn checked(result: usize) -> io::Result<usize> {
    match result as isize {
        error @ -4095..0 => Err(io::Error::from_raw_os_error(-error as i32)),
        _ => Ok(result),
    }
}

/// Waits until one of the descriptors is readable, or the limit has expired.
///
/// # Errors
/// Out of memory. An interruption is not an error.
pub fn wait_readable(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let mut polled: Vec<_> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns how a child has ended, if it has.
pub fn try_wait(child: Pid) -> Option<ExitStatus> {
    match rustix::process::waitpid(Some(child), WaitOptions::NOHANG) {
        Ok(None) | Err(Errno::INTR) => None,
        Ok(Some((_, status))) => Some(ExitStatus::from_raw(status.as_raw())),
        // SIGCHLD is ignored, so the kernel has discarded the status. Report a failure.
        Err(_) => Some(ExitStatus::from_raw(1 << 8)),
    }
}

/// Sends SIGTERM to a child that has not been waited for, so that its number is still its own.
pub fn ask_to_end(child: Pid) {
    // This can fail only for a child that has ended.
    let _ = rustix::process::kill_process(child, Signal::TERM);
}

/// Sends SIGKILL to a child that has not been waited for.
pub fn kill(child: Pid) {
    let _ = rustix::process::kill_process(child, Signal::KILL);
}

/// Returns the id of this process.
pub fn own_id() -> Pid {
    rustix::process::getpid()
}

/// In a child of `parent`: makes it die with its parent, until the calling thread ends or changes
/// its user or group. False: the parent is dead already.
pub fn die_with_parent(parent: Pid) -> bool {
    let bound = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    bound.is_ok() && rustix::process::getppid() == Some(parent)
}

/// In a child: gives it a process group of its own, so that Ctrl-C at the terminal reaches the
/// parent alone.
pub fn lead_process_group() {
    // This fails only for session leaders, and this is a new process.
    let _ = rustix::process::setpgid(None, None);
}
