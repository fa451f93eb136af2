//! Where the call of a strand is made: here, through the ring, or on the blocking pool.

use std::{io, thread};

use ramie_driver::Kind;

use crate::worker;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// On this thread, which may block: it is no fiber's, or the fiber unwinds.
    Here,
    Ring,
    Pool,
}

/// Tells where a call of this strand is made.
#[track_caller]
pub(crate) fn route() -> Route {
    let on_fiber = worker::with_existing(|worker| {
        worker.check_may_switch();
        let is_ring = || worker.with_driver(|driver| driver.kind() == Kind::Uring).unwrap_or(false);
        worker.is_on_fiber().then(is_ring)
    });
    match on_fiber.flatten() {
        Some(_) if thread::panicking() => Route::Here,
        Some(true) => Route::Ring,
        Some(false) => Route::Pool,
        None => Route::Here,
    }
}

/// Makes a call again for as long as a signal interrupts it.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Lists the calls of this module with the way each goes on a driver, for `ramie doctor`.
#[doc(hidden)]
pub fn routes(is_ring: bool) -> [(&'static str, &'static str); 6] {
    let waiting = if is_ring { "the ring" } else { "the pool" };
    [
        ("read, read_at, read_vectored: cached", "at once"),
        ("read, read_at, read_vectored: not cached", waiting),
        ("write, write_at, write_vectored, sync_all, sync_data", waiting),
        ("open of what exists", waiting),
        ("metadata of what is cached and local", "at once"),
        ("create, rename, remove, link, list, permissions, copy, set_len, lock", "the pool"),
    ]
}
