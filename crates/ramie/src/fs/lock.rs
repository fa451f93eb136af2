//! Waiting for the lock of a file, which only a thread can do.
//!
//! flock(2) has neither readiness nor an op. A waiter gets a thread of the pool, but at most
//! [`MAX_THREADS`] have one: if locks took all of the pool, the holder of one might need a thread
//! to release it. Further waiters try repeatedly, at growing intervals.

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

/// One of the threads that wait for locks.
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
        // A thread that waits for a lock cannot be interrupted.
        if !cancel::may_be_cancelled()
            && let Some(_thread) = LockThread::take()
        {
            return blocking(|| uninterrupted(|| wait(file)));
        }
        pauses.pause();
    }
}
