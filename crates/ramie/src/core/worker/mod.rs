//! A worker: an OS thread that runs fibers and owns one driver, one run queue, one stack pool.
//!
//! Rooms, from the inside out:
//! - fibers: [`fiber_stack`] (the stack of one fiber), [`stacks`] (the stacks of a worker),
//!   [`run_queue`] (the order in which fibers run), [`plugged`] (a policy of the program in the
//!   place of that order), [`run_loop`] (the loop), [`prefetch`];
//! - idling: [`idle`] (a worker that has nothing to run), [`shared`] (inbox and sleep, the part
//!   that other threads touch), [`on_clock`] (clocks that jump);
//! - the workers of one runtime: [`workers`] (their list), [`stealing`], [`spread`] (spreading
//!   fibers), [`placed`] (fibers for a certain worker), [`ending`], [`thread_strands`] (runtimes
//!   whose strands are threads), [`daemons`] (strands for which `run` does not wait),
//!   [`lingering`] (the fibers for which it still waits), [`pool`] (threads for blocking calls);
//! - threads: [`current`] (the worker of this thread), [`attach`] (the small worker of a thread
//!   outside `run`), [`locals`] (the fiber-locals of a thread), [`panic_hook`];
//! - the rest: [`no_switch`] (regions without suspension), [`at_once`] (calls that never wait),
//!   [`abandon`] (fibers that do not end), [`figures`] (metrics), [`defaults`].
//!
//! A started fiber stays on its worker: its stack may hold `!Send` values and addresses of
//! thread-locals. What moves between workers is closures that have no stack yet.

mod abandon;
mod at_once;
mod attach;
mod current;
mod daemons;
mod defaults;
mod ending;
mod fiber_stack;
mod figures;
mod idle;
mod lingering;
mod locals;
mod no_switch;
mod on_clock;
mod panic_hook;
mod placed;
mod plugged;
mod policy;
mod pool;
pub(crate) mod prefetch;
mod run_loop;
mod run_queue;
mod shared;
mod spread;
mod stacks;
mod stealing;
mod thread_strands;
mod thread_waker;
mod workers;

use std::{
    cell::{Cell, RefCell},
    ptr,
};

use ramie_driver::{Driver, OpFrame, OpenError, Submitter, logging};

pub(crate) use self::{
    abandon::AbandonedFiber,
    at_once::note_complete_at_once,
    attach::on_thread_strand,
    current::{Installed, current, with_existing, yield_now},
    daemons::Daemons,
    defaults::{checked_stack_size, invalid, stack_size_from_env},
    fiber_stack::FiberStack,
    lingering::Unended,
    no_switch::{NoSwitch, check_may_switch},
    on_clock::{now_ns, pause},
    panic_hook::{
        UNREPORTED, install_hook, note_reported, set_reported, try_install_hook, was_reported,
    },
    pool::{DEFAULT_BLOCKING_THREADS, Pool},
    run_loop::Until,
    run_queue::Next,
    shared::Shared,
    stealing::Membership,
    thread_strands::{CountedThread, ThreadStrands},
    thread_waker::ThreadWaker,
    workers::Workers,
};
use self::{
    current::CURRENT, plugged::Plugged, run_queue::RunQueue, spread::Spreading, stacks::Stacks,
};
pub use self::{
    figures::WorkerMetrics,
    no_switch::no_switch,
    policy::{Policy, Runnable},
};
use crate::core::{
    strand::{FreeList, StrandHeader, Unpark, Wake, WakeRef},
    time::{Clock, Deadline, Timers},
    wait::word::{Waiting, WakeWord},
};

/// A worker looks at completions, timers and its inbox at least every so many switches.
pub(crate) const SWITCHES_PER_POLL: u32 = 61;

/// The same where others hand over its ops, and completions may come at any time: the look costs
/// little then, and the fibers that compute meanwhile may take their time.
const SWITCHES_PER_POLL_BESIDE_ENTERER: u32 = 4;

