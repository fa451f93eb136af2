//! Documented behaviour of scopes, locks and supervisors that no other test would find broken.

use std::{
    sync::{
        Arc, Mutex as StdMutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use crate::common::{on_workers, panic_text, wait_until, with_workers};
use ramie::{
    Runtime, cancel,
    cancel::{check_cancelled, with_timeout},
    fiber,
    structured::{BackOff, Strategy, Supervisor, TryScope, set, try_scope},
    sync::{Event, Mutex, RwLock},
    time::ManualClock,
};

/// A wait for a cancellation that does not come fails after this time.
const LIMIT: Duration = Duration::from_secs(20);

/// Waits to be cancelled; returns the cause.
fn until_cancelled() -> String {
    match Event::new().wait_timeout(LIMIT) {
        Err(cancelled) => cancelled.to_string(),
        Ok(_) => panic!("nothing has cancelled this within {LIMIT:?}"),
    }
}

#[test]
fn a_panic_in_a_try_scope_cancels_the_others() {
    on_workers(|| {
        let was_cancelled = AtomicBool::new(false);
        let said = panic_text(|| {
            try_scope(|scope: &TryScope<'_, '_, String>| {
                scope.spawn(|| {
                    until_cancelled();
                    was_cancelled.store(check_cancelled().is_err(), SeqCst);
                    Ok(())
                });
                scope.spawn(|| -> Result<(), String> { panic!("on purpose") });
                Ok(())
            })
        });
        assert!(said.contains("on purpose"), "{said}");
        assert!(was_cancelled.load(SeqCst), "the other strand");
    });
}

/// Each of three nested scopes ends a wait in the innermost, and in a strand spawned there.
#[test]
fn every_scope_around_a_wait_can_cancel_it() {
    on_workers(|| {
        for which in 0..3 {
            cancel::scope(|outer| {
                cancel::scope(|middle| {
                    cancel::scope(|inner| {
                        let handle = [outer.handle(), middle.handle(), inner.handle()];
                        let cause = format!("scope {which}");
                        fiber::scope(|s| {
                            let child = s.spawn(until_cancelled);
                            s.spawn(|| handle[which].cancel_because("this one"));
                            assert!(until_cancelled().contains("this one"), "{cause}");
                            assert!(child.join().unwrap().contains("this one"), "{cause}");
                        });
                        assert!(check_cancelled().is_err(), "{cause}");
                        // A wait that begins only now ends at once.
                        assert!(until_cancelled().contains("this one"), "{cause}");
                        let start = Instant::now();
                        fiber::sleep(LIMIT);
                        let (_sender, receiver) = ramie::channel::bounded::<()>(1);
                        assert!(receiver.recv_timeout(LIMIT).is_err());
                        fiber::park_timeout(LIMIT);
                        assert!(start.elapsed() < LIMIT, "{cause}");
                    });
                    assert_eq!(check_cancelled().is_err(), which < 2, "scope {which}");
                });
                assert_eq!(check_cancelled().is_err(), which < 1, "scope {which}");
            });
        }
    });
}

#[test]
fn the_nearest_deadline_ends_a_wait_wherever_it_was_set() {
    on_workers(|| {
        let (short, long) = (Duration::from_millis(5), LIMIT);
        for [outer, inner] in [[short, long], [long, short]] {
            let start = Instant::now();
            let _ = with_timeout(outer, || {
                let _ = with_timeout(inner, || {
                    let _ = Event::new().wait();
                });
            });
            assert!(start.elapsed() < LIMIT / 2, "{outer:?}, and in it {inner:?}");
        }
    });
}

/// A loop that ignores a cancellation must not keep a worker busy.
#[test]
fn calls_that_return_early_pause_longer_and_longer() {
    on_workers(|| {
        cancel::scope(|scope| {
            scope.cancel();
            let start = Instant::now();
            // Eight yields, then 1, 2, 4, 8, 16, 32, 50 and 50 ms.
            (0..16).for_each(|_| fiber::sleep(LIMIT));
            let elapsed = start.elapsed();
            assert!(elapsed >= Duration::from_millis(160), "{elapsed:?}");
            assert!(elapsed < LIMIT, "{elapsed:?}");
        });
    });
}

/// After a long life the pauses between restarts begin anew.
#[test]
fn the_pauses_of_a_supervisor_begin_anew_after_a_long_life() {
    for strategy in [Strategy::OneForOne, Strategy::OneForAll] {
        let clock = ManualClock::new();
        let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
        let times = StdMutex::new(Vec::new());
        runtime.run(|| {
            let begin = clock.now();
            let note = || {
                let now = clock.now().duration_since(begin).as_millis();
                let mut times = times.lock().unwrap();
                times.push(now);
                times.len()
            };
            let child = || {
                // At the start, and at the end.
                let life = note() / 2;
                if life == 3 {
                    fiber::sleep(Duration::from_millis(200));
                }
                note();
                if life < 5 { Err("not yet") } else { Ok(()) }
            };
            let (first, longest) = (Duration::from_millis(10), Duration::from_millis(100));
            let supervisor = Supervisor::new().back_off(BackOff { first, longest });
            fiber::scope(|scope| {
                let supervised = scope.spawn(|| {
                    let supervisor = supervisor.limit(100, LIMIT).strategy(strategy);
                    supervisor.run(|children| children.add("child", child))
                });
                while !supervised.is_finished() {
                    clock.advance(Duration::from_millis(1));
                    // Later than the pause, because the worker checks its timers only from time to
                    // time.
                    (0..100).for_each(|_| fiber::yield_now());
                }
                assert!(supervised.join().unwrap().is_ok());
            });
        });
        let times = times.into_inner().unwrap();
        let pauses: Vec<_> = times[1..].chunks_exact(2).map(|pair| pair[1] - pair[0]).collect();
        let expected = [10, 20, 40, 10, 20];
        assert_eq!(pauses.len(), expected.len(), "{pauses:?}");
        let fits = |(is, due): (&u128, u128)| (due..due + 5).contains(is);
        assert!(pauses.iter().zip(expected).all(fits), "{strategy:?}: {pauses:?}");
    }
}

/// `try_next` does not take an outcome that `next` has claimed: each outcome is taken once, and no
/// strand waits for one that another has taken.
#[test]
fn outcomes_of_a_set_are_each_taken_once() {
    let rounds = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let start = Instant::now();
            while !is_over.load(SeqCst) {
                if start.elapsed() > LIMIT * 3 {
                    eprintln!("a taker waits for an outcome that is gone; round {rounds:?}");
                    std::process::abort();
                }
                std::thread::park_timeout(Duration::from_millis(100));
            }
        });
        with_workers(2).run(|| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(1) {
                let taken = AtomicUsize::new(0);
                set(|set| {
                    (0..4).for_each(|_| set.spawn(|| ()));
                    fiber::scope(|s| {
                        s.spawn(|| {
                            while set.next().is_some() {
                                taken.fetch_add(1, SeqCst);
                            }
                        });
                        while !set.is_empty() {
                            taken.fetch_add(usize::from(set.try_next().is_some()), SeqCst);
                            fiber::yield_now();
                        }
                    });
                });
                assert_eq!(taken.load(SeqCst), 4);
                rounds.fetch_add(1, SeqCst);
            }
        });
        is_over.store(true, SeqCst);
    });
}

