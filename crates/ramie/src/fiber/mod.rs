//! Fibers, with an interface like that of `std::thread`.
//!
//! [`spawn`] takes a `Send` closure, which any worker may start; [`spawn_local`] takes a closure
//! that need not be `Send`, and starts it on this worker; [`scope`] lets closures borrow the
//! parent's locals. A fiber that has started stays on its worker. Outside [`run`](crate::run),
//! [`spawn`] and [`scope`] make OS threads, with the same handles.
//!
//! # The one assumption about safety
//! Fibers of one worker interleave on one OS thread. Code that keeps a last-in-first-out context
//! in a `thread_local!` assumes that they do not: no suspension may happen inside the initializer
//! of a `std::thread_local!`, nor while such a context (a `scoped-tls` binding, another runtime's
//! `enter` guard) is set. The compiler cannot check it; [`no_switch`](crate::no_switch) can, at run
//! time. A context that can be taken off the thread and put back, such as the entered spans of
//! `tracing`, may leave at each suspension: [`attach_context`].
//!
//! A second form of the assumption concerns stacks that outlive a thread's locals: a coroutine, or
//! a fiber, that is suspended inside `LocalKey::with` of a `std::thread_local!` when its thread
//! ends. The thread destroys the value, so neither may continue. Fibers of [`run`](crate::run)
//! never do; those of [`spawn_local`] outside `run`, and of a [`GuestRuntime`](crate::GuestRuntime)
//! that was forgotten or is kept in a thread-local, are left until then. Ramie abandons them, and
//! leaks coroutines instead of unwinding them, as soon as it learns that the thread's destructors
//! run. It learns that before any thread-local is destroyed that was in use at certain moments:
//! - for fibers, when a wait or a turn of the thread leaves them suspended; and when a scope is
//!   opened or [`blocking`](crate::blocking()) called: each of the first 1,024 times, and then
//!   whenever the number of such moments has grown by a 64th;
//! - for coroutines, each of the first 16 times that one starts, and then whenever that number has
//!   doubled. With a C library that lacks `__cxa_thread_atexit_impl`, such as musl, there are no
//!   more for fibers.
//!
//! A program cannot see when that was, but it can use a thread-local when the thread begins. So the
//! assumption is that a fiber that is left is not suspended inside `with` of a thread-local that
//! was first used after the last such moment, and that no such coroutine is kept in a thread-local.
//!
//! A third form concerns what a fiber lends from inside `LocalKey::with`: to a job of `blocking`,
//! or to strands of a scope on other threads. A thread whose fibers were abandoned ends after these
//! have ended, which it says on stderr when it has waited for a second. The assumptions are:
//! - The end of the process waits for nobody. If the main thread returns from `main`, or a fiber
//!   calls [`std::process::exit`], the thread-locals of that thread are destroyed while other
//!   threads go on for a moment. So none of them uses such a value then. (If a thread outside of
//!   all runtimes calls `exit`, that is like the end of the thread: it waits.)
//! - Ramie does not know to whom other crates lend. So a fiber that has lent such a value by
//!   [`std::thread::scope`], and waits inside of that scope, is not abandoned.

mod builder;
mod handle;
mod join;
mod local_macro;
mod outside;
mod places;
mod scope;

use std::time::Duration;

pub(crate) use self::scope::scope_at;
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
        park::{self, Refused, Subject, WaitKind, WaitRecord},
        sleep_to,
    },
    worker,
};
pub use crate::core::{
    local::{
        AccessError, AttachedContext, InheritedContext, LocalKey, StrandContext, attach_context,
        with_attached_context,
    },
    strand::FiberId,
};

static PARK: WaitKind = WaitKind::about("an unpark", Subject::Unpark);

