//! A worker: an OS thread that runs fibers and owns one driver, one run queue, one stack pool.
//!
//! Rooms, from the inside out:
//! - fibers: [`fiber_stack`] (the stack of one fiber), [`stacks`] (the stacks of a worker),
//!   [`scheduler`] (what runs next), [`run_queue`] (in which order), [`policy`] and [`plugged`]
//!   (an order that the program chooses), [`running`] (the strand that runs), [`run_loop`] (the
//!   loop), [`timers`], [`io`] (the driver), [`prefetch`];
//! - idling: [`idle`] (a worker that has nothing to run), [`patience`] (staying awake for a
//!   moment), [`shared`] (inbox and sleep, the part that other threads touch), [`thread_waker`],
//!   [`on_clock`] (clocks that jump);
//! - the workers of one runtime: [`workers`] (their list), [`stealing`], [`spread`] (spreading
//!   fibers), [`placed`] (fibers for a certain worker), [`entrance`] and [`outside`] (spawns by
//!   other threads), [`guest`] (a worker that another program's loop drives), [`ending`],
//!   [`roster`] (threads that cannot wait for the end), [`thread_strands`] (runtimes whose strands
//!   are threads), [`runtime_ref`] (either kind), [`daemons`] (strands for which `run` does not
//!   wait), [`lingering`] (the fibers for which it still waits), [`pool`] (threads for blocking
//!   calls);
//! - threads: [`current`] (the worker of this thread), [`attach`] (the small worker of a thread
//!   outside `run`), [`outlive`] (threads that end after the borrowers of abandoned fibers),
//!   [`root`] (the strand of the thread itself), [`panic_hook`];
//! - dumps: [`survey`] (the worker's side), [`asking`] (the asker's), [`facts`] (the answers),
//!   [`counts`] (counts instead of facts, for summaries), [`stack_copy`] (frames, for backtraces);
//! - the rest: [`recorder`] (events for recordings), [`no_switch`] (regions without suspension),
//!   [`contexts`] (suspensions of strands that hold contexts), [`at_once`] (calls that never wait),
//!   [`abandon`] (fibers that do not end), [`figures`] (metrics), [`sampling`] (durations of
//!   samples, count of switches), [`watched`] and [`view`] (what a watchdog sees from outside),
//!   [`defaults`].
//!
//! A started fiber stays on its worker: its stack may hold `!Send` values and addresses of
//! thread-locals. What moves between workers is closures that have no stack yet.

mod abandon;
mod asking;
mod at_once;
mod attach;
mod contexts;
mod counts;
mod current;
mod daemons;
mod defaults;
mod ending;
mod entrance;
mod facts;
mod fiber_stack;
mod figures;
mod guest;
mod idle;
mod io;
mod lingering;
mod no_switch;
mod on_clock;
mod outlive;
mod outside;
mod panic_hook;
mod patience;
mod pieces;
mod placed;
mod plugged;
mod policy;
mod pool;
pub(crate) mod prefetch;
mod recorder;
mod root;
mod roster;
mod run_loop;
mod run_queue;
mod running;
mod runtime_ref;
mod sampling;
mod scheduler;
mod shared;
mod spread;
mod stack_copy;
mod stacks;
mod stealing;
mod survey;
mod thread_strands;
mod thread_waker;
mod timers;
mod view;
mod watched;
mod workers;

use std::{ptr, sync::Arc};

use ramie_driver::Driver;

