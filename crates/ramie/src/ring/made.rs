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
};

use ramie_driver::{Call, Op};

use crate::{
    blocking_io,
    fs::route::{is_by_ring, uninterrupted},
    io_op,
    park::WaitKind,
    time::Deadline,
};

/// Makes a call and returns its result, a count or a descriptor.
///
/// # Safety
/// What `call` points to stays valid, and is not used by others in a conflicting way, until this
/// has returned.
#[track_caller]
pub(super) unsafe fn make(kind: &'static WaitKind, call: Call) -> io::Result<u32> {
    if is_by_ring(&call) {
        // SAFETY: the caller's promise.
        return unsafe { by_ring(kind, &call) };
    }
    // SAFETY: the caller's promise.
    unsafe { plainly(call) }
}

/// As [`make`], through the ring, which has the op.
///
/// # Safety
/// As [`make`].
#[track_caller]
pub(super) unsafe fn by_ring(kind: &'static WaitKind, call: &Call) -> io::Result<u32> {
    let op = Op::Call { call };
    // SAFETY: the caller's promise, and the call itself lies in the caller's frame.
    Ok(unsafe { io_op::perform(kind, op, Deadline::NEVER) }?)
}

/// As [`make`], without a ring.
///
/// # Safety
/// As [`make`].
#[track_caller]
pub(super) unsafe fn plainly(call: Call) -> io::Result<u32> {
    let lent = Lent(call);
    blocking_io(move || uninterrupted(|| lent.make()))
}

/// A call whose pointers are good for as long as its strand waits, on any thread.
struct Lent(Call);

// SAFETY: made in `plainly` only, whose caller keeps what it points to until the job has ended.
unsafe impl Send for Lent {}

impl Lent {
    fn make(&self) -> io::Result<u32> {
        // SAFETY: as for `Send` above.
        result_of(unsafe { self.0.make() })
    }
}

/// What a raw result means.
pub(super) fn result_of(raw: i32) -> io::Result<u32> {
    u32::try_from(raw).map_err(|_| io::Error::from_raw_os_error(-raw))
}

/// As [`make`], for a call that returns a new descriptor.
///
/// # Safety
/// As [`make`].
#[track_caller]
pub(super) unsafe fn make_fd(kind: &'static WaitKind, call: Call) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { make(kind, call) }?;
    // SAFETY: the call returns a new descriptor that nobody else owns.
    Ok(unsafe { io_op::own_fd(fd) })
}

/// The name as the kernel takes it.
pub(super) fn c_string(name: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(name.as_ref().as_bytes()).map_err(|_| {
        // std's words, of a path.
        let sentence = "file name contained an unexpected NUL byte";
        io::Error::new(io::ErrorKind::InvalidInput, sentence)
    })
}

pub(super) fn raw(fd: &impl AsFd) -> i32 {
    fd.as_fd().as_raw_fd()
}

/// The most that one call takes; more is cut, and the result short.
pub(super) fn cut(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
