//! Futexes: words that fibers, threads and other processes wait for.
#![allow(unsafe_code)]

use std::{io, sync::atomic::AtomicU32, thread, time::Duration};

use ramie_driver::{
    Call,
    sys::{self, Errno, FutexFlags},
};

use crate::{
    core::wait::park::WaitKind,
    op::{
        blocking_io,
        call::{by_ring, make_at_once, plainly},
        route::{Route, route_of_wait},
    },
};

static FUTEX: WaitKind = WaitKind::of_op("a futex to be woken");

/// The length of one wait on the pool. A wait on the pool cannot be interrupted, so a cancellation
/// takes effect after at most this time.
const SLICE: Duration = Duration::from_millis(20);

/// Waits until the waiters of `word` are woken, if the word is still `expected`: `futex_wait`, a
/// ring's op since Linux 6.7.
///
/// Fibers, plain threads (`FUTEX_WAIT`) and, without the flag `PRIVATE`, other processes may wait
/// for the same word. Between fibers a lock of [`sync`](crate::sync) is far cheaper. The call may
/// return spuriously, so check the word again. Without the op, the call waits on the blocking pool.
///
/// # Blocking
/// Parks the strand until it is woken.
///
/// # Cancellation
/// A cancel point. Without the op, a cancellation takes effect within 20 ms.
///
/// # Errors
/// `WouldBlock` (`EAGAIN`): the word is not `expected`.
///
/// # Examples
/// ```
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
/// use ramie::{fiber, ring::{self, FutexFlags}};
///
/// ramie::run(|| {
///     let word = Arc::new(AtomicU32::new(0));
///     let theirs = Arc::clone(&word);
///     let thread = std::thread::spawn(move || {
///         theirs.store(1, Ordering::Release);
///         ring::futex_wake(&theirs, u32::MAX, FutexFlags::PRIVATE)
///     });
///     while word.load(Ordering::Acquire) == 0 {
///         let _ = ring::futex_wait(&word, 0, FutexFlags::PRIVATE);
///     }
///     thread.join().unwrap()
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn futex_wait(word: &AtomicU32, expected: u32, flags: FutexFlags) -> io::Result<()> {
    let is_shared = !flags.contains(FutexFlags::PRIVATE);
    let call = Call::FutexWait { word: word.as_ptr().cast_const(), value: expected, is_shared };
    match route_of_wait(&call) {
        // SAFETY: the word is borrowed.
        Route::Ring => unsafe { by_ring(&FUTEX, &call) }.map(drop),
        // SAFETY: as above.
        Route::Here => unsafe { plainly(call) }.map(drop),
        Route::WithoutRing => loop {
            match blocking_io(|| sys::futex_wait_for(word, expected, is_shared, SLICE)) {
                // On a strand that unwinds the call returns spuriously, because the worker would
                // otherwise be blocked.
                Err(error) if is_over(&error) && thread::panicking() => return Ok(()),
                Err(error) if is_over(&error) => {}
                result => return result,
            }
        },
    }
}

fn is_over(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    [Errno::TIMEDOUT, Errno::INTR].iter().any(|over| errno == Some(over.raw_os_error()))
}

/// Wakes up to `count` waiters of `word`, and returns the number woken: `futex_wake`, a ring's op
/// since Linux 6.7.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// The strand was cancelled.
#[track_caller]
pub fn futex_wake(word: &AtomicU32, count: u32, flags: FutexFlags) -> io::Result<usize> {
    let is_shared = !flags.contains(FutexFlags::PRIVATE);
    let count = count.min(i32::MAX as u32);
    let call = Call::FutexWake { word: word.as_ptr().cast_const(), count, is_shared };
    // SAFETY: the word is borrowed.
    Ok(unsafe { make_at_once(&FUTEX, &call) }? as usize)
}
