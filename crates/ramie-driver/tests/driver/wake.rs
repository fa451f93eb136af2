//! Wakes: sticky, never lost, from any thread, and from ring to ring.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{self, PATIENCE, both, both_sized};
use ramie_driver::{Choice, Config, Driver, Feature, FeatureSet, Wait, Waker};

fn is_send_and_sync<T: Send + Sync + Clone>() {}

#[test]
fn handles_go_to_other_threads() {
    is_send_and_sync::<Waker>();
    is_send_and_sync::<ramie_driver::RemoteHandle>();
}

#[test]
fn a_wake_before_the_wait_makes_it_return() {
    both(|driver| {
        let waker = driver.waker();
        for _ in 0..100 {
            waker.wake();
            waker.wake();
            let started = Instant::now();
            driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
            assert!(started.elapsed() < PATIENCE);
        }
    });
}

#[test]
fn a_wait_without_a_wake_lasts_as_long_as_it_should() {
    both(|driver| {
        for micros in [0, 50, 1500, 20_000] {
            let limit = Duration::from_micros(micros);
            let started = Instant::now();
            driver.turn(Wait::Until(Some(limit))).unwrap();
            // The first turn may return early: it puts the wake's read into the ring.
            while started.elapsed() < limit {
                driver.turn(Wait::Until(Some(limit - started.elapsed()))).unwrap();
            }
            assert!(started.elapsed() < limit + Duration::from_secs(5));
        }
    });
}

#[test]
fn a_huge_limit_is_no_error() {
    both(|driver| {
        driver.waker().wake();
        driver.turn(Wait::Until(Some(Duration::MAX))).unwrap();
    });
}

#[test]
fn a_wake_ends_a_wait_without_a_limit() {
    both(|driver| {
        let waker = driver.waker();
        let thread = thread::spawn(move || waker.wake());
        driver.turn(Wait::Until(None)).unwrap();
        thread.join().unwrap();
    });
}

/// One thread counts up and wakes; the other waits until it has seen every count. A lost wake
/// hangs (and fails by the limit).
fn no_wake_is_lost(driver: &mut Driver, rounds: u64, wake: impl FnOnce(Waker, Arc<AtomicU64>)) {
    let count = Arc::new(AtomicU64::new(0));
    wake(driver.waker(), Arc::clone(&count));
    let started = Instant::now();
    while count.load(Ordering::SeqCst) < rounds {
        driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
        assert!(started.elapsed() < PATIENCE, "a wake was lost");
    }
}

#[test]
fn no_wake_is_lost_over_many_rounds() {
    const ROUNDS: u64 = 5_000;
    both(|driver| {
        let (answer, question) = mpsc::channel::<u64>();
        let count = Arc::new(AtomicU64::new(0));
        let waker = driver.waker();
        let other = Arc::clone(&count);
        // Each round: the thread stores the number and wakes; the owner must see it.
        let thread = thread::spawn(move || {
            for round in question {
                other.store(round, Ordering::SeqCst);
                waker.wake();
            }
        });
        let started = Instant::now();
        for round in 1..=ROUNDS {
            answer.send(round).unwrap();
            while count.load(Ordering::SeqCst) < round {
                driver.turn(Wait::Until(None)).unwrap();
            }
            assert!(started.elapsed() < PATIENCE);
        }
        drop(answer);
        thread.join().unwrap();
    });
}

#[test]
fn no_wake_is_lost_with_many_wakers() {
    const ROUNDS: u64 = 2_000;
    both(|driver| {
        no_wake_is_lost(driver, 3 * ROUNDS, |waker, count| {
            for _ in 0..3 {
                let (waker, count) = (waker.clone(), Arc::clone(&count));
                thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        count.fetch_add(1, Ordering::SeqCst);
                        waker.wake();
                    }
                });
            }
        });
    });
}

#[test]
fn drivers_wake_each_other_by_message_or_eventfd() {
    const ROUNDS: u64 = 2_000;
    for masked in [FeatureSet::EMPTY, FeatureSet::EMPTY.with(Feature::MsgRing)] {
        for other in support::choices() {
            both_sized(&Config { masked, ..Config::small() }, |driver| {
                no_wake_is_lost(driver, ROUNDS, |waker, count| {
                    thread::spawn(move || {
                        let mut driver = Driver::open(other, &Config::small()).unwrap();
                        for _ in 0..ROUNDS {
                            count.fetch_add(1, Ordering::SeqCst);
                            driver.wake(&waker);
                        }
                    });
                });
            });
        }
    }
}

/// The sender may run something else for long before its next turn.
#[test]
fn a_wake_is_on_its_way_before_the_sender_turns() {
    both(|driver| {
        let asked = Arc::new(AtomicU64::new(0));
        let (tell, told) = mpsc::channel();
        let (wake_up, is_awake) = mpsc::channel();
        let sleeper = thread::spawn({
            let asked = Arc::clone(&asked);
            move || {
                let mut driver = Driver::open(Choice::Auto, &Config::small()).unwrap();
                tell.send(driver.waker()).unwrap();
                for round in 1..=20 {
                    while asked.load(Ordering::SeqCst) < round {
                        driver.turn(Wait::Until(None)).unwrap();
                    }
                    wake_up.send(()).unwrap();
                }
            }
        });
        let sleeper_waker = told.recv().unwrap();
        for round in 1..=20 {
            asked.store(round, Ordering::SeqCst);
            driver.wake(&sleeper_waker);
            is_awake.recv_timeout(PATIENCE).expect("the wake waits for the sender");
        }
        sleeper.join().unwrap();
    });
}

#[test]
fn a_wake_sent_around_goes_round() {
    // Two drivers play ping-pong: each waits without a limit for the other's wake.
    const ROUNDS: u64 = 3_000;
    for choice in support::choices() {
        let turn = Arc::new(AtomicU64::new(0));
        let (give, take) = mpsc::channel::<Waker>();
        let (give_back, take_back) = mpsc::channel::<Waker>();
        let side = |own: u64, give: mpsc::Sender<Waker>, take: mpsc::Receiver<Waker>| {
            let turn = Arc::clone(&turn);
            move || {
                let mut driver = Driver::open(choice, &Config::small()).unwrap();
                give.send(driver.waker()).unwrap();
                let peer = take.recv().unwrap();
                for round in 0..ROUNDS {
                    while turn.load(Ordering::SeqCst) != 2 * round + own {
                        driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
                    }
                    turn.fetch_add(1, Ordering::SeqCst);
                    driver.wake(&peer);
                }
            }
        };
        let started = Instant::now();
        let first = thread::spawn(side(0, give, take_back));
        let second = thread::spawn(side(1, give_back, take));
        first.join().unwrap();
        second.join().unwrap();
        assert!(started.elapsed() < PATIENCE, "wakes came by the limit only");
        eprintln!("{choice:?}: {:?} there and back", started.elapsed() / ROUNDS as u32);
    }
}

#[test]
fn waking_a_driver_that_is_gone_does_nothing() {
    both(|driver| {
        for choice in support::choices() {
            let gone = Driver::open(choice, &Config::small()).unwrap().waker();
            gone.wake();
            driver.wake(&gone);
            let gone = Driver::open(choice, &Config::small()).unwrap().waker();
            driver.wake(&gone);
            driver.turn(Wait::Never).unwrap();
        }
    });
}

#[test]
fn waking_oneself_is_a_wake() {
    both(|driver| {
        let own = driver.waker();
        driver.wake(&own);
        let started = Instant::now();
        driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
        assert!(started.elapsed() < PATIENCE);
    });
}