/// What a switch touches comes first, in one cache line or two.
#[repr(C, align(64))]
pub(crate) struct Worker {
    ready: RunQueue,
    /// The stack of the fiber that runs; null: the code on the thread's own stack.
    current: Cell<*const FiberStack>,
    /// Switches left until the next look at the outside.
    countdown: Cell<u32>,
    /// Whether there are other workers to share closures with.
    has_peers: bool,
    /// Whether a fiber that has ended may run the next closure in its place.
    may_chain: bool,
    /// How many `no_switch` regions the strand that runs is in. INVARIANT: while it is in one,
    /// `current` is null and `masked` has its value, so that a switch needs no check of its own.
    no_switch_depth: Cell<u32>,
    masked: Cell<*const FiberStack>,
    /// Whether the next turn prefers a closure without a stack to a suspended fiber.
    prefers_fresh: Cell<bool>,
    shared: &'static Shared,
    driver: RefCell<Option<Driver>>,
    driver_choice: ramie_driver::Choice,
    switches_per_poll: u32,
    /// Calls that may yet be complete at once before the next look (at_once.rs).
    at_once_left: Cell<u32>,
    timers: RefCell<Timers>,
    headers: FreeList,
    stacks: Stacks,
    clock: Clock,
    /// The stack of the thread's own strand, which gets a header when it first waits.
    root: Box<FiberStack>,
    /// Membership in the list of the runtime's workers; none for a thread's small worker.
    pub(crate) membership: Option<Membership>,
    plugged: Plugged,
    /// The runtime whose strand this thread is.
    thread_strands: Option<std::sync::Arc<ThreadStrands>>,
    /// How often the worker may yet linger in vain (idle.rs).
    patience: Cell<u32>,
    spreading: Spreading,
    /// What `ramie_coro` knows as the strand of the thread's own code.
    context_strand: Cell<*const ramie_coro::context::Strand>,
    /// The wait of the thread for the end of its fibers.
    waits_for_fibers: Cell<Option<WakeRef>>,
    /// How many of its fibers wait for the blocking pool.
    blocking_jobs: Cell<usize>,
}

/// Puts a strand whose wait the caller has ended onto its worker's run queue.
#[inline]
pub(crate) fn schedule(header: &'static StrandHeader) {
    schedule_elsewhere(header);
}

/// The same; returns whether the strand belongs to another thread's worker.
#[inline]
#[allow(unsafe_code)]
pub(crate) fn schedule_elsewhere(header: &'static StrandHeader) -> bool {
    // SAFETY: the strand waited, so it has a stack, which lives until the strand has ended; and it
    // goes on only when it is scheduled, below.
    let owner = unsafe { &*header.stack.get() }.owner;
    let current = CURRENT.get();
    // SAFETY: `CURRENT` is null or valid, as in `with_current`.
    if let Some(worker) = unsafe { current.as_ref() }
        && ptr::eq(worker.shared, owner)
    {
        worker.make_ready(header);
        return false;
    }
    owner.push(header);
    true
}

/// Gives the token of `unpark` to a strand.
#[inline]
pub(crate) fn unpark(id: crate::core::strand::FiberId) {
    let header = crate::core::strand::header_at(id.index());
    if header.unpark(id.generation()) == Unpark::Schedule {
        schedule(header);
    }
}

/// Whether this code is run by a runtime's worker.
pub(crate) fn is_inside_run() -> bool {
    with_existing(|worker| {
        worker.is_on_fiber() || worker.membership.is_some() || worker.thread_strands().is_some()
    })
    .unwrap_or(false)
}

