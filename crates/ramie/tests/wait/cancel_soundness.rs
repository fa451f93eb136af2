//! Safe code that leaks, panics or goes away in the middle of scopes and limits.

use std::{
    cell::RefCell,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::common::{
    self, Counted, assert_success, child, everywhere, is_child, one_worker, panic_text,
    with_workers,
};
use ramie::{
    Runtime,
    cancel::{self, CancelHandle, check_cancelled, shield, with_timeout},
    fiber,
    policy::{Policy, Runnable},
    structured::{any, race, set, try_scope},
};
use ramie_coro::{Coroutine, Yielder};

const LONG: Duration = Duration::from_secs(3600);

type Plain = Coroutine<(), (), ()>;

/// A coroutine that has suspended inside a scope, a limit and a shield, with the scope's handle.
fn suspended() -> (Plain, CancelHandle) {
    let handle = std::rc::Rc::new(RefCell::new(None));
    let theirs = std::rc::Rc::clone(&handle);
    let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
        let limited = with_timeout(LONG, || {
            cancel::scope(|scope| {
                theirs.replace(Some(scope.handle()));
                shield(|| yielder.suspend(()));
                assert!(scope.is_cancelled() == check_cancelled().is_err());
            });
        });
        assert!(limited.is_ok());
    });
    coroutine.resume(());
    let handle = handle.take().unwrap();
    (coroutine, handle)
}

#[test]
fn a_coroutine_keeps_its_scopes_to_itself() {
    everywhere(|| {
        for cancels in [false, true] {
            let (coroutine, handle) = suspended();
            assert_eq!(cancel::current_deadline(), None);
            if cancels {
                handle.cancel();
            }
            assert!(check_cancelled().is_ok(), "it reaches only who is in it");
            fiber::yield_now();
            assert!(coroutine.resume(()).returned().is_some());
        }
    });
}

/// As documented at `Coroutine::resume`; deadlines are tightest for all.
#[test]
fn a_resumers_scope_reaches_a_coroutine_and_not_the_strands_of_its_own_scope() {
    everywhere(|| {
        let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
            cancel::scope(|_own| {
                yielder.suspend(());
                assert!(check_cancelled().is_err(), "the resumer's scope is cancelled");
                let theirs = || (check_cancelled().is_ok(), cancel::current_deadline().is_some());
                let theirs = fiber::scope(|scope| scope.spawn(theirs).join().unwrap());
                assert_eq!(theirs, (true, true));
            });
        });
        coroutine.resume(());
        let limited = with_timeout(LONG, || {
            cancel::scope(|scope| {
                scope.handle().cancel();
                assert!(coroutine.resume(()).returned().is_some());
            });
        });
        assert!(limited.is_ok());
    });
}

#[test]
fn a_coroutine_in_a_scope_may_be_dropped_and_forgotten() {
    everywhere(|| {
        for cancels_first in [false, true] {
            for forgets in [false, true] {
                let (coroutine, handle) = suspended();
                if cancels_first {
                    handle.cancel();
                }
                match forgets {
                    true => mem::forget(coroutine),
                    false => drop(coroutine),
                }
                handle.cancel();
                assert!(handle.is_cancelled());
                assert!(check_cancelled().is_ok());
                fiber::sleep(Duration::from_micros(10));
            }
        }
    });
}

#[test]
fn a_coroutine_in_a_scope_is_bound_to_its_fiber() {
    one_worker().run(|| {
        let (coroutine, handle) = suspended();
        let refused = fiber::spawn_local(move || {
            let refusal = panic_text(|| coroutine.resume(()));
            (refusal, coroutine)
        });
        let (refusal, coroutine) = refused.join().unwrap();
        assert!(refusal.contains("fiber"), "{refusal}");
        handle.cancel();
        assert!(coroutine.resume(()).returned().is_some());
    });
}

thread_local! {
    static KEPT: RefCell<Vec<(Plain, CancelHandle)>> = const { RefCell::new(Vec::new()) };
}

/// Its frames name a fiber that is gone: a cancel finds nobody, and a drop leaks or unwinds.
#[test]
fn a_coroutine_in_a_scope_may_outlive_its_fiber() {
    if !is_child() {
        return assert_success(&child("a_coroutine_in_a_scope_may_outlive_its_fiber"));
    }
    one_worker().run(|| {
        for _ in 0..4 {
            let ends = fiber::spawn_local(|| KEPT.with_borrow_mut(|kept| kept.push(suspended())));
            ends.join().unwrap();
        }
        let kept = KEPT.take();
        for (number, (coroutine, handle)) in kept.into_iter().enumerate() {
            // The header of the fiber is used again.
            let other = fiber::spawn_local(|| fiber::park_timeout(Duration::from_millis(2)));
            fiber::yield_now();
            if number % 2 == 0 {
                handle.cancel();
                assert!(!other.is_finished(), "another fiber is not meant");
            }
            let _ = catch_unwind(AssertUnwindSafe(|| drop(coroutine)));
            handle.cancel();
            other.join().unwrap();
        }
    });
}

#[test]
fn forgotten_handles_leak_and_no_more() {
    everywhere(|| {
        cancel::scope(|scope| {
            mem::forget(scope.handle());
            mem::forget(scope.handle().clone());
        });
        mem::forget(with_timeout(Duration::ZERO, || Box::new(7)));
        let ended = AtomicUsize::new(0);
        let end = || {
            fiber::yield_now();
            ended.fetch_add(1, SeqCst);
        };
        let outcome = try_scope(|scope| {
            mem::forget(scope.spawn(|| {
                end();
                Ok::<_, String>(())
            }));
            mem::forget(scope.cancel_handle());
            let started = scope.start(|ready: ramie::structured::Ready<u8>| {
                mem::forget(ready);
                end();
                Err("never ready".to_owned())
            });
            assert!(started.is_err());
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().cause(), "never ready");
        set(|set| {
            set.spawn(end);
            set.spawn(end);
            mem::forget(set.next());
        });
        assert_eq!(ended.load(SeqCst), 4, "a scope waits for its strands, handle or not");
    });
}

/// Panics when it is dropped.
struct Explodes<'a> {
    _counted: Counted<'a>,
}

