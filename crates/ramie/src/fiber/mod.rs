//! Fibers, with the shapes of `std::thread`.
//!
//! [`spawn`] takes a `Send` closure, which any worker may start; [`spawn_local`] keeps it on this
//! worker and takes a `!Send` one; [`scope`] lets the closures borrow the parent's locals. A fiber
//! that has started stays on its worker. Outside [`run`](crate::run) the same calls make OS
//! threads, with the same handles.
//!
//! # The one assumption about safety
//! Fibers of one worker interleave on one OS thread. Code that keeps a last-in-first-out context
//! in a `thread_local!` assumes that they do not: no suspension may happen inside the initializer
//! of a `std::thread_local!`, nor while such a context (a `scoped-tls` binding, another runtime's
//! `enter` guard) is set. The compiler cannot check it; [`no_switch`](crate::no_switch) can, at run
//! time.
//!
//! A second form of it concerns stacks that outlive a thread's locals: a fiber of [`spawn_local`]
//! outside [`run`](crate::run), or a coroutine, that is suspended inside `LocalKey::with` of a
//! `std::thread_local!` when its thread ends. The value is destroyed, so neither may go on. Fibers
//! of `run` never do. The others are given up, and coroutines leaked instead of unwound, as soon as
//! Ramie learns that the thread's destructors run, from thread-locals of its own that it uses late
//! (after a wait that left fibers suspended, at the start of a coroutine: the first 16 times, then
//! whenever their number has doubled). A program cannot see when that was. So the assumption is
//! that no destructor of a thread-local waits while such a fiber is left, and that no such
//! coroutine is kept in a thread-local.

mod builder;
mod handle;
mod join;
mod local_macro;
mod places;
mod scope;

use std::time::Duration;

pub use self::{
    builder::{Builder, Place},
    handle::Fiber,
    join::{JoinHandle, ScopedJoinHandle},
    places::{on_each_worker, worker, workers},
    scope::{Scope, scope},
};
use crate::core::{
    cancel,
    strand::Wake,
    time::{Deadline, Instant},
    wait::{
        park::{self, Refused, WaitKind, WaitRecord},
        sleep_to,
    },
    worker,
};
pub use crate::core::{
    local::{AccessError, LocalKey},
    strand::FiberId,
};

static PARK: WaitKind = WaitKind::new("an unpark");

/// Spawns a fiber and returns a handle to join it; twin of [`std::thread::spawn`].
///
/// The closure is queued, not run: it starts when its turn comes, on this worker or on another that
/// has nothing to do, and stays there; [`Place`] describes how fibers spread. Dropping the handle
/// lets the fiber run on by itself; [`run`](crate::run) returns only when it has ended too.
///
/// No stack is taken until the closure starts. If there is no memory for one then, joining returns
/// an error whose payload is a `String` with the reason.
///
/// # Blocking
/// Never.
///
/// # Panics
/// When the process has no memory for one more strand; outside `run`, when the system refuses one
/// more thread. [`Builder::spawn`] returns that error instead.
///
/// # Outside a fiber
/// Inside `run` it always makes a fiber. Outside, an OS thread; so also in a closure that
/// [`blocking`](crate::blocking()) runs, which is on a thread of the pool.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let answer = ramie::fiber::spawn(|| 6 * 7);
///     assert_eq!(answer.join().unwrap(), 42);
/// });
/// ```
/// Another worker may start it, so it takes nothing along that is not `Send`:
/// ```compile_fail,E0277
/// let here = std::rc::Rc::new(1);
/// ramie::fiber::spawn(move || println!("{here}"));
/// ```
/// Nor does it borrow; [`scope`] lets fibers do that:
/// ```compile_fail,E0373
/// let local = 1;
/// ramie::fiber::spawn(|| println!("{local}"));
/// ```
#[inline]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new().spawn(f).unwrap_or_else(|error| panic!("cannot spawn: {error}"))
}

/// Spawns a fiber that stays on this worker; its closure need not be `Send`.
///
/// # Blocking
/// Never.
///
/// # Panics
/// When the process has no memory for one more strand.
///
/// # Outside a fiber
/// On a thread outside `run` the fiber runs while that thread waits in a call of this crate.
///
/// # Examples
/// ```
/// use std::{cell::Cell, rc::Rc};
///
/// ramie::run(|| {
///     let count = Rc::new(Cell::new(0));
///     let theirs = Rc::clone(&count);
///     ramie::fiber::spawn_local(move || theirs.set(1)).join().unwrap();
///     assert_eq!(count.get(), 1);
/// });
/// ```
#[inline]
pub fn spawn_local<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    Builder::new().spawn_local(f).unwrap_or_else(|error| panic!("cannot spawn: {error}"))
}

