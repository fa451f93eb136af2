//! Cancel scopes: a time limit or a request to stop for all calls inside.
//!
//! A cancelled call is never torn down. Each *cancel point* (a call documented as one under
//! `# Cancellation`) returns an error instead of waiting; destructors, `?` and return values do the
//! rest. So cancellation works without unwinding, and loses nothing: an I/O call whose bytes have
//! arrived returns them, and the next cancel point fails. The errors of calls that move many bytes
//! in several steps hold the number of bytes moved ([`bytes_moved`]).
//!
//! - [`with_timeout`] and [`with_deadline`] limit the time of the closure that they call, and
//!   distinguish a late return from one in time; [`try_with_timeout`] and [`try_with_deadline`]
//!   limit a closure that may fail, and return its result. Limits nest: the tighter one wins.
//! - [`scope`] makes a scope that can be cancelled from anywhere, by its [`CancelHandle`].
//! - [`shield`] keeps the cancellation of outer scopes from the closure that it calls.
//! - [`check_cancelled`] makes a cancel point of its own.
//! - [`notices`] shows whether a cancellation has interrupted what a strand did.
//!
//! Cancellation is *level-triggered*: once a scope is cancelled, every cancel point in it fails,
//! until the scope is left. It reaches the strand that is in the scope and the strands of every
//! [`fiber::scope`](crate::fiber::scope) opened in it, with theirs in turn. It does not reach
//! detached strands ([`fiber::spawn`](crate::fiber::spawn)), which outlive the scope. A coroutine
//! that is inside a scope of its own and is resumed inside another is reached by both; the strands
//! of a `fiber::scope` that it opens then, by its own alone.
//!
//! # Calls that cannot report a cancellation
//! Twins of std's calls have std's return types, and some of these have no room for this error.
//! Calls that may return spuriously (`park`, `Condvar::wait`) and [`sleep`](crate::fiber::sleep)
//! return early in a cancelled scope. In a loop they would spin, so each early return first lets
//! other fibers run, and each repeated one waits a little longer, up to 50 ms. The remaining calls
//! are no cancel points, but each has a counterpart that is one: `JoinHandle::wait`,
//! `Mutex::lock_or_cancelled`.
//!
//! # Which calls are cancel points
#![doc = include_str!("../../../docs/cancel-points.md")]

// # Protocol
// The limits and scopes around a strand lie in its context (`ramie_coro::context`): a list of
// frames, each in the frame of the call that made it. A coroutine carries its own along. A deadline
// is a number in such a frame; each wait takes the earliest for its own, so that a limit arms no
// timer until somebody waits. A scope that can be cancelled is a node with a list of its members:
// the strands in it, and the nodes below.
//
// | a node is | changed by |
// |---|---|
// | open | the first `cancel`, of its own or of a node above |
// | cancelled | - |
//
// A strand becomes a member of a scope when it first waits in it, and stays one until it leaves the
// scope. `cancel` marks the node, then ends the waits of its members. A waiter joins, begins its
// wait, then looks at the marks. *The race to fear* is a wait that begins while `cancel` goes
// through the members. If the strand was a member before, either the one sees the mark, or the
// other sees the wait, because both put a full fence between their store and their load. If it
// joins too late to be seen, it sees the mark, because both hold the lock of the members, `cancel`
// first.

mod chain;
mod error;
mod frame;
mod handle;
mod node;
mod notices;
mod partial;
mod steps;

use std::time::Duration;

use self::frame::Frame;
pub(crate) use self::{
    chain::find,
    error::{STRAND_CANCELLED, errors_with_cancelled},
    frame::{InheritedLimits, ambient, around, back_off, cause, inherit, join_scopes, snapshot},
    node::fence_after_begin,
    notices::note_notice,
    partial::after,
    steps::Steps,
};
pub use self::{
    error::{Cancelled, Elapsed},
    handle::{CancelHandle, CancelScope, scope},
    notices::{Notices, notices},
    partial::{bytes_moved, is_cancelled, unsent_bytes},
};
use crate::core::time::{Deadline, Instant};

/// Calls `f` and limits the time that it may wait: when `timeout` has expired, the cancel points in
/// it fail.
///
/// # Cancellation
/// Not a cancel point itself: `f` is always called.
///
/// # Errors
/// `f` returned after the limit. The error holds its value.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use ramie::{cancel, io::{Read, pipe}};
///
/// ramie::run(|| {
///     let (mut reader, _writer) = pipe().unwrap();
///     let late = cancel::with_timeout(Duration::from_millis(1), || reader.read(&mut [0]));
///     assert!(cancel::is_cancelled(&late.unwrap_err().into_value().unwrap_err()));
/// });
/// ```
pub fn with_timeout<T>(timeout: Duration, f: impl FnOnce() -> T) -> Result<T, Elapsed<T>> {
    limited(Deadline::after(timeout), f)
}

