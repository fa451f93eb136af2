//! How fibers spread over the workers of a runtime.
//!
//! Fibers stay where they start, and many wait as soon as they have started. So the worker that
//! starts a closure has its work from then on; and an idle worker takes longer to wake (5 us, or
//! until it gets a CPU) than another takes to start a hundred fibers that wait at once. Nor may one
//! that is awake take all closures that another spawns in a row. Hence:
//! - A worker that is about to start a closure for any worker, and is ahead ([`is_ahead`]) of an
//!   idle one, hands over as many closures as make the two even.
//! - A worker that looks for closures to steal leaves those of workers that it is ahead of, for
//!   [`PATIENCE`] at first: if they still lie there, it is behind a fiber that does not suspend,
//!   and the thief waits half as long the next time.
//!
//! Both only while earlier started closures have stayed: closures that end at once do not give a
//! worker more to do, and any idle worker may take them, however many other fibers each has.
//!
//! Closures go from queue to queue in the order in which they were spawned and some at a time, so
//! that neighbours, which often talk to one another, stay together.
//!
//! There is no race to fear: closures that are handed over arrive as placed ones do
//! ([`placed`](super::placed)), then lie where others may steal them; a worker that left one looks
//! again; and all numbers of others are hints, which may be old.

use std::{cell::Cell, time::Duration};

use ramie_driver::sys::monotonic_ns;

use super::{
    Roster, Seat, Worker,
    team::{GROUP, MARGIN, Search, is_ahead},
};
use crate::core::strand::StrandHeader;

/// How long a worker that has its share leaves closures to another, at first; each time in vain
/// halves it, until that one has started or ended a fiber.
const PATIENCE: Duration = Duration::from_millis(1);

/// As many closures as are handed over at a time; others get their turn in between.
const LARGEST_BATCH: usize = 32;

/// What a worker remembers of what it started.
#[derive(Default)]
pub(super) struct Spreading {
    /// How many fibers it had when it last started a closure that any worker could.
    before_start: Cell<usize>,
    /// How many it has started in a row since it was idle or handed some over.
    in_a_row: Cell<usize>,
    /// How many it has if half of what it last stole has ended.
    enough: Cell<usize>,
    leaving: Leaving,
    /// Which other worker is asked next whether it has less to do.
    next_mate: Cell<usize>,
}

/// How long a worker has left closures to another.
#[derive(Default)]
struct Leaving {
    /// Since when, in ns on the system's clock; 0: it does not now.
    since_ns: Cell<u64>,
    /// How long it did before it had something to run itself: that time does not count.
    before_ns: Cell<u64>,
    /// How many fibers the other one had, and how often it was left closures in vain meanwhile.
    left_to: Cell<(usize, u32)>,
}

impl Leaving {
    /// How long it will yet leave them to the one that has so many fibers.
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

    /// It has something to run itself.
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

/// What a worker found with the others.
pub(super) enum Looked {
    Found,
    /// Something that it leaves to others for so long.
    LeftFor(Duration),
    InVain,
}

impl Worker {
    /// Tells the others whether this worker has nothing to run.
    pub(super) fn set_idle(&self, is_idle: bool) {
        if self.has_team_mates
            && let (Some(roster), Some(seat)) = (&self.roster, &self.seat)
        {
            roster.set_idle(seat.index, is_idle);
            self.spreading.in_a_row.set(0);
            if !is_idle {
                self.spreading.leaving.interrupt(monotonic_ns);
            }
        }
    }

    /// Takes the next closure that any worker may start.
    #[inline]
    pub(super) fn pop_shared(&self, seat: &Seat) -> Option<&'static StrandHeader> {
        let header = seat.pop()?;
        let own = self.shared.live();
        let Spreading { before_start, in_a_row, .. } = &self.spreading;
        let has_stayed = own > before_start.replace(own);
        let count = in_a_row.replace(in_a_row.get() + 1);
        match self.roster() {
            Some(roster) if has_stayed && own > MARGIN && count % GROUP == 0 => {
                self.hand_over(roster, seat, header)
            }
            _ => Some(header),
        }
    }

    /// Hands closures to the next worker if that is idle and has fewer fibers; gives the one that
    /// is to start here.
    #[inline(never)]
    fn hand_over(
        &self,
        roster: &Roster,
        seat: &Seat,
        first: &'static StrandHeader,
    ) -> Option<&'static StrandHeader> {
        let Some(mate) = self.next_mate(roster, seat) else { return Some(first) };
        let (own, theirs) = (self.shared.live(), self.load_of(roster, mate));
        if !is_ahead(own, theirs) {
            return Some(first);
        }
        self.spreading.in_a_row.set(1);
        let mut next = Some(first);
        for _ in 0..(own - theirs).min(LARGEST_BATCH) / GROUP * GROUP {
            let Some(header) = next else { break };
            if !roster.hand_over(header, mate) {
                break;
            }
            next = seat.pop();
        }
        next
    }

    /// The others in turn, if idle.
    fn next_mate(&self, roster: &Roster, seat: &Seat) -> Option<usize> {
        let turn = self.spreading.next_mate.get() % (roster.len() - 1);
        self.spreading.next_mate.set(turn + 1);
        let mate = (seat.index + 1 + turn) % roster.len();
        roster.is_idle(mate).then_some(mate)
    }

    /// Takes closures of other workers.
    pub(super) fn steal(&self) -> Looked {
        let Some(seat) = &self.seat else { return Looked::InVain };
        let own = self.shared.live();
        let mut search = seat.steal(own, own > self.spreading.enough.get());
        if let Search::Left(live) = search {
            let time_left = self.spreading.leaving.time_left(live, monotonic_ns());
            if time_left > Duration::ZERO {
                return Looked::LeftFor(time_left);
            }
            search = seat.steal(own, false);
        }
        self.spreading.leaving.end();
        let Search::Found(header) = search else { return Looked::InVain };
        self.spreading.enough.set(own + seat.len().div_ceil(2));
        self.ready.push_fresh(header);
        // It runs first: from here nobody could steal it, from the other queue they can.
        self.prefers_fresh.set(false);
        Looked::Found
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
