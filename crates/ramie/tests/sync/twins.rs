//! The twins of std's locks and cells: the same steps must have the same results with std and with
//! the twin.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::common::{Random, everywhere, on_each, one_worker, panic_text, with_workers};
use ramie::{
    Runtime, cancel, fiber,
    sync::{
        AcquireError, AcquireTimeoutError, Barrier, Condvar, Event, LazyLock, Mutex, Once,
        OnceLock, RwLock, Semaphore, TryAcquireError, TryLockError,
    },
    time::ManualClock,
};

const MS: Duration = Duration::from_millis(1);

macro_rules! rwlock_steps {
    ($($root:ident)::+) => {{
        use $($root)::+::sync::{RwLock, RwLockWriteGuard};
        let mut seen = Vec::new();
        let mut lock = RwLock::new(vec![1]);
        seen.push(format!("{lock:?} {:?}", RwLock::<u8>::default()));
        lock.write().unwrap().push(2);
        {
            let (one, other) = (lock.read().unwrap(), lock.try_read().unwrap());
            seen.push(format!("{one:?} {other:?} {:?} {lock:?}", lock.try_write().is_err()));
        }
        {
            let guard = lock.write().unwrap();
            seen.push(format!("{lock:?} {:?} {:?}", lock.try_read().is_err(), guard));
            let guard = RwLockWriteGuard::downgrade(guard);
            seen.push(format!("{guard:?} {:?}", lock.try_read().is_ok()));
        }
        let reads = catch_unwind(|| {
            let _guard = lock.read().unwrap();
            panic!("poisons nothing");
        });
        seen.push(format!("{} {}", reads.is_err(), lock.is_poisoned()));
        let writes = catch_unwind(|| {
            lock.write().unwrap().push(3);
            let _guard = lock.write().unwrap();
            panic!("poisons");
        });
        seen.push(format!("{} {} {lock:?}", writes.is_err(), lock.is_poisoned()));
        seen.push(format!("{:?}", lock.read().is_err()));
        seen.push(format!("{:?}", lock.write().is_err()));
        seen.push(format!("{:?}", lock.try_read().map(drop)));
        seen.push(format!("{}", lock.get_mut().is_err()));
        lock.clear_poison();
        seen.push(format!("{} {:?}", RwLock::from(7).read().unwrap(), lock.into_inner()));
        seen
    }};
}

macro_rules! once_steps {
    ($($root:ident)::+) => {{
        use $($root)::+::sync::{LazyLock, Once, OnceLock};
        let mut seen = Vec::new();
        let once = Once::new();
        seen.push(format!("{once:?} {}", once.is_completed()));
        seen.push(panic_text(|| once.call_once(|| panic!("first"))));
        seen.push(panic_text(|| once.call_once(|| ())));
        seen.push(panic_text(|| once.wait()));
        once.call_once_force(|state| seen.push(format!("{state:?} {}", state.is_poisoned())));
        once.call_once(|| unreachable!());
        once.wait();
        once.wait_force();
        seen.push(format!("{}", once.is_completed()));

        let mut cell = OnceLock::new();
        seen.push(format!("{cell:?} {:?}", cell.get()));
        seen.push(format!("{:?}", cell.get_mut()));
        seen.push(panic_text(|| *cell.get_or_init(|| panic!("stays empty"))));
        seen.push(format!("{} {:?} {:?}", cell.get_or_init(|| 1), cell.set(2), cell.clone()));
        seen.push(format!("{} {}", cell.wait(), cell == OnceLock::from(1)));
        seen.push(format!("{:?} {:?} {:?}", cell.take(), cell.set(3), cell.into_inner()));

        let mut lazy = LazyLock::new(|| vec![1]);
        seen.push(format!("{lazy:?} {:?}", LazyLock::get(&lazy)));
        seen.push(format!("{:?}", LazyLock::get_mut(&mut lazy)));
        LazyLock::force_mut(&mut lazy).push(2);
        lazy.push(3);
        seen.push(format!("{lazy:?} {} {:?}", lazy.len(), LazyLock::get(&lazy)));
        let fails = LazyLock::<u8, _>::new(|| panic!("once and for all"));
        seen.push(panic_text(|| *fails));
        seen.push(panic_text(|| *fails));
        seen.push(format!("{:?}", LazyLock::<u8>::default()));
        seen
    }};
}

