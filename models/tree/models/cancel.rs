//! Cancel scopes: a cancel reaches each wait in its scope, also those that just begin; and only one
//! thread ends a wait.

use std::time::Duration;

use loom::thread;

use super::{check, check_within};
use crate::core::{
    cancel::{self, CancelScope},
    primitive::{Arc, AtomicU64, Ordering},
    strand::{Wake, WakeRef},
    time::Deadline,
    wait::{
        completion::Completion,
        park::{self, Refused, WaitKind, WaitRecord},
    },
    worker,
};

static WAIT: WaitKind = WaitKind::new("a model");

fn soon() -> Deadline {
    Deadline::after(Duration::from_nanos(1))
}

/// Waits at a cancel point.
fn wait(deadline: Deadline) -> Wake {
    let record = WaitRecord::new(&WAIT).until(deadline).cancellable();
    match park::park(&record) {
        Ok(reason) => reason,
        Err(Refused::Cancelled) => Wake::Cancelled,
        Err(Refused::Unwinding) => unreachable!("nothing unwinds"),
    }
}

/// Runs `f` on a thread of its own, as a strand of the caller's scope.
pub(super) fn spawn_inside<T: 'static>(f: impl FnOnce() -> T + 'static) -> thread::JoinHandle<T> {
    let inherited = cancel::snapshot().expect("the caller is in a scope");
    thread::spawn(move || cancel::inherit(&inherited, f))
}

fn cancel_from_elsewhere(scope: &CancelScope) -> thread::JoinHandle<bool> {
    let handle = scope.handle();
    thread::spawn(move || handle.cancel())
}

/// The race to fear: a wait begins while `cancel` goes through the members.
pub(crate) fn a_wait_that_begins_is_cancelled() {
    check(|| {
        cancel::scope(|scope| {
            let cancelling = cancel_from_elsewhere(scope);
            assert_eq!(wait(Deadline::NEVER), Wake::Cancelled);
            assert!(cancel::check_cancelled().is_err(), "cancelled once, cancelled for good");
            assert_eq!(wait(Deadline::NEVER), Wake::Cancelled);
            assert!(cancelling.join().unwrap());
        });
    });
}

/// The same, with a strand that joins the scope meanwhile.
pub(crate) fn a_strand_that_joins_is_cancelled() {
    check(|| {
        cancel::scope(|scope| {
            let joining = spawn_inside(|| wait(Deadline::NEVER));
            scope.cancel();
            assert_eq!(joining.join().unwrap(), Wake::Cancelled);
        });
    });
}

/// All members are notified, however often others hold the lock of the members in between; a member
/// that leaves meanwhile is not reached.
pub(crate) fn all_members_are_notified() {
    check_within(2, || {
        cancel::scope(|scope| {
            let leaving = spawn_inside(|| wait(soon()));
            let staying = spawn_inside(|| wait(Deadline::NEVER));
            scope.cancel();
            assert!(leaving.join().unwrap() != Wake::Woken);
            assert_eq!(staying.join().unwrap(), Wake::Cancelled);
        });
    });
}

/// A scope is opened in one that is being cancelled; the cancellation reaches a strand that knows
/// only the inner one.
pub(crate) fn a_scope_inside_is_cancelled() {
    check_within(2, || {
        cancel::scope(|outer| {
            let cancelling = cancel_from_elsewhere(outer);
            cancel::scope(|_| {
                let waiting = spawn_inside(|| wait(Deadline::NEVER));
                assert_eq!(waiting.join().unwrap(), Wake::Cancelled);
            });
            assert!(cancelling.join().unwrap());
        });
    });
}

/// Both scopes around a wait are cancelled: it ends once.
pub(crate) fn two_cancels_end_a_wait_once() {
    check_within(2, || {
        cancel::scope(|outer| {
            cancel::scope(|inner| {
                let cancelling = [cancel_from_elsewhere(outer), cancel_from_elsewhere(inner)];
                assert_eq!(wait(Deadline::NEVER), Wake::Cancelled);
                let [is_first, _] = cancelling.map(|cancelling| cancelling.join().unwrap());
                assert!(is_first, "nobody else cancels the outer one");
            });
        });
    });
}