/// Returns a handle to the strand that calls; twin of [`std::thread::current`].
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let named = ramie::fiber::Builder::new().name("worker-7".into());
///     let handle = named.spawn(|| ramie::fiber::current().name().map(str::to_owned)).unwrap();
///     assert_eq!(handle.join().unwrap().as_deref(), Some("worker-7"));
/// });
/// ```
#[must_use]
pub fn current() -> Fiber {
    Fiber::of(worker::current().current_slot())
}

/// Calls `f` as a strand that [`run`](crate::run()) does not wait for: when only such strands are
/// left, the scope is cancelled.
///
/// For strands that serve others, such as a wait for readiness on behalf of a future.
#[doc(hidden)]
pub fn as_daemon<T>(f: impl FnOnce(&cancel::CancelScope) -> T) -> T {
    cancel::scope(|scope| {
        let _enrolled = worker::current().enroll_as_daemon(scope.handle());
        f(scope)
    })
}

/// Lets every other runnable fiber of this worker run once before this one goes on.
///
/// # Blocking
/// Suspends the fiber; it stays runnable.
///
/// # Cancellation
/// Not a cancel point; [`check_cancelled`](crate::cancel::check_cancelled) is one.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch).
///
/// # Outside a fiber
/// Lets the fibers of this thread run once; where there are none, `std::thread::yield_now`.
///
/// While the strand unwinds from a panic it returns at once.
#[inline(always)]
#[track_caller]
pub fn yield_now() {
    worker::yield_now();
}

/// Suspends the strand for at least `duration`; twin of [`std::thread::sleep`].
///
/// # Blocking
/// Parks the fiber, or the thread outside one. Never the worker.
///
/// # Cancellation
/// Returns early in a cancelled scope; the more often, the later (see
/// [`cancel`]).
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch).
///
/// A fiber that unwinds from a panic does not sleep: other fibers would run and see the thread
/// panicking. A plain thread without fibers does.
#[track_caller]
pub fn sleep(duration: Duration) {
    sleep_to(Deadline::after(duration));
}

/// Suspends the strand until `instant`; returns at once if that has passed.
///
/// # Blocking
/// Parks the fiber, or the thread outside one. Never the worker.
///
/// # Cancellation
/// Returns early in a cancelled scope; the more often, the later (see
/// [`cancel`]).
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch).
///
/// While the strand unwinds: as [`sleep`].
#[track_caller]
pub fn sleep_until(instant: Instant) {
    sleep_to(Deadline::at(instant));
}

/// Suspends the strand until its [`Fiber::unpark`] is called; twin of [`std::thread::park`].
///
/// An `unpark` that came first is kept, and used up by this call. As in std, `park` may also return
/// without a reason, so check your condition in a loop.
///
/// # Blocking
/// Parks the fiber, or the thread outside one. Never the worker.
///
/// # Cancellation
/// Returns early in a cancelled scope; the more often, the later (see
/// [`cancel`]).
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch).
///
/// A fiber that unwinds from a panic returns at once, for no reason; a plain thread without fibers
/// parks.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let sleeper = ramie::fiber::spawn(ramie::fiber::park);
///     sleeper.fiber().unpark();
///     sleeper.join().unwrap();
/// });
/// ```
#[track_caller]
#[inline(always)]
pub fn park() {
    park_to(Deadline::NEVER);
}

/// Like [`park`], for `timeout` at most; twin of [`std::thread::park_timeout`].
///
/// # Blocking
/// Parks the fiber, or the thread outside one. Never the worker.
///
/// # Cancellation
/// Returns early in a cancelled scope; the more often, the later (see
/// [`cancel`]).
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch).
///
/// While the strand unwinds: as [`park`].
#[track_caller]
pub fn park_timeout(timeout: Duration) {
    park_to(Deadline::after(timeout));
}

#[track_caller]
#[inline(always)]
fn park_to(deadline: Deadline) {
    let record = WaitRecord::new(&PARK).until(deadline).cancellable();
    let worker = worker::current();
    let reason = match park::prepare_park(&worker, &record) {
        Ok(Some(prepared)) => prepared.suspend(),
        Err(Refused::Cancelled) => Wake::Cancelled,
        // A strand that unwinds must not suspend, and `park` may return for no reason.
        Ok(None) | Err(Refused::Unwinding) => return,
    };
    if reason == Wake::Cancelled {
        cancel::back_off();
    }
}
