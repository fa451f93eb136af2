//! How fibers spread over the workers of a runtime.
//!
//! A fiber stays on the worker that starts it, and many fibers wait as soon as they have started,
//! so the starts decide how the later work is spread. An idle worker takes long to wake (5 us, or
//! until it gets a CPU); meanwhile another starts a hundred fibers that wait at once. And a worker
//! that is awake must not take all closures that another spawns in a row. Hence two rules:
//! - A worker that is about to start a closure, and is ahead ([`is_ahead`]) of an idle worker,
//!   hands over as many closures as make the two even.
//! - A worker that looks for closures to steal leaves those of the workers that it is ahead of, at
//!   first for [`PATIENCE`]. If they are still there then, they are behind a fiber that does not
//!   suspend, and the thief waits half as long the next time.
//!
//! Both rules apply only while earlier started closures have stayed. Closures that end at once give
//! a worker no more to do, so any idle worker may take them, however many fibers it has.
//!
//! Closures move from queue to queue in groups and in the order in which they were spawned, so that
//! neighbours, which often talk to one another, stay together.
//!
//! There is no race to fear. Closures that are handed over arrive as placed ones do
//! ([`placed`](super::placed)), then others may steal them; a worker that left a closure looks
//! again; and all numbers of other workers are hints, which may be old.

use std::{cell::Cell, time::Duration};

use ramie_driver::sys::monotonic_ns;

use super::{
    Membership,
    stealing::{GROUP, MARGIN, Search, is_ahead},
};
use crate::core::{primitive::Ordering, strand::StrandHeader};

/// How long a worker that has its share leaves closures to another worker at first. Each wait in
/// vain halves the time, until the other worker has started or ended a fiber.
const PATIENCE: Duration = Duration::from_millis(1);

/// The most closures that are handed over at a time, so that other fibers run in between.
const LARGEST_BATCH: usize = 32;

/// What a worker remembers of the closures that it started and left.
#[derive(Default)]
pub(super) struct Spreading {
    /// The number of its fibers when it last started a closure that any worker could start.
    before_start: Cell<usize>,
    /// The number of such closures since it was idle or handed some over.
    in_a_row: Cell<usize>,
    /// The number of its fibers if half of those that it last stole have ended.
    enough: Cell<usize>,
    leaving: Leaving,
    /// The other worker to which closures may be handed over next.
    next_peer: Cell<usize>,
}

/// For how long a worker has left closures to another.
#[derive(Default)]
struct Leaving {
    /// The time since which it leaves them, in ns on the system's clock; 0: it does not now.
    since_ns: Cell<u64>,
    /// How long it left them before it had something to run itself; that time does not count.
    before_ns: Cell<u64>,
    /// The number of fibers of the other worker, and how often this one has waited in vain since.
    left_to: Cell<(usize, u32)>,
}

impl Leaving {
    /// For how much longer it leaves closures to a worker that has `live` fibers.
    fn time_left(&self, live: usize, now_ns: u64) -> Duration {
        let (live_before, mut in_vain) = self.left_to.get();
        if live != live_before {
            in_vain = 0;
        }
        if self.since_ns.get() == 0 {
            self.since_ns.set(now_ns.saturating_sub(self.before_ns.take()));
        }
        let past = Duration::from_nanos(now_ns.saturating_sub(self.since_ns.get()));
        let time_left = (PATIENCE / (1 << in_vain)).saturating_sub(past);
        if time_left == Duration::ZERO {
            in_vain = (in_vain + 1).min(16);
        }
        self.left_to.set((live, in_vain));
        time_left
    }

    /// Stops the time, because the worker has something to run itself.
    #[inline]
    fn interrupt(&self, now_ns: impl FnOnce() -> u64) {
        let since = self.since_ns.take();
        if since != 0 {
            self.before_ns.set(now_ns().saturating_sub(since));
        }
    }

    fn end(&self) {
        self.since_ns.set(0);
        self.before_ns.set(0);
    }
}

