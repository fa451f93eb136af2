//! What a worker does when nothing is runnable: look for work, give memory back, sleep.
//!
//! # Lingering
//! Two workers whose fibers answer one another would each go to sleep while the other works, and
//! each value would cost a wake-up through the kernel: 5 to 10 us. So a worker that was woken by
//! another's mail lingers the next time, for a few us, before it sleeps. It spins only at first:
//! then it gives way, because the other may wait for this very CPU. If nothing comes [`PATIENCE`]
//! times in a row, it lingers no more until mail has ended a sleep again. So a worker that is
//! alone, or waits for I/O, never does.
//!
//! A sleeping worker costs no CPU. Before it sleeps for good it spends one short sleep
//! ([`QUIET`]) to learn that it really is idle, and only then gives stacks back: a server that
//! pauses for some ms between bursts keeps its stacks hot.

use std::time::Duration;

use ramie_driver::{Wait, sys::monotonic_ns};

use super::{Membership, Until, Worker, spread::Taken};
use crate::core::{primitive::pause, strand::StrandHeader};

/// How long a worker has to be idle before it gives surplus memory back.
const QUIET: Duration = Duration::from_millis(50);

/// After so many vain times a worker lingers no more.
const PATIENCE: u32 = 4;
/// Pauses between two looks at the clock.
const SPIN: u32 = 2;
/// Looks with a growing number of pauses between them: 1, 2, 4, …
const SPINS: u32 = 6;
/// Looks after that, each when other threads of this CPU had their turn.
const TURNS_GIVEN: u32 = 14;

impl Worker {
    /// Finds something runnable, or sleeps until there may be. Tells whether the loop is over.
    #[cold]
    #[inline(never)]
    pub(super) fn idle(&self, until: Until) -> bool {
        self.publish_idle(true);
        let is_over = loop {
            if let Some(is_over) = self.look_around(until) {
                break is_over;
            }
        };
        self.publish_idle(false);
        is_over
    }

    /// Publishes to the other workers whether this one has nothing to run.
    pub(super) fn publish_idle(&self, is_idle: bool) {
        if self.has_peers
            && let Some(member) = &self.membership
        {
            member.set_idle(is_idle);
        }
    }

    /// Looks everywhere once, and sleeps if there is nothing to run.
    fn look_around(&self, until: Until) -> Option<bool> {
        self.look_for_lingering();
        self.deliver_log();
        self.drain_inbox();
        self.fire_timers();
        if self.has_ready() {
            return Some(self.go_on());
        }
        let taken = self.membership.as_ref().map(|member| member.steal(self.shared.live()));
        let left_for = match taken.unwrap_or(Taken::Nothing) {
            Taken::First(header) => {
                self.run_stolen(header);
                return Some(false);
            }
            Taken::LeftFor(time) => Some(time),
            Taken::Nothing => None,
        };
        if until == Until::Finished {
            if self.is_finished() {
                return Some(true);
            }
            // It may have ended the waits of daemons.
            if self.has_runnable() {
                return Some(self.go_on());
            }
        }
        match left_for {
            Some(time) => self.nap(time),
            None if self.patience.get() > 0 && self.linger() => {}
            None => self.sleep(),
        }
        self.has_runnable().then(|| self.go_on())
    }

    fn run_stolen(&self, header: &'static StrandHeader) {
        self.ready.push_fresh(header);
        // It runs first, because nobody could steal it from this queue.
        self.prefers_fresh.set(false);
    }

    /// Takes closures of a worker that has far more to do, though this one is not idle.
    #[inline]
    pub(super) fn steal_surplus(&self) {
        if let Some(member) = self.membership.as_ref().filter(|_| self.has_peers)
            && let Some(header) = member.steal_surplus_of_next(self.shared.live())
        {
            self.run_stolen(header);
        }
    }

    /// Has found something to run: if it was woken to search, another has to. The loop is not over.
    fn go_on(&self) -> bool {
        if let Some(member) = &self.membership {
            member.pass_search_on();
        }
        false
    }

