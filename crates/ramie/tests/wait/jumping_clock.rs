//! The clock that jumps when every strand waits: when it does, and when it must not.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use crate::common;
use ramie::{
    Driver, Runtime, Strands, cancel, channel, fiber,
    io::{Read, Write, pipe},
    time::{Instant, ManualClock, interval},
};

const HOUR: Duration = Duration::from_secs(3600);

/// Runs `f` on a clock that jumps, on each kind of strand; fails if that takes a minute.
fn on_each(f: impl Fn() + Sync) {
    for (strands, workers, driver) in [
        (Strands::Fibers, 1, Driver::Poll),
        (Strands::Fibers, 1, Driver::Auto),
        (Strands::Fibers, 3, Driver::Auto),
        (Strands::Threads, 1, Driver::Auto),
    ] {
        let what = format!("a clock that jumps, {strands:?}, {workers} workers, {driver:?}");
        let _limit = common::Limit::new(what);
        let builder = Runtime::builder().strands(strands).workers(workers).driver(driver);
        builder.clock(ManualClock::jumping()).build().unwrap().run(&f);
    }
}

#[test]
fn sleepers_wake_in_the_order_of_their_times_and_at_once() {
    on_each(|| {
        let start = Instant::now();
        let order = Mutex::new(Vec::new());
        fiber::scope(|scope| {
            for hours in [3, 1, 2, 5, 4] {
                let order = &order;
                scope.spawn(move || {
                    fiber::sleep(hours * HOUR);
                    order.lock().unwrap().push((hours, start.elapsed()));
                });
            }
        });
        let order = order.into_inner().unwrap();
        assert_eq!(order, [1, 2, 3, 4, 5].map(|hours| (hours, hours * HOUR)));
    });
}

#[test]
fn time_stands_still_while_a_strand_works() {
    on_each(|| {
        let start = Instant::now();
        let late = AtomicBool::new(false);
        fiber::scope(|scope| {
            scope.spawn(|| {
                fiber::sleep(HOUR);
                late.store(true, SeqCst);
            });
            // Others take turns, and hand values from worker to worker.
            let (sender, receiver) = channel::bounded(1);
            scope.spawn(move || receiver.iter().sum::<u32>());
            for n in 0..500 {
                sender.send(n).unwrap();
                fiber::yield_now();
                assert!(!late.load(SeqCst) && start.elapsed().is_zero());
            }
        });
        assert_eq!(start.elapsed(), HOUR);
    });
}

/// Each of the two waits while the other is woken: for a moment both workers have nothing to run.
#[test]
fn time_stands_still_while_a_wake_up_is_on_its_way() {
    on_each(|| {
        let start = Instant::now();
        let (ask, asked) = channel::bounded(1);
        let (answer, answered) = channel::bounded(1);
        let last = fiber::workers().max(1) - 1;
        let echo = move || asked.iter().for_each(|n: u32| answer.send(n).unwrap());
        let echo = fiber::Builder::new().on(fiber::Place::Worker(last)).spawn(echo).unwrap();
        let sleeper = fiber::spawn(|| fiber::sleep(HOUR));
        for n in 0..2_000 {
            ask.send(n).unwrap();
            assert_eq!(answered.recv(), Ok(n));
            assert!(start.elapsed().is_zero(), "the clock jumped over a wake-up, after {n}");
        }
        drop(ask);
        echo.join().unwrap();
        sleeper.join().unwrap();
    });
}

#[test]
fn a_job_of_the_blocking_pool_holds_the_clock() {
    on_each(|| {
        let start = Instant::now();
        let (go, wait) = mpsc::channel();
        fiber::scope(|scope| {
            let sleeper = scope.spawn(|| fiber::sleep(HOUR));
            let job = scope.spawn(move || {
                let late = cancel::with_timeout(HOUR / 2, || {
                    ramie::blocking(move || {
                        wait.recv().unwrap();
                        // Everything that would let the clock jump has long happened by now.
                        for _ in 0..1000 {
                            std::thread::yield_now();
                        }
                    });
                });
                assert!(late.is_ok(), "the clock jumped over the job");
                start.elapsed()
            });
            go.send(()).unwrap();
            assert_eq!(job.join().unwrap(), Duration::ZERO);
            sleeper.join().unwrap();
        });
    });
}

#[test]
fn an_op_in_flight_holds_the_clock() {
    on_each(|| {
        let start = Instant::now();
        let (mut reader, mut writer) = pipe().unwrap();
        fiber::scope(|scope| {
            let sleeper = scope.spawn(|| fiber::sleep(HOUR));
            let read = scope.spawn(move || {
                let byte = cancel::try_with_timeout(HOUR / 2, || reader.read(&mut [0]));
                (byte.unwrap(), start.elapsed())
            });
            // An OS thread that the runtime does not know writes at some time.
            let thread = std::thread::spawn(move || {
                for _ in 0..1000 {
                    std::thread::yield_now();
                }
                writer.write_all(b"x").unwrap();
            });
            assert_eq!(read.join().unwrap(), (1, Duration::ZERO));
            sleeper.join().unwrap();
            thread.join().unwrap();
        });
        assert_eq!(start.elapsed(), HOUR);
    });
}

#[test]
fn limits_intervals_and_retries_take_no_time() {
    on_each(|| {
        let (_sender, receiver) = channel::bounded::<()>(1);
        assert!(cancel::with_timeout(HOUR, || receiver.recv()).is_err());
        let mut ticks = interval(HOUR);
        let start = Instant::now();
        for _ in 0..100 {
            ticks.tick().unwrap();
        }
        let passed = start.elapsed();
        assert!(passed >= 99 * HOUR && passed <= 100 * HOUR, "{passed:?}");
    });
}

/// A thread or fiber that ends without waking anybody leaves the others to the clock.
#[test]
fn the_end_of_the_last_that_works_lets_the_clock_jump() {
    on_each(|| {
        let ended = &*Box::leak(Box::new(AtomicU32::new(0)));
        for _ in 0..3 {
            drop(fiber::spawn(|| {
                for _ in 0..100 {
                    std::thread::yield_now();
                }
                ended.fetch_add(1, SeqCst);
            }));
        }
        fiber::sleep(HOUR);
        assert_eq!(ended.load(SeqCst), 3);
    });
}

#[ramie::test(start_paused = true, workers = 2)]
fn a_test_on_such_a_clock() {
    let start = Instant::now();
    let sleeper = fiber::spawn(|| fiber::sleep(24 * HOUR));
    fiber::sleep(HOUR);
    assert!(!sleeper.is_finished());
    sleeper.join().unwrap();
    assert_eq!(start.elapsed(), 24 * HOUR);
}

#[ramie::test(start_paused = false)]
fn a_test_on_the_systems_clock() {
    let start = std::time::Instant::now();
    fiber::sleep(Duration::from_millis(2));
    assert!(start.elapsed() >= Duration::from_millis(2));
}
