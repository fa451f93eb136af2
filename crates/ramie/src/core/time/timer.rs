//! The timers of one worker: a heap with at most one live entry per strand.
//!
//! Deadlines arm nothing by themselves. A strand that parks with a deadline gets an entry only if
//! it has none that fires as early; when an entry fires and the strand's present deadline lies
//! later, the entry moves there. So a connection that reads a million times with a timeout of 30 s
//! touches the heap once in 30 s, not a million times.
//!
//! The heap holds numbers of entries, and an entry has the address of its strand's [`FiberStack`].
//! An entry is *stale* when the strand has ended or has armed an earlier entry; then the address is
//! null, so no stack is read after its end. Stale entries are removed when they fire, or by a sweep
//! when they make up most of the heap.
//!
//! Cost: 24 bytes per entry; a million sleepers take 24 MB and some 20 levels.

use std::{cell::Cell, cmp::Reverse, collections::BinaryHeap};

use crate::core::worker::{FiberStack, prefetch};

/// The strand's part of its worker's timers: the number of its live entry and the time at which
/// that fires.
pub(crate) struct Armed {
    entry: Cell<u32>,
    deadline_ns: Cell<u64>,
}

impl Armed {
    pub(crate) const fn new() -> Self {
        Armed { entry: Cell::new(0), deadline_ns: Cell::new(u64::MAX) }
    }

    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.deadline_ns.get() != u64::MAX
    }
}

const KEPT_ENTRIES: usize = 1024;

#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// INVARIANT: an entry is null, or its stack is of this worker, alive and armed with it.
    entries: Vec<*const FiberStack>,
    unused: Vec<u32>,
    stale: usize,
}

impl Timers {
    /// Makes sure that an entry fires for the strand at `deadline_ns` or before.
    #[inline]
    pub(crate) fn arm(&mut self, stack: &FiberStack, deadline_ns: u64) {
        if deadline_ns >= stack.armed.deadline_ns.get() {
            return;
        }
        self.forget(stack);
        let entry = self.new_entry(stack);
        stack.armed.entry.set(entry);
        stack.armed.deadline_ns.set(deadline_ns);
        self.heap.push(Reverse((deadline_ns, entry)));
    }

    fn new_entry(&mut self, stack: *const FiberStack) -> u32 {
        if self.heap.is_empty() {
            // No number is in use, so memory that a busy time needed is released.
            self.entries.clear();
            self.unused.clear();
            self.entries.shrink_to(KEPT_ENTRIES);
            self.unused.shrink_to(KEPT_ENTRIES);
        }
        if let Some(entry) = self.unused.pop() {
            self.entries[entry as usize] = stack;
            return entry;
        }
        self.entries.push(stack);
        // Reserves room for all numbers now, while the list is empty, so that nothing is copied
        // when many fire.
        self.unused.reserve(self.entries.capacity());
        u32::try_from(self.entries.len() - 1)
            .expect("at most one timer per strand, and at most 2^28 strands")
    }

    /// Disarms a strand: it has ended, or arms an earlier entry.
    pub(crate) fn forget(&mut self, stack: &FiberStack) {
        if stack.armed.is_armed() {
            stack.armed.deadline_ns.set(u64::MAX);
            self.entries[stack.armed.entry.get() as usize] = std::ptr::null();
            self.stale += 1;
            self.sweep_if_mostly_stale();
        }
    }

    /// The number of strands with an entry.
    pub(crate) fn len(&self) -> usize {
        self.heap.len() - self.stale
    }

