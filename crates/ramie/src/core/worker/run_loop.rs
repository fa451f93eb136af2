//! The loop of a worker.
//!
//! Order of business: take what is next from the run queue and switch to it; every
//! [`SWITCHES_PER_POLL`](super::SWITCHES_PER_POLL) switches look at the inbox, at due timers and at
//! completions, whether or not the queue is empty; when it is empty, go to [`idle`](super::idle).
//!
//! Fibers are resumed in the order in which they became runnable. Closures without a stack lie in
//! the same queue where one worker is alone, and in a queue of their own, from which others steal,
//! where there are several; then the two queues take turns, so neither can starve the other.
//!
//! Code of the program that runs in the loop itself (its logger, the destructor of a closure that
//! never starts, a waker, a policy) may not wait and is caught where it panics. A loop that unwinds
//! nevertheless ends the process ([`HandedOut`]).
#![allow(unsafe_code)]

use ramie_driver::{
    logging,
    sys::{HandedOut, Lent},
};

use super::{FiberStack, NoSwitch, Worker, run_queue::Next};
use crate::core::strand::{StrandHeader, Wake};

/// How many strands one look at the timers wakes. With a million sleepers each costs 1 us or more,
/// and where many are due at once, the first need not wait for the last. Not fewer than the
/// switches between two looks: a busy worker keeps up with whatever comes due.
const WOKEN_PER_LOOK: usize = 64;
const _: () = assert!(WOKEN_PER_LOOK >= super::SWITCHES_PER_POLL as usize);
/// How far ahead the strands that are about to wake are prefetched.
const EXPIRED_AHEAD: usize = 3;

/// Lent to the loop: its fibers, and the frame of the thread that waits in it.
enum Loop {}

impl Lent for Loop {
    const WHAT: &'static str = "its loop ran fibers";
}

/// When the loop returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The strand that waits on the thread's own stack has become runnable.
    Root,
    /// The runtime has nothing left to run.
    Finished,
}

/// How the loop finds what is next. A type, so that the loop of a lone worker asks no questions.
trait Order {
    fn next(worker: &Worker) -> Option<Next>;
}

/// First in, first out.
struct InOrder;
/// Of the worker's own queue, and of the closures that other workers may steal.
struct InTurns;
/// What the program's policy says.
struct ByPolicy;

impl Order for InOrder {
    #[inline(always)]
    fn next(worker: &Worker) -> Option<Next> {
        worker.ready.pop()
    }
}

impl Order for InTurns {
    #[inline(always)]
    fn next(worker: &Worker) -> Option<Next> {
        worker.next_of_two_queues()
    }
}

impl Order for ByPolicy {
    fn next(worker: &Worker) -> Option<Next> {
        worker.next_by_policy()
    }
}

impl Worker {
    pub(crate) fn run(&self, until: Until) {
        self.publish_idle(false);
        // Fibers whose loop is gone would go on on whichever thread took this worker's place, and a
        // thread that waits in the loop would leave what it lent. Not in the loop's own function,
        // where it would cost an instruction a switch.
        let fibers = HandedOut::<Loop>::new();
        match (self.plugged.is_some(), self.has_peers) {
            (true, _) => self.run_loop::<ByPolicy>(until),
            (false, true) => self.run_loop::<InTurns>(until),
            (false, false) => self.run_loop::<InOrder>(until),
        }
        fibers.settle();
    }

    #[inline(never)]
    fn run_loop<O: Order>(&self, until: Until) {
        let resumer = self.current.replace(std::ptr::null());
        debug_assert!(resumer.is_null(), "the loop runs on the thread's own stack");
        self.context_strand.set(ramie_coro::context::current());
        loop {
            // The worker itself, found anew each time: kept across the switch it would come back
            // from the stack, and all that follows would wait for the stack pointer (5.7 ns a
            // switch against 5.1).
            let this = super::current();
            let switches_left = this.countdown.get() - 1;
            this.countdown.set(switches_left);
            if switches_left == 0 && this.look_outside() && until == Until::Finished {
                break;
            }
            match O::next(&this) {
                Some(Next::Fiber(stack)) => this.mount(stack),
                Some(Next::Fresh(header)) => this.start(header),
                Some(Next::Root) => {
                    if until == Until::Root {
                        break;
                    }
                }
                None => {
                    self.current.set(std::ptr::null());
                    if self.idle(until) {
                        break;
                    }
                }
            }
        }
        self.leave_fibers();
        if until == Until::Root {
            self.note_suspended_fibers();
        }
    }

