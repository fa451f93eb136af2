//! Limits and scopes inside one another: which of them counts, and which ones a scope's strands
//! inherit.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

use crate::common::{one_worker, wait_until};
use ramie::{
    cancel::{self, check_cancelled, current_deadline},
    fiber,
    sync::{Condvar, Event, Mutex},
    time::Instant,
};

const LONG: Duration = Duration::from_secs(3600);

/// The scope inside is cancelled, the one outside is not: a wait that is no error ends, too.
#[test]
fn a_scope_inside_one_that_goes_on_ends_sleeps() {
    one_worker().run(|| {
        let sleeper = fiber::spawn(|| {
            cancel::scope(|_| {
                cancel::scope(|inner| {
                    inner.cancel();
                    fiber::sleep(LONG);
                });
            });
        });
        wait_until(|| sleeper.is_finished());
        sleeper.join().unwrap();
    });
}

#[test]
fn the_reason_is_that_of_the_scope_nearest() {
    one_worker().run(|| {
        cancel::scope(|outer| {
            cancel::scope(|inner| {
                inner.cancel_because("of the inner");
                outer.cancel_because("of the outer");
                assert!(check_cancelled().unwrap_err().to_string().contains("of the inner"));
            });
            assert!(check_cancelled().unwrap_err().to_string().contains("of the outer"));
        });
    });
}

#[test]
fn strands_inherit_the_tightest_limit_and_the_nearest_scope() {
    one_worker().run(|| {
        let near = Instant::now() + LONG;
        for order in [[near, near + LONG], [near + LONG, near]] {
            let inherited = cancel::with_deadline(order[0], || {
                cancel::with_deadline(order[1], || {
                    fiber::scope(|s| s.spawn(current_deadline).join().unwrap())
                })
            });
            assert_eq!(inherited.unwrap().unwrap(), Some(near));
        }
        let waits = AtomicBool::new(false);
        cancel::scope(|_| {
            cancel::scope(|inner| {
                fiber::scope(|s| {
                    let child = s.spawn(|| {
                        waits.store(true, SeqCst);
                        Event::new().wait().is_err()
                    });
                    wait_until(|| waits.load(SeqCst));
                    fiber::yield_now();
                    inner.cancel();
                    wait_until(|| child.is_finished());
                    assert!(child.join().unwrap());
                });
            });
        });
    });
}

/// A loop around a wait that cannot report its cancellation does not take the whole CPU.
#[test]
fn waits_that_end_early_again_and_again_take_longer_each_time() {
    one_worker().run(|| {
        cancel::scope(|scope| {
            scope.cancel();
            let (lock, changed) = (Mutex::new(()), Condvar::new());
            let start = Instant::now();
            for _ in 0..12 {
                drop(changed.wait(lock.lock().unwrap()).unwrap());
            }
            // Eight yields, then pauses of 1, 2, 4 and 8 ms.
            assert!(start.elapsed() >= Duration::from_millis(15), "{:?}", start.elapsed());
        });
    });
}

/// Pauses at once would slow down the many strands that end after one such wait.
#[test]
fn the_first_waits_that_end_early_let_others_run_only_once() {
    one_worker().run(|| {
        let (turns, is_over) = (Cell::new(0), Cell::new(false));
        fiber::scope(|s| {
            s.spawn_local(|| {
                while !is_over.get() {
                    turns.set(turns.get() + 1);
                    fiber::yield_now();
                }
            });
            cancel::scope(|scope| {
                scope.cancel();
                let (lock, changed) = (Mutex::new(()), Condvar::new());
                for _ in 0..8 {
                    drop(changed.wait(lock.lock().unwrap()).unwrap());
                }
            });
            is_over.set(true);
        });
        assert_eq!(turns.get(), 8);
    });
}

#[test]
fn pauses_of_waits_that_end_early_have_a_limit() {
    one_worker().run(|| {
        cancel::scope(|scope| {
            scope.cancel();
            let (lock, changed) = (Mutex::new(()), Condvar::new());
            let start = Instant::now();
            for _ in 0..22 {
                drop(changed.wait(lock.lock().unwrap()).unwrap());
            }
            // 63 ms in six pauses, then eight of 50 ms. Without the limit, 16 s in fourteen.
            assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
        });
    });
}
