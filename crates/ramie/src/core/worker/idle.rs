//! A worker without runnable strands looks for work, lingers ([`patience`](super::patience)),
//! gives memory back, and sleeps.
//!
//! A sleeping worker costs no CPU time. Before its first long sleep it sleeps for [`QUIET`] to
//! learn that it really is idle, and only then gives stacks back: a server that pauses for some
//! milliseconds between bursts keeps its stacks in the cache.

use std::time::Duration;

use ramie_driver::{Driver, sys::monotonic_ns};

use super::{
    Membership, Until, Worker, guest::look_around_in_turn, lingering, patience::ThisCpu,
    run_loop::deliver_log, sampling, spread::Taken, survey,
};
use crate::core::{primitive::pause, strand::StrandHeader, trace::EventKind};

/// How long a worker has to be idle before it gives surplus memory back.
pub(super) const QUIET: Duration = Duration::from_millis(50);

/// Pauses between two looks at the clock.
const SPIN: u32 = 2;

/// Stays awake for a moment. Returns whether work has come up.
fn linger(worker: &Worker) -> bool {
    let has_mail = || worker.shared.has_mail();
    let is_timer_due = || worker.timers.are_due(&worker.clock);
    worker.patience.linger(&ThisCpu, || has_mail() || worker.has_ready() || is_timer_due())
}

/// Whether a timer is due because the clock was moved by hand. On the system's clock no look is
/// necessary: a due timer makes the bound of the sleep zero. Each look takes 25 ns.
fn clock_has_passed_timer(worker: &Worker) -> bool {
    worker.clock.is_manual() && worker.timers.are_due(&worker.clock)
}

impl Worker {
    /// Finds a runnable strand, or sleeps until there may be one. Returns whether the loop is over.
    #[cold]
    #[inline(never)]
    pub(super) fn idle(&self, until: Until) -> bool {
        self.watched.end_fibers();
        self.membership.iter().for_each(|member| member.set_idle(true));
        let is_over = loop {
            let looked = match until {
                Until::TurnEnd => look_around_in_turn(self),
                Until::Root | Until::Finished => self.look_around(until),
            };
            if let Some(is_over) = looked {
                break is_over;
            }
        };
        self.membership.iter().for_each(|member| member.set_idle(false));
        sampling::begin_if_due(self, 1);
        self.watched.begin_fibers();
        is_over
    }

    /// Looks everywhere once, and sleeps if there is nothing to run. Returns whether the loop is
    /// over, or `None` if the worker has to look again.
    fn look_around(&self, until: Until) -> Option<bool> {
        // If the worker was woken to search and found something, another worker has to search.
        let go_on = || {
            self.membership.iter().for_each(Membership::pass_search_on);
            Some(false)
        };
        if look_outside(self) {
            return go_on();
        }
        if take_from_outside(self) {
            return Some(false);
        }
        let taken = self.membership.as_ref().map(|member| member.steal(self.shared.live()));
        let left_for = match taken.unwrap_or(Taken::Nothing) {
            Taken::First(header) => {
                queue_stolen(self, header);
                return Some(false);
            }
            Taken::LeftFor(time) => Some(time),
            Taken::Nothing => None,
        };
        self.membership.iter().for_each(Membership::note_end);
        if until == Until::Finished {
            if self.workers().is_some_and(|workers| workers.check_finished()) {
                return Some(true);
            }
            // `check_finished` may have ended the waits of daemons.
            if self.has_runnable() {
                return go_on();
            }
        }
        match left_for {
            Some(time) => self.nap(time),
            None if self.patience.is_left() && linger(self) => {}
            None => self.sleep(),
        }
        if self.has_runnable() { go_on() } else { None }
    }

    /// Lets the other fibers run once if there are any, and otherwise lets a moment pass. For a
    /// strand that may have to wait next, so this does no more than a wait may do.
    #[cold]
    pub(crate) fn give_way(&self, moment_ns: u64) {
        let may_suspend = self.running.is_fiber_that_may_switch() && !std::thread::panicking();
        if may_suspend && self.has_ready() {
            return self.yield_now();
        }
        let end_ns = monotonic_ns() + moment_ns;
        while monotonic_ns() < end_ns {
            pause(SPIN);
        }
    }

    /// Whether a strand or a closure waits for its turn, with those that others may steal.
    pub(super) fn has_ready(&self) -> bool {
        self.has_runnable() || self.membership.as_ref().is_some_and(|member| !member.is_empty())
    }