pub(crate) use self::{
    abandon::AbandonedFiber,
    asking::{AskersTurn, PendingSurvey, Surveyed, survey},
    at_once::note_complete_at_once,
    attach::{note_lending, on_thread_strand},
    contexts::{end_contexts, note_context, note_no_context},
    counts::{SLOWEST, WaitCount},
    current::{Installed, current, is_inside_run, with_existing, yield_now},
    daemons::{Daemons, Enrolled},
    defaults::{checked_stack_size, invalid, stack_size_from_env},
    entrance::{Admission, Entrance},
    facts::{LimitFacts, StrandFacts, WaitFacts},
    fiber_stack::FiberStack,
    figures::{levels_of, recorded, tally},
    guest::{TurnEnd, become_guest, begin_turn, queue_between_turns, turn},
    io::{SWITCHES_PER_POLL, WorkerIo},
    lingering::Unended,
    no_switch::{NoSwitch, check_may_switch},
    on_clock::{WorkerClock, now_ns, pause},
    outlive::{ends_the_process, outlive},
    panic_hook::{
        UNREPORTED, install_hook, note_reported, set_reported, try_install_hook, was_reported,
    },
    patience::Turns,
    pieces::Pieces,
    pool::{DEFAULT_BLOCKING_THREADS, Pool, blocking_pools},
    recorder::{note_cancel, note_op_at_once, note_spawn, wake_for_recording},
    root::RootStrand,
    roster::{Roster, Standing},
    run_loop::Until,
    run_queue::Next,
    running::RunningStrand,
    runtime_ref::RuntimeRef,
    scheduler::Scheduler,
    shared::Shared,
    stack_copy::{StackCopy, StackRoom},
    stacks::Stacks,
    stealing::Membership,
    survey::{Question, SurveyInbox, WorkerAnswer, WorkerFacts},
    thread_strands::{CountedThread, ThreadStrands},
    thread_waker::ThreadWaker,
    timers::WorkerTimers,
    view::{ParkedFiber, RunningFiber, WorkerView, name_of_strand},
    watched::{Turn, WatchdogRest},
    workers::Workers,
};
use self::{
    current::CURRENT, patience::Patience, plugged::Plugged, recorder::note_wake, watched::Watched,
};
pub use self::{
    entrance::RuntimeEnded,
    figures::{WorkerLevels, WorkerMetrics},
    no_switch::no_switch,
    policy::{Policy, Runnable},
    pool::BlockingPools,
};
use crate::core::{
    strand::{FreeList, StrandHeader, Unpark},
    time::{Clock, Deadline},
    wait::park::WaitRecord,
};

/// A worker, in parts that own their methods: a function takes the parts that it may change. The
/// fields that a switch touches come first, in two cache lines.
#[repr(C, align(64))]
pub(crate) struct Worker {
    pub(crate) scheduler: Scheduler,
    pub(crate) shared: &'static Shared,
    pub(crate) running: RunningStrand,
    pub(crate) io: WorkerIo,
    pub(crate) timers: WorkerTimers,
    pub(crate) headers: FreeList,
    pub(crate) stacks: Stacks,
    pub(crate) clock: WorkerClock,
    pub(crate) root: RootStrand,
    /// Membership in the list of the runtime's workers; none for a thread's small worker.
    pub(crate) membership: Option<Membership>,
    plugged: Plugged,
    /// The runtime of which this thread is a strand.
    pub(crate) thread_strands: Option<Arc<ThreadStrands>>,
    patience: Patience,
    /// By which other threads ask for facts about the strands of this worker.
    pub(crate) surveys: Arc<SurveyInbox>,
    pub(crate) watched: Watched,
}

/// Puts a strand whose wait the caller has ended onto its worker's run queue.
#[inline]
pub(crate) fn schedule(header: &'static StrandHeader) {
    schedule_elsewhere(header);
}

/// Schedules a strand as [`schedule`] does; returns whether it belongs to another thread's worker.
#[inline]
#[allow(unsafe_code)]
pub(crate) fn schedule_elsewhere(header: &'static StrandHeader) -> bool {
    // SAFETY: the strand waited, so it has a stack, which lives until the strand has ended; and it
    // goes on only when it is scheduled, below.
    let owner = unsafe { &*header.stack.get() }.owner;
    let current = CURRENT.get();
    // SAFETY: `CURRENT` is null or valid (the invariant of `Current`).
    if let Some(worker) = unsafe { current.as_ref() }
        && worker.running.recorder.is_unrecorded(owner)
    {
        make_ready_here(worker, header);
        return false;
    }
    schedule_slowly(header, owner)
}

