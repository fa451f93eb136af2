//! How fibers spread over the workers of a runtime.
//!
//! A fiber stays on the worker that starts it, and many fibers wait as soon as they have started,
//! so the starts decide how the later work is spread. An idle worker takes long to wake (5 us, or
//! until it gets a CPU); meanwhile another starts a hundred fibers that wait at once. And a worker
//! that is awake must not take all closures that another spawns in a row. Hence three rules:
//! - A worker that is about to start a group of closures, and has more fibers than an idle worker,
//!   hands over as many closures as make the two even.
//! - An idle worker that has its share leaves the closures of others alone, at first for
//!   [`PATIENCE`]. If they are still there then, they are behind a fiber that does not suspend, and
//!   the thief waits half as long the next time.
//! - A worker that is not idle, but has far fewer fibers than another, takes closures of that one
//!   when it polls, because a worker whose few fibers always have something to do is never idle.
//!
//! The first two rules apply only while earlier started closures have stayed. Closures that end at
//! once give a worker no more to do, so any idle worker may take them, however many fibers it has.
//!
//! # Groups
//! Neighbours often talk to one another. A pipe whose ends are on two workers costs both of them
//! more system calls, because each waits for the end that the other worker moves. So closures move
//! from queue to queue in the order in which they were spawned and, if possible, in whole groups of
//! [`GROUP`]: a thief takes the rest of a group that it has parted, and a worker starts a group in
//! a row, before suspended fibers have their turn again. A thief that has many fibers waits until
//! the worker has started the group, but at most [`GROUP_PATIENCE`], because the worker may be
//! kept by a closure that does not suspend; then the group is parted. Measured with 48 pipes whose
//! 96 fibers are spawned in a row on two workers, relative to a bare ring: uneven and parted 1.26,
//! even 1.17, even and in groups 1.1. A single parted pair costs 11 to 19 % more enters.
//!
//! There is no race to fear. Closures that are handed over arrive as placed ones do
//! ([`placed`](super::placed)), then others may steal them; a worker that left a closure looks
//! again; and all numbers of other workers are hints, which may be old.

use std::{cell::Cell, time::Duration};

use ramie_driver::sys::monotonic_ns;

use super::{
    Membership, Shared,
    stealing::{FEW, GROUP, Search},
};
use crate::core::{
    primitive::{Ordering, pause},
    strand::StrandHeader,
};

/// How long a worker that has its share leaves closures to another worker at first. Each wait in
/// vain halves the time, until the other worker has started or ended a fiber.
const PATIENCE: Duration = Duration::from_millis(1);

/// How long a thief that has many fibers waits for a worker to start the rest of a group; four
/// starts take 5 to 20 us. It looks again after this number of pauses.
const GROUP_PATIENCE: Duration = Duration::from_micros(50);
const SPIN: u32 = 8;

/// The most closures that are handed over at a time, so that other fibers run in between.
const LARGEST_BATCH: usize = 32;

