//! System calls of a strand: as an op of its ring if the ring has the op, otherwise on the blocking
//! pool, or on the calling thread if the call does not wait ([`make_at_once`]). A thread makes them
//! directly, because it may block.
#![allow(unsafe_code)]

use std::{
    ffi::{CString, OsStr},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

use ramie_driver::{Call, Feature, Kind, Op};

use super::{
    blocking_io, own_fd, request,
    route::{is_by_ring, uninterrupted},
};
use crate::core::{cancel, wait::park::WaitKind, worker};

/// Makes a call and returns its result, a count or a descriptor.
///
/// # Safety
/// The memory that `call` points to stays valid, and is not used by others in a conflicting way,
/// until this call has returned.
#[track_caller]
pub(crate) unsafe fn make(kind: &'static WaitKind, call: Call) -> io::Result<u32> {
    if is_by_ring(&call) {
        // SAFETY: the caller's promise.
        return unsafe { by_ring(kind, &call) };
    }
    // SAFETY: the caller's promise.
    unsafe { plainly(call) }
}

/// As [`make`], for a call that does not wait: if the ring has no op for it, it is made directly.
///
/// # Safety
/// As [`make`].
#[track_caller]
pub(crate) unsafe fn make_at_once(kind: &'static WaitKind, call: &Call) -> io::Result<u32> {
    if is_by_ring(call) {
        // SAFETY: the caller's promise.
        return unsafe { by_ring(kind, call) };
    }
    cancel::check_io()?;
    // SAFETY: the caller's promise.
    uninterrupted(|| result_of(unsafe { call.make() }))
}

/// Whether the strand's driver waits for an epoll set.
pub(crate) fn can_wait_for_epoll() -> bool {
    let can = worker::current().io.with_driver(|driver| {
        driver.kind() == Kind::Poll || driver.caps().features.has(Feature::EpollWait)
    });
    can.unwrap_or(false)
}

/// As [`make`], through the ring, which has the op.
///
/// # Safety
/// As [`make`].
#[track_caller]
pub(crate) unsafe fn by_ring(kind: &'static WaitKind, call: &Call) -> io::Result<u32> {
    let op = Op::Call { call };
    // SAFETY: the caller's promise, and the call itself lies in the caller's frame.
    Ok(unsafe { request(kind, op).perform() }?)
}

/// As [`make`], without a ring.
///
/// # Safety
/// As [`make`].
#[track_caller]
pub(crate) unsafe fn plainly(call: Call) -> io::Result<u32> {
    let lent = SendCall(call);
    blocking_io(move || uninterrupted(|| lent.make()))
}

/// A call whose pointers are valid on any thread as long as its strand waits.
struct SendCall(Call);

// SAFETY: made only in `plainly`, whose caller keeps the memory behind its pointers until the job
// has ended.
unsafe impl Send for SendCall {}

impl SendCall {
    fn make(&self) -> io::Result<u32> {
        // SAFETY: as for `Send` above.
        result_of(unsafe { self.0.make() })
    }
}

/// Converts the result of a system call.
pub(crate) fn result_of(raw: i32) -> io::Result<u32> {
    u32::try_from(raw).map_err(|_| io::Error::from_raw_os_error(-raw))
}

/// Takes possession of a descriptor that a call has made.
///
/// # Safety
/// It is new, and nobody else's.
pub(crate) unsafe fn own(fd: u32) -> OwnedFd {
    // SAFETY: the caller's promise.
    unsafe { own_fd(fd) }
}

/// Returns the name in the kernel's form.
pub(crate) fn c_string(name: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(name.as_ref().as_bytes()).map_err(|_| {
        // The message of std for a path.
        let sentence = "file name contained an unexpected NUL byte";
        io::Error::new(io::ErrorKind::InvalidInput, sentence)
    })
}

pub(crate) fn raw(fd: &impl AsFd) -> i32 {
    fd.as_fd().as_raw_fd()
}

/// Limits a length to the most that one call takes; the result of a longer call is short.
pub(crate) fn cut(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
