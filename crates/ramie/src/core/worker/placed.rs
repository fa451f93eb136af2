//! Fibers placed on a certain worker: their closures come to it through its inbox.
//!
//! What lies in an inbox is either a fiber that goes on or a closure that has no stack yet. The
//! worker queues the latter where nobody steals, unless it was not placed but handed over
//! ([`spread`](super::spread)).
//!
//! # Protocol of a gate
//!
//! | gate | meaning | left by |
//! |---|---|---|
//! | open, n | n closures are on their way to the worker | a sender, to n + 1; the worker, which took one out of its inbox, to n - 1 |
//! | closed, n | the worker gives up what it has, and takes n more | as above; a sender that finds it closed takes its own count back and keeps the closure |
//!
//! *The race to fear*: a closure is sent to a worker that has just given up what it had, and would
//! lie in an inbox that belongs to a worker of another runtime next. The sender counts itself in
//! before it looks whether the gate is closed, both in one read-modify-write; the worker closes the
//! gate, then empties its inbox until nobody is on the way.

use std::{io, sync::OnceLock};

use super::{Shared, Worker, lingering::Lingering};
use crate::core::{
    primitive::{AtomicBool, AtomicUsize, Ordering},
    strand::StrandHeader,
};

const CLOSED: usize = 1 << (usize::BITS - 1);

/// The workers of a runtime as those who place fibers see them.
pub(crate) struct Roster {
    berths: Vec<Berth>,
    pub(super) lingering: Lingering,
}

struct Berth {
    gate: AtomicUsize,
    /// Closures placed on the worker that it has not started, and those handed over that are still
    /// on their way.
    waiting: AtomicUsize,
    /// Whether the worker has nothing to run, as it says itself; so it is before it has begun.
    is_idle: AtomicBool,
    shared: OnceLock<&'static Shared>,
}

impl Berth {
    fn new() -> Self {
        Berth {
            gate: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            is_idle: AtomicBool::new(true),
            shared: OnceLock::new(),
        }
    }

    /// How many fibers the worker has, or is about to have.
    fn load(&self) -> usize {
        let live = self.shared.get().map_or(0, |shared| shared.live());
        live + self.waiting.load(Ordering::Relaxed)
    }

    /// Sends a closure to the worker, unless that takes no more.
    fn send(&self, header: &'static StrandHeader) -> bool {
        let Some(shared) = self.shared.get() else { return false };
        // Acquire: whoever finds the gate closed leaves the inbox alone. The push itself releases.
        if self.gate.fetch_add(1, Ordering::Acquire) & CLOSED != 0 {
            self.gate.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        shared.push(header);
        true
    }
}

impl Roster {
    /// The closure of `run` has returned, and nothing but their ends ends the wait for the others.
    pub(crate) fn main_done_without_limit(&self) {
        self.lingering.begin(self.berths.len());
    }

    pub(crate) fn new(workers: usize) -> Self {
        let berths = (0..workers).map(|_| Berth::new()).collect();
        Roster { berths, lingering: Lingering::new() }
    }

    /// Says which worker has the index; before the runtime runs anything.
    pub(crate) fn join(&self, index: usize, shared: &'static Shared) {
        let _ = self.berths[index].shared.set(shared);
    }

    pub(crate) fn len(&self) -> usize {
        self.berths.len()
    }

    /// The parts of the workers that other threads may touch.
    pub(super) fn members(&self) -> impl Iterator<Item = &'static Shared> {
        self.berths.iter().filter_map(|berth| berth.shared.get().copied())
    }

    /// Says whether the worker has nothing to run. A hint: nothing is lost if it is old.
    pub(super) fn set_idle(&self, index: usize, is_idle: bool) {
        self.berths[index].is_idle.store(is_idle, Ordering::Relaxed);
    }

    pub(super) fn is_idle(&self, index: usize) -> bool {
        self.berths[index].is_idle.load(Ordering::Relaxed)
    }