/// What a worker remembers of the closures that it started and left.
#[derive(Default)]
pub(super) struct Spreading {
    /// The number of its fibers when it last started a closure that any worker could start.
    before_start: Cell<usize>,
    /// The number of its fibers if half of those that it last stole have ended.
    enough: Cell<usize>,
    leaving: Leaving,
    /// The worker for whose group this one has last waited in vain, and its number of fibers then.
    unfinished_group: Cell<Option<(usize, usize)>>,
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
        if !self.has_peers() {
            return;
        }
        self.state().is_idle.store(is_idle, Ordering::Relaxed);
        if !is_idle {
            self.spreading.leaving.interrupt(monotonic_ns);
        }
    }

    /// Takes the next closure that any worker may start, for a worker that has `own` fibers.
    #[inline]
    pub(super) fn pop_to_start(&self, own: usize) -> Option<&'static StrandHeader> {
        let Some(header) = self.pop() else {
            self.set_queued(0);
            return None;
        };
        let has_stayed = own > self.spreading.before_start.replace(own);
        match has_stayed && own > FEW && self.place_in_group() == 1 {
            true => self.hand_over(own, header),
            false => Some(header),
        }
    }

    /// The number of closures of the current group that have left this worker's queue; 0: all.
    #[inline]
    pub(super) fn place_in_group(&self) -> usize {
        self.workers.entries[self.index].place_in_group()
    }

    #[inline]
    fn set_queued(&self, queued: usize) {
        let counter = &self.state().queued;
        // The loop comes here often, and thieves read the line.
        if counter.load(Ordering::Relaxed) != queued {
            counter.store(queued, Ordering::Relaxed);
        }
    }

    /// Hands closures to the next worker if that is idle and has fewer fibers. Returns the closure
    /// that is to start here.
    #[inline(never)]
    fn hand_over(&self, own: usize, first: &'static StrandHeader) -> Option<&'static StrandHeader> {
        let peer = self.next_peer();
        let entry = &self.workers.entries[peer];
        if !entry.state.is_idle.load(Ordering::Relaxed) {
            return Some(first);
        }
        let mut next = Some(first);
        for _ in 0..own.saturating_sub(entry.load()).min(LARGEST_BATCH) / GROUP * GROUP {
            let Some(header) = next else { break };
            if !self.workers.hand_over(header, peer) {
                break;
            }
            next = self.pop();
        }
        next
    }

    /// The next of the others, in turn.
    fn next_peer(&self) -> usize {
        let count = self.workers.len();
        let turn = self.spreading.next_peer.get() % (count - 1);
        self.spreading.next_peer.set(turn + 1);
        (self.index + 1 + turn) % count
    }

    /// Takes closures of other workers, for a worker that has `own` fibers.
    pub(super) fn steal(&self, own: usize) -> Taken {
        if own > FEW {
            self.await_group(GROUP_PATIENCE);
        }
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
        self.note_stolen(own);
        Taken::First(header)
    }

    /// If the worker whose closures are the next to be stolen is in the middle of a group, waits
    /// until that worker has started the group, or for `patience`. After a wait in vain, does not
    /// wait for the worker again until the number of its fibers has changed.
    fn await_group(&self, patience: Duration) {
        let (count, entries) = (self.workers.len(), &self.workers.entries);
        let mut others = (1..count).map(|offset| (self.index + offset) % count);
        let has_any = |&other: &usize| !entries[other].stealer.is_empty();
        let Some(index) = others.find(has_any) else { return };
        let victim = &entries[index];
        let is_within_group = || victim.place_in_group() != 0 && !victim.stealer.is_empty();
        let in_vain = || Some((index, victim.shared().map_or(0, Shared::live)));
        if !is_within_group() || self.spreading.unfinished_group.get() == in_vain() {
            return;
        }
        let end_ns = monotonic_ns().saturating_add(patience.as_nanos() as u64);
        while is_within_group() {
            if monotonic_ns() >= end_ns {
                return self.spreading.unfinished_group.set(in_vain());
            }
            pause(SPIN);
        }
    }

    /// Takes closures of the next worker if that has far more to do, for a worker that has `own`
    /// fibers and is not idle.
    #[inline(never)]
    pub(super) fn steal_surplus_of_next(&self, own: usize) -> Option<&'static StrandHeader> {
        if !self.is_empty() {
            return None;
        }
        let header = self.steal_surplus(self.next_peer(), own)?;
        self.note_stolen(own);
        Some(header)
    }

    fn note_stolen(&self, own: usize) {
        self.spreading.enough.set(own + self.len().div_ceil(2));
        // The first one of a group is not in the queue any more.
        self.set_queued(self.len() + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, mpsc},
        thread,
    };

    use super::*;
    use crate::core::{
        strand::FreeList,
        worker::{Pool, ThreadWaker, Workers},
    };

    const HALF: u64 = PATIENCE.as_nanos() as u64 / 2;

    /// Otherwise the closures that it leaves, and those that it moves behind its own fibers, would
    /// wait for it although another worker sleeps.
    #[test]
    fn a_thief_that_is_not_idle_passes_the_search_on() {
        let members = Workers::new(3, None, Arc::new(Pool::new(1))).1;
        let [spawner, thief, sleeper] = &members[..] else { unreachable!("3 members") };
        let headers = FreeList::new();
        for _ in 0..4 * GROUP {
            spawner.share(headers.take(false).expect("memory for a header"));
        }
        sleeper.announce_sleep();
        let mut looks = (0..2).filter_map(|_| thief.steal_surplus_of_next(0));
        assert!(looks.next().is_some(), "one of the two others has far more");
        assert!(!sleeper.state().is_asleep.load(Ordering::Relaxed), "it is woken to search");
    }

    #[test]
    fn a_worker_that_has_its_share_leaves_closures_to_others() {
        let members = Workers::new(2, None, Arc::new(Pool::new(1))).1;
        let [spawner, thief] = &members[..] else { unreachable!("2 members") };
        let headers = FreeList::new();
        for _ in 0..2 * GROUP {
            spawner.share(headers.take(false).expect("memory for a header"));
        }
        let many = 4 * FEW;
        assert!(matches!(thief.search(many, true), Search::Left(0)), "it has more fibers");
        assert_eq!(spawner.len(), 2 * GROUP);
        assert!(matches!(thief.search(FEW, true), Search::Found(_)), "it has few");
        assert!(matches!(thief.search(many, false), Search::Found(_)), "it waited in vain");
    }

    /// A worker whose queue begins in the middle of a group, and a thief.
    fn within_a_group() -> [Membership; 2] {
        let members = Workers::new(2, None, Arc::new(Pool::new(1))).1;
        let [owner, thief] = members.try_into().ok().expect("2 members");
        let headers = FreeList::new();
        for _ in 0..4 * GROUP {
            owner.share(headers.take(false).expect("memory for a header"));
        }
        owner.pop().expect("it was shared");
        [owner, thief]
    }

    #[test]
    fn a_thief_waits_until_a_group_is_started() {
        let [owner, thief] = within_a_group();
        thief.await_group(Duration::ZERO);
        assert_eq!(thief.spreading.unfinished_group.take(), Some((0, 0)), "it has to wait");
        let (begins, has_begun) = mpsc::channel();
        let workers = Arc::clone(&owner.workers);
        let waits = thread::spawn(move || {
            begins.send(()).expect("the test waits");
            thief.await_group(Duration::MAX);
            workers.entries[0].place_in_group()
        });
        has_begun.recv().expect("the thief begins");
        for _ in 1..GROUP {
            assert!(!waits.is_finished(), "the thief parts the group");
            owner.pop().expect("it was shared");
        }
        assert_eq!(waits.join().expect("no panic"), 0, "the thief parts the group");
    }

    #[test]
    fn a_thief_waits_in_vain_only_once() {
        let [owner, thief] = within_a_group();
        thief.await_group(Duration::ZERO);
        // This would not end.
        thief.await_group(Duration::MAX);
        let shared = Shared::take(ThreadWaker::Thread(thread::current()));
        owner.register(shared);
        shared.set_live(1);
        thief.await_group(Duration::ZERO);
        assert_eq!(thief.spreading.unfinished_group.get(), Some((0, 1)), "it waited again");
    }

    #[test]
    fn patience_ends_and_is_half_as_long_where_it_was_in_vain() {
        let leaving = Leaving::default();
        assert_eq!(leaving.time_left(9, 1), PATIENCE);
        assert_eq!(leaving.time_left(9, 1 + 2 * HALF), Duration::ZERO);
        leaving.end();
        assert_eq!(leaving.time_left(9, 7 * HALF), PATIENCE / 2);
        assert_eq!(leaving.time_left(8, 7 * HALF), PATIENCE, "that one has ended a fiber");
    }

    /// Otherwise the time would be over at the next look, however much later that is.
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
