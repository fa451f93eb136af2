//! The worker of each thread, and its one strand: the thread's own.
//!
//! This stands for the run loop. Between suspending its strand and resuming it, a worker does the
//! same steps as the runtime's, in this order: inbox, timers, sleep by the shipped protocol.

mod daemons;
mod ending;
mod entrance;
mod lingering;
mod outside;
mod shared;
mod spread;
mod stealing;
mod workers;
pub(crate) mod workers_models;

use std::{
    cell::{Cell, RefCell},
    ops::Deref,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use loom::sync::Notify;

pub(crate) use self::{daemons::Daemons, shared::Shared};
use super::{
    primitive::holds_spin_lock,
    strand::{self, StrandHeader, Unpark, Wake},
    time::Deadline,
    wait::park::WaitRecord,
};
use crate::coro::context;

/// The kernel: a wake is sticky, and a sleep may end spuriously.
#[derive(Clone)]
pub(crate) struct ThreadWaker(Arc<Kernel>);

pub(crate) struct Kernel {
    event: Notify,
    /// The number of system calls made to wake the thread.
    pub(crate) wakes: AtomicUsize,
}

impl ThreadWaker {
    fn wake(&self) {
        self.0.wakes.fetch_add(1, Ordering::Relaxed);
        self.0.event.notify();
    }
}

pub(crate) struct FiberStack {
    header: &'static StrandHeader,
    pub(crate) record: Cell<*const WaitRecord>,
    owner: &'static Shared,
}

impl FiberStack {
    pub(crate) fn header(&self) -> &'static StrandHeader {
        self.header
    }
}

pub(crate) struct Worker {
    stack: FiberStack,
    pub(crate) shared: &'static Shared,
    kernel: Arc<Kernel>,
    pub(crate) running: RunningStrand,
    is_ready: Cell<bool>,
    armed_ns: Cell<Option<u64>>,
    now_ns: Cell<u64>,
}

/// Empty, because the one strand of a worker may always wait.
pub(crate) struct RunningStrand {
    pub(crate) recorder: Recorder,
}

/// Records nothing.
pub(crate) struct Recorder;

impl Recorder {
    pub(crate) fn note_waits(&self, _stack: &FiberStack, _record: &WaitRecord) {}
    pub(crate) fn note_continues(&self, _stack: &FiberStack, _record: &WaitRecord) {}
}

impl RunningStrand {
    pub(crate) fn check_may_switch(&self) {}
    pub(crate) fn check_may_wait(&self, _record: &WaitRecord) {}
    pub(crate) fn check_stack<T>(&self, _: &T) {}

    pub(crate) fn now_ms(&self) -> u32 {
        0
    }


    pub(crate) fn has_no_context(&self) -> bool {
        context::is_empty()
    }
}

loom::thread_local! {
    static CURRENT: Box<Worker> = Worker::new();
}

// This belongs to the OS thread that runs the model.
thread_local! {
    static WORKERS: RefCell<Vec<&'static Shared>> = RefCell::default();
}

/// Begins a run of a model.
pub(crate) fn reset() {
    WORKERS.take();
}

/// Ends a run of a model, when all its threads have ended. A strand that did not wait was not
/// scheduled.
pub(crate) fn check_quiet() {
    for shared in WORKERS.take() {
        assert!(!shared.has_mail(), "a strand was scheduled that did not wait");
    }
}

pub(crate) struct Current(*const Worker);

impl Deref for Current {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        // SAFETY: `CURRENT` keeps the box until its thread ends, and this value stays on that
        // thread.
        unsafe { &*self.0 }
    }
}

/// As if the CPU were crowded, because a turn that is given away is one more interleaving.
#[derive(Default)]
pub(crate) struct Turns(());

impl Turns {
    pub(crate) fn give(&mut self) -> bool {
        false
    }
}

pub(crate) fn current() -> Current {
    CURRENT.with(|worker| Current(&raw const **worker))
}

pub(crate) fn now_ns() -> u64 {
    current().now_ns.get()
}

/// Empty, because no model has a blocking pool.
pub(crate) struct Pool;

/// Stands for the pause of a call that ignores its cancellation; no model has such a call.
pub(crate) fn yield_now() {
    loom::thread::yield_now();
}