fn explosive(dropped: &AtomicUsize) -> Explodes<'_> {
    Explodes { _counted: Counted(dropped) }
}

impl Drop for Explodes<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("it explodes"));
        }
    }
}

#[test]
fn destructors_may_panic_in_nested_scopes() {
    everywhere(|| {
        let dropped = AtomicUsize::new(0);
        let nested = || {
            cancel::scope(|scope| {
                with_timeout(LONG, || {
                    shield(|| {
                        fiber::scope(|strands| {
                            strands.spawn(|| drop(explosive(&dropped)));
                            scope.cancel();
                            let _late = explosive(&dropped);
                        });
                    })
                })
            })
        };
        for _ in 0..3 {
            assert!(catch_unwind(AssertUnwindSafe(nested)).is_err());
            assert!(check_cancelled().is_ok() && cancel::current_deadline().is_none());
        }
        assert_eq!(dropped.load(SeqCst), 6);
    });
}

#[test]
fn values_of_losers_may_panic_when_dropped() {
    everywhere(|| {
        let dropped = AtomicUsize::new(0);
        let raced = || {
            let first = race(|racers| {
                for _ in 0..3 {
                    racers.spawn(|| explosive(&dropped));
                }
            });
            mem::forget(first);
        };
        let _ = catch_unwind(AssertUnwindSafe(raced));
        let succeeded = || {
            let first = any(|racers| {
                for _ in 0..3 {
                    racers.spawn_try(|| Ok::<_, String>(explosive(&dropped)));
                }
            });
            mem::forget(first);
        };
        let _ = catch_unwind(AssertUnwindSafe(succeeded));
        let taken = || {
            set(|set| {
                (0..3).for_each(|_| set.spawn(|| explosive(&dropped)));
            });
        };
        let _ = catch_unwind(AssertUnwindSafe(taken));
        // The call panics, so that its first value is dropped, too.
        assert_eq!(dropped.load(SeqCst), 9, "each once");
        assert!(check_cancelled().is_ok());
        fiber::yield_now();
    });
}

#[test]
fn a_scope_opened_while_unwinding_works() {
    struct Cleans<'a>(&'a AtomicUsize);
    impl Drop for Cleans<'_> {
        fn drop(&mut self) {
            cancel::scope(|scope| {
                let _ = with_timeout(LONG, || scope.cancel());
                assert!(check_cancelled().is_err());
                self.0.fetch_add(1, SeqCst);
            });
        }
    }
    everywhere(|| {
        let cleaned = AtomicUsize::new(0);
        let panics = || {
            let _cleans = Cleans(&cleaned);
            std::panic::resume_unwind(Box::new(1));
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(cleaned.load(SeqCst), 1);
    });
}

#[test]
fn a_runtime_may_be_dropped_inside_a_fiber() {
    for workers in [1, 2] {
        let runtime = Arc::new(with_workers(workers));
        let own = Arc::clone(&runtime);
        runtime.run(|| {
            let other = with_workers(1);
            fiber::spawn(move || drop(own)).join().unwrap();
            cancel::scope(|scope| {
                scope.cancel();
                drop(other);
            });
            let handle = cancel::scope(|scope| scope.handle());
            std::thread::spawn(move || drop((with_workers(2), handle))).join().unwrap();
            fiber::yield_now();
        });
        drop(runtime);
    }
}

/// The handle of a scope whose runtime is gone cancels nobody.
#[test]
fn a_handle_may_outlive_its_runtime() {
    let handles: Vec<_> = [1, 2]
        .map(|workers| with_workers(workers).run(|| cancel::scope(|scope| scope.handle())))
        .into();
    one_worker().run(|| {
        handles.iter().for_each(|handle| assert!(handle.cancel() && !handle.cancel()));
        assert!(check_cancelled().is_ok());
    });
}

/// Forgets the second fiber that it is handed, which never runs.
#[derive(Default)]
struct Forgetful {
    count: usize,
    queue: std::collections::VecDeque<Runnable>,
}

impl Policy for Forgetful {
    fn push(&mut self, runnable: Runnable) {
        self.count += 1;
        if runnable.name() == Some("forgotten") {
            return mem::forget(runnable);
        }
        self.queue.push_back(runnable);
    }

    fn pop(&mut self) -> Option<Runnable> {
        self.queue.pop_front()
    }
}

#[test]
fn a_fiber_that_a_policy_forgets_is_lost_and_no_more() {
    let name = "a_fiber_that_a_policy_forgets_is_lost_and_no_more";
    if is_child() {
        let grace = Duration::from_millis(5);
        let builder = Runtime::builder().workers(1).policy(Forgetful::default).grace(grace);
        return builder.build().unwrap().run(|| {
            let named = fiber::Builder::new().name("forgotten".into());
            let lost = named.spawn(|| ()).unwrap();
            fiber::sleep(Duration::from_millis(1));
            assert!(!lost.is_finished());
            drop(lost);
        });
    }
    let output = child(name);
    let report = common::stderr(&output);
    let is_order = output.status.success() || report.contains("policy");
    assert!(is_order, "{:?}: {report}", output.status);
}
