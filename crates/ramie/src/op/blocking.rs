//! Calls that block their thread, made on the blocking pool.

use std::{
    io,
    sync::{Arc, OnceLock},
    thread,
};

use crate::core::{
    cancel,
    worker::{self, DEFAULT_BLOCKING_THREADS, Pool},
};

/// Runs a closure that blocks its thread, without blocking the worker; other fibers run meanwhile.
///
/// Use it for calls that wait without Ramie's knowledge (a C library, a file on a slow disk) and
/// for long computations. The closure may borrow, because this call returns only when the closure
/// has ended. Fibers are served in the order in which they come; the pool has 512 threads unless
/// [`Builder::blocking_threads`](crate::Builder::blocking_threads) sets another number.
///
/// # Blocking
/// Parks the fiber until the closure has ended.
///
/// # Cancellation
/// Not a cancel point: the call waits until the closure has ended. If the fiber is abandoned
/// ([`Builder::grace`](crate::Builder::grace)), the closure goes on, and the threads of the runtime
/// end after it.
///
/// # Panics
/// With the closure's panic. Inside [`no_switch`](crate::no_switch()).
///
/// # Outside a fiber
/// Runs the closure on the calling thread, which may block.
///
/// While a strand unwinds from a panic, the closure also runs on the calling thread.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let text = String::from("borrowed");
///     let length = ramie::blocking(|| text.len());
///     assert_eq!(length, 8);
/// });
/// ```
/// The closure runs on another thread:
/// ```compile_fail,E0277
/// let here = std::rc::Rc::new(1);
/// ramie::blocking(|| println!("{here}"));
/// ```
#[track_caller]
pub fn blocking<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    match pool_of_fiber() {
        Some(pool) => pool.run(f),
        None => f(),
    }
}

/// The pool for the calls of this fiber; None outside a fiber, and while the fiber unwinds.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
#[track_caller]
fn pool_of_fiber() -> Option<Arc<Pool>> {
    worker::check_may_switch();
    let pool = worker::with_existing(|worker| {
        let of_runtime = worker.workers().map(|workers| Arc::clone(&workers.pool));
        worker.running.is_fiber().then(|| of_runtime.unwrap_or_else(|| Arc::clone(shared_pool())))
    });
    pool.flatten().filter(|_| !thread::panicking())
}

/// Runs a fallible call on the blocking pool, as a cancel point: in a cancelled scope the call does
/// not begin; a call that has begun is not interrupted.
#[track_caller]
pub(crate) fn blocking_io<F, T>(f: F) -> io::Result<T>
where
    F: FnOnce() -> io::Result<T> + Send,
    T: Send,
{
    if cancel::is_cancelled_here() {
        return Err(cancel::error());
    }
    blocking(f)
}

/// The pool of fibers on threads outside `run`.
fn shared_pool() -> &'static Arc<Pool> {
    static POOL: OnceLock<Arc<Pool>> = OnceLock::new();
    POOL.get_or_init(|| Arc::new(Pool::new(DEFAULT_BLOCKING_THREADS)))
}
