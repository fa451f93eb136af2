//! Calls on caller-supplied pointers, as the poll backend needs them: results are `-errno` or
//! the count. They differ from rustix's only in taking pointers as an [`Op`](crate::Op) holds them.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use rustix::io::Errno;
use sc::nr;

use crate::sys::abi::{IoVec, MessageHeader, Timespec};
use crate::sys::{EpollEvent, SockAddrStorage, return_predictor};

/// `RWF_NOWAIT`: fail with `EAGAIN` if the call would wait.
pub(crate) const RWF_NOWAIT: u32 = 0x8;

const INTERRUPTED: i32 = -rustix::io::Errno::INTR.raw_os_error();

/// Submits a ring's whole submission queue; returns the number of entries.
///
/// # Errors
/// `BUSY`, `AGAIN`: no room now. `INTR`.
pub(crate) fn ring_submit(ring: RawFd) -> Result<u32, Errno> {
    ring_enter(ring, (u32::MAX, 0), 0, None)
}

/// The argument of an enter with `IORING_ENTER_EXT_ARG`: `struct io_uring_getevents_arg`.
#[repr(C)]
struct Limits {
    signals: u64,
    signals_size: u32,
    least_wait_us: u32,
    time: u64,
}

/// Enters the kernel for a ring, with `len` entries, until there are `least` completions; returns
/// the number of entries that the kernel has taken. A limit needs `IORING_ENTER_EXT_ARG` among the
/// flags.
///
/// # Errors
/// Those of io_uring_enter(2).
pub(crate) fn ring_enter(
    ring: i32,
    (len, least): (u32, u32),
    flags: u32,
    limit: Option<&Timespec>,
) -> Result<u32, Errno> {
    let limits = limit.map(|limit| {
        let time = ptr::from_ref(limit) as u64;
        Limits { signals: 0, signals_size: 0, least_wait_us: 0, time }
    });
    let (arg, size) = match &limits {
        Some(limits) => (ptr::from_ref(limits) as usize, size_of::<Limits>()),
        None => (0, 0),
    };
    let (ring, len, least, flags) = (ring as usize, len as usize, least as usize, flags as usize);
    // SAFETY: the limits outlive the call; the submitters of the entries keep their memory valid.
    let raw = unsafe { sc::syscall6(nr::IO_URING_ENTER, ring, len, least, flags, arg, size) };
    return_predictor::renew();
    checked(raw)
}

/// `struct io_uring_rsrc_update`, as registrations of rings use it.
#[repr(C)]
struct RingUpdate {
    index: u32,
    reserved: u32,
    ring: u64,
}

const REGISTER_RING_FDS: usize = 20;
const UNREGISTER_RING_FDS: usize = 21;

/// Registers a ring with this thread, which may then enter it by the returned index.
///
/// # Errors
/// `INVAL`: the kernel has no such table. `BUSY`: it is full.
pub(crate) fn register_ring(ring: RawFd) -> Result<u32, Errno> {
    let mut update = RingUpdate { index: u32::MAX, reserved: 0, ring: ring as u64 };
    let at = &raw mut update as usize;
    // SAFETY: one update, which outlives the call; the kernel writes its number there.
    checked(unsafe {
        sc::syscall4(nr::IO_URING_REGISTER, ring as usize, REGISTER_RING_FDS, at, 1)
    })?;
    Ok(update.index)
}

/// Takes a ring out of this thread's table.
pub(crate) fn unregister_ring(ring: RawFd, index: u32) {
    let update = RingUpdate { index, reserved: 0, ring: 0 };
    let (ring, at) = (ring as usize, &raw const update as usize);
    // SAFETY: one update, which outlives the call.
    unsafe { sc::syscall4(nr::IO_URING_REGISTER, ring, UNREGISTER_RING_FDS, at, 1) };
}

const REGISTER_FILES: usize = 2;
/// The ring is named by its index in this thread's table (Linux 6.3).
const BY_INDEX: usize = 1 << 31;

/// Makes `fd` the only registered file of a ring that is in this thread's table.
///
/// # Errors
/// `INVAL` before Linux 6.3; `BUSY`: the ring has files already.
pub(crate) fn register_file_of_ring(index: u32, fd: RawFd) -> Result<(), Errno> {
    let (index, at) = (index as usize, &raw const fd as usize);
    // SAFETY: one descriptor, which outlives the call.
    checked(unsafe { sc::syscall4(nr::IO_URING_REGISTER, index, REGISTER_FILES | BY_INDEX, at, 1) })
        .map(drop)
}

fn checked(raw: usize) -> Result<u32, Errno> {
    let raw = result(raw);
    if raw < 0 { Err(Errno::from_raw_os_error(-raw)) } else { Ok(raw as u32) }
}

