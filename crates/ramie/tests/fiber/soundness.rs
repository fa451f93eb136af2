//! Safe code that tries to break the rules: each attempt ends in order, or with a sentence.

use std::{
    cell::RefCell,
    io::Write,
    mem,
    rc::Rc,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::common::{
    self, Counted, assert_aborted, assert_success, child, child_with, everywhere, is_child,
    one_worker, panic_text, stderr, text, wait_until, with_workers,
};
use ramie::{
    Runtime, fiber, no_switch,
    sync::{Mutex, oneshot},
};
use ramie_coro::{Coroutine, State, Yielder};

thread_local! {
    static KEPT: RefCell<Option<Coroutine<(), (), ()>>> = const { RefCell::new(None) };
}

const OUT_OF_ORDER: &str = "a no_switch region was left on another fiber";

/// A coroutine that has suspended inside `no_switch`.
fn suspended_in_no_switch() -> Coroutine<(), (), ()> {
    let coroutine = Coroutine::new(|yielder, ()| no_switch(|| yielder.suspend(())));
    coroutine.resume(());
    coroutine
}

#[test]
fn no_switch_left_on_another_fiber_aborts() {
    if is_child() {
        return one_worker().run(|| {
            let enters = fiber::spawn_local(|| KEPT.set(Some(suspended_in_no_switch())));
            enters.join().unwrap();
            drop(KEPT.take());
        });
    }
    assert_aborted(&child("no_switch_left_on_another_fiber_aborts"), OUT_OF_ORDER);
}

#[test]
fn no_switch_left_after_its_worker_is_gone_aborts() {
    if is_child() {
        one_worker().run(|| KEPT.set(Some(suspended_in_no_switch())));
        return one_worker().run(|| drop(KEPT.take()));
    }
    assert_aborted(&child("no_switch_left_after_its_worker_is_gone_aborts"), OUT_OF_ORDER);
}

#[test]
fn no_switch_left_where_it_was_entered_is_over() {
    everywhere(|| {
        let coroutine = suspended_in_no_switch();
        assert!(panic_text(fiber::yield_now).contains("inside no_switch"));
        drop(coroutine);
        fiber::yield_now();
    });
}

/// The fiber ends inside the region; the next one on its worker is not in it.
#[test]
fn no_switch_does_not_outlive_its_fiber() {
    one_worker().run(|| {
        fiber::spawn_local(|| mem::forget(suspended_in_no_switch())).join().unwrap();
        fiber::spawn_local(|| fiber::sleep(Duration::from_micros(1))).join().unwrap();
        let refused = fiber::spawn_local(|| panic_text(|| no_switch(fiber::yield_now)));
        assert!(refused.join().unwrap().contains("inside no_switch"));
    });
}

/// A yielder that its body has lent to a fiber must not switch that fiber's stack away.
#[test]
fn a_yielder_is_refused_on_another_fiber() {
    everywhere(|| {
        let coroutine = Coroutine::new(|yielder, ()| {
            let refusal = fiber::scope(|s| {
                s.spawn_local(|| panic_text(|| yielder.suspend(1))).join().unwrap()
            });
            assert!(refusal.contains("cannot suspend a coroutine from another fiber"), "{refusal}");
            yielder.suspend(2);
        });
        assert_eq!(coroutine.resume(()).yielded(), Some(2));
        assert_eq!(coroutine.resume(()).returned(), Some(()));
        fiber::spawn_local(|| ()).join().unwrap();
    });
}

#[test]
fn a_yielder_is_refused_inside_run() {
    for workers in [1, 2] {
        let coroutine = Coroutine::new(move |yielder, ()| {
            let refusal = with_workers(workers).run(|| panic_text(|| yielder.suspend(1)));
            assert!(refusal.contains("cannot suspend a coroutine from another fiber"), "{refusal}");
            yielder.suspend(2);
        });
        assert_eq!(coroutine.resume(()).yielded(), Some(2));
        fiber::sleep(Duration::from_micros(1));
        assert_eq!(coroutine.state(), State::Suspended);
        drop(coroutine);
        fiber::sleep(Duration::from_micros(1));
    }
}

/// A coroutine that waits for a scope is dropped with it, and only when the scope is over.
#[test]
fn a_coroutine_dropped_inside_a_scope_waits_for_the_scope() {
    everywhere(|| {
        let ended = Rc::new(AtomicUsize::new(0));
        let ends = Rc::clone(&ended);
        let coroutine = Coroutine::new(move |yielder, ()| {
            fiber::scope(|s| {
                s.spawn_local(|| {
                    fiber::yield_now();
                    ends.fetch_add(1, Ordering::Relaxed);
                });
                yielder.suspend(());
            });
        });
        coroutine.resume(());
        drop(coroutine);
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_coroutine_moved_to_another_fiber_goes_on_waiting_there() {
    one_worker().run(|| {
        let coroutine = Coroutine::new(|yielder, ()| {
            let lock = Mutex::new(0);
            fiber::scope(|s| {
                s.spawn_local(|| {
                    fiber::sleep(Duration::from_millis(1));
                    *lock.lock().unwrap() += 1;
                });
                yielder.suspend(());
            });
            assert_eq!(*lock.lock().unwrap(), 1);
        });
        coroutine.resume(());
        fiber::spawn_local(move || coroutine.resume(()).returned().unwrap()).join().unwrap();
    });
}

#[track_caller]
fn assert_exits_with_3(test: &str) {
    let output = child(test);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
fn a_fiber_of_a_threads_own_worker_may_exit() {
    if is_child() {
        let _parked = fiber::spawn_local(fiber::park);
        return fiber::spawn_local(|| std::process::exit(3)).join().unwrap();
    }
    assert_exits_with_3("a_fiber_of_a_threads_own_worker_may_exit");
}

#[test]
fn a_fiber_of_run_may_exit_where_the_thread_has_a_worker_too() {
    if is_child() {
        fiber::spawn_local(fiber::yield_now).join().unwrap();
        return with_workers(2).run(|| std::process::exit(3));
    }
    assert_exits_with_3("a_fiber_of_run_may_exit_where_the_thread_has_a_worker_too");
}

struct SleepsWhenDropped;

impl Drop for SleepsWhenDropped {
    fn drop(&mut self) {
        eprintln!("the destructor runs");
        fiber::sleep(Duration::from_millis(1));
        eprintln!("the destructor has slept");
    }
}

/// Its destructor runs in the worker's loop, where nothing can wait.
#[test]
fn the_closure_of_a_fiber_without_a_stack_cannot_wait_in_its_destructor() {
    let name = "the_closure_of_a_fiber_without_a_stack_cannot_wait_in_its_destructor";
    if is_child() {
        common::limit_memory(512 << 20);
        let other = fiber::spawn_local(|| fiber::sleep(Duration::from_millis(5)));
        let loud = SleepsWhenDropped;
        let built = fiber::Builder::new().stack_size(1 << 30).spawn_local(move || drop(loud));
        let payload = built.unwrap().join().unwrap_err();
        assert!(text(&*payload).contains("cannot start"), "{}", text(&*payload));
        return other.join().unwrap();
    }
    let output = child(name);
    assert_success(&output);
    let report = stderr(&output);
    assert!(report.contains("the destructor runs"), "{report}");
    assert!(report.contains("a call inside no_switch would suspend"), "{report}");
    assert!(!report.contains("the destructor has slept"), "{report}");
}

/// Nor is it in the scopes of the fiber that ran before.
#[test]
fn the_closure_of_a_fiber_without_a_stack_is_dropped_outside_of_scopes() {
    struct Asks;
    impl Drop for Asks {
        fn drop(&mut self) {
            let is_cancelled = ramie::cancel::check_cancelled().is_err();
            eprintln!("the destructor is cancelled: {is_cancelled}");
        }
    }
    if is_child() {
        common::limit_memory(512 << 20);
        return common::one_worker().run(|| {
            let before = fiber::spawn_local(|| {
                ramie::cancel::scope(|scope| {
                    scope.cancel();
                    fiber::yield_now();
                });
            });
            let asks = Asks;
            let built = fiber::Builder::new().stack_size(1 << 30).spawn_local(move || drop(asks));
            assert!(built.unwrap().join().is_err(), "the limit lets it start");
            before.join().unwrap();
        });
    }
    let name = "the_closure_of_a_fiber_without_a_stack_is_dropped_outside_of_scopes";
    let output = child(name);
    assert_success(&output);
    let report = stderr(&output);
    assert!(report.contains("the destructor is cancelled: false"), "{report}");
}

#[test]
fn a_coroutine_around_run_cannot_suspend_inside_on_threads_either() {
    let outcome = std::thread::spawn(|| {
        let runtime = ramie::Runtime::builder().strands(ramie::Strands::Threads);
        let runtime = runtime.build().unwrap();
        let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
            runtime.run(|| yielder.suspend(()));
        });
        coroutine.resume(());
    });
    let payload = outcome.join().unwrap_err();
    assert!(text(&*payload).contains("another"), "{}", text(&*payload));
    fiber::sleep(Duration::from_millis(1));
}

/// The destructors of a closure that never started run where nothing may wait. The first panics,
/// and the second runs while that panic unwinds.
#[test]
fn two_destructors_that_wait_where_they_may_not_are_one_panic() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            fiber::sleep(Duration::from_millis(1));
        }
    }
    if !is_child() {
        let name = "two_destructors_that_wait_where_they_may_not_are_one_panic";
        return assert_success(&child(name));
    }
    let grace = Duration::from_millis(1);
    ramie::Runtime::builder().workers(1).grace(grace).build().unwrap().run(|| {
        drop(fiber::spawn(|| std::thread::sleep(Duration::from_millis(20))));
        (0..200).for_each(|_| drop(fiber::spawn(|| ())));
        let (one, other) = (Waits, Waits);
        drop(fiber::spawn(move || {
            drop(one);
            drop(other);
        }));
    });
}