/// Spawns a fiber and returns a handle to join it; twin of [`std::thread::spawn`].
///
/// The call queues the closure and returns. The closure starts when its turn comes, on this worker
/// or on another that has nothing to do, and stays there; [`Place`] describes how fibers spread.
/// Dropping the handle detaches the fiber; [`run`](crate::run) still returns only when that fiber
/// has ended.
///
/// The fiber gets a stack when the closure starts. If there is no memory for a stack then, joining
/// returns an error whose payload is a `String` with the reason.
///
/// # Blocking
/// Never.
///
/// # Panics
/// When the process has no memory for one more strand; outside `run`, when the system refuses one
/// more thread. [`Builder::spawn`] returns an error instead.
///
/// # Outside a fiber
/// Outside `run` it makes an OS thread. So it does in a closure that
/// [`blocking`](crate::blocking()) runs, because that closure is on a thread of the pool.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let answer = ramie::fiber::spawn(|| 6 * 7);
///     assert_eq!(answer.join().unwrap(), 42);
/// });
/// ```
/// The closure must be `Send`, because another worker may start it:
/// ```compile_fail,E0277
/// let here = std::rc::Rc::new(1);
/// ramie::fiber::spawn(move || println!("{here}"));
/// ```
/// Nor may it borrow; the closures of [`scope`] may:
/// ```compile_fail,E0373
/// let local = 1;
/// ramie::fiber::spawn(|| println!("{local}"));
/// ```
#[inline]
#[track_caller]
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
#[track_caller]
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
    Fiber::of(worker::current().current_header())
}

/// Calls `f` on a strand that [`run`](crate::run()) does not wait for: when only such strands are
/// left, the scope is cancelled.
///
/// For strands that serve others, such as a wait for readiness on behalf of a future.
#[doc(hidden)]
pub fn as_daemon<T>(f: impl FnOnce(&cancel::CancelScope) -> T) -> T {
    cancel::scope(|scope| {
        let _enrolled = worker::Enrolled::new(&worker::current(), scope.handle());
        f(scope)
    })
}

/// Lets every other runnable fiber of this worker run once before this fiber continues.
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
/// Lets the fibers of this thread run once; if there are none, it calls `std::thread::yield_now`.
///
/// While the strand unwinds from a panic, the call returns at once.
#[inline(always)]
#[track_caller]
pub fn yield_now() {
    worker::yield_now();
}

/// Suspends the strand for at least `duration`; twin of [`std::thread::sleep`].
///
/// # Blocking
/// Parks the fiber, or the thread outside one; never the worker.
///
/// # Cancellation
/// In a cancelled scope it returns early; each repeated early return waits a little longer (see
/// [`cancel`]).
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch).
///
/// A fiber that unwinds from a panic does not sleep, because other fibers would run and see the
/// thread panicking. A plain thread without fibers does sleep.
#[track_caller]
pub fn sleep(duration: Duration) {
    sleep_to(Deadline::after(duration));
}

/// Suspends the strand until `instant`; returns at once if `instant` has passed.
///
/// # Blocking
/// Parks the fiber, or the thread outside one; never the worker.
///
/// # Cancellation
/// In a cancelled scope it returns early; each repeated early return waits a little longer (see
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
/// If `unpark` was called first, its token is kept, and this call takes it and returns at once. As
/// in std, `park` may also return without a reason, so check your condition in a loop.
///
/// # Blocking
/// Parks the fiber, or the thread outside one; never the worker.
///
/// # Cancellation
/// In a cancelled scope it returns early; each repeated early return waits a little longer (see
/// [`cancel`]).
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch).
///
/// On a fiber that unwinds from a panic the call returns at once, without a token; a plain thread
/// without fibers parks.
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

/// Suspends the strand as [`park`] does, for `timeout` at most; twin of
/// [`std::thread::park_timeout`].
///
/// # Blocking
/// Parks the fiber, or the thread outside one; never the worker.
///
/// # Cancellation
/// In a cancelled scope it returns early; each repeated early return waits a little longer (see
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
        // A strand that unwinds must not suspend, and `park` may return without a reason.
        Ok(None) | Err(Refused::Unwinding) => return,
    };
    if reason == Wake::Cancelled {
        cancel::back_off();
    }
}
