//! Values of thread-locals that are lent where the end of the thread is hard to see: the
//! thread-local is first used after many waits, so that its destructor runs before most others; the
//! borrower is one of a forgotten coroutine; or the destructor of a thread-local lends it.

use std::{
    cell::RefCell,
    mem,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use crate::{
    common::Limit,
    lent_locals::{Reports, impatient, lend_to_a_job, lending, reports, use_for_long},
};
use ramie::{
    GuestRuntime,
    coro::Coroutine,
    fiber::{self, Builder, JoinHandle, Place},
};

/// Waits each of which marks the end of the thread, but the keys of coroutines would not.
const FEW_WAITS: usize = 20;
/// Waits after which only one in about 16 marks the end of the thread: the next is the 1,072nd.
const MANY_WAITS: usize = 1060;

/// Runs `lend` on a thread of its own, and checks that the value outlived its user.
#[track_caller]
fn check(lend: impl FnOnce(Reports, Receiver<()>) + Send + 'static) {
    let ends = thread::spawn(|| {
        let (reports, begun, outlived) = reports();
        lend(reports, begun);
        outlived
    });
    let outlived = ends.join().unwrap();
    assert!(outlived.recv().unwrap(), "the value was destroyed too early");
}

#[test]
fn a_value_first_used_after_many_waits_outlives_a_job() {
    let _limit = Limit::of_this_test();
    check(|reports, begun| {
        drop(fiber::spawn_local(fiber::park));
        (0..MANY_WAITS).for_each(|_| fiber::sleep(Duration::from_micros(100)));
        drop(fiber::spawn_local(move || lend_to_a_job(&reports)));
        fiber::yield_now();
        begun.recv().unwrap();
    });
}

/// Gives a guest many turns, then one in which `lend` begins.
fn lend_late(guest: &mut GuestRuntime, lend: impl FnOnce() + 'static) {
    drop(guest.spawn_local(fiber::park).unwrap());
    (0..MANY_WAITS).for_each(|_| _ = guest.turn(Duration::ZERO));
    drop(guest.spawn_local(lend).unwrap());
    guest.turn(Duration::ZERO);
}

#[test]
fn a_value_first_used_after_many_turns_outlives_a_job() {
    thread_local!(static GUEST: RefCell<Option<GuestRuntime>> = const { RefCell::new(None) });
    let _limit = Limit::of_this_test();
    check(|reports, begun| {
        let mut guest = impatient(1).start_guest().unwrap();
        lend_late(&mut guest, move || lend_to_a_job(&reports));
        begun.recv().unwrap();
        mem::forget(guest);
    });
    check(|reports, begun| {
        GUEST.with_borrow_mut(|place| {
            let guest = place.insert(impatient(1).start_guest().unwrap());
            lend_late(guest, move || lend_to_a_job(&reports));
        });
        begun.recv().unwrap();
    });
}

#[test]
fn a_value_first_used_after_many_turns_outlives_another_worker() {
    let _limit = Limit::of_this_test();
    let ends = thread::spawn(|| {
        let mut guest = impatient(2).start_guest().unwrap();
        let (reports, begun, outlived) = reports();
        let lends = move || {
            lending(|_value, is_dropped| {
                fiber::scope(|s| {
                    let strand = move || {
                        reports.begun.send(()).unwrap();
                        while is_dropped.try_recv().is_err() {
                            fiber::yield_now();
                        }
                        reports.outlived.send(false).unwrap();
                    };
                    drop(Builder::new().on(Place::Worker(1)).spawn_scoped(s, strand).unwrap());
                });
            });
        };
        lend_late(&mut guest, lends);
        begun.recv().unwrap();
        mem::forget(guest);
        outlived
    });
    let outlived = ends.join().unwrap();
    let seen = outlived.recv_timeout(Duration::from_millis(50));
    assert!(seen.is_err(), "a strand of the other worker went on: {seen:?}");
}

/// When it is destroyed, tells whether the fiber that waits inside of `with` was abandoned.
#[derive(Default)]
struct Waited(RefCell<Option<(JoinHandle<()>, Sender<bool>)>>);

impl Drop for Waited {
    fn drop(&mut self) {
        let Some((waits, sender)) = self.0.take() else { return };
        sender.send(waits.is_finished()).unwrap();
    }
}

thread_local!(static WAITED: Waited = Waited::default());

fn wait_inside() {
    WAITED.with(|_| fiber::park());
}

/// Otherwise its wait, or its op, would be ended when the value, in which it may lie, is destroyed.
#[test]
fn a_fiber_that_waits_in_a_value_first_used_late_is_abandoned_before_its_end() {
    let _limit = Limit::of_this_test();
    let (sender, was_abandoned) = mpsc::channel();
    let by_guest = sender.clone();
    let ends = thread::spawn(move || {
        drop(fiber::spawn_local(fiber::park));
        (0..FEW_WAITS).for_each(|_| fiber::sleep(Duration::from_micros(100)));
        let waits = fiber::spawn_local(wait_inside);
        fiber::yield_now();
        WAITED.with(|waited| waited.0.replace(Some((waits, sender))));
    });
    ends.join().unwrap();
    assert!(was_abandoned.recv().unwrap(), "a fiber outside run");
    let ends = thread::spawn(move || {
        let mut guest = impatient(1).start_guest().unwrap();
        drop(guest.spawn_local(fiber::park).unwrap());
        (0..FEW_WAITS).for_each(|_| _ = guest.turn(Duration::ZERO));
        let waits = guest.spawn_local(wait_inside).unwrap();
        guest.turn(Duration::ZERO);
        WAITED.with(|waited| waited.0.replace(Some((waits, by_guest))));
        mem::forget(guest);
    });
    ends.join().unwrap();
    assert!(was_abandoned.recv().unwrap(), "a fiber of a guest");
}

/// The thread has waited before, so that its worker has been there before the value.
#[test]
fn a_value_outlives_the_scope_of_a_forgotten_coroutine() {
    let _limit = Limit::of_this_test();
    check(|reports, begun| {
        fiber::yield_now();
        let coroutine: Coroutine<(), (), ()> = Coroutine::new(move |yielder, ()| {
            lending(|_value, is_dropped| {
                fiber::scope(|s| {
                    drop(s.spawn(move || use_for_long(&reports, &is_dropped)));
                    yielder.suspend(());
                });
            });
        });
        coroutine.resume(());
        begun.recv().unwrap();
        mem::forget(coroutine);
    });
}

/// Lends when it is destroyed.
#[derive(Default)]
struct LendsAtEnd(RefCell<Option<Reports>>);

impl Drop for LendsAtEnd {
    fn drop(&mut self) {
        let Some(Reports { outlived, .. }) = self.0.take() else { return };
        let (begun, has_begun) = mpsc::channel();
        drop(fiber::spawn_local(move || lend_to_a_job(&Reports { begun, outlived })));
        fiber::yield_now();
        has_begun.recv().unwrap();
    }
}

#[test]
fn a_value_outlives_the_job_of_a_destructor() {
    thread_local!(static LENDS: LendsAtEnd = LendsAtEnd::default());
    let _limit = Limit::of_this_test();
    check(|reports, _begun| {
        lending(|_value, _is_dropped| ());
        LENDS.with(|lends| *lends.0.borrow_mut() = Some(reports));
        // From here on the thread has a worker, whose own destructor runs first.
        fiber::yield_now();
    });
}
