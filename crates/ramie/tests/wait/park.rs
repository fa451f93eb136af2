//! Parking, unparking and the clock.

use std::{
    cell::RefCell,
    sync::{
        Arc, Mutex as StdMutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::common::{Random, on_each, one_worker, wait_until, with_workers};
use ramie::{
    Runtime, fiber,
    time::{Instant, ManualClock, SystemTime},
};

const MS: Duration = Duration::from_millis(1);

fn on_clock(clock: &ManualClock, workers: usize) -> Runtime {
    Runtime::builder().workers(workers).clock(clock.clone()).build().unwrap()
}

#[test]
fn a_token_that_came_first_is_kept_once() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let me = fiber::current();
            me.unpark();
            me.unpark();
            fiber::park();
            let theirs = me.clone();
            let waker = fiber::spawn(move || theirs.unpark());
            fiber::park();
            waker.join().unwrap();
        });
    });
}

#[test]
fn a_token_waits_for_a_fiber_that_has_not_started() {
    one_worker().run(|| {
        let strand = fiber::spawn(fiber::park);
        strand.fiber().unpark();
        strand.join().unwrap();
    });
}

#[test]
fn a_token_is_not_spent_by_other_waits() {
    one_worker().run(|| {
        let me = fiber::current();
        me.unpark();
        fiber::spawn(fiber::yield_now).join().unwrap();
        fiber::sleep(Duration::from_micros(10));
        fiber::park();
    });
}

#[test]
fn unpark_makes_writes_visible() {
    with_workers(2).run(|| {
        let cell = Arc::new(AtomicUsize::new(0));
        for round in 1..=2000 {
            let theirs = Arc::clone(&cell);
            let me = fiber::current();
            drop(fiber::spawn(move || {
                theirs.store(round, Ordering::Relaxed);
                me.unpark();
            }));
            while cell.load(Ordering::Relaxed) != round {
                fiber::park();
            }
        }
    });
}

#[test]
fn many_threads_unpark_many_fibers() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let left = Arc::new(AtomicUsize::new(8 * 500));
            let theirs = Arc::clone(&left);
            let parks = move || {
                while theirs.load(Ordering::SeqCst) > 0 {
                    fiber::park();
                }
            };
            let strands: Vec<_> = (0..8).map(|_| fiber::spawn(parks.clone())).collect();
            let wakers: Vec<_> = strands
                .iter()
                .map(|strand| {
                    let (target, left) = (strand.fiber().clone(), Arc::clone(&left));
                    std::thread::spawn(move || {
                        for _ in 0..500 {
                            left.fetch_sub(1, Ordering::SeqCst);
                            target.unpark();
                        }
                    })
                })
                .collect();
            ramie::blocking(|| wakers.into_iter().for_each(|waker| waker.join().unwrap()));
            strands.iter().for_each(|strand| strand.fiber().unpark());
            strands.into_iter().for_each(|strand| strand.join().unwrap());
        });
    });
}

#[test]
fn tokens_race_with_timeouts() {
    let mut random = Random::new("tokens_race_with_timeouts");
    with_workers(2).run(|| {
        let unparked = Arc::new(AtomicBool::new(false));
        for _ in 0..500 {
            unparked.store(false, Ordering::SeqCst);
            let spins = random.below(2000);
            let (me, theirs) = (fiber::current(), Arc::clone(&unparked));
            let waker = fiber::spawn(move || {
                (0..spins).for_each(|_| std::hint::spin_loop());
                theirs.store(true, Ordering::SeqCst);
                me.unpark();
            });
            fiber::park_timeout(Duration::from_micros(random.below(30)));
            waker.join().unwrap();
            assert!(unparked.load(Ordering::SeqCst));
            // The token is there unless the park took it; either way no other park may hang.
            fiber::park_timeout(Duration::ZERO);
        }
    });
}

#[test]
fn park_timeout_ends_by_itself() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let start = Instant::now();
            fiber::park_timeout(5 * MS);
            assert!(start.elapsed() >= 5 * MS);
            fiber::park_timeout(Duration::ZERO);
        });
    });
}

#[test]
fn sleeping_takes_at_least_as_long() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let start = std::time::Instant::now();
            let sleepers: Vec<_> =
                (1..=5).map(|n| fiber::spawn(move || fiber::sleep(n * MS))).collect();
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
            assert!(start.elapsed() >= 5 * MS);
            fiber::sleep(Duration::ZERO);
            fiber::sleep_until(Instant::now());
        });
    });
}

#[test]
fn a_manual_clock_stands_still_until_it_is_moved() {
    let clock = ManualClock::new();
    on_clock(&clock, 1).run(|| {
        let order = RefCell::new(Vec::new());
        let start = Instant::now();
        fiber::scope(|s| {
            for ms in [30, 10, 20] {
                let order = &order;
                s.spawn_local(move || {
                    fiber::sleep(ms * MS);
                    order.borrow_mut().push(ms);
                });
            }
            (0..200).for_each(|_| fiber::yield_now());
            assert_eq!(*order.borrow(), []);
            clock.advance(20 * MS - Duration::from_nanos(1));
            (0..200).for_each(|_| fiber::yield_now());
            assert_eq!(*order.borrow(), [10]);
            clock.advance(Duration::from_nanos(1));
            (0..200).for_each(|_| fiber::yield_now());
            assert_eq!(*order.borrow(), [10, 20]);
            clock.advance(3_600_000 * MS);
        });
        assert_eq!(*order.borrow(), [10, 20, 30]);
        assert_eq!(start.elapsed(), 3_600_020 * MS);
        assert_eq!(clock.now(), Instant::now());
    });
}