/// The same, for a strand of another worker, and while a recording runs.
#[inline(never)]
fn schedule_slowly(header: &'static StrandHeader, owner: &'static Shared) -> bool {
    let is_own = with_existing(|worker| {
        note_wake(worker, header);
        let is_own = ptr::eq(worker.shared, owner);
        if is_own {
            make_ready_here(worker, header);
        }
        is_own
    });
    if is_own == Some(true) {
        return false;
    }
    owner.push(header);
    true
}

#[inline(always)]
fn make_ready_here(worker: &Worker, header: &'static StrandHeader) {
    worker.shared.record.woken_here.add_one();
    worker.scheduler.make_ready(header, &worker.root);
}

/// Gives the token of `unpark` to a strand.
#[inline]
pub(crate) fn unpark(id: crate::core::strand::FiberId) {
    let header = crate::core::strand::header_at(id.index());
    if header.unpark(id.generation()) == Unpark::Schedule {
        schedule(header);
    }
}

impl Worker {
    /// Makes a worker, which a member registers in the list of its runtime's workers.
    pub(crate) fn new(
        driver: Option<Driver>,
        driver_choice: ramie_driver::Choice,
        clock: Clock,
        stack_size: usize,
        membership: Option<Membership>,
    ) -> Self {
        let waker = match &driver {
            Some(driver) => ThreadWaker::Driver(driver.waker()),
            None => ThreadWaker::Thread(std::thread::current()),
        };
        let shared = Shared::take(waker);
        let io = WorkerIo::new(driver, driver_choice, shared);
        let has_peers = membership.as_ref().is_some_and(Membership::has_peers);
        if let Some(member) = &membership {
            member.register(shared);
        }
        let switches_per_poll = io.switches_per_poll;
        let loans = membership.as_ref().map(|member| Arc::clone(&member.workers.pool.loans));
        let surveys = SurveyInbox::register(shared, membership.as_ref().map(|member| member.index));
        let worker = Worker {
            scheduler: Scheduler::new(has_peers, switches_per_poll),
            shared,
            running: RunningStrand::new(switches_per_poll, shared),
            io,
            timers: WorkerTimers::default(),
            headers: FreeList::new(),
            stacks: Stacks::new(shared, stack_size, loans.unwrap_or_default()),
            clock: WorkerClock::new(clock, shared),
            root: RootStrand::new(shared, Arc::clone(&surveys)),
            membership,
            plugged: Plugged::default(),
            thread_strands: None,
            patience: Patience::default(),
            surveys,
            watched: Watched::new(),
        };
        worker.running.recorder.look(&worker.surveys);
        worker
    }

    /// The workers of the runtime, if this is one of them.
    #[inline]
    pub(crate) fn workers(&self) -> Option<&Arc<Workers>> {
        self.membership.as_ref().map(|member| &member.workers)
    }

