//! Fibers placed on a certain worker: their closures reach it through its inbox.
//!
//! An inbox holds fibers that continue and closures that have no stack yet. The worker queues such
//! a closure where no other worker steals it, unless it was not placed but handed over
//! ([`spread`](super::spread)).
//!
//! # Protocol of a gate
//!
//! | gate | meaning | changed by |
//! |---|---|---|
//! | open, n | n closures are on their way to the worker | a sender, to n + 1; the worker, which took one out of its inbox, to n - 1 |
//! | closed, n | the worker abandons its fibers, and takes n more | as above; a sender that finds it closed takes its own count back and keeps the closure |
//!
//! *The race to fear*: a closure is sent to a worker that has just abandoned its fibers, and stays
//! in an inbox that a worker of another runtime reuses. The sender counts itself in before it
//! checks whether the gate is closed, both in one read-modify-write; the worker closes the gate,
//! then empties its inbox until no closure is on its way.

use std::io;

use super::{Membership, RootStrand, Scheduler, Worker, Workers, note_spawn, workers::WorkerEntry};
use crate::core::{primitive::Ordering, strand::StrandHeader};

const CLOSED: usize = 1 << (usize::BITS - 1);

impl WorkerEntry {
    /// Sends a closure to the worker, unless its gate is closed.
    fn send(&self, header: &'static StrandHeader) -> bool {
        let Some(shared) = self.shared() else { return false };
        // Acquire: a sender that finds the gate closed leaves the inbox alone. The push itself
        // releases.
        if self.state.gate.fetch_add(1, Ordering::Acquire) & CLOSED != 0 {
            self.state.gate.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        shared.push(header);
        true
    }
}

impl Workers {
    /// Sends a closure to the worker of this index and counts it there, unless its gate is closed.
    pub(super) fn hand_over(&self, header: &'static StrandHeader, index: usize) -> bool {
        let entry = &self.entries[index];
        entry.state.waiting.fetch_add(1, Ordering::Relaxed);
        let is_sent = entry.send(header);
        if !is_sent {
            entry.state.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        is_sent
    }
}

/// Checks the index of a worker of a runtime that has `count` of them.
pub(super) fn check_index(index: usize, count: usize) -> io::Result<usize> {
    if index < count {
        return Ok(index);
    }
    let sentence = format!(
        "there is no worker {index}: this runtime has {count}, counted from 0 (fiber::workers \
         tells how many)"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, sentence))
}

impl Membership {
    /// Checks the index of a worker that was asked for. If none was, returns the index of the
    /// worker with the fewest fibers; among several the first, beginning with this worker.
    ///
    /// # Errors
    /// The runtime has no such worker.
    pub(crate) fn find_place(&self, asked: Option<usize>) -> io::Result<usize> {
        let count = self.workers.len();
        match asked {
            None => {
                let from_here = (0..count).map(|offset| (self.index + offset) % count);
                let load = |&index: &usize| self.workers.entries[index].load();
                Ok(from_here.min_by_key(load).unwrap_or(self.index))
            }
            Some(index) => check_index(index, count),
        }
    }

    /// Sends a closure to the worker of this index. Returns false if this worker is to keep it:
    /// because it is that worker, or because the gate is closed, so the runtime abandons its
    /// fibers.
    fn place(&self, header: &'static StrandHeader, index: usize) -> bool {
        if self.index != index && self.workers.hand_over(header, index) {
            return true;
        }
        // This worker starts it, and then counts it off (`note_taken`).
        self.state().waiting.fetch_add(1, Ordering::Relaxed);
        false
    }

    /// Closes the gate, and waits for the closures that are on their way, which `drain` takes out
    /// of the inbox.
    pub(super) fn close_gate(&self, drain: impl Fn()) {
        let gate = &self.state().gate;
        gate.fetch_or(CLOSED, Ordering::AcqRel);
        while gate.load(Ordering::Relaxed) != CLOSED {
            drain();
            std::thread::yield_now();
        }
    }
}

impl Worker {
    /// Queues a closure that has no stack yet with the worker of this index.
    pub(crate) fn enqueue_placed(&self, header: &'static StrandHeader, index: usize) {
        self.shared.note_spawned();
        note_spawn(self, header);
        let is_sent = self.membership.as_ref().is_some_and(|member| member.place(header, index));
        if !is_sent {
            self.scheduler.ready.push_fresh(header);
        }
    }
}

/// Counts a placed closure that is about to start, or cannot.
#[inline]
pub(super) fn note_taken(member: Option<&Membership>, header: &StrandHeader) {
    if crate::core::strand::is_placed(header)
        && let Some(member) = member
    {
        member.state().waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Scheduler {
    /// Queues a strand that came through the inbox.
    pub(super) fn receive(
        &self,
        header: &'static StrandHeader,
        root: &RootStrand,
        member: Option<&Membership>,
    ) {
        if !header.stack_if_started().is_null() {
            return self.make_ready(header, root);
        }
        let Some(member) = member else { return self.ready.push_fresh(header) };
        member.state().gate.fetch_sub(1, Ordering::Relaxed);
        if crate::core::strand::is_placed(header) {
            return self.ready.push_fresh(header);
        }
        member.state().waiting.fetch_sub(1, Ordering::Relaxed);
        match member.has_peers() {
            true => member.share(header),
            // It came from outside, and the loop of a single worker looks at `ready` only.
            false => self.ready.push_fresh(header),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{ptr, sync::Arc, thread};

    use super::*;
    use crate::core::{
        strand::{FreeList, SpawnOptions},
        worker::{Pool, Shared, ThreadWaker},
    };

    #[test]
    fn a_closure_that_finds_its_gate_closed_counts_where_it_starts() {
        let members = Workers::new(2, None, Arc::new(Pool::new(1))).1;
        members[1].register(Shared::take(ThreadWaker::Thread(thread::current())));
        members[1].close_gate(|| ());
        let header = FreeList::new().take(false).expect("memory for a header");
        let options = SpawnOptions { is_placed: true, ..SpawnOptions::default() };
        header.attributes.install(ptr::null(), options);

        let loads = || [0, 1].map(|index| members[0].workers.entries[index].load());
        assert!(!members[0].place(header, 1));
        assert_eq!(loads(), [1, 0]);
        note_taken(Some(&members[0]), header);
        assert_eq!(loads(), [0, 0]);
    }
}
