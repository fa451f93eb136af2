//! The route of a strand's call: on this thread, through the ring, or without the ring, which is
//! mostly on the blocking pool.

use std::{io, thread};

use ramie_driver::{Call, Feature, FeatureSet, Kind};

use crate::core::{cancel, worker};

/// Where a call is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// On this thread, which may block, because the strand is no fiber, or the fiber unwinds.
    Here,
    /// Through the ring, whose ops can be cancelled.
    Ring,
    /// Without the ring, and without blocking the worker: on the blocking pool, or after waiting
    /// for readiness.
    WithoutRing,
}

/// Returns the route of a strand's call. A thread makes every call itself.
#[track_caller]
pub(crate) fn route() -> Route {
    worker::check_may_switch();
    let on_fiber = worker::with_existing(|worker| {
        let is_ring =
            || worker.io.with_driver(|driver| driver.kind() == Kind::Uring).unwrap_or(false);
        worker.running.is_fiber().then(is_ring)
    });
    match on_fiber.flatten() {
        Some(_) if thread::panicking() => Route::Here,
        Some(true) => Route::Ring,
        Some(false) => Route::WithoutRing,
        None => Route::Here,
    }
}

/// Returns the route of a call that may wait forever. A thread that can be cancelled does not make
/// such a call itself, because it could not be interrupted in the call.
#[track_caller]
pub(crate) fn route_of_wait(call: &Call) -> Route {
    worker::check_may_switch();
    let on_fiber = worker::with_existing(|worker| worker.running.is_fiber());
    if on_fiber != Some(true) && (thread::panicking() || !cancel::may_be_cancelled()) {
        return Route::Here;
    }
    let can = worker::current().io.with_driver(|driver| driver.caps().can(call));
    if can.unwrap_or(false) { Route::Ring } else { Route::WithoutRing }
}

/// Returns whether the call goes through this strand's ring.
#[track_caller]
pub(crate) fn is_by_ring(call: &Call) -> bool {
    let can = || worker::current().io.with_driver(|driver| driver.caps().can(call));
    route() == Route::Ring && can().unwrap_or(false)
}

/// Repeats a call as long as a signal interrupts it.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Lists calls on files and processes, each with its route for a fiber, for `ramie doctor`.
#[doc(hidden)]
#[must_use]
pub fn routes(is_ring: bool, features: FeatureSet) -> [(&'static str, &'static str); 12] {
    let waiting = if is_ring { "ring" } else { "pool" };
    let if_cached =
        if is_ring { "at once if cached, else ring" } else { "at once if cached, else pool" };
    let opening =
        if is_ring { "ring" } else { "at once if there and cached on a local disk, else pool" };
    let if_possible = if is_ring {
        "at once where possible, else ring"
    } else {
        "at once where possible, else pool"
    };
    [
        ("read, read_at, read_vectored", if_cached),
        ("write, write_at, write_vectored", if_possible),
        ("sync_all, sync_data", waiting),
        ("open, create", opening),
        ("metadata, symlink_metadata, exists", "at once if cached on a local disk, else pool"),
        (
            "create_dir, rename, links, remove_file, remove_dir",
            if features.has(Feature::PathCalls) { "ring" } else { "pool" },
        ),
        ("canonicalize, read_link", "pool"),
        ("read_dir, create_dir_all, remove_dir_all, write, copy", "pool, one job for many calls"),
        ("set_len", if features.has(Feature::Truncate) { "ring" } else { "pool" }),
        ("set_permissions, set_times, lock", "pool"),
        ("process: spawn", "pool"),
        ("process: wait; pipes of a child", "driver, by readiness"),
    ]
}
