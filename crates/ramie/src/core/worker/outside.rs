//! Closures from outside: threads that are no workers of the runtime spawn them through a handle.
//!
//! A closure that any worker may start goes to a queue that all workers share. Not to the inbox of
//! one of them, because nobody can steal from an inbox, and that worker may run a fiber that does
//! not suspend. A closure for a certain worker, and one for a runtime that has one worker, goes to
//! that worker's inbox ([`placed`](super::placed)).
//!
//! A worker that finds nothing to run looks here before it searches the queues of others. A worker
//! that is never idle looks here at each poll, and takes its share.
//!
//! *The race to fear* is the one of [`stealing`](super::stealing): a closure is queued while the
//! worker that could start it falls asleep. The spawner raises `len`, queues, then (SeqCst fence)
//! reads `sleepers`; the worker announces its sleep (SeqCst), then reads `len`. One of the two sees
//! the other. `len` is raised before the closure is in the queue and lowered after it has left, so
//! a worker that finds no closure may look again, but never sleeps although there is one.
//!
//! The strands that were spawned from outside are counted here, for [`ending`](super::ending): by a
//! spawner that the [`entrance`](super::entrance) has admitted, before it queues the closure.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{stealing::Membership, workers::Workers};
use crate::core::{
    primitive::{AtomicU64, AtomicUsize, Ordering, fence},
    strand::StrandHeader,
};

/// The most closures that a worker takes at a time, so that others get some, too.
const LARGEST_BATCH: usize = 32;

/// Strands spawned from outside, in all runtimes since the process began. A plain atomic, also
/// under a model checker, because nothing follows from it.
static SPAWNED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Reads that number.
pub(super) fn spawned_outside_of_all() -> u64 {
    SPAWNED.load(std::sync::atomic::Ordering::Relaxed)
}

/// The closures from outside that no worker has taken yet.
#[derive(Default)]
pub(super) struct OutsideQueue {
    closures: Mutex<VecDeque<&'static StrandHeader>>,
    /// At least the number of closures in the queue.
    len: AtomicUsize,
    /// Strands that were spawned from outside, whether or not through this queue.
    spawned: AtomicU64,
}

impl OutsideQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<&'static StrandHeader>> {
        self.closures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Strands that were spawned from outside.
    pub(super) fn spawned(&self) -> u64 {
        // Acquire: as for `Shared::spawned`.
        self.spawned.load(Ordering::Acquire)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Ordering::SeqCst) == 0
    }

    /// Takes up to `most` closures, oldest first.
    fn take(&self, most: usize, each: impl FnMut(&'static StrandHeader)) -> usize {
        let mut closures = self.lock();
        let count = most.min(closures.len());
        let taken: Vec<_> = closures.drain(..count).collect();
        drop(closures);
        self.len.fetch_sub(count, Ordering::SeqCst);
        taken.into_iter().for_each(each);
        count
    }
}

impl Workers {
    /// Counts a strand that is spawned from outside. The entrance has admitted the caller.
    pub(super) fn note_spawned_outside(&self) {
        // Release: as for `Shared::spawned`.
        self.outside.spawned.fetch_add(1, Ordering::Release);
        SPAWNED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// Strands that were spawned from outside.
    pub(super) fn spawned_outside(&self) -> u64 {
        self.outside.spawned()
    }

    /// Queues a closure from outside that any worker may start.
    pub(super) fn push_outside(&self, header: &'static StrandHeader) {
        self.outside.len.fetch_add(1, Ordering::SeqCst);
        self.outside.lock().push_back(header);
        fence(Ordering::SeqCst);
        self.wake_one();
    }

    /// Takes a closure that no worker will start any more.
    pub(super) fn pop_outside(&self) -> Option<&'static StrandHeader> {
        let mut popped = None;
        self.outside.take(1, |header| popped = Some(header));
        popped
    }
}

impl Membership {
    /// Takes this worker's share of the closures from outside: the first to run next, the others
    /// for its queue, from which other workers steal.
    #[inline]
    pub(super) fn take_from_outside(&self) -> Option<&'static StrandHeader> {
        if self.workers.outside.is_empty() { None } else { self.take_share() }
    }

    #[cold]
    #[inline(never)]
    fn take_share(&self) -> Option<&'static StrandHeader> {
        let outside = &self.workers.outside;
        let share = outside.len.load(Ordering::Relaxed).div_ceil(self.workers.len());
        let mut first = None;
        outside.take(share.clamp(1, LARGEST_BATCH), |header| match first {
            None => first = Some(header),
            Some(_) => self.push(header),
        });
        if first.is_some() {
            // Behind the writes of this worker's queue, as for a stolen batch.
            fence(Ordering::SeqCst);
            self.pass_search_on();
        }
        first
    }
}
