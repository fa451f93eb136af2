//! System calls for which no descriptor becomes ready, as data: a ring makes them as ops, and any
//! thread can make them directly. `splice` and `tee` are here nevertheless, because they wait for
//! two descriptors, and an [`Op`](crate::Op) waits for one at most.
//!
//! Calls are larger and rarer than reads and writes, so a call lies beside the op, in the
//! submitter's frame, and [`Op::Call`](crate::Op::Call) points to it.
//!
//! # To add one
//! 1. A variant of [`Call`] here, and its arms in `feature` and `fds`. A call without an arm in
//!    `fds` compiles, because that match ends with `_`, and then `Driver::cancel_on` misses it.
//! 2. `entry.rs`: the op for the ring. `plain.rs`: the system call that does the same.
//! 3. `feature.rs`: the feature with the first kernel that has it; `uring/setup.rs`: its op code.
//! 4. In the crate `ramie`: the function in `ring/`, which makes the call through `op/call.rs`.
//! 5. Its tests, in `tests/ring` of `ramie`, also with the feature masked: a call without an arm in
//!    `plain.rs` compiles, and panics where the ring lacks the op.
//!
//! An op that waits until one descriptor is ready, such as a read, is a variant of
//! [`Op`](crate::Op) instead: `op.rs`, `uring/sqe.rs`, and `poll/attempt.rs` for epoll. `Open` and
//! `Close` are variants of `Op`, too, although no descriptor becomes ready for them.

mod entry;
mod plain;

use std::os::fd::RawFd;

use crate::feature::Feature;
use crate::sys::SockAddrStorage;
use crate::sys::abi::Timespec;

pub(crate) use entry::entry;

/// The arguments of `openat2`: `struct open_how`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenHow {
    /// `O_*`.
    pub flags: u64,
    /// Permissions of a file that is made.
    pub mode: u64,
    /// `RESOLVE_*`.
    pub resolve: u64,
}

/// The result of `waitid` for a child: `siginfo_t` as Linux lays it out for SIGCHLD.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct ChildInfo {
    pub(crate) signal: i32,
    pub(crate) errno: i32,
    /// `CLD_*`: how the child ended or changed.
    pub code: i32,
    pub(crate) padding: i32,
    /// The child's id; 0 if no child has changed.
    pub pid: i32,
    /// The user whose process the child was.
    pub uid: u32,
    /// The exit code, or the signal.
    pub status: i32,
    pub(crate) rest: [i32; 25],
}

impl ChildInfo {
    /// Room for the kernel to fill.
    pub const fn new() -> Self {
        let (signal, errno, code, padding, pid, uid, status) = (0, 0, 0, 0, 0, 0, 0);
        ChildInfo { signal, errno, code, padding, pid, uid, status, rest: [0; 25] }
    }
}

impl Default for ChildInfo {
    fn default() -> Self {
        Self::new()
    }
}

const _: () = assert!(size_of::<ChildInfo>() == 128);