    /// The code that runs next on the thread's own stack is no fiber's, and has no fiber's context:
    /// that lies on a stack which may be given back at any time.
    pub(super) fn leave_fibers(&self) {
        self.current.set(std::ptr::null());
        // SAFETY: the thread's own strand, which was current when this loop began.
        unsafe { ramie_coro::context::set_current(self.context_strand.get()) };
    }

    #[inline(never)]
    fn next_of_two_queues(&self) -> Option<Next> {
        if self.prefers_fresh.get()
            && let Some(member) = &self.membership
            && let Some(header) = self.pop_to_start()
        {
            // A group is started in a row, so that no thief parts it.
            self.prefers_fresh.set(member.place_in_group() != 0);
            return Some(Next::Fresh(header));
        }
        self.prefers_fresh.set(true);
        self.ready.pop().or_else(|| self.pop_to_start().map(Next::Fresh))
    }

    /// Takes the next closure that any worker may start.
    #[inline]
    pub(super) fn pop_to_start(&self) -> Option<&'static StrandHeader> {
        self.membership.as_ref()?.pop_to_start(self.shared.live())
    }

    /// Switches to a fiber until it suspends. `current` names it still afterwards: whatever runs
    /// on the thread's own stack and could be taken for a fiber resets it first.
    #[inline(always)]
    fn mount(&self, stack: *const FiberStack) {
        self.current.set(stack);
        // SAFETY: the run queue holds stacks of live fibers; this worker owns them.
        let stack = unsafe { &*stack };
        // SAFETY: `stack.strand` lives as long as the stack, and the loop sets another strand
        // before it mounts another fiber.
        unsafe { ramie_coro::context::set_current(&stack.strand) };
        // SAFETY: this is the worker's loop, on the thread's own stack.
        unsafe { stack.resume() };
        if stack.is_idle() {
            self.recycle(stack);
        }
    }

    #[cold]
    #[inline(never)]
    fn recycle(&self, stack: &FiberStack) {
        self.stacks.recycle(stack);
    }

    /// Gives a stack to a fresh closure and switches to it.
    #[inline(never)]
    fn start(&self, header: &'static StrandHeader) {
        self.current.set(std::ptr::null());
        self.note_taken(header);
        match self.stacks.assign(header) {
            Ok(stack) => {
                self.note_started();
                self.mount(stack);
            }
            Err(error) => {
                self.leave_fibers();
                // SAFETY: the header came from the queue of fresh closures: nobody else starts it.
                unsafe { crate::core::strand::fail_to_start(self, header, error) }
            }
        }
    }

    #[inline]
    fn note_started(&self) {
        self.shared.set_live(self.shared.live() + 1);
    }

    /// The next closure that a stack whose fiber has just ended may run at once, in its turn.
    #[inline]
    pub(super) fn next_fresh_for(&self, stack: &FiberStack) -> Option<&'static StrandHeader> {
        if self.countdown.get() == 1 || !self.may_chain {
            return None;
        }
        let header = self.ready.pop_fresh()?;
        if !self.stacks.fits(stack, header) {
            self.ready.push_fresh(header);
            return None;
        }
        self.countdown.set(self.countdown.get() - 1);
        self.note_taken(header);
        stack.adopt(header);
        self.note_started();
        Some(header)
    }

    /// Accounts for the end of a strand of this worker.
    #[inline]
    pub(crate) fn note_finished(&self, was_started: bool) {
        if was_started {
            self.shared.set_live(self.shared.live() - 1);
        }
        self.shared.note_finished();
        if self.thread_strands.is_some() {
            self.wake_if_last();
        }
    }

    /// Disarms the timer of a strand that has ended.
    #[inline]
    pub(crate) fn forget_timer(&self, stack: &FiberStack) {
        if stack.armed.is_armed() {
            self.timers.borrow_mut().forget(stack);
        }
    }

    /// What the loop does every so many switches; see [`poll`](Self::poll).
    #[cold]
    #[inline(never)]
    fn look_outside(&self) -> bool {
        self.look_for_lingering();
        self.deliver_log();
        self.steal_surplus();
        self.poll()
    }

    /// Looks at everything that comes from outside the run queue, without waiting. Returns whether
    /// the runtime's grace period is over.
    #[cold]
    pub(super) fn poll(&self) -> bool {
        self.countdown.set(self.switches_per_poll);
        self.forget_complete_at_once();
        self.ready.measure();
        self.drain_inbox();
        self.fire_timers();
        self.poll_driver();
        self.workers().is_some_and(|workers| workers.is_grace_over())
    }

    /// Gives the program's logger what was kept for it while the driver was in the middle of an op.
    /// Called by the loop only.
    #[inline]
    pub(super) fn deliver_log(&self) {
        if logging::has_lines() {
            self.call_logger();
        }
    }

    #[cold]
    #[inline(never)]
    fn call_logger(&self) {
        if !self.runs_fibers() {
            // Outside `run` this may be a wait of the logger itself.
            return logging::deliver_on_another_thread();
        }
        self.leave_fibers();
        let _no_switch = NoSwitch::new(self);
        logging::deliver();
    }

    pub(super) fn drain_inbox(&self) {
        if self.shared.has_mail() {
            self.shared.drain(|header| self.receive(header));
        }
    }

    pub(super) fn poll_driver(&self) {
        let mut driver = self.driver.borrow_mut();
        if let Some(driver) = driver.as_mut().filter(|driver| driver.needs_turn()) {
            self.turn_driver(driver, ramie_driver::Wait::Never);
        }
    }

    pub(super) fn turn_driver(&self, driver: &mut ramie_driver::Driver, wait: ramie_driver::Wait) {
        if let Err(error) = driver.turn(wait) {
            // The driver handles all that can be handled; what is left is a broken invariant.
            ramie_driver::sys::fatal(&format!(
                "the driver failed: {error}; please report this. Aborting."
            ))
        }
        self.wake_completed(driver);
    }

    /// Ends the waits whose deadline has come, those of [`WOKEN_PER_LOOK`] strands at most.
    pub(super) fn fire_timers(&self) {
        if self.timers.borrow().next_ns() == u64::MAX {
            return;
        }
        let now = self.now_ns();
        // Strands that by now wait for longer move in the timers, and nobody wakes.
        while self.timers.borrow().next_ns() <= now && !self.fire_some(now) {}
    }

    /// Returns whether anybody woke.
    fn fire_some(&self, now: u64) -> bool {
        let mut room = [std::ptr::null(); WOKEN_PER_LOOK];
        let due = self.timers.borrow_mut().take_due(now, &mut room);
        let mut wakes = false;
        for (at, &stack) in due.iter().enumerate() {
            if let Some(&next) = due.get(at + EXPIRED_AHEAD) {
                // SAFETY: as below.
                unsafe { &*next }.prefetch_wait();
            }
            // SAFETY: live entries name stacks that are alive (`core/time/timer.rs`), and none of
            // the strands runs before this returns.
            wakes |= self.expire(unsafe { &*stack }, now);
        }
        self.ready.measure();
        wakes
    }

    /// A timer entry fired: ends the wait, or arms the entry anew for a later deadline. Returns
    /// whether the strand goes on.
    fn expire(&self, stack: &FiberStack, now: u64) -> bool {
        let Some(wait) = stack.header().current_wait() else { return false };
        // SAFETY: the strand waits and is of this worker (its timers hold only such), so it stays
        // suspended, and its record valid, until this thread resumes it.
        let Some(record) = (unsafe { stack.record.get().as_ref() }) else { return false };
        let deadline = record.ends_at();
        if deadline.as_ns() <= now {
            return wait.wake(Wake::TimedOut);
        }
        if deadline != crate::core::time::Deadline::NEVER {
            self.arm_timer(stack, deadline);
        }
        false
    }
}
