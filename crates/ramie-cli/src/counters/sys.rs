//! The system calls that count: getrusage(2), wait4(2) and perf_event_open(2).
#![allow(unsafe_code)]

use std::{
    io,
    mem::{MaybeUninit, size_of},
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    process::{Child, ExitStatus},
};

/// The counts of a process that has done nothing.
// SAFETY: `rusage` consists of integers, for which zero is valid.
pub(super) const NOTHING_USED: libc::rusage = unsafe { std::mem::zeroed() };

/// The kernel's counts for all threads of this process, ended ones included.
pub(super) fn resource_usage() -> libc::rusage {
    usage_of(libc::RUSAGE_SELF)
}

/// The kernel's counts for the calling thread.
pub(super) fn thread_usage() -> libc::rusage {
    usage_of(libc::RUSAGE_THREAD)
}

fn usage_of(who: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a write of a `rusage`.
    unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    // SAFETY: all bytes are initialized, to zero if the call failed, and every value is a valid
    // `rusage`.
    unsafe { usage.assume_init() }
}

/// Waits for the end of a child process, and returns its status and the kernel's counts for it.
pub(super) fn wait_with_usage(child: &Child) -> io::Result<(ExitStatus, libc::rusage)> {
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    // A process id fits into `pid_t`, where it came from.
    let id = child.id() as libc::pid_t;
    loop {
        // SAFETY: both pointers are valid for a write of their types.
        let waited = unsafe { libc::wait4(id, &raw mut status, 0, usage.as_mut_ptr()) };
        if waited == id {
            // SAFETY: all bytes are initialized, to zero or by the call, and every value is a valid
            // `rusage`.
            let usage = unsafe { usage.assume_init() };
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The first version of `perf_event_attr`, which every kernel accepts.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Inherited by threads, but not by child processes; since Linux 5.13.
const INHERIT_THREAD: u64 = 1 << 35;
const TIMES_ENABLED_AND_RUNNING: u64 = 1 | 1 << 1;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// Opens a counter of the calling thread and of the threads that it and they start from now on. A
/// read returns the count, the time since it was opened, and the time for which it counted.
pub(super) fn open_event(kind: u32, config: u64, with_kernel: bool) -> io::Result<OwnedFd> {
    let scope = if with_kernel { 0 } else { EXCLUDE_KERNEL };
    let attr = PerfEventAttr {
        kind,
        size: size_of::<PerfEventAttr>() as u32,
        config,
        read_format: TIMES_ENABLED_AND_RUNNING,
        flags: INHERIT | INHERIT_THREAD | EXCLUDE_HYPERVISOR | scope,
        ..PerfEventAttr::default()
    };
    let (this_thread, any_cpu, no_group) = (0, -1, -1);
    // SAFETY: `attr` has the layout and the size that its field `size` announces, and the kernel
    // reads it during the call only.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            this_thread,
            any_cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