    /// Waits a little for mail of other workers; tells whether it came, or something to steal.
    fn linger(&self) -> bool {
        for look in 0..SPINS + TURNS_GIVEN {
            if self.shared.has_mail() || self.has_ready() {
                self.patience.set(PATIENCE);
                return true;
            }
            match look < SPINS {
                true => pause(1 << look),
                false => std::thread::yield_now(),
            }
        }
        self.patience.set(self.patience.get() - 1);
        false
    }

    /// Lets the other fibers run once, if there are any; if not, lets a moment go by. For a strand
    /// that may have to wait next, so this does what a wait may do, or less.
    #[cold]
    pub(crate) fn give_way(&self, moment_ns: u64) {
        let may_suspend = self.running_fiber().is_some() && !std::thread::panicking();
        if may_suspend && self.has_ready() {
            return self.yield_now();
        }
        let end_ns = monotonic_ns() + moment_ns;
        while monotonic_ns() < end_ns {
            pause(SPIN);
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        self.has_runnable() || self.membership.as_ref().is_some_and(|member| !member.is_empty())
    }

    fn is_finished(&self) -> bool {
        self.workers().is_some_and(|workers| workers.check_finished())
    }

    /// Sleeps in the kernel, by the protocol in [`shared`](super::shared).
    fn sleep(&self) {
        let may_sleep = || {
            let has_nothing_to_steal =
                self.membership.as_ref().is_none_or(Membership::announce_sleep);
            if !has_nothing_to_steal || self.has_due_timer() {
                return false;
            }
            self.rest_on_clock();
            !self.has_due_timer()
        };
        self.shared.fall_asleep(may_sleep, || self.sleep_in_kernel(None));
        self.stir_on_clock();
        if self.shared.has_mail() {
            self.patience.set(PATIENCE);
        }
        if let Some(member) = &self.membership {
            member.announce_running();
        }
    }

    /// Sleeps for a time while others may start what this worker left to them.
    fn nap(&self, time: Duration) {
        let may_sleep = || !self.has_due_timer();
        self.shared.fall_asleep(may_sleep, || self.sleep_in_kernel(Some(time)));
    }

    /// A clock that is moved by hand wakes as a pusher does: moved first, then notified.
    fn has_due_timer(&self) -> bool {
        let next = self.timers.borrow().next_ns();
        next != u64::MAX && next <= self.now_ns()
    }

    fn sleep_in_kernel(&self, longest: Option<Duration>) {
        let next = self.timers.borrow().next_ns();
        let grace = self.workers().and_then(|workers| workers.ending.grace_left());
        let lingering = self.workers().and_then(|workers| workers.lingering.left());
        let bounds = [self.clock.sleep_bound(next), grace, lingering, longest];
        let bound = bounds.into_iter().flatten().min();
        let has_surplus = self.stacks.has_surplus()
            || self.ready.has_surplus()
            || self.with_open_driver(|driver| driver.has_surplus()).unwrap_or(false);
        let is_quiet = has_surplus && bound.is_none_or(|bound| bound > QUIET);
        let (nap, start) =
            if is_quiet { (Some(QUIET), Some(self.now_ns())) } else { (bound, None) };
        self.wait_for_events(nap);
        let Some(start) = start else { return };
        let slept_through = self.ready.is_empty() && !self.shared.has_mail();
        let is_manual = matches!(self.clock, crate::core::time::Clock::Manual(_));
        if slept_through && (is_manual || self.now_ns() - start >= QUIET.as_nanos() as u64) {
            self.stacks.give_back_surplus(|| self.is_wanted());
            self.ready.give_back_surplus();
            self.with_open_driver(ramie_driver::Driver::give_back_surplus);
        }
    }

    /// Whether something has come up while this worker takes its time before it sleeps on.
    fn is_wanted(&self) -> bool {
        self.poll_driver();
        self.has_runnable() || self.shared.is_notified() || self.has_due_timer()
    }

    fn wait_for_events(&self, bound: Option<Duration>) {
        // The next look comes so many switches after this one: were it to come with the first op of
        // a batch in the queue, that op would enter the kernel alone.
        self.countdown.set(self.switches_per_poll);
        self.forget_complete_at_once();
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

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;
    use crate::core::{
        time::{Clock, Deadline, ManualClock},
        worker::{Pool, Workers},
    };

    /// How long a sleep may take that must not last.
    const LIMIT: Duration = Duration::from_secs(20);

    /// Calls `sleep`, which must return of itself: on a thread of its own, left behind if it does
    /// not.
    #[track_caller]
    fn must_wake(why: &str, sleep: impl FnOnce() + Send + 'static) {
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            sleep();
            let _ = done.send(());
        });
        assert!(is_done.recv_timeout(LIMIT).is_ok(), "a worker sleeps on though {why}");
    }

