//! Calls on processes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags};

/// Opens a descriptor of a child, which is readable (`POLL_IN`) once the child has ended.
///
/// # Errors
/// `ENOSYS` (before Linux 5.3), `EMFILE`, `ESRCH`.
pub fn pidfd_open(id: u32) -> io::Result<OwnedFd> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    Ok(rustix::process::pidfd_open(id.ok_or(rustix::io::Errno::SRCH)?, PidfdFlags::empty())?)
}