/// A receiver is for one strand at a time, but an `Rc` lends it to several.
#[test]
fn every_waiter_of_a_shared_receiver_learns_that_the_value_is_gone() {
    one_worker().run(|| {
        for sends in [true, false] {
            let (sender, receiver) = oneshot::channel();
            let receiver = Rc::new(receiver);
            let start = Instant::now();
            let waiters = [(); 4].map(|()| {
                let receiver = Rc::clone(&receiver);
                fiber::spawn_local(move || receiver.recv_timeout(Duration::from_secs(20)))
            });
            fiber::yield_now();
            if sends {
                sender.send(7).unwrap()
            } else {
                drop(sender)
            }
            let values = waiters.map(|waiter| waiter.join().unwrap());
            let closed = Err(oneshot::RecvTimeoutError::Closed);
            assert_eq!(values[0], if sends { Ok(7) } else { closed });
            assert!(values[1..].iter().all(|value| *value == closed), "{values:?}");
            assert!(start.elapsed() < Duration::from_secs(10), "they waited for their deadline");
        }
    });
}

/// The end of a detached fiber drops its value, and that may wait like any code of a fiber.
#[test]
fn the_value_of_a_detached_fiber_may_wait_in_its_destructor() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    struct Parks {
        _counted: Counted<'static>,
    }
    impl Drop for Parks {
        fn drop(&mut self) {
            // Ended early, so that the timer's entry is left behind.
            let me = fiber::current();
            drop(fiber::spawn_local(move || me.unpark()));
            fiber::park_timeout(Duration::from_secs(3600));
        }
    }
    one_worker().run(|| {
        for _ in 0..100 {
            drop(fiber::spawn_local(|| Parks { _counted: Counted(&ENDED) }));
        }
        wait_until(|| ENDED.load(Ordering::SeqCst) == 100);
        // Their headers are used again: the new fibers' timers must fire.
        let sleepers =
            [(); 200].map(|()| fiber::spawn_local(|| fiber::sleep(Duration::from_millis(1))));
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

/// The memory of this process that is present, in KiB.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4
}

/// The memory of a file beside its descriptor is given back, although the descriptor stays open.
#[test]
fn writing_to_a_redirected_output_keeps_no_memory() {
    if common::memory_is_the_sanitizers() {
        return;
    }
    if is_child() {
        return one_worker().run(|| {
            let mut stdout = ramie::io::stdout().lock();
            stdout.write_all(b"warm\n").unwrap();
            let before = resident();
            (0..100_000).for_each(|_| stdout.write_all(b"\n").unwrap());
            let grown = resident() - before;
            assert!(grown < 3000, "{grown} KiB");
        });
    }
    let name = "writing_to_a_redirected_output_keeps_no_memory";
    let redirect = "out=$(mktemp) && exec >\"$out\" && rm \"$out\"";
    assert_success(&child_with(redirect, name, &[]));
}

/// The scope is outside of the run that gives its strand up: it can neither end nor go on.
#[test]
fn a_scope_outside_whose_strand_is_abandoned_aborts() {
    if is_child() {
        let runtime = Runtime::builder().grace(Duration::from_millis(5)).build().unwrap();
        return fiber::scope(|s| {
            runtime.run(|| {
                s.spawn(fiber::park);
                fiber::sleep(Duration::from_millis(1));
            });
        });
    }
    let output = child("a_scope_outside_whose_strand_is_abandoned_aborts");
    assert_aborted(&output, "opened outside of that run");
}

/// Scopes that are given up with their strands stay quiet.
#[test]
fn scopes_inside_run_are_abandoned_with_their_strands() {
    for workers in [1, 2, 4] {
        let builder = Runtime::builder().workers(workers).grace(Duration::from_millis(1));
        builder.build().unwrap().run(|| {
            for _ in 0..50 {
                drop(fiber::spawn(|| {
                    fiber::scope(|s| {
                        (0..4).for_each(|_| drop(s.spawn(fiber::park)));
                    })
                }));
            }
            fiber::sleep(Duration::from_millis(1));
        });
    }
}