macro_rules! condvar_steps {
    ($($root:ident)::+) => {{
        use $($root)::+::sync::{Barrier, Condvar, Mutex};
        let mut seen = Vec::new();
        let (lock, condvar) = (Mutex::new(1), Condvar::new());
        let (guard, result) = condvar.wait_timeout(lock.lock().unwrap(), MS).unwrap();
        seen.push(format!("{condvar:?} {guard} {result:?} {}", result.timed_out()));
        let (guard, result) = condvar.wait_timeout_while(guard, MS, |n| *n == 1).unwrap();
        seen.push(format!("{guard} {result:?}"));
        let (guard, result) = condvar.wait_timeout_while(guard, MS, |n| *n == 2).unwrap();
        seen.push(format!("{guard} {result:?}"));
        drop(condvar.wait_while(guard, |_| false).unwrap());
        condvar.notify_one();
        condvar.notify_all();
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock.lock().unwrap();
            panic!("poisons");
        }));
        let guard = lock.lock().unwrap_err().into_inner();
        seen.push(format!("{}", condvar.wait_timeout(guard, MS).is_err()));
        let barrier = Barrier::new(1);
        seen.push(format!("{barrier:?} {:?} {}", barrier.wait(), barrier.wait().is_leader()));
        seen
    }};
}

#[test]
fn the_twins_behave_as_in_std() {
    let rwlock = rwlock_steps!(std);
    let once = once_steps!(std);
    let condvar = condvar_steps!(std);
    everywhere(|| {
        assert_eq!(rwlock_steps!(ramie), rwlock);
        assert_eq!(once_steps!(ramie), once);
        assert_eq!(condvar_steps!(ramie), condvar);
    });
}

/// Runs `f` in eight strands: fibers of one worker, of two, threads, and a mix across runtimes.
fn eight_strands(f: impl Fn(u64) + Send + Sync) {
    let f = &f;
    let fibers = move |numbers: std::ops::Range<u64>| {
        fiber::scope(|s| numbers.for_each(|n| drop(s.spawn(move || f(n)))));
    };
    on_each(&[1, 2], |runtime| runtime.run(|| fibers(0..8)));
    std::thread::scope(|s| (0..8).for_each(|n| drop(s.spawn(move || f(n)))));
    std::thread::scope(|s| {
        s.spawn(move || one_worker().run(|| fibers(0..3)));
        s.spawn(move || with_workers(2).run(|| fibers(3..6)));
        s.spawn(move || f(6));
        s.spawn(move || f(7));
    });
}