    /// The time of the next entry in ns; `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((deadline, _))| *deadline)
    }

    /// Takes out strands whose entries fired at or before `now_ns`, the earliest first, until `due`
    /// is full. They are disarmed.
    pub(crate) fn take_due<'a>(
        &mut self,
        now_ns: u64,
        room: &'a mut [*const FiberStack],
    ) -> &'a [*const FiberStack] {
        let mut count = 0;
        while count < room.len()
            && let Some(stack) = self.pop_due(now_ns)
        {
            room[count] = stack;
            count += 1;
        }
        &room[..count]
    }

    #[allow(unsafe_code)]
    fn pop_due(&mut self, now_ns: u64) -> Option<*const FiberStack> {
        while self.next_ns() <= now_ns {
            let Reverse((_, entry)) = self.heap.pop()?;
            self.unused.push(entry);
            let stack = std::mem::replace(&mut self.entries[entry as usize], std::ptr::null());
            // SAFETY: the invariant of `entries`.
            if let Some(armed) = unsafe { stack.as_ref() } {
                // The stack is read next, and is not in the cache if many strands sleep.
                prefetch::stack(stack);
                armed.armed.deadline_ns.set(u64::MAX);
                return Some(stack);
            }
            self.stale -= 1;
        }
        None
    }

    fn sweep_if_mostly_stale(&mut self) {
        if self.stale < 64 || self.stale * 2 < self.heap.len() {
            return;
        }
        let Timers { heap, entries, unused, .. } = self;
        heap.retain(|Reverse((_, entry))| {
            let is_live = !entries[*entry as usize].is_null();
            if !is_live {
                unused.push(*entry);
            }
            is_live
        });
        self.stale = 0;
        self.heap.shrink_to(self.heap.len() * 2 + KEPT_ENTRIES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::worker::{Shared, ThreadWaker};

    fn a_stack() -> FiberStack {
        FiberStack::of_thread(Shared::take(ThreadWaker::Thread(std::thread::current())))
    }

    fn take_one(timers: &mut Timers, now: u64) -> Option<*const FiberStack> {
        timers.take_due(now, &mut [std::ptr::null()]).first().copied()
    }

    #[test]
    fn a_forgotten_strand_is_unarmed_and_may_be_armed_again() {
        let (mut timers, stack) = (Timers::default(), a_stack());
        timers.arm(&stack, 10);
        timers.forget(&stack);
        assert!(!stack.armed.is_armed());
        timers.arm(&stack, 20);
        assert_eq!(timers.len(), 1);
        assert!(take_one(&mut timers, 19).is_none());
        assert_eq!(take_one(&mut timers, 20), Some(&raw const stack));
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn the_count_is_that_of_live_entries_through_a_sweep() {
        let mut timers = Timers::default();
        let stacks: Vec<_> = (0..300).map(|_| a_stack()).collect();
        let all = || stacks.iter().zip(1_u64..);
        all().for_each(|(stack, at)| timers.arm(stack, at));
        // A few stale entries are removed as they fire; when most of the heap is stale, a sweep
        // removes them.
        for count in [10, 250] {
            all().take(count).for_each(|(stack, _)| timers.forget(stack));
            assert_eq!(timers.len(), stacks.len() - count);
        }
        assert!(timers.heap.len() < 300, "no sweep removed the stale entries");
        for (stack, at) in all().skip(250) {
            assert_eq!(take_one(&mut timers, at), Some(std::ptr::from_ref(stack)));
            assert!(take_one(&mut timers, at).is_none(), "two entries fired at {at}");
        }
        assert_eq!((timers.len(), timers.stale), (0, 0));
        all().take(10).for_each(|(stack, at)| timers.arm(stack, at));
        timers.forget(&stacks[0]);
        assert_eq!(take_one(&mut timers, 2), Some(&raw const stacks[1]));
        assert_eq!((timers.len(), timers.stale), (8, 0));
    }

    #[test]
    fn numbers_are_used_again_while_a_timer_is_armed_all_along() {
        let mut timers = Timers::default();
        let stacks: Vec<_> = (0..101).map(|_| a_stack()).collect();
        timers.arm(&stacks[0], u64::MAX - 1);
        for now in 1..100 {
            stacks[1..].iter().for_each(|stack| timers.arm(stack, now));
            let (fire, forget) = stacks[1..].split_at(50);
            forget.iter().for_each(|stack| timers.forget(stack));
            fire.iter().for_each(|_| assert!(take_one(&mut timers, now).is_some()));
            assert!(take_one(&mut timers, now).is_none());
            assert!(timers.entries.len() <= 300, "{} numbers", timers.entries.len());
        }
        assert_eq!(take_one(&mut timers, u64::MAX - 1), Some(&raw const stacks[0]));
    }

    #[test]
    fn stale_entries_do_not_pile_up() {
        let (mut timers, stack) = (Timers::default(), a_stack());
        // A long timeout that never fires, then a short one that does, again and again.
        for now in 0..100_000 {
            timers.arm(&stack, now + 1_000_000);
            timers.arm(&stack, now);
            assert!(timers.pop_due(now).is_some_and(|due| std::ptr::eq(due, &raw const stack)));
            assert!(timers.heap.len() < 200, "{} entries for one strand", timers.heap.len());
            assert!(timers.entries.len() < 200, "{} entries kept", timers.entries.len());
        }
        timers.arm(&stack, u64::MAX - 1);
        timers.forget(&stack);
        assert!(timers.pop_due(u64::MAX - 1).is_none());
    }
}