    /// The header of the strand that runs.
    #[inline(always)]
    pub(crate) fn current_header(&self) -> &'static StrandHeader {
        self.current_strand().header()
    }

    /// The stack of the strand that runs: a fiber, or the thread itself, which gets a header.
    #[inline(always)]
    pub(crate) fn current_strand(&self) -> &FiberStack {
        match self.running.fiber() {
            Some(stack) => stack,
            None => self.masked_or_root(),
        }
    }

    #[cold]
    #[inline(never)]
    fn masked_or_root(&self) -> &FiberStack {
        if let Some(stack) = self.running.masked_fiber() {
            return stack;
        }
        // A thread that waits here need not have had a loop since a recording began.
        self.running.recorder.look(&self.surveys);
        let stack = self.root.stack();
        if stack.is_idle() {
            let header = self.headers.take(true);
            let header = header.unwrap_or_else(|error| panic!("this thread cannot wait: {error}"));
            crate::core::strand::name_after_thread(header);
            self.root.adopt(header);
        }
        stack
    }

    /// The stack of the strand that runs. The thread's own need not have a header.
    #[inline(always)]
    pub(crate) fn running_stack(&self) -> &FiberStack {
        match self.running.fiber() {
            Some(stack) => stack,
            None => self.running.masked_fiber().unwrap_or(self.root.stack()),
        }
    }

    /// Refuses a call in which the strand would have to wait and could not, before the call has
    /// lent anything: inside a `no_switch` region, and if there is no memory for a thread's header.
    ///
    /// # Panics
    /// Inside `no_switch`, or if there is no memory for the thread's header.
    #[inline]
    #[track_caller]
    pub(crate) fn check_can_wait(&self) {
        self.running.check_may_switch();
        self.current_strand();
    }

    /// As [`check_can_wait`](Self::check_can_wait), for a wait whose record exists.
    ///
    /// # Panics
    /// Inside `no_switch`, or if there is no memory for the thread's header.
    #[inline]
    pub(crate) fn check_can_wait_by(&self, record: &WaitRecord) {
        self.running.check_may_wait(record);
        self.current_strand();
    }

    /// Whether strands on other threads run at the same time, as far as this worker knows.
    pub(crate) fn has_rivals(&self) -> bool {
        self.scheduler.has_peers || !self.running.is_fiber()
    }

    /// Whether a strand waits for its turn, not counting the closures that others may steal.
    pub(super) fn has_runnable(&self) -> bool {
        !self.scheduler.ready.is_empty() || self.plugged.holds_any()
    }

    /// Whether a strand that unwinds must not wait here, because other fibers would run meanwhile
    /// and see the thread panicking. A thread that has no fibers may wait as any thread may.
    pub(crate) fn must_not_suspend_while_unwinding(&self) -> bool {
        self.running.is_fiber() || self.running.is_in_no_switch() || self.has_fibers()
    }

    /// Arms the timer of a strand. Not inlined, because a caller on the hot path would keep the
    /// address of the timers beside that of the worker.
    #[inline(never)]
    pub(crate) fn arm_timer(&self, stack: &FiberStack, deadline: Deadline) {
        self.timers.arm(stack, deadline);
    }

    /// Queues a closure that has no stack yet.
    #[inline]
    pub(crate) fn enqueue_fresh(&self, header: &'static StrandHeader, is_local: bool) {
        self.shared.note_spawned();
        note_spawn(self, header);
        match &self.membership {
            Some(member) if !is_local && self.scheduler.has_peers => member.share(header),
            _ => self.scheduler.ready.push_fresh(header),
        }
    }

    /// Suspends the strand that runs, after it has made sure that it will be resumed.
    #[inline(always)]
    pub(crate) fn switch_out(&self) {
        match self.running.fiber() {
            Some(stack) => {
                stack.suspend();
            }
            None => contexts::switch_out_slowly(self),
        }
    }

    /// Lets every other runnable strand of this worker run once.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn yield_now(&self) {
        match self.running.fiber() {
            Some(stack) => {
                self.scheduler.ready.push_fiber(stack);
                stack.suspend();
            }
            None => self.yield_slowly(),
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn yield_slowly(&self) {
        self.running.check_root_may_switch();
        if let Some(stack) = self.running.masked_fiber() {
            let make_ready = || self.scheduler.ready.push_fiber(stack);
            return contexts::suspend_with_contexts(self, stack, make_ready);
        }
        if !self.has_runnable() {
            // The fibers of a thread that only yields may wait for a time, or for ops.
            self.poll();
        }
        if !self.has_runnable() {
            return std::thread::yield_now();
        }
        self.scheduler.ready.push_root();
        self.run(Until::Root);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.clock.leave(self.shared);
        self.root.end_locals(self);
        if let Some(header) = self.root.stack().try_header() {
            crate::core::strand::free_root(self, header);
        }
        self.surveys.unregister();
        self.running.recorder.end();
        self.shared.release();
    }
}