    /// Sleeps in the kernel, by the protocol in [`shared`](super::shared).
    fn sleep(&self) {
        let may_sleep = || {
            let has_nothing_to_steal =
                self.membership.as_ref().is_none_or(Membership::announce_sleep);
            let is_asked = self.surveys.is_asked();
            if !has_nothing_to_steal || is_asked || clock_has_passed_timer(self) {
                return false;
            }
            self.clock.rest(self.shared, &self.timers, &self.io);
            !clock_has_passed_timer(self)
        };
        self.shared.fall_asleep(may_sleep, || self.sleep_in_kernel(None));
        self.clock.stir(self.shared);
        if self.shared.has_mail() {
            self.patience.restore();
        }
        if let Some(member) = &self.membership {
            member.announce_running();
        }
    }

    /// Sleeps for a time in which others may start the closures that this worker left to them.
    fn nap(&self, time: Duration) {
        let may_sleep = || !self.surveys.is_asked() && !clock_has_passed_timer(self);
        self.shared.fall_asleep(may_sleep, || self.sleep_in_kernel(Some(time)));
    }

    fn sleep_in_kernel(&self, longest: Option<Duration>) {
        let bound = sleep_bound(self, longest);
        let ready = &self.scheduler.ready;
        let is_quiet = has_surplus(self) && bound.is_none_or(|bound| bound > QUIET);
        let (nap, start) =
            if is_quiet { (Some(QUIET), Some(self.clock.now_ns())) } else { (bound, None) };
        // The next poll comes after all switches from here on. If it came with the first op of a
        // batch in the queue, that op would enter the kernel alone.
        sampling::restart_counts(self);
        self.shared.record.sleeps.add_one();
        self.running.recorder.note_deed(EventKind::Sleeps, 0);
        self.watched.while_asleep(|| self.io.wait(nap, &self.scheduler, &self.running));
        self.running.recorder.note_deed(EventKind::Awakes, 0);
        let Some(start) = start else { return };
        let slept_through = ready.is_empty() && !self.shared.has_mail();
        let is_manual = self.clock.is_manual();
        if slept_through && (is_manual || self.clock.now_ns() - start >= QUIET.as_nanos() as u64) {
            give_back_surplus(self);
        }
    }
}

/// Looks at everything that comes from outside the queues. Returns whether there is something
/// to run.
pub(super) fn look_outside(worker: &Worker) -> bool {
    worker.running.read_clock();
    worker.running.recorder.look(&worker.surveys);
    lingering::answer_if_due(worker);
    survey::answer_if_asked(worker);
    deliver_log(worker);
    worker.drain_inbox();
    worker.timers.fire(&worker.clock, &worker.scheduler, &worker.shared.record);
    worker.has_ready()
}

/// Queues a closure that was stolen from another worker.
pub(super) fn queue_stolen(worker: &Worker, header: &'static StrandHeader) {
    worker.shared.record.stolen.add_one();
    worker.running.recorder.note_deed(EventKind::Stolen, header.id_bits());
    worker.scheduler.push_stolen(header);
}

/// Queues this worker's share of the closures from outside. Returns whether there was one.
pub(super) fn take_from_outside(worker: &Worker) -> bool {
    let taken = worker.membership.as_ref().filter(|_| worker.scheduler.has_peers);
    let Some(header) = taken.and_then(Membership::take_from_outside) else { return false };
    worker.shared.record.woken_by_threads.add_one();
    worker.running.recorder.note_deed(EventKind::Received, header.id_bits());
    worker.scheduler.push_stolen(header);
    true
}

/// How long the worker may sleep if nobody wakes it.
pub(super) fn sleep_bound(worker: &Worker, longest: Option<Duration>) -> Option<Duration> {
    let next = worker.timers.next_ns();
    let grace = worker.workers().and_then(|workers| workers.ending.grace_left());
    let lingering = worker.workers().and_then(|workers| workers.lingering.left());
    [worker.clock.sleep_bound(next), grace, lingering, longest].into_iter().flatten().min()
}

/// Whether a long sleep gives memory back.
pub(super) fn has_surplus(worker: &Worker) -> bool {
    worker.stacks.has_surplus()
        || worker.scheduler.ready.has_surplus()
        || worker.io.with_open_driver(|driver| driver.has_surplus()).unwrap_or(false)
}

