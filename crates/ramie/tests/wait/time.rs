//! Time on a clock that the tests move, and the arithmetic that std's types have.

use std::sync::{Arc, Mutex};

use crate::common;
use ramie::{
    Runtime, fiber,
    metrics::metrics,
    time::{self, Duration, Elapsed, Instant, ManualClock, MissedTick, SystemTime, UNIX_EPOCH},
};

const TEN: Duration = Duration::from_secs(10);

/// Switches as often as it takes a busy worker to look at its timers, twice.
fn let_timers_fire() {
    for _ in 0..200 {
        fiber::yield_now();
    }
}

/// Runs the ticks of an interval of 10 s against a strand that takes from 10 to 35 for one of them;
/// returns when the ticks came and their scheduled times, in seconds.
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
            assert_eq!(interval.tick(), Ok(start + TEN));
            fiber::sleep(Duration::from_secs(25));
            for _ in 0..count {
                let scheduled = interval.tick().unwrap();
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
        assert_eq!(interval.tick(), Ok(start));
        clock.advance(Duration::from_secs(7));
        interval.reset();
        let ticker = fiber::spawn(move || (interval.tick(), interval.period()));
        let_timers_fire();
        clock.advance(TEN);
        assert_eq!(ticker.join().unwrap(), (Ok(start + Duration::from_secs(17)), TEN));
    });
}

#[test]
fn a_period_beyond_the_clock_ticks_once() {
    let mut interval = time::interval(Duration::MAX);
    assert!(interval.tick().unwrap() <= Instant::now());
    interval.reset();
}

#[test]
fn a_period_of_zero_is_refused() {
    let text = common::panic_text(|| time::interval(Duration::ZERO));
    assert!(text.contains("above zero"), "{text}");
}

#[test]
fn limits_are_at_hand_beside_the_clock() {
    let late: Result<i32, Elapsed<i32>> = time::with_deadline(Instant::now(), || 5);
    assert_eq!(late.map_err(Elapsed::into_value), Err(5));
    assert_eq!(time::with_timeout(Duration::MAX, || 6), Ok(6));
}

#[test]
fn a_tick_that_was_cancelled_is_the_next_one_still() {
    let clock = ManualClock::new();
    Runtime::builder().workers(1).clock(clock.clone()).build().unwrap().run(|| {
        let start = Instant::now();
        let mut interval = time::interval_at(start + TEN, TEN);
        ramie::cancel::scope(|scope| {
            scope.cancel();
            assert!(interval.tick().is_err());
            assert_eq!(interval.next(), None);
        });
        clock.advance(TEN);
        assert_eq!(interval.tick(), Ok(start + TEN));
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
fn sleepers_wake_in_the_order_of_their_deadlines() {
    const COUNT: u64 = 5000;
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    let mut woken = runtime.run(|| {
        let start = Instant::now();
        let woken = Mutex::new(Vec::new());
        fiber::scope(|scope| {
            for number in 0..COUNT {
                let (woken, clock) = (&woken, &clock);
                // Each number below `COUNT` once, without order: the factor is odd and no multiple
                // of five.
                let seconds = number * 2_654_435_761 % COUNT;
                scope.spawn(move || {
                    fiber::sleep_until(start + Duration::from_secs(seconds));
                    assert!(start.elapsed().as_secs() >= seconds);
                    woken.lock().unwrap().push(seconds);
                    // The others that come due meanwhile do not overtake those due already.
                    clock.advance(Duration::from_secs(1));
                });
            }
            let_timers_fire();
            clock.advance(Duration::from_secs(COUNT / 10));
        });
        woken.into_inner().unwrap()
    });
    assert!(woken.is_sorted(), "not in order");
    woken.dedup();
    assert_eq!(woken.len() as u64, COUNT);
}

#[test]
fn the_first_of_many_due_sleepers_runs_before_all_others_are_woken() {
    const COUNT: usize = 1000;
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    let mut left = runtime.run(|| {
        let left = Mutex::new(Vec::new());
        fiber::scope(|scope| {
            for _ in 0..COUNT {
                let left = &left;
                scope.spawn(move || {
                    fiber::sleep(TEN);
                    left.lock().unwrap().push(metrics().worker.timers);
                });
            }
            while metrics().worker.timers < COUNT {
                fiber::yield_now();
            }
            clock.advance(TEN);
        });
        left.into_inner().unwrap()
    });
    // As many at a time as there are switches between two looks, or a few more.
    assert!(left[0] >= COUNT - 100, "{} were left when the first ran", left[0]);
    assert_eq!(left.pop(), Some(0));
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

/// A strand has one timer, armed for the earliest of its waits; it moves when it fires early.
#[test]
fn a_timer_armed_for_an_earlier_wait_moves_to_the_present_one() {
    use ramie::sync::{Condvar, Event, Mutex};
    let clock = ManualClock::new();
    Runtime::builder().workers(1).clock(clock.clone()).build().unwrap().run(|| {
        let event = Arc::new(Event::new());
        let theirs = Arc::clone(&event);
        let waiter = fiber::spawn(move || {
            assert_eq!(theirs.wait_timeout(TEN), Ok(true));
            let lock = Mutex::new(());
            // Its result distinguishes a time-out from a wake-up without a reason.
            let late = Condvar::new().wait_timeout(lock.lock().unwrap(), 10 * TEN).unwrap();
            late.1.timed_out()
        });
        let_timers_fire();
        event.set();
        let_timers_fire();
        for seconds in [10, 1, 88] {
            clock.advance(Duration::from_secs(seconds));
            let_timers_fire();
            assert!(!waiter.is_finished(), "a wait of 100 s ended early");
        }
        clock.advance(Duration::from_secs(1));
        common::wait_until(|| waiter.is_finished());
        assert!(waiter.join().unwrap(), "it was not told that its time is over");
    });
}

#[test]
fn a_fiber_that_has_ended_leaves_no_timer() {
    common::one_worker().run(|| {
        let early = fiber::spawn(|| fiber::park_timeout(Duration::from_secs(3600)));
        fiber::yield_now();
        assert_eq!(metrics().worker.timers, 1);
        early.fiber().unpark();
        early.join().unwrap();
        assert_eq!(metrics().worker.timers, 0);
    });
}
