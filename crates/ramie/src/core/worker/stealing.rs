//! How workers take closures of others.
//!
//! Each worker has a queue of fresh closures from which the others steal. A worker that finds
//! nothing looks at the queues of all others once and then sleeps, with the flag of its entry set.
//! A spawner wakes at most one sleeper, and none while a worker is already searching. A searcher
//! that finds something wakes the next one while closures are left in any queue.
//!
//! *The race to fear*: a closure is queued while its would-be thief falls asleep. The spawner
//! queues, then (SeqCst fence) reads `sleepers`; the thief announces itself there (SeqCst), then
//! reads the queues. One of the two sees the other. The same holds for a thief that steals several
//! closures, runs the first and queues the others, because between the steal and the queueing no
//! searcher finds those others.
//!
//! # What is not stolen
//! - A fiber that has started, because it never changes thread.
//! - The closure of `run`, and one that was spawned with `spawn_local` or placed (`Place::Worker`,
//!   `LeastLoaded`: [`placed`](super::placed)): none of them enters the queue.
//! - The first closure of a stolen batch, which the thief runs next
//!   ([`scheduler`](super::scheduler)).
//! - A closure that a policy has taken ([`plugged`](super::plugged)).
//!
//! A worker that has more fibers than its share leaves closures to the worker that spawned them
//! ([`has_its_share`]), but not for long: [`spread`](super::spread).
//!
//! Closures from outside the runtime are in a queue of their own ([`outside`](super::outside)).

use std::{cell::Cell, sync::Arc};

use crossbeam_deque::Steal;

use super::{
    Shared,
    spread::Spreading,
    workers::{EntryState, WorkerEntry, Workers},
};
use crate::core::{
    primitive::{Ordering, fence},
    strand::StrandHeader,
};

/// A worker that has no more fibers than this takes whatever it finds.
pub(super) const FEW: usize = 8;

/// The number of closures that stay together if possible, because fibers that talk to one another
/// are often spawned one after the other. A group begins with the first closure that is spawned
/// after the worker's loop has found its queue empty, then with every fourth.
pub(super) const GROUP: usize = 4;

/// Whether a worker that has `own` fibers leaves closures to a worker that has `other`, because
/// half a group more would put it ahead of the other.
#[inline]
fn has_its_share(own: usize, other: usize) -> bool {
    own > FEW && own + GROUP / 2 > other
}

/// The most closures that are stolen at a time.
const LARGEST_BATCH: usize = 256;

/// The number of closures to steal out of `fresh` ones: it makes the two workers even, but is at
/// most half, and an eighth if the thief has more fibers already.
fn batch(own: usize, theirs: usize, fresh: usize) -> usize {
    let most = fresh.div_ceil(2).min(LARGEST_BATCH);
    let even = (theirs.saturating_sub(own) / 2).max(fresh / 8);
    (even / GROUP * GROUP).max(GROUP).min(most)
}

/// The outcome of a look at the queues of all other workers.
pub(super) enum Search {
    Found(&'static StrandHeader),
    /// There are closures, but this worker has its share. The worker that spawned them has this
    /// number of fibers.
    Left(usize),
    Nothing,
}

type FreshQueue = crossbeam_deque::Worker<&'static StrandHeader>;

impl Workers {
    /// Wakes a sleeping worker to search, unless one is searching already.
    pub(super) fn wake_one(&self) {
        let all_are_awake = self.sleepers.load(Ordering::SeqCst) == 0;
        // Below 0 while a worker that was woken has counted its search down, and its waker, below,
        // has not yet counted it up.
        let searching = self.searching.load(Ordering::SeqCst).cast_signed();
        if all_are_awake || searching > 0 {
            return;
        }
        // The thread that clears a flag owes the wake-up.
        let clear = |entry: &&WorkerEntry| entry.state.is_asleep.swap(false, Ordering::SeqCst);
        let Some(entry) = self.entries.iter().find(clear) else { return };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        self.searching.fetch_add(1, Ordering::SeqCst);
        if let Some(shared) = entry.shared() {
            shared.wake();
        }
    }
}

/// A worker's membership in the list of its runtime's workers.
pub(crate) struct Membership {
    pub(crate) workers: Arc<Workers>,
    pub(crate) index: usize,
    queue: FreshQueue,
    pub(super) spreading: Spreading,
    /// Whether the end of the runtime had begun when this worker last looked around.
    knows_end: Cell<bool>,
}

impl Membership {
    pub(super) fn new(workers: Arc<Workers>, index: usize, queue: FreshQueue) -> Self {
        let (spreading, knows_end) = (Spreading::default(), Cell::new(false));
        Membership { workers, index, queue, spreading, knows_end }
    }

    /// Enters this worker into the list.
    pub(super) fn register(&self, shared: &'static Shared) {
        self.workers.register(self.index, shared);
    }

    /// Whether the runtime has other workers.
    #[inline]
    pub(super) fn has_peers(&self) -> bool {
        self.workers.len() > 1
    }

    /// Queues a closure that any worker may start.
    pub(super) fn share(&self, header: &'static StrandHeader) {
        self.push(header);
        fence(Ordering::SeqCst);
        self.workers.wake_one();
    }