/// The same in the end.
pub(crate) fn pause(_: Duration) {
    loom::thread::yield_now();
}

pub(crate) fn schedule(header: &'static StrandHeader) {
    schedule_elsewhere(header);
}

pub(crate) fn schedule_elsewhere(header: &'static StrandHeader) -> bool {
    // SAFETY: the stack lies in its thread's worker, and that thread waits.
    let owner = unsafe { &*header.stack.get() }.owner;
    let worker = current();
    let is_away = !ptr::eq(owner, worker.shared);
    match is_away {
        false => assert!(!worker.is_ready.replace(true), "a strand was scheduled twice"),
        true => owner.push(header),
    }
    is_away
}

/// Nothing is recorded.
pub(crate) fn note_cancel(_scope: *const ()) {}

pub(crate) fn unpark(id: strand::FiberId) {
    let header = strand::header_at(id.index());
    if header.unpark(id.generation()) == Unpark::Schedule {
        schedule(header);
    }
}

impl Worker {
    fn new() -> Box<Worker> {
        let kernel = Arc::new(Kernel { event: Notify::new(), wakes: AtomicUsize::new(0) });
        let shared = Shared::take(ThreadWaker(Arc::clone(&kernel)));
        WORKERS.with_borrow_mut(|workers| workers.push(shared));
        let header = strand::slab::take();
        let stack = FiberStack { header, record: Cell::new(ptr::null()), owner: shared };
        let worker = Box::new(Worker {
            stack,
            shared,
            kernel,
            running: RunningStrand { recorder: Recorder },
            is_ready: Cell::new(false),
            armed_ns: Cell::new(None),
            now_ns: Cell::new(0),
        });
        worker.stack.header.stack.set(&raw const worker.stack);
        worker
    }

    pub(crate) fn shared(&self) -> &'static Shared {
        self.shared
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub(crate) fn check_can_wait_by(&self, _record: &WaitRecord) {}

    pub(crate) fn must_not_suspend_while_unwinding(&self) -> bool {
        true
    }

    pub(crate) fn has_rivals(&self) -> bool {
        false
    }

    pub(crate) fn give_way(&self, _moment_ns: u64) {
        assert!(!holds_spin_lock(), "a strand gives way while it holds a spin lock");
        loom::thread::yield_now();
    }

    pub(crate) fn current_strand(&self) -> &FiberStack {
        &self.stack
    }

    pub(crate) fn current_header(&self) -> &'static StrandHeader {
        self.stack.header
    }

    pub(crate) fn arm_timer(&self, _: &FiberStack, deadline: Deadline) {
        self.armed_ns.set(Some(deadline.as_ns()));
    }

    pub(crate) fn switch_out(&self) {
        assert!(!holds_spin_lock(), "a strand suspends while it holds a spin lock");
        loop {
            self.drain_inbox();
            self.fire_timer();
            if self.is_ready.replace(false) {
                self.armed_ns.set(None);
                assert!(self.stack.header.current_wait().is_none(), "scheduled while it waits");
                return;
            }
            self.sleep();
        }
    }

    fn drain_inbox(&self) {
        if self.shared.has_mail() {
            self.shared.drain(|header| {
                assert!(ptr::eq(header, self.stack.header), "a strand in another inbox");
                assert!(!self.is_ready.replace(true), "a strand was scheduled twice");
            });
        }
    }

    fn fire_timer(&self) {
        let Some(deadline_ns) = self.armed_ns.take() else { return };
        let Some(wait) = self.stack.header.current_wait() else { return };
        self.now_ns.set(deadline_ns);
        wait.wake(Wake::TimedOut);
    }

    fn sleep(&self) {
        self.shared.fall_asleep(|| true, || self.kernel.event.wait());
    }

    /// Runs the worker's loop on this thread until `is_over`; for models of the inbox.
    pub(crate) fn run_until(
        &self,
        mut each: impl FnMut(&'static StrandHeader),
        is_over: impl Fn() -> bool,
    ) {
        while !is_over() {
            if self.shared.has_mail() {
                self.shared.drain(&mut each);
            }
            if !is_over() {
                self.sleep();
            }
        }
    }
}