#[test]
fn readers_share_and_writers_do_not() {
    let lock = RwLock::new((0_u64, 0_u64));
    let (readers, seeds) = (AtomicUsize::new(0), Mutex::new(Random::new("rwlock")));
    eight_strands(|_| {
        for _ in 0..200 {
            let choice = seeds.lock().unwrap().below(4);
            if choice == 0 {
                let mut value = lock.write().unwrap();
                assert_eq!(readers.load(Ordering::SeqCst), 0);
                value.0 += 1;
                fiber::yield_now();
                value.1 += 1;
                if value.1.is_multiple_of(2) {
                    let value = ramie::sync::RwLockWriteGuard::downgrade(value);
                    assert_eq!(value.0, value.1);
                }
            } else {
                let value = lock.read().unwrap();
                readers.fetch_add(1, Ordering::SeqCst);
                if choice == 1 {
                    fiber::yield_now();
                }
                assert_eq!(value.0, value.1);
                readers.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });
    let (first, second) = lock.into_inner().unwrap();
    assert_eq!(first, second);
}

#[test]
fn later_readers_do_not_overtake_a_writer() {
    one_worker().run(|| {
        let (lock, order) = (RwLock::new(()), Mutex::new(Vec::new()));
        let held = lock.read().unwrap();
        fiber::scope(|s| {
            s.spawn(|| {
                let _held = lock.write().unwrap();
                order.lock().unwrap().push("writer");
            });
            fiber::yield_now();
            assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
            for _ in 0..2 {
                s.spawn(|| {
                    let _held = lock.read().unwrap();
                    order.lock().unwrap().push("reader");
                });
            }
            fiber::yield_now();
            drop(held);
        });
        assert_eq!(order.into_inner().unwrap(), ["writer", "reader", "reader"]);
    });
}

/// A bounded buffer under a Mutex and two Condvars: no value is lost or duplicated, and no strand
/// hangs.
#[test]
fn a_condvar_loses_no_notification() {
    let (buffer, not_full, not_empty) = (Mutex::new(Vec::new()), Condvar::new(), Condvar::new());
    let sum = AtomicUsize::new(0);
    eight_strands(|n| {
        for round in 0..100 {
            let mut values = buffer.lock().unwrap();
            if n % 2 == 0 {
                values = not_full.wait_while(values, |values| values.len() == 2).unwrap();
                values.push(round);
                not_empty.notify_one();
            } else {
                while values.is_empty() {
                    values = not_empty.wait_timeout(values, MS).unwrap().0;
                }
                sum.fetch_add(values.pop().unwrap(), Ordering::SeqCst);
                not_full.notify_one();
            }
        }
    });
    assert!(buffer.into_inner().unwrap().is_empty());
    // With one worker and with two, each with both drivers; with threads; and mixed. Four producers
    // each.
    assert_eq!(sum.into_inner() % (4 * 4950), 0);
}

#[test]
fn a_barrier_opens_for_all_with_one_leader() {
    let (barrier, leaders, arrived) = (Barrier::new(8), AtomicUsize::new(0), AtomicUsize::new(0));
    eight_strands(|_| {
        for _ in 0..50 {
            arrived.fetch_add(1, Ordering::SeqCst);
            if barrier.wait().is_leader() {
                leaders.fetch_add(1, Ordering::SeqCst);
            }
            assert!(arrived.load(Ordering::SeqCst) / 8 >= leaders.load(Ordering::SeqCst) - 1);
        }
    });
    assert_eq!(arrived.into_inner(), 8 * leaders.into_inner());
}

#[test]
fn one_strand_initialises_and_the_others_wait() {
    let cells: Vec<OnceLock<u64>> = (0..200).map(|_| OnceLock::new()).collect();
    let (once, runs) = (Once::new(), AtomicUsize::new(0));
    let lazy = LazyLock::new(|| {
        fiber::yield_now();
        runs.fetch_add(1, Ordering::SeqCst)
    });
    eight_strands(|n| {
        once.call_once(fiber::yield_now);
        assert!(once.is_completed());
        assert_eq!(*lazy, 0);
        for cell in &cells {
            let value = *cell.get_or_init(|| {
                fiber::yield_now();
                n
            });
            assert_eq!(cell.get(), Some(&value));
        }
    });
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn waiters_for_a_cell_see_the_value_that_comes_after_a_panic() {
    one_worker().run(|| {
        let cell = OnceLock::new();
        fiber::scope(|s| {
            let waits = s.spawn(|| *cell.wait());
            fiber::yield_now();
            panic_text(|| *cell.get_or_init(|| panic!("empty still")));
            fiber::yield_now();
            cell.set(7).unwrap();
            assert_eq!(waits.join().unwrap(), 7);
        });
    });
}

#[test]
fn an_event_stays_set_until_reset() {
    everywhere(|| {
        let event = Event::new();
        assert!(!event.wait_timeout(Duration::ZERO).unwrap() && !event.is_set());
        fiber::scope(|s| {
            let waiters: Vec<_> = (0..40).map(|_| s.spawn(|| event.wait())).collect();
            fiber::yield_now();
            event.set();
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
        });
        event.wait().unwrap();
        assert!(event.wait_timeout(Duration::ZERO).unwrap());
        event.reset();
        assert_eq!(format!("{event:?}"), "Event { is_set: false, .. }");
        assert!(!event.wait_timeout(MS).unwrap());
    });
}

#[test]
fn a_semaphore_never_grants_more_permits_than_it_has() {
    let (semaphore, taken) = (Semaphore::new(5), AtomicUsize::new(0));
    let seeds = Mutex::new(Random::new("semaphore"));
    eight_strands(|_| {
        for _ in 0..150 {
            let (count, pause) = {
                let mut random = seeds.lock().unwrap();
                (random.below(6) as u32, random.below(60))
            };
            let permit = match pause {
                0..20 => semaphore.acquire_many(count).ok(),
                20..30 => semaphore.try_acquire_many(count).ok(),
                _ => semaphore.acquire_timeout(count, Duration::from_micros(pause)).ok(),
            };
            let Some(permit) = permit else { continue };
            let held = taken.fetch_add(permit.num_permits(), Ordering::SeqCst);
            assert!(held + permit.num_permits() <= 5);
            if pause % 2 == 0 {
                fiber::yield_now();
            }
            taken.fetch_sub(permit.num_permits(), Ordering::SeqCst);
        }
    });
    assert_eq!(semaphore.available_permits(), 5);
    assert!(semaphore.try_acquire_many(5).is_ok());
}

#[test]
fn an_owned_permit_that_is_forgotten_does_not_come_back() {
    let semaphore = Arc::new(Semaphore::new(3));
    Arc::clone(&semaphore).acquire_owned(2).unwrap().forget();
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn a_semaphore_closes_forgets_and_adds() {
    one_worker().run(|| {
        let semaphore = Arc::new(Semaphore::new(2));
        semaphore.try_acquire().unwrap().forget();
        let owned = Arc::clone(&semaphore).acquire_owned(1).unwrap();
        assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
        assert_eq!(semaphore.acquire_timeout(1, MS).unwrap_err(), AcquireTimeoutError::Timeout);
        semaphore.add_permits(3);
        assert_eq!(semaphore.available_permits(), 3);
        let theirs = Arc::clone(&semaphore);
        let waits = fiber::spawn(move || theirs.acquire_many(4).is_err());
        fiber::yield_now();
        semaphore.close();
        assert!(waits.join().unwrap() && semaphore.is_closed());
        assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
        drop(owned);
        assert_eq!(semaphore.available_permits(), 4);
        assert!(panic_text(|| Semaphore::new(usize::MAX)).contains("at most"));
    });
}

/// When a waiter for many permits gives up, the waiters behind it, which want few, get them.
#[test]
fn a_timed_out_waiter_holds_back_no_other_waiter() {
    let clock = ManualClock::new();
    Runtime::builder().workers(1).clock(clock.clone()).build().unwrap().run(|| {
        let semaphore = Semaphore::new(1);
        fiber::scope(|s| {
            let many = s.spawn(|| semaphore.acquire_timeout(2, MS).is_err());
            fiber::yield_now();
            let few = s.spawn(|| semaphore.acquire().is_ok());
            fiber::yield_now();
            assert!(semaphore.try_acquire().is_err());
            clock.advance(MS);
            assert!(many.join().unwrap() && few.join().unwrap());
        });
    });
}

#[test]
fn a_cancelled_waiter_holds_back_no_other_waiter() {
    one_worker().run(|| {
        let semaphore = Semaphore::new(1);
        fiber::scope(|s| {
            cancel::scope(|scope| {
                fiber::scope(|inner| {
                    let many = inner.spawn(|| semaphore.acquire_many(2).map(drop));
                    fiber::yield_now();
                    let few = s.spawn(|| semaphore.acquire_timeout(1, 20_000 * MS).map(drop));
                    fiber::yield_now();
                    assert!(semaphore.try_acquire().is_err(), "both wait");
                    scope.cancel();
                    assert_eq!(many.join().unwrap(), Err(AcquireError::Cancelled));
                    few
                })
            })
            .join()
            .unwrap()
            .expect("a permit is free");
        });
    });
}

#[test]
fn a_lock_with_a_timeout_gives_up() {
    let clock = ManualClock::new();
    Runtime::builder().workers(1).clock(clock.clone()).build().unwrap().run(|| {
        let lock = Mutex::new(0);
        let held = lock.lock().unwrap();
        fiber::scope(|s| {
            let waits = s.spawn(|| matches!(lock.lock_timeout(MS), Err(TryLockError::WouldBlock)));
            fiber::yield_now();
            clock.advance(MS);
            assert!(waits.join().unwrap());
            let waits = s.spawn(|| *lock.lock_timeout(MS).unwrap());
            fiber::yield_now();
            drop(held);
            assert_eq!(waits.join().unwrap(), 0);
        });
        assert!(lock.lock_timeout(Duration::ZERO).is_ok());
    });
}

/// Compiles only if the guard is covariant in its value, as std's is.
#[test]
fn a_guard_for_reading_is_covariant() {
    fn len<'a>(guard: ramie::sync::RwLockReadGuard<'_, &'a str>, other: &'a str) -> usize {
        guard.len() + other.len()
    }
    let lock = RwLock::new("static");
    {
        let own = String::from("own");
        assert_eq!(len(lock.read().unwrap(), &own), 9);
    }
    assert_eq!(*lock.read().unwrap(), "static");
}
