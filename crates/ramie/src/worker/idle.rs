//! What a worker does when nothing is runnable: look for work, give memory back, sleep.
//!
//! A sleeping worker costs no CPU. Before it sleeps for good it spends one short sleep
//! ([`QUIET`]) to learn that it really is idle, and only then gives stacks back: a server that
//! pauses for some ms between bursts keeps its stacks hot.

use std::time::Duration;

use super::{Seat, Until, Worker};
use ramie_driver::Wait;

/// How long a worker has to be idle before it gives surplus memory back.
const QUIET: Duration = Duration::from_millis(50);

impl Worker {
    /// Finds something runnable, or sleeps until there may be. Tells whether the loop is over.
    #[cold]
    #[inline(never)]
    pub(super) fn idle(&self, until: Until) -> bool {
        self.drain_inbox();
        self.fire_timers();
        if self.has_ready() {
            if let Some(seat) = &self.seat {
                seat.pass_search_on();
            }
            return false;
        }
        if self.steal() {
            return false;
        }
        if until == Until::Finished && self.is_finished() {
            return true;
        }
        self.sleep();
        false
    }

    fn has_ready(&self) -> bool {
        self.has_runnable() || self.seat.as_ref().is_some_and(|seat| !seat.is_empty())
    }

    fn steal(&self) -> bool {
        let Some(seat) = &self.seat else { return false };
        match seat.steal() {
            Some(slot) => {
                self.ready.push_fresh(slot);
                // It runs first: from here nobody could steal it, from the other queue they can.
                self.prefers_fresh.set(false);
                true
            }
            None => false,
        }
    }

    fn is_finished(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.team.check_finished())
    }

    /// Sleeps in the kernel, by the protocol in [`shared`](super::shared).
    fn sleep(&self) {
        let may_sleep = || {
            let has_nothing_to_steal = self.seat.as_ref().is_none_or(Seat::announce_sleep);
            has_nothing_to_steal && !self.has_due_timer()
        };
        self.shared.fall_asleep(may_sleep, || self.sleep_in_kernel());
        if let Some(seat) = &self.seat {
            seat.announce_running();
        }
    }

    /// A clock that is moved by hand wakes as a pusher does: moved first, then notified.
    fn has_due_timer(&self) -> bool {
        let next = self.timers.borrow().next_ns();
        next != u64::MAX && next <= self.now_ns()
    }

    fn sleep_in_kernel(&self) {
        let next = self.timers.borrow().next_ns();
        let mut bound = self.clock.sleep_bound(next);
        if let Some(grace) = self.seat.as_ref().and_then(|seat| seat.team.grace_left()) {
            bound = Some(bound.map_or(grace, |bound| bound.min(grace)));
        }
        let has_surplus = self.bodies.has_surplus() || self.ready.has_surplus();
        let is_quiet = has_surplus && bound.is_none_or(|bound| bound > QUIET);
        let (nap, start) =
            if is_quiet { (Some(QUIET), Some(self.now_ns())) } else { (bound, None) };
        self.wait_for_events(nap);
        let Some(start) = start else { return };
        let slept_through = self.ready.is_empty() && !self.shared.has_mail();
        let is_manual = matches!(self.clock, crate::time::Clock::Manual(_));
        if slept_through && (is_manual || self.now_ns() - start >= QUIET.as_nanos() as u64) {
            self.bodies.give_back_surplus();
            self.ready.give_back_surplus();
        }
    }

    fn wait_for_events(&self, bound: Option<Duration>) {
        let mut driver = self.driver.borrow_mut();
        match driver.as_mut() {
            Some(driver) => self.turn_driver(driver, Wait::Until(bound)),
            None => {
                drop(driver);
                match bound {
                    Some(bound) => std::thread::park_timeout(bound),
                    None => std::thread::park(),
                }
            }
        }
    }
}
