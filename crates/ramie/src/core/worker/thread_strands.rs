//! The threads of one runtime whose strands are OS threads: how they are counted, and how `run`
//! waits for them.
//!
//! The count begins with 1 for the thread that called `run`, which takes itself off when it begins
//! to wait. The thread that takes the count to 0 finishes `ended`. A thread counts until its
//! closure has returned, the fibers that it spawned with `spawn_local` have ended, and its worker
//! is gone.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{AbandonedFiber, Daemons, Entrance, Unended, Worker};
use crate::core::{
    primitive::{AtomicBool, AtomicUsize, Ordering},
    strand::{FiberId, StrandHeader},
    time::{Clock, Deadline},
    wait::{
        completion::Completion,
        park::{self, WaitKind, WaitRecord},
    },
};

static THREADS_END: WaitKind = WaitKind::new("the threads of a runtime");
static SHUTDOWN: WaitKind = WaitKind::new("the shutdown of a runtime");
static FIBERS_END: WaitKind = WaitKind::new("the fibers of a thread");

/// The threads of one runtime.
pub(crate) struct ThreadStrands {
    threads: AtomicUsize,
    ended: Completion,
    /// The threads alive, with their names for messages.
    labels: Mutex<BTreeMap<FiberId, String>>,
    /// Whether `run` waits for the threads alive.
    is_awaited: AtomicBool,
    pub(crate) daemons: Daemons,
    pub(crate) entrance: Entrance,
    closing: Closing,
    driver: ramie_driver::Choice,
    clock: Clock,
    stack_size: usize,
}

/// The shutdown of a runtime in the background, for which a thread waits.
struct Closing {
    has_begun: Completion,
    /// The grace period, if there is one.
    grace: Mutex<Option<Duration>>,
}

impl Default for Closing {
    fn default() -> Self {
        Closing { has_begun: Completion::new(), grace: Mutex::new(None) }
    }
}

/// One thread's share of the count; dropping it takes the thread off.
pub(crate) struct CountedThread {
    threads: Arc<ThreadStrands>,
    id: FiberId,
    /// Whether the clock must not jump for this thread ([`hold_clock`](Self::hold_clock)).
    holds_clock: Cell<bool>,
}

impl ThreadStrands {
    pub(crate) fn new(
        driver: ramie_driver::Choice,
        clock: Clock,
        stack_size: usize,
    ) -> Arc<ThreadStrands> {
        Arc::new(ThreadStrands {
            threads: AtomicUsize::new(1),
            ended: Completion::new(),
            labels: Mutex::new(BTreeMap::new()),
            is_awaited: AtomicBool::new(false),
            daemons: Daemons::default(),
            entrance: Entrance::default(),
            closing: Closing::default(),
            driver,
            clock,
            stack_size,
        })
    }

    /// Makes the worker of one of the runtime's threads.
    pub(crate) fn make_worker(self: &Arc<Self>) -> Worker {
        let mut worker = Worker::new(None, self.driver, self.clock.clone(), self.stack_size, None);
        worker.thread_strands = Some(Arc::clone(self));
        worker
    }

    fn labels(&self) -> MutexGuard<'_, BTreeMap<FiberId, String>> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a thread that is about to be made.
    pub(crate) fn add(self: &Arc<Self>, header: &StrandHeader) -> CountedThread {
        // Relaxed: starting the thread makes this visible to it.
        self.threads.fetch_add(1, Ordering::Relaxed);
        self.labels().insert(header.id(), crate::core::strand::label(header));
        let counted = CountedThread {
            threads: Arc::clone(self),
            id: header.id(),
            holds_clock: Cell::new(false),
        };
        counted.hold_clock();
        counted
    }

    fn leave(&self) {
        // AcqRel: what each thread did is visible to the last one, and through it to `run`.
        if self.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ended.finish().wake();
        }
    }

    /// Ends the waits of daemons if no other thread is left. Called after each event that may leave
    /// only daemons: a thread ends or becomes a daemon, or `run` begins to wait. *The race to fear*
    /// is two such events at the same time: the thread that takes the lock last sees both.
    pub(super) fn end_daemons_if_alone(&self) {
        // Checked before locking, because most threads end before `run` waits for them.
        if !self.is_awaited.load(Ordering::SeqCst) {
            return;
        }
        let labels = self.labels();
        let is_alone = self.daemons.are_all(labels.keys());
        drop(labels);
        if is_alone {
            self.daemons.cancel_all();
        }
    }

    /// Begins the shutdown. Only the first grace period counts, because the thread that waits for
    /// the others has gone on then.
    pub(crate) fn close(&self, grace: Option<Duration>) {
        if !self.entrance.close() {
            return;
        }
        *self.closing.grace.lock().unwrap_or_else(PoisonError::into_inner) = grace;
        self.closing.has_begun.finish().wake();
    }

    /// Waits until the shutdown begins; returns the grace period.
    pub(crate) fn wait_for_shutdown(&self) -> Option<Duration> {
        // A thread that runs no code of the program does not unwind.
        let _ = self.closing.has_begun.wait(&WaitRecord::new(&SHUTDOWN));
        *self.closing.grace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no thread is left, or until the deadline; then describes the threads that are
    /// left. If `is_silent`, there is no deadline, and the threads left after a second are logged.
    pub(crate) fn wait(&self, deadline: Deadline, mut is_silent: bool) -> Vec<AbandonedFiber> {
        self.leave();
        self.is_awaited.store(true, Ordering::SeqCst);
        self.end_daemons_if_alone();
        loop {
            let end = if is_silent { Deadline::after(Unended::PATIENCE) } else { deadline };
            let record = WaitRecord::new(&THREADS_END).until(end);
            if matches!(self.ended.wait(&record), Ok(true)) {
                return Vec::new();
            }
            if !is_silent {
                return self.describe_threads();
            }
            is_silent = false;
            self.describe_threads().into_iter().collect::<Unended>().report(&[]);
        }
    }

    pub(crate) fn describe_threads(&self) -> Vec<AbandonedFiber> {
        self.labels().values().cloned().map(AbandonedFiber::running).collect()
    }
}

impl Drop for CountedThread {
    fn drop(&mut self) {
        self.threads.labels().remove(&self.id);
        self.threads.end_daemons_if_alone();
        self.threads.leave();
        self.release_clock();
    }
}

impl CountedThread {
    pub(crate) fn make_worker(&self) -> Worker {
        let worker = self.threads.make_worker();
        self.release_clock();
        worker
    }

    /// Prevents the clock from jumping while the thread has no worker that would prevent it: before
    /// the thread has made its worker, and from the worker's end until the thread is off the count.
    pub(super) fn hold_clock(&self) {
        if let Clock::Manual(clock) = &self.threads.clock
            && !self.holds_clock.replace(true)
        {
            clock.hold();
        }
    }

    fn release_clock(&self) {
        if let Clock::Manual(clock) = &self.threads.clock
            && self.holds_clock.replace(false)
        {
            clock.release();
        }
    }
}

impl Worker {
    /// Runs the fibers of this thread until they have ended, or until the deadline.
    pub(crate) fn wait_for_fibers(&self, deadline: Deadline) {
        let record = WaitRecord::new(&FIBERS_END).until(deadline);
        while self.has_fibers() && !deadline.has_passed() {
            let Ok(prepared) = park::prepare(self, &record) else { return };
            self.root.waits_for_fibers.set(Some(prepared.wake_ref()));
            prepared.suspend();
            self.root.waits_for_fibers.set(None);
        }
    }

    pub(crate) fn has_fibers(&self) -> bool {
        self.shared.live() > 0 || self.has_runnable()
    }
}