    /// Queues a closure, and wakes nobody to steal it.
    #[inline]
    pub(super) fn push(&self, header: &'static StrandHeader) {
        let queued = &self.state().queued;
        // Relaxed: a hint to thieves, and no other thread writes it.
        queued.store(queued.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.queue.push(header);
    }

    pub(super) fn pop(&self) -> Option<&'static StrandHeader> {
        self.queue.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Wakes the next searcher if closures are left, because a stolen batch may lie behind a fiber
    /// that never suspends, and a worker that was woken to search may have found other work first.
    pub(super) fn pass_search_on(&self) {
        if self.workers.sleepers.load(Ordering::SeqCst) > 0 && !self.all_queues_are_empty() {
            self.workers.wake_one();
        }
    }

    fn all_queues_are_empty(&self) -> bool {
        self.workers.entries.iter().all(|entry| entry.stealer.is_empty())
            && self.workers.outside.is_empty()
    }

    /// Looks at the queues of all others once, beginning behind this worker's own, which is empty.
    /// This worker has `own` fibers. If it `has_enough`, it leaves closures to the workers that
    /// have no more fibers than it, and wakes another worker to take them.
    pub(super) fn search(&self, own: usize, has_enough: bool) -> Search {
        let count = self.workers.len();
        let mut outcome = Search::Nothing;
        for offset in 1..count {
            let victim = &self.workers.entries[(self.index + offset) % count];
            match self.steal_from(victim, own, has_enough) {
                Search::Found(header) => return Search::Found(header),
                Search::Left(live) => outcome = Search::Left(live),
                Search::Nothing => {}
            }
        }
        if matches!(outcome, Search::Left(_)) {
            self.pass_search_on();
        }
        outcome
    }

    /// Takes closures of the worker `index` if it has far more to do than this one, which has `own`
    /// fibers and an empty queue.
    pub(super) fn steal_surplus(&self, index: usize, own: usize) -> Option<&'static StrandHeader> {
        let victim = &self.workers.entries[index];
        if victim.stealer.len() <= GROUP || victim.load() < own + 2 * GROUP {
            return None;
        }
        match self.steal_from(victim, own, false) {
            Search::Found(header) => Some(header),
            Search::Left(_) | Search::Nothing => None,
        }
    }

    /// Steals from one worker, and wakes the next searcher if closures are left.
    fn steal_from(&self, victim: &WorkerEntry, own: usize, has_enough: bool) -> Search {
        let stealer = &victim.stealer;
        loop {
            let fresh = stealer.len();
            if fresh == 0 {
                return Search::Nothing;
            }
            let live = victim.shared().map_or(0, Shared::live);
            let theirs = live + fresh;
            if has_enough && has_its_share(own, theirs) {
                return Search::Left(live);
            }
            match stealer.steal_batch_with_limit_and_pop(&self.queue, batch(own, theirs, fresh)) {
                Steal::Success(header) => {
                    self.complete_group(victim);
                    // Behind the writes of this worker's queue: the module's doc says why.
                    fence(Ordering::SeqCst);
                    self.pass_search_on();
                    return Search::Found(header);
                }
                Steal::Empty => return Search::Nothing,
                Steal::Retry => {}
            }
        }
    }

    /// Takes the rest of a group that was just parted. If the numbers are old, the group stays
    /// parted, which only costs time.
    fn complete_group(&self, victim: &WorkerEntry) {
        let place = victim.place_in_group();
        if place == 0 {
            return;
        }
        for _ in place..GROUP {
            match victim.stealer.steal() {
                Steal::Success(header) => self.queue.push(header),
                Steal::Empty | Steal::Retry => return,
            }
        }
    }

    /// Announces that the worker falls asleep, then takes the last look before the kernel. Returns
    /// whether the worker may sleep.
    pub(super) fn announce_sleep(&self) -> bool {
        if self.has_peers() {
            // A swap, like every write of a flag, so that each write reads the one before it, even
            // one of another thread.
            self.state().is_asleep.swap(true, Ordering::SeqCst);
            self.workers.sleepers.fetch_add(1, Ordering::SeqCst);
        }
        self.may_sleep()
    }

    pub(super) fn announce_running(&self) {
        if !self.has_peers() {
            return;
        }
        // If the flag is cleared, a spawner has woken this worker to search.
        let counter = match self.state().is_asleep.swap(false, Ordering::SeqCst) {
            true => &self.workers.sleepers,
            false => &self.workers.searching,
        };
        counter.fetch_sub(1, Ordering::SeqCst);
    }

    fn may_sleep(&self) -> bool {
        !self.has_news_of_end() && (!self.has_peers() || self.all_queues_are_empty())
    }

    /// Notes whether the end of the runtime has begun, before the check whether it is over.
    pub(super) fn note_end(&self) {
        self.knows_end.set(self.workers.ending.has_begun());
    }

    /// Whether the end of the runtime has begun since `note_end`, or is over.
    fn has_news_of_end(&self) -> bool {
        let ending = &self.workers.ending;
        ending.is_finished() || !self.knows_end.get() && ending.has_begun()
    }

    /// Whether a worker that is about to rest between two turns has to look again: for the end of
    /// the runtime, or because a closure from outside waits.
    pub(super) fn has_news(&self) -> bool {
        self.has_news_of_end() || !self.workers.outside.is_empty()
    }

    /// The part of this worker's entry that changes.
    pub(super) fn state(&self) -> &EntryState {
        &self.workers.entries[self.index].state
    }
}
