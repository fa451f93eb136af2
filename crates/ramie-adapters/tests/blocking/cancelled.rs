//! Calls whose strand is cancelled.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use ramie::{
    Runtime,
    cancel::{self, Cancelled},
    fiber,
};
use ramie_adapters::Blocking;

use crate::tracked::{Gate, Tracked};

#[test]
fn a_cancelled_call_leaves_the_value_to_its_job() {
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let worker = thread::current().id();
        let (value, drops) = Tracked::new();
        let mut value = Blocking::new(value);
        let (gate, wait) = Gate::new();
        let (used, was_used) = ramie::channel::unbounded();
        let outcome = cancel::scope(|scope| {
            fiber::scope(|fibers| {
                let call = fibers.spawn_local(|| {
                    value.run_or_cancelled(move |value| {
                        wait();
                        let _ = used.send(value.call());
                    })
                });
                gate.begun();
                scope.cancel_because("the test ends the call");
                call.join().unwrap()
            })
        });
        let error = outcome.unwrap_err();
        assert_eq!(Cancelled::of(&error).unwrap().reason(), "the test ends the call");
        assert!(value.is_lost() && !drops.is_dropped());
        drop(value);
        gate.open();
        // The closure ran to its end, with the value, and the value was dropped behind it.
        assert_ne!(drops.wait(), worker);
        assert_eq!(was_used.try_recv(), Ok(1));
    });
}

#[test]
fn a_call_that_has_not_begun_returns_the_value() {
    Runtime::builder().workers(1).blocking_threads(1).build().unwrap().run(|| {
        let (gate, wait) = Gate::new();
        let occupier = fiber::spawn_local(move || ramie::blocking(wait));
        gate.begun();
        let (value, drops) = Tracked::new();
        let mut value = Blocking::new(value);
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&has_run);
        let late = cancel::try_with_timeout(Duration::from_millis(1), || {
            value.run_or_cancelled(move |_| runs.store(true, SeqCst))
        });
        assert!(Cancelled::of(&late.unwrap_err()).unwrap().is_deadline());
        assert!(!value.is_lost() && !drops.is_dropped());
        gate.open();
        occupier.join().unwrap();
        // Behind the job of the cancelled call, because the pool has one thread.
        assert_eq!(value.run(Tracked::call), 1);
        assert!(!has_run.load(SeqCst));
    });
}

#[test]
fn a_cancelled_strand_does_not_begin_a_call() {
    ramie::run(|| {
        let mut value = Blocking::new(0);
        cancel::scope(|scope| {
            scope.cancel();
            let refused = value.run_or_cancelled(|_| panic!("it must not run"));
            assert!(cancel::is_cancelled(&refused.unwrap_err()));
            // This one is no cancel point.
            value.run(|value| *value += 1);
        });
        assert_eq!(value.into_inner(), Some(1));
    });
}

#[test]
fn a_call_that_is_no_cancel_point_waits_for_its_end() {
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let (value, drops) = Tracked::new();
        let mut value = Blocking::new(value);
        let (gate, wait) = Gate::new();
        cancel::scope(|scope| {
            fiber::scope(|fibers| {
                let call = fibers.spawn_local(|| {
                    value.run(|value| {
                        wait();
                        value.call()
                    })
                });
                gate.begun();
                scope.cancel();
                fiber::yield_now();
                assert!(!call.is_finished());
                gate.open();
                assert_eq!(call.join().unwrap(), 1);
            });
        });
        assert!(!value.is_lost() && !drops.is_dropped());
    });
}

#[test]
fn a_thread_leaves_its_call_too() {
    let (value, drops) = Tracked::new();
    let mut value = Blocking::new(value);
    let (gate, wait) = Gate::new();
    let call = || value.run_or_cancelled(move |_| wait());
    let late = cancel::try_with_timeout(Duration::from_millis(20), call);
    assert!(cancel::is_cancelled(&late.unwrap_err()));
    if gate.has_begun() {
        assert!(value.is_lost() && !drops.is_dropped());
        gate.open();
        drops.wait();
    }
}

/// Limits that expire at about the time at which the closure returns.
#[test]
fn a_value_is_never_used_twice_nor_lost_without_an_error() {
    static IN_USE: AtomicUsize = AtomicUsize::new(0);
    let (mut kept, mut left) = (0, 0);
    Runtime::builder().workers(2).build().unwrap().run(|| {
        for round in 0..500_u64 {
            let (value, drops) = Tracked::new();
            let mut value = Blocking::new(value);
            let use_it = |value: &mut Tracked| {
                assert_eq!(IN_USE.fetch_add(1, SeqCst), 0);
                for _ in 0..50 {
                    value.call();
                }
                assert_eq!(IN_USE.fetch_sub(1, SeqCst), 1);
            };
            let limit = Duration::from_micros(round % 100);
            let outcome = cancel::try_with_timeout(limit, || value.run_or_cancelled(use_it));
            if value.is_lost() {
                assert!(outcome.is_err());
                drops.wait();
                left += 1;
            } else {
                assert!(!drops.is_dropped());
                // A call that was cancelled before it began has not used the value.
                let calls = if outcome.is_ok() { 51 } else { 1 };
                assert_eq!(value.run(Tracked::call), calls);
                kept += 1;
            }
        }
    });
    assert_eq!(kept + left, 500);
}

#[test]
fn a_panic_of_a_left_call_reaches_nobody() {
    Runtime::builder().workers(1).build().unwrap().run(|| {
        let (value, drops) = Tracked::new();
        let mut value = Blocking::new(value);
        let (gate, wait) = Gate::new();
        cancel::scope(|scope| {
            fiber::scope(|fibers| {
                let call = fibers.spawn_local(|| {
                    value.run_or_cancelled(move |_| {
                        wait();
                        panic!("this panic is on purpose");
                    })
                });
                gate.begun();
                scope.cancel();
                assert!(cancel::is_cancelled(&call.join().unwrap().unwrap_err()));
            });
        });
        gate.open();
        drops.wait();
        // The pool goes on.
        assert_eq!(Blocking::new(1).run(|value| *value), 1);
    });
}