/// Gives memory back, because the worker has slept long. That may take long, too; meanwhile
/// other work may come up.
pub(super) fn give_back_surplus(worker: &Worker) {
    let is_wanted = || {
        worker.io.poll(&worker.scheduler, &worker.running);
        worker.has_runnable() || worker.shared.is_notified() || worker.timers.are_due(&worker.clock)
    };
    worker.stacks.give_back_surplus(is_wanted);
    worker.scheduler.ready.give_back_surplus();
    worker.io.with_open_driver(Driver::give_back_surplus);
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;
    use crate::core::{
        primitive::Ordering,
        time::{Clock, Deadline, ManualClock},
        worker::{Pool, Shared, ThreadWaker, Workers},
    };

    /// How long a sleep that must be ended may take.
    const LIMIT: Duration = Duration::from_secs(20);

    /// Calls `sleep`, which must return by itself. It runs on a thread of its own, so the test can
    /// fail if it does not.
    #[track_caller]
    fn must_wake(why: &str, sleep: impl FnOnce() + Send + 'static) {
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            sleep();
            let _ = done.send(());
        });
        assert!(is_done.recv_timeout(LIMIT).is_ok(), "a worker sleeps on though {why}");
    }

    /// Makes a worker that has no driver, so it sleeps by `std::thread::park`.
    fn worker(clock: Clock, membership: Option<Membership>) -> Worker {
        Worker::new(None, ramie_driver::Choice::Auto, clock, 64 << 10, membership)
    }

    fn members(count: usize, grace: Option<Duration>) -> Vec<Membership> {
        Workers::new(count, grace, std::sync::Arc::new(Pool::new(1))).1
    }

    /// The race to fear: the clock is moved, and the worker notified, between the worker's look at
    /// its timers and its announcement that it sleeps. No other wake-up follows.
    #[test]
    fn a_clock_moved_before_the_announcement_keeps_a_worker_awake() {
        fn armed(sleep: fn(&Worker)) -> impl FnOnce() {
            move || {
                let clock = ManualClock::new();
                let worker = worker(Clock::Manual(clock.clone()), None);
                worker.timers.arm(worker.root.stack(), Deadline::at(clock.now() + LIMIT));
                clock.advance(LIMIT);
                sleep(&worker);
                worker.timers.forget(worker.root.stack());
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

    /// Its own fiber may never suspend.
    #[test]
    fn a_worker_woken_to_search_that_finds_other_work_wakes_the_next() {
        let mut members = members(3, None);
        let (sleeper, woken, spawner) = (members.remove(2), members.remove(1), members.remove(0));
        assert!(woken.announce_sleep() && sleeper.announce_sleep());
        let headers = crate::core::strand::FreeList::new();
        spawner.share(headers.take(false).expect("memory for a header"));
        let is_asleep = |member: &Membership| member.state().is_asleep.load(Ordering::Relaxed);
        assert!(!is_asleep(&woken) && is_asleep(&sleeper), "one is woken");
        woken.announce_running();
        let worker = worker(Clock::System, Some(woken));
        worker.scheduler.ready.push_root();
        assert_eq!(worker.look_around(Until::Root), Some(false), "it has something to run");
        assert!(!is_asleep(&sleeper), "nobody looks for the closure");
    }

    /// A shutdown by a thread that is no worker.
    #[test]
    fn a_shutdown_begun_before_the_announcement_keeps_a_worker_awake() {
        must_wake("its runtime is to end", || {
            let worker = worker(Clock::System, members(1, Some(Duration::MAX)).pop());
            let workers = worker.workers().expect("it is a member").clone();
            assert!(!workers.check_finished());
            workers.main_done();
            worker.sleep();
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

    /// A worker that reads them late finds fewer strands spawned than ended.
    #[test]
    fn counts_that_a_later_runtime_has_restarted_are_no_overflow() {
        let member = members(1, None).remove(0);
        let shared = Shared::take(ThreadWaker::Thread(thread::current()));
        member.register(shared);
        member.workers.main_done();
        shared.note_finished();
        assert!(!member.workers.check_finished());
    }

    #[test]
    fn a_timer_ends_a_sleep_when_it_is_due() {
        must_wake("a timer was armed for 10 ms from now", || {
            let worker = worker(Clock::System, None);
            let deadline = Deadline::after(Duration::from_millis(10));
            worker.timers.arm(worker.root.stack(), deadline);
            while !deadline.has_passed() {
                worker.sleep();
            }
            worker.timers.forget(worker.root.stack());
        });
    }

    #[test]
    fn a_timer_that_is_due_already_ends_a_sleep_at_once() {
        fn overdue(sleep: fn(&Worker)) -> impl FnOnce() {
            move || {
                let worker = worker(Clock::System, None);
                let deadline = Deadline::after(Duration::ZERO);
                worker.timers.arm(worker.root.stack(), deadline);
                while !deadline.has_passed() {}
                // A wake-up from before may end the first one.
                (0..2).for_each(|_| sleep(&worker));
                worker.timers.forget(worker.root.stack());
            }
        }
        must_wake("a timer is due", overdue(Worker::sleep));
        must_wake("a timer is due", overdue(|worker| worker.nap(Duration::MAX)));
    }

    #[test]
    fn a_nap_ends_with_its_time() {
        must_wake("its nap is over", || {
            let worker = worker(Clock::System, None);
            // A wake-up from before may end the first one.
            (0..2).for_each(|_| worker.nap(Duration::from_millis(1)));
        });
    }
}
