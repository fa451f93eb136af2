//! The Mutex, compared with std's and under contention.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use crate::common::{on_each, one_worker, panic_text, wait_until, with_workers};
use ramie::{
    fiber,
    sync::{Mutex, TryLockError},
};

/// The same steps on std's Mutex and on ours, on a fiber and on a thread.
macro_rules! steps {
    ($mutex:path, $thread:path) => {{
        use $mutex as Mutex;
        let mut seen = Vec::new();
        let mut lock = Mutex::new(vec![1]);
        seen.push(format!("{lock:?}"));
        lock.lock().unwrap().push(2);
        {
            let guard = lock.lock().unwrap();
            seen.push(format!("{guard:?} {lock:?} {:?}", lock.try_lock().is_err()));
        }
        lock.get_mut().unwrap().push(3);
        let caught = std::panic::catch_unwind(|| {
            let mut guard = lock.lock().unwrap();
            guard.push(4);
            panic!("poisons");
        });
        seen.push(format!("{} {} {lock:?}", caught.is_err(), lock.is_poisoned()));
        seen.push(format!("{}", lock.lock().unwrap_err()));
        seen.push(format!("{:?}", lock.try_lock().map(drop)));
        seen.push(format!("{:?}", lock.get_mut().is_err()));
        lock.clear_poison();
        seen.push(format!("{:?} {:?}", lock.lock().unwrap(), lock.is_poisoned()));
        seen.push(format!("{:?}", lock.into_inner()));
        let number = Mutex::from(5);
        seen.push(format!("{} {:?}", number.lock().unwrap(), Mutex::<u8>::default()));
        let shared = std::sync::Arc::new(Mutex::new(String::from("kept")));
        let theirs = std::sync::Arc::clone(&shared);
        let panics = $thread(move || {
            let _guard = theirs.lock();
            panic!("poisons");
        });
        seen.push(format!("{} {}", panics.join().is_err(), shared.is_poisoned()));
        let taken = std::sync::Arc::into_inner(shared).unwrap().into_inner();
        seen.push(taken.unwrap_err().into_inner());
        let sized: &Mutex<[u8]> = &Mutex::new([1, 2]);
        seen.push(format!("{}", sized.lock().unwrap().len()));
        seen
    }};
}

#[test]
fn the_mutex_behaves_as_in_std() {
    let expected = steps!(std::sync::Mutex, std::thread::spawn);
    assert_eq!(steps!(ramie::sync::Mutex, fiber::spawn), expected);
    on_each(&[1, 2], |runtime| {
        let seen = runtime.run(|| steps!(ramie::sync::Mutex, fiber::spawn));
        assert_eq!(seen, expected);
    });
}

#[test]
fn a_panic_elsewhere_poisons_nothing() {
    struct Locks<'a>(&'a Mutex<u8>);
    impl Drop for Locks<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    one_worker().run(|| {
        let lock = Mutex::new(0);
        panic_text(|| {
            let _locks = Locks(&lock);
            panic!("expected");
        });
        assert_eq!(lock.into_inner().unwrap(), 1);
    });
}

#[test]
fn contention_among_fibers() {
    on_each(&[1, 2, 4], |runtime| {
        let total = Mutex::new(0);
        runtime.run(|| {
            fiber::scope(|s| {
                for _ in 0..20 {
                    s.spawn(|| {
                        for round in 0..100 {
                            let mut total = total.lock().unwrap();
                            let seen = *total;
                            if round % 3 == 0 {
                                fiber::yield_now();
                            }
                            *total = seen + 1;
                        }
                    });
                }
            });
        });
        assert_eq!(total.into_inner().unwrap(), 2000);
    });
}

#[test]
fn contention_among_fibers_threads_and_runtimes() {
    let total = Mutex::new(0);
    let add = || {
        for _ in 0..500 {
            let mut total = total.lock().unwrap();
            let seen = *total;
            fiber::yield_now();
            *total = seen + 1;
        }
    };
    std::thread::scope(|s| {
        s.spawn(add);
        s.spawn(add);
        for workers in [1, 2] {
            s.spawn(move || {
                with_workers(workers).run(|| {
                    fiber::scope(|fibers| (0..2).for_each(|_| drop(fibers.spawn(add))));
                });
            });
        }
    });
    assert_eq!(total.into_inner().unwrap(), 3000);
}

#[test]
fn try_lock_returns_why_it_failed() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let lock = Arc::new(Mutex::new(()));
            let held = lock.lock().unwrap();
            let theirs = Arc::clone(&lock);
            let refused =
                fiber::spawn(move || matches!(theirs.try_lock(), Err(TryLockError::WouldBlock)));
            assert!(refused.join().unwrap());
            drop(held);
            assert!(lock.try_lock().is_ok());
        });
    });
}

#[test]
fn locking_twice_panics_with_a_message() {
    let locks_twice = || {
        let lock = Mutex::new(());
        let _held = lock.lock().unwrap();
        drop(lock.lock());
    };
    let sentence = "this strand holds the Mutex already and would wait for itself forever; drop \
                    the first guard before locking again";
    assert_eq!(panic_text(locks_twice), sentence);
    one_worker().run(|| assert_eq!(panic_text(locks_twice), sentence));
}

/// A strand that takes the lock repeatedly may overtake a waiter several times, but not forever.
#[test]
fn a_waiter_gets_its_turn() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let lock = Arc::new(Mutex::new(()));
            let (got_it, stop) =
                (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let mut held = lock.lock().unwrap();
            let (theirs, seen, waits) = (Arc::clone(&lock), Arc::clone(&got_it), Arc::clone(&stop));
            let waiter = fiber::spawn(move || {
                waits.store(true, Ordering::SeqCst);
                drop(theirs.lock().unwrap());
                seen.store(true, Ordering::SeqCst);
            });
            wait_until(|| stop.load(Ordering::SeqCst));
            let start = Instant::now();
            let mut turns = 0;
            while !got_it.load(Ordering::SeqCst) {
                assert!(start.elapsed().as_secs() < 60, "the waiter starves");
                drop(held);
                held = lock.lock().unwrap();
                fiber::yield_now();
                turns += 1;
            }
            drop(held);
            // On one worker the turns can be counted.
            assert!(runtime.workers() > 1 || turns <= 40, "{turns} turns");
            waiter.join().unwrap();
        });
    });
}

#[test]
fn waiters_are_served_in_order() {
    one_worker().run(|| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let count = AtomicUsize::new(0);
        let held = order.lock().unwrap();
        let strands: Vec<_> = (0..10)
            .map(|n| {
                let order = Arc::clone(&order);
                fiber::spawn(move || order.lock().unwrap().push(n))
            })
            .collect();
        fiber::yield_now();
        drop(held);
        strands.into_iter().for_each(|strand| {
            strand.join().unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
    });
}
