//! Closing descriptors. Dropping a descriptor closes it on the calling thread. These two calls do
//! not delay the worker if the close takes long (a socket with `SO_LINGER`, a file on a network
//! file system).
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

static CLOSE: WaitKind = WaitKind::of_op("a descriptor to be closed");

/// Closes a descriptor and waits until it is closed: `close`, a ring's op since Linux 5.6. The
/// descriptor is closed even if the call returns an error.
///
/// # Blocking
/// Parks the strand until the descriptor is closed.
///
/// # Cancellation
/// Not a cancel point, because the descriptor is closed in any case.
///
/// # Errors
/// Those of close(2), but never `EINTR`: an earlier write, which the system had not finished, has
/// failed.
#[track_caller]
pub fn close(fd: impl Into<OwnedFd>) -> io::Result<()> {
    let fd = fd.into();
    if route() != Route::Ring {
        return blocking(move || sys::close(fd));
    }
    let op = Op::Close { fd: fd.as_raw_fd() };
    // The op owns the descriptor from here on; the shield ensures that no cancellation prevents the
    // op.
    let _ = fd.into_raw_fd();
    // SAFETY: it points to nothing.
    let closed = cancel::shield(|| unsafe { op::request(&CLOSE, op).perform() });
    Ok(closed.map(drop)?)
}

/// Closes a descriptor without waiting: a ring with its next batch of ops, the polling driver at
/// once.
///
/// An error is not reported. The descriptor's number, and the address that a socket is bound to,
/// become free only later. To bind the same address again, use [`close`] for the old socket.
///
/// # Blocking
/// Never.
pub fn close_async(fd: impl Into<OwnedFd>) {
    let mut fd = Some(fd.into());
    // Without a driver the descriptor is dropped, which closes it.
    let _ = worker::current().io.with_driver(|driver| fd.take().map(|fd| driver.close_later(fd)));
}