    /// Sends a closure that any worker may start, unless that worker takes no more.
    pub(super) fn hand_over(&self, header: &'static StrandHeader, index: usize) -> bool {
        let berth = &self.berths[index];
        berth.waiting.fetch_add(1, Ordering::Relaxed);
        let is_sent = berth.send(header);
        if !is_sent {
            berth.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        is_sent
    }
}

impl Worker {
    /// Puts this worker, which has a seat, on the list of its runtime's workers.
    pub(crate) fn sign(&mut self, roster: std::sync::Arc<Roster>) {
        if let Some(seat) = &self.seat {
            roster.join(seat.index, self.shared);
        }
        self.roster = Some(roster);
    }

    pub(crate) fn roster(&self) -> Option<&Roster> {
        self.roster.as_deref()
    }

    /// The place of this worker among those of its runtime.
    pub(crate) fn index(&self) -> Option<usize> {
        self.seat.as_ref().map(|seat| seat.index)
    }

    /// Finds the worker for a placed fiber; `None`: there are no workers to choose from.
    ///
    /// # Errors
    /// The runtime has no such worker.
    pub(crate) fn find_place(&self, asked: Option<usize>) -> io::Result<Option<usize>> {
        let (Some(roster), Some(home)) = (&self.roster, self.index()) else { return Ok(None) };
        match asked {
            None => Ok(Some(self.least_loaded(roster, home))),
            Some(index) if index < roster.len() => Ok(Some(index)),
            Some(index) => {
                let workers = roster.len();
                let sentence = format!(
                    "there is no worker {index}: this runtime has {workers}, counted from 0 \
                     (fiber::workers tells how many)"
                );
                Err(io::Error::new(io::ErrorKind::InvalidInput, sentence))
            }
        }
    }

    /// How many fibers that worker has, or is about to have.
    pub(super) fn load_of(&self, roster: &Roster, index: usize) -> usize {
        let fresh = self.team().map_or(0, |team| team.fresh(index));
        roster.berths[index].load() + fresh
    }

    /// The worker with the fewest fibers; of several the first one from `home` on.
    fn least_loaded(&self, roster: &Roster, home: usize) -> usize {
        let count = roster.len();
        let from_home = (0..count).map(|offset| (home + offset) % count);
        from_home.min_by_key(|&index| self.load_of(roster, index)).unwrap_or(home)
    }

    /// Queues a closure that has no stack yet with the worker of this index.
    pub(crate) fn enqueue_placed(&self, header: &'static StrandHeader, index: usize) {
        self.shared.note_spawned();
        let Some(roster) = &self.roster else { return self.ready.push_fresh(header) };
        let berth = &roster.berths[index];
        berth.waiting.fetch_add(1, Ordering::Relaxed);
        // A closed gate: the runtime gives up its fibers, this one with those of this worker.
        if self.index() == Some(index) || !berth.send(header) {
            self.ready.push_fresh(header);
        }
    }

    /// A closure is about to start, or cannot.
    #[inline]
    pub(super) fn note_taken(&self, header: &StrandHeader) {
        if crate::core::strand::is_placed(header)
            && let (Some(roster), Some(index)) = (&self.roster, self.index())
        {
            roster.berths[index].waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Queues what came through the inbox.
    pub(super) fn receive(&self, header: &'static StrandHeader) {
        if !header.stack.get().is_null() {
            return self.make_ready(header);
        }
        let (Some(roster), Some(seat)) = (&self.roster, &self.seat) else {
            return self.ready.push_fresh(header);
        };
        let berth = &roster.berths[seat.index];
        berth.gate.fetch_sub(1, Ordering::Relaxed);
        if crate::core::strand::is_placed(header) {
            return self.ready.push_fresh(header);
        }
        berth.waiting.fetch_sub(1, Ordering::Relaxed);
        seat.share(header);
    }

    /// Lets no closure come in any more, and waits for those that are on their way.
    pub(super) fn close_gate(&self) {
        let (Some(roster), Some(index)) = (&self.roster, self.index()) else { return };
        let gate = &roster.berths[index].gate;
        gate.fetch_or(CLOSED, Ordering::AcqRel);
        while gate.load(Ordering::Relaxed) != CLOSED {
            self.drain_inbox();
            std::thread::yield_now();
        }
    }
}
