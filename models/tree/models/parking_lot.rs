//! The parking lot: no wake-up is lost, and none goes to a waiter that has left.

use std::{cell::Cell, time::Duration};

use loom::thread;

use super::{check, check_within};
use crate::core::{
    primitive::{Arc, AtomicBool, AtomicUsize, Ordering},
    time::Deadline,
    wait::{
        park::{Refused, WaitKind, WaitRecord},
        parking_lot::{Parked, ParkingLot, Token},
    },
};

static WAIT: WaitKind = WaitKind::new("a model");

/// An event: the flag is set first, then all waiters are woken.
#[derive(Default)]
struct Event {
    is_set: Flag,
    lot: Lot,
}

struct Flag(AtomicBool);
struct Lot(ParkingLot);

impl Default for Flag {
    fn default() -> Self {
        Flag(AtomicBool::new(false))
    }
}

impl Default for Lot {
    fn default() -> Self {
        Lot(ParkingLot::new())
    }
}

impl Event {
    fn stay(&self) -> Result<Parked, Refused> {
        // Relaxed, so that only the lot's lock can make the flag visible.
        let is_unset = || !self.is_set.0.load(Ordering::Relaxed);
        self.lot.0.park(WaitRecord::new(&WAIT), 0, is_unset, &|_| ())
    }

    fn wait(&self) {
        assert!(matches!(self.stay(), Ok(Parked::Refused | Parked::Woken(_))));
    }

    fn set(&self) {
        self.is_set.0.store(true, Ordering::Relaxed);
        self.lot.0.unpark_all();
    }
}

/// A waiter that checks the state under the lot's lock misses no change of it.
pub(crate) fn state_and_queue_change_together() {
    check(|| {
        let event = Arc::new(Event::default());
        let waiter = thread::spawn({
            let event = Arc::clone(&event);
            move || event.wait()
        });
        event.set();
        waiter.join().unwrap();
    });
}

/// All waiters are woken, whichever frames they wait in.
pub(crate) fn all_are_woken() {
    check_within(2, || {
        let event = Arc::new(Event::default());
        let waiters = [(); 2].map(|()| {
            let event = Arc::clone(&event);
            thread::spawn(move || event.wait())
        });
        event.set();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

/// Permits that are handed to waiters, or kept if no strand waits.
struct Permits {
    kept: AtomicUsize,
    lot: ParkingLot,
}

const GRANTED: Token = 1;

impl Permits {
    fn new() -> Self {
        Permits { kept: AtomicUsize::new(0), lot: ParkingLot::new() }
    }

    fn release(&self) {
        self.lot.unpark_one(|waiter| match waiter {
            Some(_) => GRANTED,
            None => {
                self.kept.fetch_add(1, Ordering::Relaxed);
                0
            }
        });
    }

    /// Returns whether it got one in time.
    fn acquire(&self, deadline: Deadline) -> bool {
        let got = Cell::new(false);
        let must_wait = || {
            let kept = self.kept.load(Ordering::Relaxed);
            got.set(kept > 0);
            self.kept.store(kept.saturating_sub(1), Ordering::Relaxed);
            kept == 0
        };
        let record = WaitRecord::new(&WAIT).until(deadline);
        match self.lot.park(record, 0, must_wait, &|_| ()) {
            Ok(Parked::Refused) => got.get(),
            Ok(Parked::Woken(token)) => token == GRANTED,
            Ok(Parked::TimedOut | Parked::Cancelled) | Err(_) => false,
        }
    }
}

/// The race to fear: a permit for a waiter that has just timed out goes to the next.
pub(crate) fn no_wake_up_is_spent_on_a_waiter_that_left() {
    check(|| {
        let permits = Arc::new(Permits::new());
        let [hasty, patient] =
            [Deadline::after(Duration::from_nanos(1)), Deadline::NEVER].map(|until| {
                let permits = Arc::clone(&permits);
                thread::spawn(move || {
                    let got = permits.acquire(until);
                    if got {
                        permits.release();
                    }
                    got
                })
            });
        permits.release();
        hasty.join().unwrap();
        assert!(patient.join().unwrap(), "who waits forever gets a permit");
        assert_eq!(permits.kept.load(Ordering::Relaxed), 1, "each permit is given once");
    });
}

/// A strand that returns to the lot while all are being woken waits again.
pub(crate) fn one_that_comes_back_is_not_woken_again() {
    check(|| {
        let event = Arc::new(Event::default());
        let waiter = thread::spawn({
            let event = Arc::clone(&event);
            move || {
                let first = event.stay();
                let record = WaitRecord::new(&WAIT).until(Deadline::after(Duration::from_nanos(1)));
                let second = event.lot.0.park(record, 0, || true, &|_| ());
                // Refused the first time, it waited before the others were woken, so it may be
                // among them.
                let is_newcomer = first != Ok(Parked::Refused);
                assert!(!is_newcomer || second == Ok(Parked::TimedOut), "woken twice by one set");
            }
        });
        event.set();
        waiter.join().unwrap();
    });
}