/// The outcome of an attempt to take closures of others.
pub(super) enum Taken {
    First(&'static StrandHeader),
    /// Nothing yet: the worker leaves the closures to others for this time.
    LeftFor(Duration),
    Nothing,
}

impl Membership {
    /// Publishes whether this worker has nothing to run. A hint: nothing is lost if it is old.
    pub(super) fn set_idle(&self, is_idle: bool) {
        self.state().is_idle.store(is_idle, Ordering::Relaxed);
        self.spreading.in_a_row.set(0);
        if !is_idle {
            self.spreading.leaving.interrupt(monotonic_ns);
        }
    }

    /// Takes the next closure that any worker may start, for a worker that has `own` fibers.
    #[inline]
    pub(super) fn pop_to_start(&self, own: usize) -> Option<&'static StrandHeader> {
        let header = self.pop()?;
        let Spreading { before_start, in_a_row, .. } = &self.spreading;
        let has_stayed = own > before_start.replace(own);
        let count = in_a_row.replace(in_a_row.get() + 1);
        match has_stayed && own > MARGIN && count % GROUP == 0 {
            true => self.hand_over(own, header),
            false => Some(header),
        }
    }

    /// Hands closures to the next worker if that is idle and has fewer fibers. Returns the closure
    /// that is to start here.
    #[inline(never)]
    fn hand_over(&self, own: usize, first: &'static StrandHeader) -> Option<&'static StrandHeader> {
        let Some(peer) = self.next_idle_peer() else { return Some(first) };
        let theirs = self.workers.entries[peer].load();
        if !is_ahead(own, theirs) {
            return Some(first);
        }
        self.spreading.in_a_row.set(1);
        let mut next = Some(first);
        for _ in 0..(own - theirs).min(LARGEST_BATCH) / GROUP * GROUP {
            let Some(header) = next else { break };
            if !self.workers.hand_over(header, peer) {
                break;
            }
            next = self.pop();
        }
        next
    }

    /// The next of the others, in turn; `None` if that has something to run.
    fn next_idle_peer(&self) -> Option<usize> {
        let count = self.workers.len();
        let turn = self.spreading.next_peer.get() % (count - 1);
        self.spreading.next_peer.set(turn + 1);
        let peer = (self.index + 1 + turn) % count;
        let is_idle = self.workers.entries[peer].state.is_idle.load(Ordering::Relaxed);
        is_idle.then_some(peer)
    }

    /// Takes closures of other workers, for a worker that has `own` fibers.
    pub(super) fn steal(&self, own: usize) -> Taken {
        let mut search = self.search(own, own > self.spreading.enough.get());
        if let Search::Left(live) = search {
            let time_left = self.spreading.leaving.time_left(live, monotonic_ns());
            if time_left > Duration::ZERO {
                return Taken::LeftFor(time_left);
            }
            search = self.search(own, false);
        }
        self.spreading.leaving.end();
        let Search::Found(header) = search else { return Taken::Nothing };
        self.spreading.enough.set(own + self.len().div_ceil(2));
        Taken::First(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: u64 = PATIENCE.as_nanos() as u64 / 2;

    #[test]
    fn patience_ends_and_is_half_as_long_where_it_was_in_vain() {
        let leaving = Leaving::default();
        assert_eq!(leaving.time_left(9, 1), PATIENCE);
        assert_eq!(leaving.time_left(9, 1 + 2 * HALF), Duration::ZERO);
        leaving.end();
        assert_eq!(leaving.time_left(9, 7 * HALF), PATIENCE / 2);
        assert_eq!(leaving.time_left(8, 7 * HALF), PATIENCE, "that one has ended a fiber");
    }

    /// Else the next look, however much later, would find the time over.
    #[test]
    fn time_in_which_a_worker_has_something_to_run_does_not_count() {
        let leaving = Leaving::default();
        assert_eq!(leaving.time_left(9, 1), PATIENCE);
        leaving.interrupt(|| 1 + HALF);
        leaving.interrupt(|| unreachable!("it leaves nothing just now"));
        let later = 100 * HALF;
        assert_eq!(leaving.time_left(9, later), PATIENCE / 2);
        assert_eq!(leaving.time_left(9, later + HALF), Duration::ZERO);
    }
}
