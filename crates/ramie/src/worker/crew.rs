//! The threads of one runtime whose strands are OS threads: how they are counted, and how `run`
//! waits for them.
//!
//! The count begins with 1 for the thread that called `run`, which takes itself off when it begins
//! to wait; whoever takes off the last one finishes `ended`. A thread counts until its closure has
//! returned, the fibers that it spawned with `spawn_local` have ended, and its worker is gone.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{AbandonedFiber, Worker};
use crate::{
    completion::Completion,
    park::{self, WaitKind, WaitRecord},
    primitive::{AtomicUsize, Ordering},
    strand::{FiberId, Slot},
    time::{Clock, Deadline},
};

static THREADS_END: WaitKind = WaitKind::new("the threads of a runtime");
static FIBERS_END: WaitKind = WaitKind::new("the fibers of a thread");

pub(crate) struct Crew {
    threads: AtomicUsize,
    ended: Completion,
    /// The threads alive, with their names for messages.
    labels: Mutex<BTreeMap<FiberId, String>>,
    driver: ramie_driver::Choice,
    clock: Clock,
    stack_size: usize,
}

/// One thread's place on the count; leaves it when dropped.
pub(crate) struct Berth {
    crew: Arc<Crew>,
    id: FiberId,
}

impl Crew {
    pub(crate) fn new(driver: ramie_driver::Choice, clock: Clock, stack_size: usize) -> Arc<Crew> {
        Arc::new(Crew {
            threads: AtomicUsize::new(1),
            ended: Completion::new(),
            labels: Mutex::new(BTreeMap::new()),
            driver,
            clock,
            stack_size,
        })
    }

    /// Makes the worker of one of the runtime's threads.
    pub(crate) fn make_worker(self: &Arc<Self>) -> Worker {
        let mut worker = Worker::new(None, self.driver, self.clock.clone(), self.stack_size, None);
        worker.crew = Some(Arc::clone(self));
        worker
    }

    fn labels(&self) -> MutexGuard<'_, BTreeMap<FiberId, String>> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a thread that is about to be made.
    pub(crate) fn add(self: &Arc<Self>, slot: &Slot) -> Berth {
        // Relaxed: the making of the thread hands it over.
        self.threads.fetch_add(1, Ordering::Relaxed);
        self.labels().insert(slot.id(), crate::fiber::label(slot));
        Berth { crew: Arc::clone(self), id: slot.id() }
    }

    fn leave(&self) {
        // AcqRel: what each thread did is visible to the last one, and through it to `run`.
        if self.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ended.finish().wake();
        }
    }

    /// Waits until no thread is left, or for the deadline; names those that are.
    pub(crate) fn wait(&self, deadline: Deadline) -> Vec<AbandonedFiber> {
        self.leave();
        let record = WaitRecord::new(&THREADS_END).until(deadline);
        if matches!(self.ended.wait(&record), Ok(true)) {
            return Vec::new();
        }
        let given_up = |label| AbandonedFiber { label, waits_for: "its end, and runs on".into() };
        mem::take(&mut *self.labels()).into_values().map(given_up).collect()
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        self.crew.labels().remove(&self.id);
        self.crew.leave();
    }
}

impl Berth {
    pub(crate) fn make_worker(&self) -> Worker {
        self.crew.make_worker()
    }
}

impl Worker {
    pub(crate) fn crew(&self) -> Option<&Arc<Crew>> {
        self.crew.as_ref()
    }

    /// Runs the fibers of this thread until they have ended, or for the deadline.
    pub(crate) fn wait_for_fibers(&self, deadline: Deadline) {
        let record = WaitRecord::new(&FIBERS_END).until(deadline);
        while self.has_fibers() && !deadline.has_passed() {
            let Ok(prepared) = park::prepare(self, &record) else { return };
            self.waits_for_fibers.set(Some(prepared.wake_ref()));
            prepared.suspend();
            self.waits_for_fibers.set(None);
        }
    }

    pub(super) fn has_fibers(&self) -> bool {
        self.shared.live() > 0 || self.has_runnable()
    }

    /// A fiber has ended, and it may have been the last one for which the thread waits.
    #[cold]
    pub(super) fn wake_if_last(&self) {
        if self.shared.live() == 0
            && let Some(wait) = self.waits_for_fibers.take()
        {
            wait.wake(crate::strand::Wake::Woken);
        }
    }
}