impl Worker {
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
        if let Clock::Manual(manual) = &clock {
            manual.add_worker(shared);
        }
        let submitter = driver.as_ref().map_or(Submitter::Worker, |driver| driver.caps().submitter);
        let switches_per_poll = match submitter {
            Submitter::Worker => SWITCHES_PER_POLL,
            _ => SWITCHES_PER_POLL_BESIDE_ENTERER,
        };
        let has_peers = membership.as_ref().is_some_and(Membership::has_peers);
        Worker {
            ready: RunQueue::new(),
            current: Cell::new(ptr::null()),
            no_switch_depth: Cell::new(0),
            masked: Cell::new(ptr::null()),
            countdown: Cell::new(switches_per_poll),
            has_peers,
            may_chain: !has_peers,
            prefers_fresh: Cell::new(false),
            shared,
            driver: RefCell::new(driver),
            driver_choice,
            switches_per_poll,
            at_once_left: Cell::new(at_once::MOST),
            timers: RefCell::new(Timers::default()),
            headers: FreeList::new(),
            stacks: Stacks::new(shared, stack_size),
            clock,
            root: Box::new(FiberStack::of_thread(shared)),
            membership,
            plugged: Plugged::default(),
            thread_strands: None,
            patience: Cell::new(0),
            spreading: Spreading::default(),
            context_strand: Cell::new(ptr::null()),
            waits_for_fibers: Cell::new(None),
            blocking_jobs: Cell::new(0),
        }
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.shared
    }

    pub(crate) fn headers(&self) -> &FreeList {
        &self.headers
    }

    /// The workers of the runtime, if this is one of them.
    #[inline]
    pub(crate) fn workers(&self) -> Option<&std::sync::Arc<Workers>> {
        self.membership.as_ref().map(|member| &member.workers)
    }

    /// Enters this worker into the list of its runtime's workers.
    pub(crate) fn register(&self) {
        if let Some(member) = &self.membership {
            member.register(self.shared);
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// The fiber that runs, if it is one and not the thread itself.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn running_fiber(&self) -> Option<&FiberStack> {
        // SAFETY: `current` is null or the stack that runs, which lives as long as its worker.
        unsafe { self.current.get().as_ref() }
    }

    pub(crate) fn default_stack_size(&self) -> usize {
        self.stacks.default_size()
    }

    pub(crate) fn is_on_fiber(&self) -> bool {
        !self.current.get().is_null() || !self.masked.get().is_null()
    }

    /// The header of the strand that runs.
    #[inline(always)]
    pub(crate) fn current_header(&self) -> &'static StrandHeader {
        self.current_strand().header()
    }

    /// The stack of the strand that runs: a fiber, or the thread itself.
    #[inline(always)]
    pub(crate) fn current_strand(&self) -> &FiberStack {
        match self.running_fiber() {
            Some(stack) => stack,
            None => self.masked_or_root(),
        }
    }

    #[cold]
    #[inline(never)]
    #[allow(unsafe_code)]
    fn masked_or_root(&self) -> &FiberStack {
        // SAFETY: `masked` is null or the stack that runs.
        if let Some(stack) = unsafe { self.masked.get().as_ref() } {
            return stack;
        }
        if self.root.is_idle() {
            let header = self.headers.take(true);
            let header = header.unwrap_or_else(|error| panic!("this thread cannot wait: {error}"));
            crate::core::strand::name_after_thread(header);
            self.adopt_root(header);
        }
        &self.root
    }

    /// Makes `header` the strand of this thread.
    pub(crate) fn adopt_root(&self, header: &'static StrandHeader) {
        self.root.stand_for(header);
    }

    /// Whether nothing is set for the strand that runs: no limit, no scope.
    #[inline(always)]
    pub(crate) fn has_no_context(&self) -> bool {
        match self.running_fiber() {
            Some(stack) => stack.strand.is_empty(),
            None => ramie_coro::context::is_empty(),
        }
    }

    /// Whether strands on other threads run at the same time, as far as can be told.
    pub(crate) fn has_rivals(&self) -> bool {
        self.has_peers || !self.is_on_fiber()
    }

    /// Whether anything waits for its turn, the closures that lie there to be stolen apart.
    pub(super) fn has_runnable(&self) -> bool {
        !self.ready.is_empty() || self.plugged.holds_any()
    }

    /// Whether a strand that unwinds must not wait here: other fibers would run meanwhile and see
    /// the thread panicking. A thread that has no fibers may wait as any thread may.
    pub(crate) fn must_not_suspend_while_unwinding(&self) -> bool {
        self.is_on_fiber() || self.no_switch_depth.get() > 0 || self.has_fibers()
    }

    pub(crate) fn arm_timer(&self, stack: &FiberStack, deadline: Deadline) {
        self.timers.borrow_mut().arm(stack, deadline.as_ns());
    }

    /// Puts a strand of this worker onto the run queue.
    #[inline]
    #[allow(unsafe_code)]
    fn make_ready(&self, header: &'static StrandHeader) {
        // SAFETY: the strand waited: it has a stack, which lives until the strand has ended.
        let stack = unsafe { &*header.stack.get() };
        match ptr::eq(stack, &raw const *self.root) {
            false => self.ready.push_fiber(stack),
            true => self.ready.push_root(),
        }
    }

    /// Queues a closure that has no stack yet.
    #[inline]
    pub(crate) fn enqueue_fresh(&self, header: &'static StrandHeader, is_local: bool) {
        self.shared.note_spawned();
        match &self.membership {
            Some(member) if !is_local && self.has_peers => member.share(header),
            _ => self.ready.push_fresh(header),
        }
    }

    /// Suspends the strand that runs; it has made sure that somebody will resume it.
    #[inline(always)]
    pub(crate) fn switch_out(&self) {
        match self.running_fiber() {
            Some(stack) => {
                stack.suspend();
            }
            None => self.run(Until::Root),
        }
    }

    /// Lets every other runnable strand of this worker run once.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn yield_now(&self) {
        match self.running_fiber() {
            Some(stack) => {
                self.ready.push_fiber(stack);
                stack.suspend();
            }
            None => self.yield_root(),
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn yield_root(&self) {
        self.check_root_may_switch();
        if !self.has_runnable() {
            // The fibers of a thread that only yields may wait for a time, or for ops.
            self.poll();
        }
        if !self.has_runnable() {
            return std::thread::yield_now();
        }
        self.ready.push_root();
        self.run(Until::Root);
    }

    /// Runs `f` with the driver, which a thread outside `run` opens when it first needs it.
    ///
    /// # Errors
    /// When the driver cannot be opened: no descriptors left, or the forced one is unavailable.
    pub(crate) fn with_driver<R>(&self, f: impl FnOnce(&mut Driver) -> R) -> Result<R, OpenError> {
        if let Some(driver) = self.driver.borrow_mut().as_mut() {
            return Ok(f(driver));
        }
        // Opening writes to the log, and this may be a call of the program's logger.
        let open = || Driver::open(self.driver_choice, &ramie_driver::Config::small());
        let opened = logging::on_another_thread(open)?;
        let mut driver = self.driver.borrow_mut();
        let driver = driver.get_or_insert_with(|| {
            self.shared.set_waker(Some(ThreadWaker::Driver(opened.waker())));
            opened
        });
        Ok(f(driver))
    }

    /// Runs `f` with the driver, if there is one.
    #[inline(always)]
    pub(crate) fn with_open_driver<R>(&self, f: impl FnOnce(&mut Driver) -> R) -> Option<R> {
        self.driver.borrow_mut().as_mut().map(f)
    }

    /// Runs `f` with the driver, unless there is none or it is in use.
    pub(crate) fn with_idle_driver<R>(&self, f: impl FnOnce(&mut Driver) -> R) -> Option<R> {
        self.driver.try_borrow_mut().ok()?.as_mut().map(f)
    }

    /// Whether this worker comes back to its driver whatever its strands do, in the end.
    pub(crate) fn runs_fibers(&self) -> bool {
        self.membership.is_some()
    }

    /// Makes one turn of the driver for a strand that awaits its op without suspending.
    pub(crate) fn turn_inline(&self, wait: ramie_driver::Wait) {
        let mut driver = self.driver.borrow_mut();
        if let Some(driver) = driver.as_mut() {
            self.turn_driver(driver, wait);
        }
    }

    /// Wakes the strand that the driver knew by that word, if it names one.
    #[inline(always)]
    fn wake_by_word(&self, word: u64) {
        match WakeWord::from_bits(word).decode() {
            Waiting::Full(wait) => drop(wait.wake(Wake::Woken)),
            Waiting::Plain(stack) => self.ready.push_stack(stack),
            Waiting::Nobody | Waiting::Released => {}
        }
    }

    /// Wakes the strands whose ops are complete.
    #[allow(unsafe_code)]
    pub(crate) fn wake_completed(&self, driver: &mut Driver) {
        while let Some(frame) = driver.pop_complete() {
            // SAFETY: a frame stays valid until it came out of `pop_complete`, and its waiter runs
            // on only after the wake below.
            let frame: &OpFrame = unsafe { frame.as_ref() };
            self.wake_by_word(frame.user.replace(WakeWord::RELEASED.to_bits()));
        }
        while let Some(word) = driver.pop_notice() {
            self.wake_by_word(word);
        }
        // A batch of completions makes the queue long at once. Measured now and then only, it was
        // found short in its last part, and the next batch went without prefetches.
        self.ready.measure_waits();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Clock::Manual(manual) = &self.clock {
            manual.remove_worker(self.shared);
        }
        self.end_root_locals();
        if let Some(header) = self.root.try_header() {
            crate::core::strand::free_root(self, header);
        }
        self.shared.release();
    }
}
