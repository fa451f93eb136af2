//! The workers of one runtime: the list in which each has an entry, and the data that they share.
//!
//! - [`stealing`](super::stealing): a worker without work takes closures of others;
//! - [`spread`](super::spread): a worker with many fibers hands closures to idle workers;
//! - [`placed`](super::placed): fibers for a certain worker;
//! - [`entrance`](super::entrance), [`outside`](super::outside): fibers from outside;
//! - [`ending`](super::ending): when the runtime ends.

use std::{sync::Arc, time::Duration};

use crossbeam_deque::Stealer;

use super::{
    Daemons, Pool, Shared,
    ending::RuntimeEnd,
    entrance::Entrance,
    lingering::Lingering,
    outside::OutsideQueue,
    stealing::{GROUP, Membership},
};
use crate::core::{
    primitive::{AtomicBool, AtomicUsize, OnceLock, Ordering},
    strand::StrandHeader,
};

/// The workers of one runtime.
pub(crate) struct Workers {
    pub(super) entries: Vec<WorkerEntry>,
    /// The number of entries whose `is_asleep` is set.
    pub(super) sleepers: AtomicUsize,
    /// The number of workers that were woken to search and have not finished their search.
    pub(super) searching: AtomicUsize,
    pub(super) ending: RuntimeEnd,
    pub(super) lingering: Lingering,
    pub(super) daemons: Daemons,
    pub(crate) entrance: Entrance,
    pub(super) outside: OutsideQueue,
    pub(crate) pool: Arc<Pool>,
}

/// One worker, as the others see it.
pub(super) struct WorkerEntry {
    /// Takes closures out of the worker's queue of fresh ones.
    pub(super) stealer: Stealer<&'static StrandHeader>,
    shared: OnceLock<&'static Shared>,
    pub(super) state: EntryState,
}

/// The part of an entry that changes all the time. It has a cache line of its own, because thieves
/// read the other part whenever they search.
#[repr(align(64))]
pub(super) struct EntryState {
    /// Whether the worker has announced its sleep, and no spawner has woken it since.
    pub(super) is_asleep: AtomicBool,
    /// Whether the worker has nothing to run, by its own account; true before it has begun.
    pub(super) is_idle: AtomicBool,
    /// The number of closures on their way to the worker, and whether it takes more (`placed.rs`).
    pub(super) gate: AtomicUsize,
    /// Closures placed on the worker that it has not started, and those handed over that are still
    /// on their way.
    pub(super) waiting: AtomicUsize,
    /// The closures that were put into the worker's queue since its loop last found that empty;
    /// written by the worker alone. The place of each in its group follows from it.
    pub(super) queued: AtomicUsize,
}

impl WorkerEntry {
    fn new(stealer: Stealer<&'static StrandHeader>) -> Self {
        let state = EntryState {
            is_asleep: AtomicBool::new(false),
            is_idle: AtomicBool::new(true),
            gate: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
        };
        WorkerEntry { stealer, shared: OnceLock::new(), state }
    }

    /// The part that other threads may touch; `None` before the worker has registered.
    pub(super) fn shared(&self) -> Option<&'static Shared> {
        self.shared.get().copied()
    }

    /// The number of fibers that the worker has, or is about to have. A hint.
    pub(super) fn load(&self) -> usize {
        let live = self.shared().map_or(0, Shared::live);
        live + self.state.waiting.load(Ordering::Relaxed) + self.stealer.len()
    }
}

impl WorkerEntry {
    /// The number of closures of the current group that have left the worker's queue; 0: all. A
    /// hint to other threads.
    pub(super) fn place_in_group(&self) -> usize {
        self.state.queued.load(Ordering::Relaxed).wrapping_sub(self.stealer.len()) % GROUP
    }
}

impl Workers {
    /// Makes the list, and the membership of each worker.
    pub(crate) fn new(
        count: usize,
        grace: Option<Duration>,
        pool: Arc<Pool>,
    ) -> (Arc<Workers>, Vec<Membership>) {
        let queues: Vec<_> = (0..count).map(|_| crossbeam_deque::Worker::new_fifo()).collect();
        let workers = Arc::new(Workers {
            entries: queues.iter().map(|queue| WorkerEntry::new(queue.stealer())).collect(),
            sleepers: AtomicUsize::new(0),
            searching: AtomicUsize::new(0),
            ending: RuntimeEnd::new(grace),
            lingering: Lingering::new(),
            daemons: Daemons::default(),
            entrance: Entrance::default(),
            outside: OutsideQueue::default(),
            pool,
        });
        let queues = queues.into_iter().enumerate();
        let member = |(index, queue)| Membership::new(Arc::clone(&workers), index, queue);
        let members = queues.map(member).collect();
        (workers, members)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Enters a worker into the list, before it runs anything.
    pub(super) fn register(&self, index: usize, shared: &'static Shared) {
        let _ = self.entries[index].shared.set(shared);
    }

    /// The parts of the registered workers that other threads may touch.
    pub(super) fn shared(&self) -> impl Iterator<Item = &'static Shared> {
        self.entries.iter().filter_map(WorkerEntry::shared)
    }

    pub(super) fn wake_all(&self) {
        self.shared().for_each(Shared::wake);
    }
}