/// Calls `f`, which may fail, and limits the time that it may wait: when `timeout` has expired, the
/// cancel points in it fail.
///
/// Like [`with_timeout`], but returns `f`'s own result, so one `?` is enough. When the limit
/// passes, the cancel point in `f` fails with an I/O error of kind `TimedOut`; `f` normally returns
/// that error. [`Cancelled::of`] finds the reason in it, and [`bytes_moved`] the number of bytes
/// that the call had moved. If `f` returns a value after the limit, because it did not have to
/// wait, that value is returned.
///
/// # Cancellation
/// Not a cancel point itself: `f` is always called.
///
/// # Errors
/// Those of `f`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use ramie::{cancel, io::{ErrorKind, Read, pipe}};
///
/// ramie::run(|| {
///     let (mut reader, _writer) = pipe().unwrap();
///     let late = cancel::try_with_timeout(Duration::from_millis(1), || reader.read(&mut [0]));
///     assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
/// });
/// ```
pub fn try_with_timeout<T, E>(timeout: Duration, f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    Frame::deadline(Deadline::after(timeout)).enter(f)
}

/// Calls `f` and limits the time that it may wait: at `deadline` the cancel points in it fail.
///
/// # Cancellation
/// Not a cancel point itself: `f` is always called.
///
/// # Errors
/// As for [`with_timeout`].
pub fn with_deadline<T>(deadline: Instant, f: impl FnOnce() -> T) -> Result<T, Elapsed<T>> {
    limited(Deadline::at(deadline), f)
}

/// Calls `f`, which may fail, and limits the time that it may wait: at `deadline` the cancel points
/// in it fail. Otherwise like [`try_with_timeout`].
///
/// # Cancellation
/// Not a cancel point itself: `f` is always called.
///
/// # Errors
/// Those of `f`.
pub fn try_with_deadline<T, E>(
    deadline: Instant,
    f: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    Frame::deadline(Deadline::at(deadline)).enter(f)
}

fn limited<T>(deadline: Deadline, f: impl FnOnce() -> T) -> Result<T, Elapsed<T>> {
    let value = Frame::deadline(deadline).enter(f);
    if deadline.has_passed() { Err(Elapsed::new(value)) } else { Ok(value) }
}

/// Calls `f` and defers the cancellation of the scopes and limits around it until `f` returns.
///
/// Use it for work that must be finished once begun, such as sending the rest of an answer or
/// removing a lock file. Limits and scopes inside `f` work as usual.
///
/// # Examples
/// ```
/// use ramie::cancel::{self, check_cancelled};
///
/// ramie::run(|| cancel::scope(|scope| {
///     scope.cancel();
///     assert!(check_cancelled().is_err());
///     cancel::shield(|| assert!(check_cancelled().is_ok()));
/// }));
/// ```
pub fn shield<T>(f: impl FnOnce() -> T) -> T {
    Frame::shield(Deadline::NEVER).enter(f)
}

/// Calls `f` as [`shield`] does, but for at most `limit`: then the cancel points in it fail.
///
/// # Errors
/// As for [`with_timeout`].
pub fn shield_for<T>(limit: Duration, f: impl FnOnce() -> T) -> Result<T, Elapsed<T>> {
    let deadline = Deadline::after(limit);
    let value = Frame::shield(deadline).enter(f);
    if deadline.has_passed() { Err(Elapsed::new(value)) } else { Ok(value) }
}

/// Fails if this strand is in a cancelled scope, or a time limit around it has expired.
///
/// # Blocking
/// Never.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Cancelled.
pub fn check_cancelled() -> Result<(), Cancelled> {
    cause().map_or(Ok(()), Err)
}

/// Whether the current strand is cancelled; one load if no limit and no scope is around it.
#[inline]
pub(crate) fn is_cancelled_here() -> bool {
    !ramie_coro::context::is_empty() && cause().is_some()
}

/// Makes a cancel point of a call that returns an I/O error.
#[inline]
pub(crate) fn check_io() -> std::io::Result<()> {
    if is_cancelled_here() { Err(error()) } else { Ok(()) }
}

/// Whether a limit or a scope around the current strand may yet cancel it.
pub(crate) fn may_be_cancelled() -> bool {
    snapshot().is_some()
}

/// The error of a cancel point.
#[cold]
pub(crate) fn cancelled() -> Cancelled {
    cause().unwrap_or_else(|| match std::thread::panicking() {
        // A strand that unwinds begins no wait.
        true => Cancelled::because("the strand unwinds from a panic"),
        // No cause is found if a limit's clock was set back.
        false => Cancelled::by_deadline(),
    })
}

/// The error of a cancel point that returns an I/O error.
#[cold]
pub(crate) fn error() -> std::io::Error {
    cancelled().into()
}

/// Returns the earliest deadline of the limits that this strand is in.
#[must_use]
pub fn current_deadline() -> Option<Instant> {
    let deadline = ambient().deadline;
    (deadline != Deadline::NEVER).then(|| Instant::from_ns(deadline.as_ns()))
}