/// A system call as plain data. Paths and names end with a zero byte; `dir` is the directory that
/// relative paths start from, or [`sys::WORKING_DIRECTORY`](crate::sys::WORKING_DIRECTORY).
/// Results are those of the system call of the same name.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Call {
    /// `openat2` (5.6). The result is the new descriptor.
    OpenAt2 { dir: RawFd, path: *const u8, how: *const OpenHow },
    /// `statx` (5.6).
    Statx { dir: RawFd, path: *const u8, flags: u32, mask: u32, into: *mut rustix::fs::Statx },
    /// `fsync`, or `fdatasync` (5.1).
    Sync { fd: RawFd, data_only: bool },
    /// `fallocate` (5.6).
    Allocate { fd: RawFd, mode: u32, offset: u64, len: u64 },
    /// `posix_fadvise` (5.6); a ring takes 32 bits of `len`.
    Advise { fd: RawFd, offset: u64, len: u64, advice: u32 },
    /// `ftruncate` (6.9).
    Truncate { fd: RawFd, len: u64 },
    /// `renameat2` (5.11).
    Rename { old_dir: RawFd, old: *const u8, new_dir: RawFd, new: *const u8, flags: u32 },
    /// `unlinkat` (5.11).
    Unlink { dir: RawFd, path: *const u8, flags: u32 },
    /// `linkat` (5.15).
    Link { old_dir: RawFd, old: *const u8, new_dir: RawFd, new: *const u8, flags: u32 },
    /// `symlinkat` (5.15).
    Symlink { target: *const u8, dir: RawFd, path: *const u8 },
    /// `mkdirat` (5.15).
    MakeDir { dir: RawFd, path: *const u8, mode: u32 },
    /// `setxattr` (5.19).
    SetXattr { path: *const u8, name: *const u8, value: *const u8, len: u32, flags: u32 },
    /// `getxattr` (5.19). The result is the length of the value.
    GetXattr { path: *const u8, name: *const u8, value: *mut u8, len: u32 },
    /// `fsetxattr` (5.19).
    SetXattrOf { fd: RawFd, name: *const u8, value: *const u8, len: u32, flags: u32 },
    /// `fgetxattr` (5.19). The result is the length of the value.
    GetXattrOf { fd: RawFd, name: *const u8, value: *mut u8, len: u32 },
    /// `socket` (5.19). The result is the new descriptor.
    Socket { domain: i32, kind: i32, protocol: i32 },
    /// `bind` (6.11).
    Bind { fd: RawFd, addr: *const SockAddrStorage, addr_len: u32 },
    /// `listen` (6.11).
    Listen { fd: RawFd, backlog: i32 },
    /// `shutdown` (5.11).
    Shutdown { fd: RawFd, how: i32 },
    /// `splice` (5.7); an offset of -1 means the current position, and that pipes require.
    Splice { from: RawFd, from_at: i64, to: RawFd, to_at: i64, len: u32, flags: u32 },
    /// `tee` (5.8).
    Tee { from: RawFd, to: RawFd, len: u32, flags: u32 },
    /// `pipe2` (6.16), into two descriptors.
    Pipe { into: *mut [RawFd; 2], flags: u32 },
    /// `waitid` (6.7).
    WaitId { id_type: u32, id: u32, into: *mut ChildInfo, options: u32 },
    /// `futex_wait` (6.7) on 32 bits: waits while they are `value`, at most; `EAGAIN` if they are
    /// not.
    FutexWait { word: *const u32, value: u32, is_shared: bool },
    /// `futex_wake` (6.7). The result is the number of woken waiters.
    FutexWake { word: *const u32, count: u32, is_shared: bool },
    /// Waits for `time` (5.4); the result is `-ETIME`.
    Timeout { time: *const Timespec },
    /// Puts a completion with this result and this word into another ring (5.18).
    Message { ring: RawFd, result: i32, data: u64 },
}

impl Call {
    /// The feature of a ring that the call needs; None if every ring has it.
    pub fn feature(&self) -> Option<Feature> {
        match self {
            Call::OpenAt2 { .. }
            | Call::Statx { .. }
            | Call::Sync { .. }
            | Call::Allocate { .. }
            | Call::Advise { .. }
            | Call::Splice { .. }
            | Call::Timeout { .. } => None,
            Call::Truncate { .. } => Some(Feature::Truncate),
            Call::Rename { .. }
            | Call::Unlink { .. }
            | Call::Link { .. }
            | Call::Symlink { .. }
            | Call::MakeDir { .. } => Some(Feature::PathCalls),
            Call::SetXattr { .. }
            | Call::GetXattr { .. }
            | Call::SetXattrOf { .. }
            | Call::GetXattrOf { .. } => Some(Feature::Xattr),
            Call::Socket { .. } => Some(Feature::Socket),
            Call::Bind { .. } | Call::Listen { .. } => Some(Feature::BindListen),
            Call::Shutdown { .. } => Some(Feature::Shutdown),
            Call::Tee { .. } => Some(Feature::Tee),
            Call::Pipe { .. } => Some(Feature::Pipe),
            Call::WaitId { .. } => Some(Feature::WaitId),
            Call::FutexWait { .. } | Call::FutexWake { .. } => Some(Feature::Futex),
            Call::Message { .. } => Some(Feature::MsgRing),
        }
    }

    /// The descriptors whose files the call works on, without directories that paths start from.
    pub fn fds(&self) -> [Option<RawFd>; 2] {
        match *self {
            Call::Sync { fd, .. }
            | Call::Allocate { fd, .. }
            | Call::Advise { fd, .. }
            | Call::Truncate { fd, .. }
            | Call::SetXattrOf { fd, .. }
            | Call::GetXattrOf { fd, .. }
            | Call::Bind { fd, .. }
            | Call::Listen { fd, .. }
            | Call::Shutdown { fd, .. } => [Some(fd), None],
            Call::Splice { from, to, .. } | Call::Tee { from, to, .. } => [Some(from), Some(to)],
            Call::Message { ring, .. } => [Some(ring), None],
            _ => [None, None],
        }
    }
}
