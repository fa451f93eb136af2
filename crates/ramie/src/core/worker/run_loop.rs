//! The loop of a worker.
//!
//! The loop takes the next strand from the run queue and switches to it. Every
//! [`SWITCHES_PER_POLL`](super::SWITCHES_PER_POLL) switches it polls: it looks at the inbox, at due
//! timers and at completions, whether or not the queue is empty. If the queue is empty, it goes
//! [`idle`](super::idle).
//!
//! Fibers are resumed in the order in which they became runnable. If a runtime has one worker,
//! closures without a stack are in the same queue. If it has several, they are in a queue of their
//! own, from which others steal, and the two queues take turns, so neither can starve the other.
//!
//! Code of the program that runs in the loop itself (its logger, the destructor of a closure that
//! never starts, a waker, a policy) may not wait, and its panics are caught. A loop that unwinds
//! nevertheless ends the process ([`HandedOut`]).
#![allow(unsafe_code)]

use ramie_driver::{
    logging,
    sys::{HandedOut, Lent},
};

use super::{
    FiberStack, NoSwitch, Worker, attach,
    contexts::{resume_contexts, suspend_contexts},
    idle::{queue_stolen, take_from_outside},
    lingering,
    placed::note_taken,
    run_queue::Next,
    sampling, survey,
};
use crate::core::{strand::StrandHeader, trace::EventKind};

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
    /// A turn of a worker that another program's loop drives is over ([`guest`](super::guest)).
    TurnEnd,
}

/// How the loop finds the next strand. A type, so that the loop of a single worker has no branches
/// for it.
trait Order {
    fn next(worker: &Worker) -> Option<Next>;
}

/// First in, first out.
struct InOrder;
/// Of the worker's own queue, and of the closures that other workers may steal.
struct InTurns;
/// As the program's policy decides.
struct ByPolicy;
/// As one of the others, until a turn is over. One type for all three, because a turn looks at the
/// clock before each strand anyway.
struct InGuestTurn;

impl Order for InOrder {
    #[inline(always)]
    fn next(worker: &Worker) -> Option<Next> {
        worker.scheduler.ready.pop()
    }
}

impl Order for InTurns {
    #[inline(never)]
    fn next(worker: &Worker) -> Option<Next> {
        let member = worker.membership.as_ref()?;
        worker.scheduler.next_in_turn(member, worker.shared.live())
    }
}

impl Order for ByPolicy {
    fn next(worker: &Worker) -> Option<Next> {
        worker.plugged.next(worker)
    }
}

impl Order for InGuestTurn {
    fn next(worker: &Worker) -> Option<Next> {
        if worker.root.guest.is_over() {
            return None;
        }
        let next = match (worker.plugged.is_some(), worker.scheduler.has_peers) {
            (true, _) => ByPolicy::next(worker),
            (false, true) => InTurns::next(worker),
            (false, false) => InOrder::next(worker),
        };
        worker.root.guest.note_run(next.is_some());
        next
    }
}

impl Worker {
    pub(crate) fn run(&self, until: Until) {
        self.running.recorder.look(&self.surveys);
        // Nobody else runs on a thread without fibers, so its contexts may stay.
        let may_run_fibers = until != Until::Root || self.membership.is_some() || self.has_fibers();
        let contexts = may_run_fibers.then(|| suspend_contexts(self, self.root.stack()));
        self.membership.iter().for_each(|member| member.set_idle(false));
        // Without their loop, fibers would continue on the thread that takes this worker's place,
        // and a thread that waits in the loop would leave what it lent. Not in the loop's own
        // function, where it would cost an instruction a switch.
        let fibers = HandedOut::<Loop>::new();
        self.surveys.set_in_loop(true);
        self.watched.begin_fibers();
        match (self.plugged.is_some(), self.scheduler.has_peers) {
            _ if until == Until::TurnEnd => self.run_loop::<InGuestTurn>(until),
            (true, _) => self.run_loop::<ByPolicy>(until),
            (false, true) => self.run_loop::<InTurns>(until),
            (false, false) => self.run_loop::<InOrder>(until),
        }
        self.surveys.set_in_loop(false);
        sampling::stop(self);
        self.watched.end_fibers();
        fibers.settle();
        if let Some(contexts) = contexts {
            resume_contexts(self, self.root.stack(), contexts);
        }
    }

