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
/// For calls that wait outside Ramie's sight: a C library, a file on a slow disk, long computation.
/// The closure may borrow, since this call returns only when it has ended. A fiber's place in the
/// queue is first come, first served; the pool has 512 threads unless
/// [`Builder::blocking_threads`](crate::Builder::blocking_threads) sets another number.
///
/// # Blocking
/// Parks the fiber until the closure has ended.
///
/// # Cancellation
/// Not a cancel point: the closure is waited for to its end.
///
/// # Panics
/// With the closure's panic. Inside [`no_switch`](crate::no_switch()).
///
/// # Outside a fiber
/// Runs the closure right here: the thread may block.
///
/// While the strand unwinds from a panic, too, the closure runs right here.
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
    worker::check_may_switch();
    let pool = worker::with_existing(|worker| {
        let team = worker.team().map(|team| Arc::clone(&team.pool));
        worker.is_on_fiber().then(|| team.unwrap_or_else(|| Arc::clone(shared_pool())))
    });
    match pool.flatten() {
        Some(pool) if !thread::panicking() => pool.run(f),
        _ => f(),
    }
}

/// Runs a call that may fail on the blocking pool, as a cancel point: not in a scope that is
/// cancelled already, and once begun to its end.
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
