//! Closing descriptors. Dropping a descriptor closes it, too, on the calling thread; these two
//! calls do not delay the worker if the close takes long (a socket that lingers, a file on a
//! network).
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, IntoRawFd, OwnedFd},
};

use ramie_driver::{Op, sys};

use crate::{
    core::{cancel, wait::park::WaitKind, worker},
    op::{
        self, blocking,
        route::{Route, route},
    },
};

static CLOSE: WaitKind = WaitKind::new("a descriptor to be closed");

/// Closes a descriptor, waits until it is closed, and returns the error, if there is one: `close`,
/// a ring's op since Linux 5.6. The descriptor is closed even on an error.
///
/// # Blocking
/// Parks the strand until it is closed.
///
/// # Cancellation
/// Not a cancel point, because the descriptor is closed in any case.
///
/// # Errors
/// Those of close(2), but never `EINTR`: a write that was not finished has failed.
#[track_caller]
pub fn close(fd: impl Into<OwnedFd>) -> io::Result<()> {
    let fd = fd.into();
    if route() != Route::Ring {
        return blocking(move || sys::close(fd));
    }
    let op = Op::Close { fd: fd.as_raw_fd() };
    // From here on the descriptor belongs to the op, which no cancellation prevents.
    let _ = fd.into_raw_fd();
    // SAFETY: it points to nothing.
    let closed = cancel::shield(|| unsafe { op::request(&CLOSE, op).perform() });
    Ok(closed.map(drop)?)
}

/// Closes a descriptor without waiting: a ring closes it with its next ops, the polling driver at
/// once.
///
/// Its error is not reported. The descriptor's number, and the address that it is bound to, become
/// free only a moment later. To bind the same address again, [`close`] the old socket.
///
/// # Blocking
/// Never.
pub fn close_async(fd: impl Into<OwnedFd>) {
    let mut fd = Some(fd.into());
    // Without a driver the descriptor is dropped, which closes it.
    let _ = worker::current().io.with_driver(|driver| fd.take().map(|fd| driver.close_later(fd)));
}