    #[inline(never)]
    fn run_loop<O: Order>(&self, until: Until) {
        let resumer = self.running.current.replace(std::ptr::null());
        debug_assert!(resumer.is_null(), "the loop runs on the thread's own stack");
        self.root.note_context();
        loop {
            // The worker itself, found anew each time. If it were kept across the switch, it would
            // come back from the stack, and all that follows would wait for the stack pointer
            // (5.7 ns a switch against 5.1).
            let this = super::current();
            let looks_up = this.scheduler.count_switch();
            if looks_up && this.look_up() && until != Until::Root {
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
                    self.running.current.set(std::ptr::null());
                    if self.idle(until) {
                        break;
                    }
                }
            }
        }
        self.leave_fibers();
        if until != Until::Finished {
            attach::note_suspended_fibers(self.shared);
        }
    }

    /// Before code that runs on the thread's own stack: that is no fiber's code, and has no
    /// fiber's context, which lies on a stack that may be given back at any time.
    pub(super) fn leave_fibers(&self) {
        self.running.current.set(std::ptr::null());
        self.root.set_context();
    }

    /// Switches to a fiber until it suspends. `current` still names it afterwards: all code on the
    /// thread's own stack that could be taken for a fiber's resets it first.
    #[inline(always)]
    fn mount(&self, stack: *const FiberStack) {
        self.running.current.set(stack);
        // SAFETY: the run queue holds stacks of live fibers; this worker owns them.
        let stack = unsafe { &*stack };
        // SAFETY: `stack.strand` lives as long as the stack, and the loop sets another strand
        // before it mounts another fiber.
        unsafe { ramie_coro::context::set_current(&stack.strand) };
        // SAFETY: this is the worker's loop, on the thread's own stack.
        unsafe { stack.resume() };
        if stack.is_idle() {
            self.stacks.recycle(stack);
        }
    }

    /// Gives a stack to a fresh closure and switches to it.
    #[inline(never)]
    fn start(&self, header: &'static StrandHeader) {
        self.running.current.set(std::ptr::null());
        note_taken(self.membership.as_ref(), header);
        match self.stacks.assign(header) {
            Ok(stack) => {
                self.shared.note_started();
                self.mount(stack);
            }
            Err(error) => {
                self.leave_fibers();
                // SAFETY: the header came from the queue of fresh closures: nobody else starts it.
                unsafe { crate::core::strand::fail_to_start(self, header, error) }
            }
        }
    }

    /// The next closure that a stack whose fiber has just ended may run at once, in its turn.
    #[inline]
    pub(super) fn next_fresh_for(&self, stack: &FiberStack) -> Option<&'static StrandHeader> {
        let fits = |header: &StrandHeader| self.stacks.fits(stack, header);
        let header = self.scheduler.next_to_chain(fits)?;
        note_taken(self.membership.as_ref(), header);
        stack.adopt(header);
        self.shared.note_started();
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
            self.root.wake_if_last(self.shared);
        }
    }

    /// The poll of the loop ([`poll`](Self::poll)), or its part in a sample.
    #[cold]
    #[inline(never)]
    fn look_up(&self) -> bool {
        self.watched.end_fibers();
        if !sampling::look_up(self) {
            self.watched.begin_fibers();
            return false;
        }
        lingering::answer_if_due(self);
        survey::answer_if_asked(self);
        deliver_log(self);
        take_from_outside(self);
        if let Some(member) = &self.membership
            && self.scheduler.has_peers
            && let Some(header) = member.steal_surplus_of_next(self.shared.live())
        {
            queue_stolen(self, header);
        }
        let is_over = self.poll();
        sampling::begin_if_due(self, 0);
        self.watched.begin_fibers();
        is_over
    }

    /// Looks at everything that comes from outside the run queue, without waiting. Returns whether
    /// the runtime's grace period is over.
    #[cold]
    pub(super) fn poll(&self) -> bool {
        self.running.read_clock();
        self.running.recorder.look(&self.surveys);
        sampling::restart_counts(self);
        self.scheduler.ready.measure();
        self.drain_inbox();
        self.timers.fire(&self.clock, &self.scheduler, &self.shared.record);
        self.io.poll(&self.scheduler, &self.running);
        self.workers().is_some_and(|workers| workers.is_grace_over())
    }

    /// Queues the strands that other threads have handed over.
    pub(super) fn drain_inbox(&self) {
        if self.shared.has_mail() {
            let member = self.membership.as_ref();
            self.shared.drain(|header| {
                self.shared.record.woken_by_threads.add_one();
                self.running.recorder.note_deed(EventKind::Received, header.id_bits());
                self.scheduler.receive(header, &self.root, member);
            });
        }
    }
}

/// Gives the program's logger the lines that were kept while the driver was in the middle of an op.
/// Called by the loop only.
#[inline]
pub(super) fn deliver_log(worker: &Worker) {
    if logging::has_lines() {
        call_logger(worker);
    }
}

#[cold]
#[inline(never)]
fn call_logger(worker: &Worker) {
    if worker.membership.is_none() {
        // Outside `run` this may be a wait of the logger itself.
        return logging::deliver_on_another_thread();
    }
    worker.leave_fibers();
    let _no_switch = NoSwitch::new(worker);
    logging::deliver();
}