/// Blocks all signals on this thread, so that handlers run on others.
pub fn block_signals() {
    const BLOCK: usize = 0;
    let all = u64::MAX;
    let (set, size) = (&raw const all as usize, size_of::<u64>());
    // SAFETY: `all` is a signal set of the size given, which the kernel reads during the call.
    unsafe { sc::syscall4(nr::RT_SIGPROCMASK, BLOCK, set, 0, size) };
}

/// Returns the CPU time of a thread of this process, in ns; `None` if there is no such thread.
#[must_use]
pub fn thread_cpu_ns(thread: i32) -> Option<u64> {
    // The clock of a thread has its id in the upper bits, inverted, and the flags PERTHREAD and
    // SCHED (include/linux/posix-timers_types.h).
    let clock = (!thread << 3) | 4 | 2;
    let mut time = Timespec { sec: 0, nsec: 0 };
    let at = &raw mut time as usize;
    // SAFETY: the kernel writes one `struct timespec` there.
    let raw = unsafe { sc::syscall2(nr::CLOCK_GETTIME, clock as usize, at) };
    checked(raw).ok()?;
    Some(time.sec as u64 * 1_000_000_000 + time.nsec as u64)
}

/// Returns how often this thread has given its CPU away to wait for something; 0 if the kernel
/// refuses the call.
pub(crate) fn voluntary_switches() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let (who, at) = (libc::RUSAGE_THREAD as usize, usage.as_mut_ptr() as usize);
    // SAFETY: the kernel writes one `struct rusage` there.
    let raw = unsafe { sc::syscall2(nr::GETRUSAGE, who, at) };
    // SAFETY: `rusage` consists of integers, for which zero is valid, too.
    let usage = unsafe { usage.assume_init() };
    checked(raw).map_or(0, |_| usage.ru_nvcsw as u64)
}

/// Narrows a raw result; counts fit, since Linux moves less than 2^31 bytes in a call.
fn result(raw: usize) -> i32 {
    raw as isize as i32
}

/// As [`result`], for a frequent call, after which predictions of returns are renewed.
#[inline(always)]
fn often(raw: usize) -> i32 {
    return_predictor::renew();
    result(raw)
}

/// # Safety
/// The buffers are valid for the kernel to write.
pub(crate) unsafe fn preadv2(fd: RawFd, iov: *const IoVec, n: u32, at: u64, flags: u32) -> i32 {
    // The kernel takes the position in two halves and, on 64 bits, looks at the first only.
    let (fd, iov, n, at) = (fd as usize, iov as usize, n as usize, at as usize);
    // SAFETY: the caller vouches for the buffers.
    often(unsafe { sc::syscall6(nr::PREADV2, fd, iov, n, at, 0, flags as usize) })
}

/// # Safety
/// The buffers are valid for the kernel to read.
pub(crate) unsafe fn pwritev2(fd: RawFd, iov: *const IoVec, n: u32, at: u64, flags: u32) -> i32 {
    let (fd, iov, n, at) = (fd as usize, iov as usize, n as usize, at as usize);
    // SAFETY: the caller vouches for the buffers.
    often(unsafe { sc::syscall6(nr::PWRITEV2, fd, iov, n, at, 0, flags as usize) })
}

/// # Safety
/// `buf` is valid for the kernel to write `len` bytes.
pub(crate) unsafe fn recv(fd: RawFd, buf: *mut u8, len: u32, flags: i32) -> i32 {
    let (fd, buf, len, flags) = (fd as usize, buf as usize, len as usize, flags as usize);
    // SAFETY: the buffer is valid by the caller's promise; no address is requested.
    often(unsafe { sc::syscall6(nr::RECVFROM, fd, buf, len, flags, 0, 0) })
}

/// # Safety
/// `buf` is valid for the kernel to read `len` bytes.
pub(crate) unsafe fn send(fd: RawFd, buf: *const u8, len: u32, flags: i32) -> i32 {
    let (fd, buf, len, flags) = (fd as usize, buf as usize, len as usize, flags as usize);
    // SAFETY: the caller vouches for the buffer; no address is given.
    often(unsafe { sc::syscall6(nr::SENDTO, fd, buf, len, flags, 0, 0) })
}

/// # Safety
/// The header and all it points to is valid for the kernel to write.
pub(crate) unsafe fn recvmsg(fd: RawFd, message: *mut MessageHeader, flags: i32) -> i32 {
    // SAFETY: the caller vouches for the header.
    often(unsafe { sc::syscall3(nr::RECVMSG, fd as usize, message as usize, flags as usize) })
}

/// # Safety
/// The header and all it points to is valid for the kernel to read.
pub(crate) unsafe fn sendmsg(fd: RawFd, message: *const MessageHeader, flags: i32) -> i32 {
    // SAFETY: the caller vouches for the header.
    often(unsafe { sc::syscall3(nr::SENDMSG, fd as usize, message as usize, flags as usize) })
}

