//! Pipes, and moves from descriptor to descriptor within the kernel.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use ramie_driver::{
    Call,
    sys::{self, SpliceFlags},
};

use crate::{
    core::{time::Deadline, wait::park::WaitKind},
    op::{
        call::{Way, by_ring, cut, make_at_once, own, plainly, raw, way},
        readiness::Readiness,
    },
};

static PIPE: WaitKind = WaitKind::new("a pipe to be made");
static MOVE: WaitKind = WaitKind::new("data to move from descriptor to descriptor");

/// Makes a pipe, its reading end first; both are closed on exec: `pipe2`, a ring's op since Linux
/// 6.16.
///
/// # Blocking
/// Parks the strand until it is made.
///
/// # Cancellation
/// A cancel point before the start; once begun, the op is waited for, and its own result is
/// returned.
///
/// # Errors
/// Those of pipe2(2).
#[track_caller]
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let call = Call::Pipe { into: &raw mut ends, flags: sys::O_CLOEXEC as u32 };
    // SAFETY: the ends lie in this frame.
    unsafe { make_at_once(&PIPE, &call) }?;
    // SAFETY: a new descriptor.
    let from = unsafe { own(ends[0] as u32) };
    // SAFETY: another.
    Ok((from, unsafe { own(ends[1] as u32) }))
}

/// Moves up to `len` bytes between two descriptors, one of which is a pipe, without copying them
/// through the program: `splice`, a ring's op since Linux 5.7. The other may have an offset.
///
/// 0 is the end of `from`. Without a ring it waits until both are ready and makes the call on the
/// blocking pool, where a slow socket occupies a thread.
///
/// # Blocking
/// Parks the strand until something has moved, unless `SpliceFlags::NONBLOCK` forbids to wait for a
/// pipe.
///
/// # Cancellation
/// A cancel point. If bytes have moved, it returns their number.
///
/// # Errors
/// Those of splice(2).
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
/// op since Linux 5.8. 0 is the end of `from`.
///
/// # Blocking
/// Parks the strand until something was copied, unless `SpliceFlags::NONBLOCK` forbids that.
///
/// # Cancellation
/// A cancel point. If bytes were copied, it returns their number.
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
    let count = match way(&asked) {
        // SAFETY: it points to nothing, and both ends are borrowed.
        Way::Ring => unsafe { by_ring(&MOVE, &asked) },
        // SAFETY: as above.
        Way::Here => unsafe { plainly(asked) },
        Way::Otherwise if flags.contains(SpliceFlags::NONBLOCK) => {
            // SAFETY: as above.
            unsafe { plainly(asked) }
        }
        Way::Otherwise => {
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