#[test]
fn a_downgraded_lock_lets_waiting_readers_in() {
    on_workers(|| {
        let lock = RwLock::new(1);
        let (is_waiting, is_in) = (AtomicBool::new(false), AtomicBool::new(false));
        fiber::scope(|s| {
            let mut guard = lock.write().unwrap();
            s.spawn(|| {
                is_waiting.store(true, SeqCst);
                assert_eq!(*lock.read().unwrap(), 2);
                is_in.store(true, SeqCst);
            });
            wait_until(|| is_waiting.load(SeqCst));
            (0..10).for_each(|_| fiber::yield_now());
            *guard = 2;
            let guard = ramie::sync::RwLockWriteGuard::downgrade(guard);
            let start = Instant::now();
            // With a limit, so that the guard is dropped even if the assertion fails.
            while !is_in.load(SeqCst) && start.elapsed() < LIMIT {
                fiber::yield_now();
            }
            assert!(is_in.load(SeqCst), "a reader waits beside a reader");
            assert!(lock.try_write().is_err());
            drop(guard);
        });
        assert!(lock.try_write().is_ok());
    });
}

/// If a strand is abandoned after a lock was handed over to it and before it has run, the lock goes
/// to the next waiter.
#[test]
fn a_lock_is_not_lost_with_the_strand_to_which_it_was_handed() {
    let abandoned = Arc::new(AtomicUsize::new(0));
    // The worker checks the grace period after every 61 switches. In some of these rounds that is
    // just before the strand would run, after it has lost the lock often enough to have requested
    // the hand-over.
    for (losses, yields) in (14..20).flat_map(|losses| (0..62).map(move |yields| (losses, yields)))
    {
        let lock: &'static Mutex<()> = Box::leak(Box::default());
        let count = Arc::clone(&abandoned);
        let runtime =
            Runtime::builder().workers(1).grace(Duration::ZERO).on_abandoned(move |all| {
                count.fetch_add(all.count(), SeqCst);
            });
        runtime.build().unwrap().run(|| {
            let mut guard = lock.lock().unwrap();
            fiber::spawn(|| drop(lock.lock()));
            for _ in 0..losses {
                fiber::yield_now();
                drop(guard);
                guard = lock.lock().unwrap();
            }
            (0..yields).for_each(|_| fiber::yield_now());
            drop(guard);
        });
        assert!(lock.try_lock().is_ok(), "locked forever: {losses} losses, {yields} yields");
    }
    assert!(abandoned.load(SeqCst) > 0, "this is about strands that are given up");
}
