//! The timers of one worker: a heap with at most one live entry a strand.
//!
//! Deadlines arm nothing by themselves. A strand that parks with a deadline gets an entry only if
//! it has none that fires as early; when an entry fires and the strand's present deadline lies
//! later, the entry moves there. So a connection that reads a million times with a timeout of 30 s
//! touches the heap once in 30 s, not a million times.
//!
//! An entry is *stale* when its strand ended or armed an earlier one. Stale entries fall out when
//! they fire; when they make up most of the heap, a sweep throws them out.
//!
//! Cost: 16 bytes an entry; a million sleepers take 16 MB and some 20 levels.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{
    primitive::Ordering::Relaxed,
    strand::{FiberId, Slot, slot_at},
};

#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, FiberId)>>,
    stale: usize,
}

impl Timers {
    /// Sees to it that an entry fires for the strand at `deadline_ns` or before.
    #[inline]
    pub(crate) fn arm(&mut self, slot: &Slot, deadline_ns: u64) {
        let armed = slot.armed.load(Relaxed);
        if deadline_ns >= armed {
            return;
        }
        slot.armed.store(deadline_ns, Relaxed);
        self.heap.push(Reverse((deadline_ns, slot.id())));
        if armed != u64::MAX {
            self.stale += 1;
            self.sweep_if_mostly_stale();
        }
    }

    /// Notes that a strand with an armed entry has ended.
    pub(crate) fn forget(&mut self, slot: &Slot) {
        if slot.armed.load(Relaxed) != u64::MAX {
            slot.armed.store(u64::MAX, Relaxed);
            self.stale += 1;
            self.sweep_if_mostly_stale();
        }
    }

    /// The time of the next entry in ns; `u64::MAX`: there is none.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((deadline, _))| *deadline)
    }

    /// Takes out a strand whose entry fired at or before `now_ns`; it is unarmed then.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<&'static Slot> {
        while self.next_ns() <= now_ns {
            let Reverse(entry) = self.heap.pop()?;
            let slot = slot_at(entry.1.index());
            if is_live(entry, slot) {
                slot.armed.store(u64::MAX, Relaxed);
                return Some(slot);
            }
            self.stale = self.stale.saturating_sub(1);
        }
        None
    }

    fn sweep_if_mostly_stale(&mut self) {
        if self.stale < 64 || self.stale * 2 < self.heap.len() {
            return;
        }
        self.heap.retain(|Reverse(entry)| is_live(*entry, slot_at(entry.1.index())));
        self.stale = 0;
    }
}

fn is_live((deadline_ns, id): (u64, FiberId), slot: &Slot) -> bool {
    slot.id() == id && slot.armed.load(Relaxed) == deadline_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strand::FreeList;

    #[test]
    fn stale_entries_do_not_pile_up() {
        let (slots, mut timers) = (FreeList::new(), Timers::default());
        let slot = slots.take(false);
        // A long timeout that never fires, then a short one that does, again and again.
        for now in 0..100_000 {
            timers.arm(slot, now + 1_000_000);
            timers.arm(slot, now);
            assert!(timers.pop_due(now).is_some_and(|due| due.id() == slot.id()));
            assert!(timers.heap.len() < 200, "{} entries for one strand", timers.heap.len());
        }
        timers.arm(slot, u64::MAX - 1);
        timers.forget(slot);
        assert!(timers.pop_due(u64::MAX - 1).is_none());
    }
}
