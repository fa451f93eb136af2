//! Waiting for the lock of a file, which the kernel makes only a thread wait for.
//!
//! No op of the ring calls flock(2), and readiness does not report that a lock is free. So a waiter
//! gets a thread of the pool, but at most [`MAX_THREADS`] waiters do: if waiters took all threads
//! of the pool, the holder of a lock might find none for the call that releases it. Further waiters
//! try repeatedly, at growing intervals.

use std::{
    fs::TryLockError,
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::file::File;
use crate::{
    core::cancel,
    op::{
        blocking,
        retry::Pauses,
        route::{Route, route, uninterrupted},
    },
};

const MAX_THREADS: usize = 32;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The permission to occupy one thread of the pool with a wait for a lock.
struct LockThread;

impl LockThread {
    fn take() -> Option<LockThread> {
        if THREADS.fetch_add(1, Ordering::Relaxed) < MAX_THREADS {
            return Some(LockThread);
        }
        THREADS.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for LockThread {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes a lock by `wait`, or by repeating `attempt` if no thread is free.
#[track_caller]
pub(super) fn lock(
    file: &File,
    wait: fn(&std::fs::File) -> io::Result<()>,
    attempt: fn(&std::fs::File) -> Result<(), TryLockError>,
) -> io::Result<()> {
    let file = file.as_std();
    let can_be_ended = cancel::may_be_cancelled() && !std::thread::panicking();
    if route() == Route::Here && !can_be_ended {
        cancel::check_io()?;
        return uninterrupted(|| wait(file));
    }
    let mut pauses = Pauses::long();
    loop {
        cancel::check_io()?;
        match blocking(|| attempt(file)) {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Not in a scope that may be cancelled, because a thread in flock(2) cannot be interrupted.
        if !cancel::may_be_cancelled()
            && let Some(_thread) = LockThread::take()
        {
            return blocking(|| uninterrupted(|| wait(file)));
        }
        pauses.pause();
    }
}