/// # Safety
/// `addr` and `addr_len` are valid for the kernel to write, or both null.
pub(crate) unsafe fn accept4(
    fd: RawFd,
    addr: *mut SockAddrStorage,
    addr_len: *mut u32,
    flags: i32,
) -> i32 {
    let (fd, addr, len) = (fd as usize, addr as usize, addr_len as usize);
    // SAFETY: the caller vouches for the address.
    result(unsafe { sc::syscall4(nr::ACCEPT4, fd, addr, len, flags as usize) })
}

/// # Safety
/// `addr` is valid for the kernel to read `addr_len` bytes.
pub(crate) unsafe fn connect(fd: RawFd, addr: *const SockAddrStorage, addr_len: u32) -> i32 {
    // SAFETY: the caller vouches for the address.
    result(unsafe { sc::syscall3(nr::CONNECT, fd as usize, addr as usize, addr_len as usize) })
}

/// Returns the address of a socket's peer and the number of bytes that count, or `-errno`.
pub(crate) fn peer_of(fd: RawFd) -> Result<(SockAddrStorage, u32), i32> {
    let mut addr = SockAddrStorage::new();
    let mut len = SockAddrStorage::LEN;
    let (room, room_len) = (&raw mut addr as usize, &raw mut len as usize);
    // SAFETY: both lie in this frame.
    match result(unsafe { sc::syscall3(nr::GETPEERNAME, fd as usize, room, room_len) }) {
        0.. => Ok((addr, len)),
        error => Err(error),
    }
}

const SOL_SOCKET: usize = 1;
const SO_PEERCRED: usize = 17;

/// Returns the process id, user id and group id of the peer of a Unix socket. (In rustix's type an
/// id of 0, which a process of another namespace has, would be invalid.)
pub(crate) fn peer_credentials(fd: RawFd) -> Result<[u32; 3], i32> {
    let mut ids = [0_u32; 3];
    let mut len = size_of_val(&ids) as u32;
    let (room, room_len) = (&raw mut ids as usize, &raw mut len as usize);
    // SAFETY: both lie in this frame; `struct ucred` has three numbers of 32 bits.
    let raw = unsafe {
        sc::syscall5(nr::GETSOCKOPT, fd as usize, SOL_SOCKET, SO_PEERCRED, room, room_len)
    };
    match result(raw) {
        0.. => Ok(ids),
        error => Err(error),
    }
}

/// # Safety
/// `path` is valid for the kernel to read up to its zero byte.
pub(crate) unsafe fn openat(path: *const u8, flags: i32, mode: u32) -> i32 {
    let (dir, path) = (super::WORKING_DIRECTORY as isize as usize, path as usize);
    // SAFETY: the caller vouches for the path.
    result(unsafe { sc::syscall4(nr::OPENAT, dir, path, flags as usize, mode as usize) })
}

/// Closes a descriptor. It is closed even if a signal interrupts the call.
pub(crate) fn close(fd: RawFd) -> i32 {
    // SAFETY: the call has no pointers; its submitter vouches that the descriptor may be closed.
    match result(unsafe { sc::syscall1(nr::CLOSE, fd as isize as usize) }) {
        INTERRUPTED => 0,
        result => result,
    }
}

/// # Safety
/// `events` is valid for the kernel to write `count` of them.
pub(crate) unsafe fn epoll_wait_now(fd: RawFd, events: *mut EpollEvent, count: u32) -> i32 {
    let (fd, events, count) = (fd as isize as usize, events as usize, count as usize);
    // SAFETY: the caller vouches for the events; the timeout is 0, and there is no signal mask.
    result(unsafe { sc::syscall6(nr::EPOLL_PWAIT, fd, events, count, 0, 0, 0) })
}

/// Returns the outcome of a connect(2) that continued in the kernel: 0 or `-errno`.
pub(crate) fn connect_outcome(fd: RawFd) -> i32 {
    match rustix::net::sockopt::socket_error(borrow(&fd)) {
        Ok(Ok(())) => 0,
        Ok(Err(errno)) | Err(errno) => -errno.raw_os_error(),
    }
}

/// Lends a descriptor for a call. The number may be stale or nonsense: the kernel then returns
/// `EBADF`, or the call concerns another file, which is the op's submitter's mistake, not UB.
pub(crate) fn borrow(fd: &RawFd) -> BorrowedFd<'_> {
    // `BorrowedFd` cannot hold -1, so a number that is never open takes its place.
    let fd = if *fd < 0 { RawFd::MAX } else { *fd };
    // SAFETY: not -1. An op's descriptor is kept open by its submitter (contract of
    // `Driver::submit`).
    unsafe { BorrowedFd::borrow_raw(fd) }
}