    /// A worker that has no driver, and sleeps as a thread parks.
    fn worker(clock: Clock, membership: Option<Membership>) -> Worker {
        Worker::new(None, ramie_driver::Choice::Auto, clock, 64 << 10, membership)
    }

    fn members(count: usize, grace: Option<Duration>) -> Vec<Membership> {
        Workers::new(count, grace, std::sync::Arc::new(Pool::new(1))).1
    }

    /// The race to fear: the clock is moved, and the worker told, between its look at the timers
    /// and its announcement that it sleeps. Nobody wakes it after that.
    #[test]
    fn a_clock_moved_before_the_announcement_keeps_a_worker_awake() {
        fn armed(sleep: fn(&Worker)) -> impl FnOnce() {
            move || {
                let clock = ManualClock::new();
                let worker = worker(Clock::Manual(clock.clone()), None);
                worker.arm_timer(&worker.root, Deadline::at(clock.now() + LIMIT));
                clock.advance(LIMIT);
                sleep(&worker);
                worker.timers.borrow_mut().forget(&worker.root);
            }
        }
        must_wake("a timer is due", armed(Worker::sleep));
        must_wake("a timer is due", armed(|worker| worker.nap(Duration::MAX)));
    }

    #[test]
    fn a_closure_queued_before_the_announcement_keeps_a_thief_awake() {
        must_wake("there is a closure to steal", || {
            let mut members = members(2, None);
            let thief = worker(Clock::System, members.pop());
            let headers = crate::core::strand::FreeList::new();
            members[0].share(headers.take(false).expect("memory for a header"));
            thief.sleep();
        });
    }

    #[test]
    fn the_end_of_the_grace_period_ends_a_sleep() {
        must_wake("the grace period is over", || {
            let worker = worker(Clock::System, members(1, Some(Duration::from_millis(10))).pop());
            let workers = worker.workers().expect("it is a member").clone();
            // The wake-up that this brings is for the sleep before.
            workers.main_done();
            worker.sleep();
            while workers.ending.grace_left() != Some(Duration::ZERO) {
                worker.sleep();
            }
        });
    }

    #[test]
    fn a_timer_ends_a_sleep_when_it_is_due() {
        must_wake("a timer was armed for 10 ms from now", || {
            let worker = worker(Clock::System, None);
            let deadline = Deadline::after(Duration::from_millis(10));
            worker.arm_timer(&worker.root, deadline);
            while !deadline.has_passed() {
                worker.sleep();
            }
            worker.timers.borrow_mut().forget(&worker.root);
        });
    }

    #[test]
    fn a_nap_ends_with_its_time() {
        must_wake("its nap is over", || {
            let worker = worker(Clock::System, None);
            // The first may be ended by what came before.
            (0..2).for_each(|_| worker.nap(Duration::from_millis(1)));
        });
    }

    #[test]
    fn a_worker_that_lingers_in_vain_lingers_no_more() {
        let worker = worker(Clock::System, None);
        worker.patience.set(PATIENCE);
        (0..PATIENCE).for_each(|_| assert!(!worker.linger(), "there is no mail"));
        assert_eq!(worker.patience.get(), 0, "then it sleeps");
    }
}