fn wake(wait: &AtomicU64) -> bool {
    let wait = WakeRef::from_bits(wait.load(Ordering::Acquire));
    wait.is_some_and(|wait| wait.wake(Wake::Woken))
}

/// A cancel, a wake-up and the deadline: one of them ends the wait, and the strand learns which.
pub(crate) fn a_cancelled_wait_has_one_outcome() {
    check_within(2, || {
        cancel::scope(|scope| {
            let cancelling = cancel_from_elsewhere(scope);
            let shared = Arc::new(AtomicU64::new(0));
            let waking = thread::spawn({
                let shared = Arc::clone(&shared);
                move || wake(&shared)
            });
            let worker = worker::current();
            let record = WaitRecord::new(&WAIT).until(soon()).cancellable();
            let reason = park::prepare(&worker, &record).map(|prepared| {
                shared.store(prepared.wake_ref().to_bits(), Ordering::Release);
                prepared.suspend()
            });
            assert_eq!(waking.join().unwrap(), reason == Ok(Wake::Woken), "the winner's reason");
            assert!(cancelling.join().unwrap());
            assert_eq!(wait(soon()), Wake::Cancelled);
        });
    });
}

fn unpark_and_cancel_from_elsewhere(scope: &CancelScope) -> thread::JoinHandle<bool> {
    let (target, handle) = (worker::current().current_header().id(), scope.handle());
    thread::spawn(move || {
        worker::unpark(target);
        handle.cancel()
    })
}

/// A cancel ends only the wait of a cancel point, whatever the previous wait was, and no shielded
/// wait.
pub(crate) fn a_cancel_ends_no_other_wait() {
    check(|| {
        cancel::scope(|scope| {
            let other = unpark_and_cancel_from_elsewhere(scope);
            park_now(&WaitRecord::new(&WAIT).cancellable());
            let plain = park::park(&WaitRecord::new(&WAIT).until(soon()));
            assert_eq!(plain, Ok(Wake::TimedOut), "a cancel ended a wait that is no cancel point");
            let shielded = cancel::shield(|| wait(soon()));
            assert_eq!(shielded, Wake::TimedOut, "a cancel ended a shielded wait");
            other.join().unwrap();
        });
    });
}

/// A cancelled wait does not consume the token of `unpark`.
pub(crate) fn a_cancel_leaves_the_token() {
    check(|| {
        cancel::scope(|scope| {
            let other = unpark_and_cancel_from_elsewhere(scope);
            assert_eq!(wait(Deadline::NEVER), Wake::Cancelled);
            assert_eq!(park_now(&WaitRecord::new(&WAIT)), Wake::Woken);
            other.join().unwrap();
        });
    });
}

fn park_now(record: &WaitRecord) -> Wake {
    match park::prepare_park(&worker::current(), record) {
        Ok(Some(prepared)) => prepared.suspend(),
        Ok(None) => Wake::Woken,
        Err(_) => Wake::Cancelled,
    }
}

/// A cancel or an unpark ends a park. If the cancel does, the next park gets the token.
pub(crate) fn a_cancelled_park_loses_no_token() {
    check_within(2, || {
        cancel::scope(|scope| {
            let cancelling = cancel_from_elsewhere(scope);
            let target = worker::current().current_header().id();
            let unparking = thread::spawn(move || worker::unpark(target));
            if park_now(&WaitRecord::new(&WAIT).cancellable()) == Wake::Cancelled {
                assert_eq!(park_now(&WaitRecord::new(&WAIT)), Wake::Woken);
            }
            unparking.join().unwrap();
            cancelling.join().unwrap();
        });
    });
}

/// A strand that was cancelled while it waited for an event may wait for it again.
pub(crate) fn a_cancelled_waiter_may_come_again() {
    check(|| {
        let done = Arc::new(Completion::new());
        cancel::scope(|scope| {
            let other = thread::spawn({
                let (done, handle) = (Arc::clone(&done), scope.handle());
                move || {
                    handle.cancel();
                    done.finish().wake();
                }
            });
            let record = WaitRecord::new(&WAIT).cancellable();
            if done.wait(&record) == Err(Refused::Cancelled) {
                assert_eq!(done.wait(&WaitRecord::new(&WAIT)), Ok(true));
            }
            other.join().unwrap();
        });
    });
}
