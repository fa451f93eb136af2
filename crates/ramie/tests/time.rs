//! Time on a clock that the tests move, and the arithmetic that std's types have.

mod common;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use ramie::{
    Runtime, fiber,
    sync::oneshot,
    time::{self, Duration, Elapsed, Instant, ManualClock, MissedTick, SystemTime, UNIX_EPOCH},
};

const TEN: Duration = Duration::from_secs(10);

/// Switches as often as it takes a busy worker to look at its timers, twice.
fn let_timers_fire() {
    for _ in 0..200 {
        fiber::yield_now();
    }
}

/// Runs the ticks of an interval of 10 s against a strand that takes from 10 to 35 for one of
/// them; returns when the ticks came and what they were scheduled for, in seconds.
fn late_ticks(missed: MissedTick, count: usize) -> Vec<(u64, u64)> {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    runtime.run(|| {
        let start = Instant::now();
        let ticks = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&ticks);
        let ticker = fiber::spawn(move || {
            let mut interval = time::interval_at(start + TEN, TEN);
            interval.set_missed_tick(missed);
            assert_eq!(interval.tick(), start + TEN);
            fiber::sleep(Duration::from_secs(25));
            for _ in 0..count {
                let scheduled = interval.tick();
                let times = (start.elapsed().as_secs(), (scheduled - start).as_secs());
                theirs.lock().unwrap().push(times);
            }
        });
        while !ticker.is_finished() {
            let_timers_fire();
            clock.advance(Duration::from_secs(5));
        }
        ticker.join().unwrap();
        let ticks = ticks.lock().unwrap();
        ticks.clone()
    })
}

#[test]
fn missed_ticks_come_in_a_burst() {
    let expected = [(35, 20), (35, 30), (40, 40), (50, 50)];
    assert_eq!(late_ticks(MissedTick::Burst, 4), expected);
}

#[test]
fn missed_ticks_delay_the_rest() {
    assert_eq!(late_ticks(MissedTick::Delay, 3), [(35, 20), (45, 45), (55, 55)]);
}

#[test]
fn missed_ticks_are_skipped() {
    assert_eq!(late_ticks(MissedTick::Skip, 3), [(35, 20), (40, 40), (50, 50)]);
}

#[test]
fn the_first_tick_comes_at_once_and_reset_starts_anew() {
    let clock = ManualClock::new();
    Runtime::builder().workers(1).clock(clock.clone()).build().unwrap().run(|| {
        let start = Instant::now();
        let mut interval = time::interval(TEN);
        assert_eq!(interval.tick(), start);
        clock.advance(Duration::from_secs(7));
        interval.reset();
        let ticker = fiber::spawn(move || (interval.tick(), interval.period()));
        let_timers_fire();
        clock.advance(TEN);
        assert_eq!(ticker.join().unwrap(), (start + Duration::from_secs(17), TEN));
    });
}

#[test]
fn a_period_beyond_the_clock_ticks_once() {
    let mut interval = time::interval(Duration::MAX);
    assert!(interval.tick() <= Instant::now());
    interval.reset();
}

#[test]
fn a_period_of_zero_is_refused() {
    let text = common::panic_text(|| time::interval(Duration::ZERO));
    assert!(text.contains("above zero"), "{text}");
}

#[test]
fn a_call_in_time_and_one_that_is_not() {
    let clock = ManualClock::new();
    Runtime::builder().workers(1).clock(clock.clone()).build().unwrap().run(|| {
        assert_eq!(time::timeout(TEN, || 5), Ok(5));
        assert_eq!(time::timeout(Duration::MAX, || 6), Ok(6));
        assert_eq!(time::timeout_at(Instant::now(), fiber::yield_now), Err(Elapsed));
        let ended = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&ended);
        let caller = fiber::spawn(move || {
            time::timeout(TEN, move || {
                fiber::sleep(2 * TEN);
                theirs.store(true, Ordering::SeqCst);
            })
        });
        let_timers_fire();
        clock.advance(TEN);
        assert_eq!(caller.join().unwrap(), Err(Elapsed));
        // It is not stopped.
        clock.advance(TEN);
        let_timers_fire();
        assert!(ended.load(Ordering::SeqCst));
    });
    assert_eq!(std::io::Error::from(Elapsed).kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn a_timeout_passes_panics_on_and_works_outside() {
    let check = || {
        assert_eq!(time::timeout(TEN, || 5), Ok(5));
        assert_eq!(common::panic_text(|| time::timeout(TEN, || panic!("inner"))), "inner");
        let short = Duration::from_millis(1);
        let (sender, receiver) = oneshot::channel::<u8>();
        assert_eq!(time::timeout(short, move || receiver.recv()), Err(Elapsed));
        drop(sender);
    };
    common::everywhere(check);
}

#[test]
fn a_timeout_while_unwinding_does_not_wait() {
    struct OnDrop;
    impl Drop for OnDrop {
        fn drop(&mut self) {
            assert_eq!(time::timeout(TEN, fiber::yield_now), Err(Elapsed));
        }
    }
    common::one_worker().run(|| {
        let text = common::panic_text(|| {
            let _on_drop = OnDrop;
            panic!("expected");
        });
        assert_eq!(text, "expected");
    });
}

#[test]
fn an_interval_ticks_on_a_plain_thread() {
    let period = Duration::from_micros(100);
    let start = Instant::now();
    let last = time::interval(period).take(4).last().unwrap();
    assert!(last - start >= 3 * period && Instant::now() >= last);
}

#[test]
fn instants_know_std_arithmetic() {
    let start = Instant::now();
    let later = start + Duration::from_millis(5);
    assert_eq!(later - start, Duration::from_millis(5));
    assert_eq!(start - later, Duration::ZERO);
    assert_eq!(start.checked_duration_since(later), None);
    assert_eq!(start.checked_add(Duration::MAX), None);
    assert_eq!(start.checked_sub(Duration::MAX), None);
    let mut moved = later;
    moved -= Duration::from_millis(5);
    moved += Duration::from_millis(1);
    assert_eq!(moved, start + Duration::from_millis(1));
    assert_eq!(Instant::from(std::time::Instant::from(start)), start);
}

#[test]
fn system_times_know_std_arithmetic() {
    let then = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    assert_eq!(then.duration_since(UNIX_EPOCH).unwrap().as_secs(), 1_000_000_000);
    let error = UNIX_EPOCH.duration_since(then).unwrap_err();
    assert_eq!(error.duration().as_secs(), 1_000_000_000);
    let theirs = std::time::UNIX_EPOCH.duration_since(then.into()).unwrap_err();
    assert_eq!(error.to_string(), theirs.to_string());
    assert_eq!(then.checked_add(Duration::MAX), None);
    assert!(then.checked_sub(TEN).unwrap() < then);
    assert!(then.elapsed().unwrap() > TEN);
    assert_eq!(format!("{then:?}"), format!("{:?}", std::time::SystemTime::from(then)));
    let mut moved = then - TEN;
    moved += TEN;
    assert_eq!(moved, SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
}