/// A worker about to sleep must not miss that the clock was moved meanwhile.
#[test]
fn a_clock_moved_from_outside_wakes_the_sleepers() {
    for workers in [1, 2] {
        let clock = ManualClock::new();
        let start = clock.now();
        let runtime = on_clock(&clock, workers);
        let reached = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        std::thread::scope(|s| {
            s.spawn(|| {
                for round in 1..=3000 {
                    while reached.load(Ordering::Acquire) != round {
                        std::hint::spin_loop();
                    }
                    (0..round % 400).for_each(|_| std::hint::spin_loop());
                    clock.advance(MS);
                    wait_until(|| done.load(Ordering::Acquire) == round);
                }
            });
            runtime.run(|| {
                for round in 1..=3000 {
                    reached.store(round, Ordering::Release);
                    fiber::sleep_until(start + MS * round as u32);
                    done.store(round, Ordering::Release);
                }
            });
        });
    }
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines() {
    const SLEEPERS: u32 = 100_000;
    let mut random = Random::new("sleepers_wake_in_the_order_of_their_deadlines");
    let clock = ManualClock::new();
    on_clock(&clock, 1).run(|| {
        let woken: Arc<StdMutex<Vec<u32>>> = Arc::default();
        let start = clock.now();
        let mut deadlines: Vec<u32> = Vec::new();
        for _ in 0..SLEEPERS {
            let at = random.below(1 << 20) as u32;
            deadlines.push(at);
            let woken = Arc::clone(&woken);
            drop(fiber::Builder::new().stack_size(32 * 1024).spawn(move || {
                fiber::sleep_until(start + at * Duration::from_micros(1));
                woken.lock().unwrap().push(at);
            }));
        }
        fiber::yield_now();
        let mut moved = 0;
        while moved < 1 << 20 {
            let by = 1 + random.below(1 << 17) as u32;
            moved += by;
            clock.advance(by * Duration::from_micros(1));
            let due = deadlines.iter().filter(|at| **at <= moved).count();
            wait_until(|| woken.lock().unwrap().len() >= due);
            assert_eq!(woken.lock().unwrap().len(), due, "somebody woke too early");
        }
        deadlines.sort_unstable();
        assert!(*woken.lock().unwrap() == deadlines);
    });
}

#[test]
#[ignore = "slow without optimization: cargo test --release -- --ignored"]
fn a_million_timers() {
    let clock = ManualClock::new();
    on_clock(&clock, 1).run(|| {
        let mut random = Random::new("a_million_timers");
        for _ in 0..1_000_000 {
            let ms = random.below(10_000) as u32;
            drop(fiber::spawn(move || fiber::sleep(ms * MS)));
        }
        fiber::yield_now();
        clock.advance(10_000 * MS);
    });
}

#[test]
fn instants_add_subtract_and_convert() {
    let now = Instant::now();
    assert_eq!((now + MS) - now, MS);
    assert_eq!((now + MS) - MS, now);
    assert_eq!(now - (now + MS), Duration::ZERO);
    assert_eq!(now.checked_duration_since(now + MS), None);
    assert_eq!(now.checked_add(Duration::MAX), None);
    assert_eq!(now.checked_sub(Duration::MAX), None);
    let mut moved = now;
    moved += MS;
    moved -= MS;
    assert_eq!(moved, now);
    let std_now = std::time::Instant::now();
    assert_eq!(std::time::Instant::from(Instant::from(std_now)), std_now);
    assert!(Instant::from(std_now) >= now);
    let wall = SystemTime::now();
    assert_eq!(SystemTime::from(std::time::SystemTime::from(wall)), wall);
    assert!(wall.duration_since(SystemTime::UNIX_EPOCH).unwrap() > MS);
    assert!(SystemTime::UNIX_EPOCH.duration_since(wall).is_err());
    assert!(wall.elapsed().is_ok());
}

/// Headers are used again at once, the one that was given back last first.
#[test]
fn a_handle_of_a_fiber_that_has_ended_unparks_no_other() {
    let clock = ramie::time::ManualClock::new();
    let runtime = ramie::Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    runtime.run(|| {
        let header = |id: fiber::FiberId| format!("{id:?}").split('.').next().map(str::to_owned);
        for unparks_itself in [false, true] {
            let ended = fiber::spawn(move || {
                if unparks_itself {
                    fiber::current().unpark();
                }
            });
            let old = ended.fiber().clone();
            ended.join().unwrap();
            let parked = fiber::spawn(|| fiber::park_timeout(Duration::from_secs(10)));
            assert_eq!(
                header(parked.fiber().id()),
                header(old.id()),
                "another header: this tests nothing"
            );
            assert_ne!(parked.fiber().id(), old.id());
            (0..200).for_each(|_| fiber::yield_now());
            old.unpark();
            (0..200).for_each(|_| fiber::yield_now());
            assert!(!parked.is_finished(), "a park was ended by a handle of another fiber");
            clock.advance(Duration::from_secs(10));
            parked.join().unwrap();
        }
    });
}
