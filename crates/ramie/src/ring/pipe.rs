//! Pipes, and transfers between descriptors inside the kernel.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use ramie_driver::{
    Call,
    sys::{self, SpliceFlags},
};

use super::leftover;
use crate::{
    core::{time::Deadline, wait::park::WaitKind},
    op::{
        call::{by_ring, cut, make_at_once, own, plainly, raw},
        inboxes,
        readiness::Readiness,
        route::{Route, route_of_wait},
    },
};

static PIPE: WaitKind = WaitKind::of_op("a pipe to be made");
pub(super) static MOVE: WaitKind = WaitKind::of_op("data to move between descriptors");

/// Makes a pipe and returns its reading end and its writing end, both close-on-exec: `pipe2`, a
/// ring's op since Linux 6.16.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of pipe2(2).
#[track_caller]
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let call = Call::Pipe { into: &raw mut ends, flags: sys::O_CLOEXEC as u32 };
    // SAFETY: the ends lie in this frame.
    unsafe { make_at_once(&PIPE, &call) }?;
    // SAFETY: the call has returned two new descriptors; this is one.
    let from = unsafe { own(ends[0] as u32) };
    // SAFETY: this is the other one.
    Ok((from, unsafe { own(ends[1] as u32) }))
}

/// Moves up to `len` bytes between two descriptors, one of which is a pipe, without copying them
/// through the program: `splice`, a ring's op since Linux 5.7. For a descriptor that is no pipe an
/// offset may be given.
///
/// Returns the number of bytes moved; 0 means the end of `from`. Without the op, the call waits
/// until both descriptors are ready and is then made on the blocking pool, where a slow socket
/// occupies a thread. Data that an iterator over a socket (`recv_each`) has received and the
/// program has not taken comes first; it is copied, up to 4 KiB in one call, through a pipe that
/// the call makes for it.
///
/// # Blocking
/// Parks the strand until bytes have moved. With `SpliceFlags::NONBLOCK` it does not wait for a
/// pipe.
///
/// # Cancellation
/// A cancel point. If bytes have moved, the call returns their number.
///
/// # Errors
/// Those of splice(2). While such data is left, also those of pipe2(2).
#[track_caller]
pub fn splice(
    from: impl AsFd,
    from_at: Option<u64>,
    to: impl AsFd,
    to_at: Option<u64>,
    len: usize,
    flags: SpliceFlags,
) -> io::Result<usize> {
    let (from_at, to_at) = (file_offset(from_at)?, file_offset(to_at)?);
    let (from, to) = (from.as_fd(), to.as_fd());
    if (from_at, to_at) == (-1, -1)
        && inboxes::in_use(from).is_some()
        && let Some(count) = leftover::splice(from, to, len, flags)?
    {
        return Ok(count);
    }
    moved(from, to, flags, |flags| Call::Splice {
        from: raw(&from),
        from_at,
        to: raw(&to),
        to_at,
        len: cut(len).min(i32::MAX as u32),
        flags: flags.bits(),
    })
}

/// Copies up to `len` bytes from one pipe to another and leaves them in the first: `tee`, a ring's
/// op since Linux 5.8. Returns the number of bytes copied; 0 means the end of `from`.
///
/// # Blocking
/// Parks the strand until bytes were copied, unless `SpliceFlags::NONBLOCK` is set.
///
/// # Cancellation
/// A cancel point. If bytes were copied, the call returns their number.
///
/// # Errors
/// Those of tee(2).
#[track_caller]
pub fn tee(from: impl AsFd, to: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
    let (from, to) = (from.as_fd(), to.as_fd());
    moved(from, to, flags, |flags| Call::Tee {
        from: raw(&from),
        to: raw(&to),
        len: cut(len).min(i32::MAX as u32),
        flags: flags.bits(),
    })
}

#[track_caller]
fn moved(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    flags: SpliceFlags,
    call: impl Fn(SpliceFlags) -> Call,
) -> io::Result<usize> {
    let asked = call(flags);
    let count = match route_of_wait(&asked) {
        // SAFETY: it points to nothing, and both ends are borrowed.
        Route::Ring => unsafe { by_ring(&MOVE, &asked) },
        // SAFETY: as above.
        Route::Here => unsafe { plainly(asked) },
        Route::WithoutRing if flags.contains(SpliceFlags::NONBLOCK) => {
            // SAFETY: as above.
            unsafe { plainly(asked) }
        }
        Route::WithoutRing => {
            let (mut full, mut taken) = (Readiness::default(), Readiness::default());
            loop {
                full.wait(&MOVE, from.into(), sys::POLL_IN, Deadline::NEVER)?;
                taken.wait(&MOVE, to.into(), sys::POLL_OUT, Deadline::NEVER)?;
                // SAFETY: as above.
                match unsafe { plainly(call(flags | SpliceFlags::NONBLOCK)) } {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => break result,
                }
            }
        }
    };
    Ok(count? as usize)
}

/// Converts an offset for the op; `None` becomes -1.
fn file_offset(offset: Option<u64>) -> io::Result<i64> {
    let Some(offset) = offset else { return Ok(-1) };
    i64::try_from(offset).map_err(|_| sys::Errno::INVAL.into())
}
