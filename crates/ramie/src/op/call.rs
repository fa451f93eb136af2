//! How a call is made: as an op of the strand's ring, which has it, or on the blocking pool; right
//! here by a thread, which may block.
#![allow(unsafe_code)]

use std::{
    ffi::{CString, OsStr},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    thread,
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
/// What `call` points to stays valid, and is not used by others in a conflicting way, until this
/// has returned.
#[track_caller]
pub(crate) unsafe fn make(kind: &'static WaitKind, call: Call) -> io::Result<u32> {
    if is_by_ring(&call) {
        // SAFETY: the caller's promise.
        return unsafe { by_ring(kind, &call) };
    }
    // SAFETY: the caller's promise.
    unsafe { plainly(call) }
}

/// As [`make`], for a call that does not wait: without a ring's op it is made right here.
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

/// How a call is made that may wait for long.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the ring's op, which can be cancelled.
    Ring,
    /// Right here, by a thread that nobody can cancel.
    Here,
    /// In whatever way the call can be had without waiting in it.
    Otherwise,
}

/// Returns the way of this call.
#[track_caller]
pub(crate) fn way(call: &Call) -> Way {
    worker::check_may_switch();
    let on_fiber = worker::with_existing(worker::Worker::is_on_fiber);
    if on_fiber != Some(true) && (thread::panicking() || !cancel::may_be_cancelled()) {
        return Way::Here;
    }
    let can = worker::current().with_driver(|driver| driver.caps().can(call));
    if can.unwrap_or(false) { Way::Ring } else { Way::Otherwise }
}

/// Whether the strand's driver waits for an epoll set.
pub(crate) fn can_wait_for_epoll() -> bool {
    let can = worker::current().with_driver(|driver| {
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

/// A call whose pointers are good for as long as its strand waits, on any thread.
struct SendCall(Call);

// SAFETY: made in `plainly` only, whose caller keeps what it points to until the job has ended.
unsafe impl Send for SendCall {}

impl SendCall {
    fn make(&self) -> io::Result<u32> {
        // SAFETY: as for `Send` above.
        result_of(unsafe { self.0.make() })
    }
}

/// What a raw result means.
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

/// The name as the kernel takes it.
pub(crate) fn c_string(name: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(name.as_ref().as_bytes()).map_err(|_| {
        // std's words, of a path.
        let sentence = "file name contained an unexpected NUL byte";
        io::Error::new(io::ErrorKind::InvalidInput, sentence)
    })
}

pub(crate) fn raw(fd: &impl AsFd) -> i32 {
    fd.as_fd().as_raw_fd()
}

/// The most that one call takes; more is cut, and the result short.
pub(crate) fn cut(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
