//! The run queue of one worker: first in, first out, for this thread only.
//!
//! An entry carries, beside what is to run, an address near the top of its suspended stack. The
//! worker prefetches the entry a few places down while it runs the one at the head: with thousands
//! of fibers each stack has left the first-level cache by the time its turn comes round.
#![allow(unsafe_code)]

use std::{
    cell::{Cell, UnsafeCell},
    mem::MaybeUninit,
    ptr,
};

use super::Body;
use crate::strand::Slot;

/// What can be run next.
#[derive(Clone, Copy)]
pub(crate) enum Runnable {
    /// A fiber that has started, suspended on its own stack.
    Fiber(*const Body),
    /// A closure that has no stack yet.
    Fresh(&'static Slot),
    /// The code that waits on the worker's own stack.
    Root,
}

#[derive(Clone, Copy)]
struct Entry {
    /// The pointer with the kind in its low two bits; both kinds of memory are aligned to 8.
    tagged: *const (),
    warm: *const (),
}

const FIBER: usize = 0;
const FRESH: usize = 1;
const ROOT: usize = 2;
const TAG: usize = 3;

/// How many places down the queue the prefetch looks.
const AHEAD: usize = 3;

pub(crate) struct RunQueue {
    /// INVARIANT: the length is a power of two; the entries from `head` to `tail`, counted modulo
    /// the length, are initialised.
    entries: UnsafeCell<Box<[MaybeUninit<Entry>]>>,
    head: Cell<usize>,
    tail: Cell<usize>,
}

impl RunQueue {
    pub(crate) fn new() -> Self {
        RunQueue {
            entries: UnsafeCell::new(vec![MaybeUninit::uninit(); 64].into_boxed_slice()),
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tail.get().wrapping_sub(self.head.get())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn push_fiber(&self, body: *const Body, warm: *const ()) {
        self.push(Entry { tagged: body.cast(), warm });
    }

    #[inline]
    pub(crate) fn push_fresh(&self, slot: &'static Slot) {
        let slot: *const Slot = slot;
        self.push(Entry { tagged: slot.cast::<()>().map_addr(|a| a | FRESH), warm: slot.cast() });
    }

    pub(crate) fn push_root(&self) {
        self.push(Entry { tagged: ptr::without_provenance(ROOT), warm: ptr::null() });
    }

    #[inline]
    fn push(&self, entry: Entry) {
        // SAFETY: nothing below calls out, so this is the only borrow; the queue is not `Sync`.
        let mut entries = unsafe { &mut *self.entries.get() };
        if self.len() == entries.len() {
            self.grow();
            // SAFETY: as above; the borrow taken before `grow` is not used any more.
            entries = unsafe { &mut *self.entries.get() };
        }
        let tail = self.tail.get();
        let mask = entries.len() - 1;
        entries[tail & mask].write(entry);
        self.tail.set(tail.wrapping_add(1));
    }

    #[cold]
    fn grow(&self) {
        // SAFETY: as in `push`.
        let entries = unsafe { &mut *self.entries.get() };
        let mut larger = vec![MaybeUninit::uninit(); entries.len() * 2].into_boxed_slice();
        let (head, len) = (self.head.get(), self.len());
        for offset in 0..len {
            larger[offset] = entries[head.wrapping_add(offset) & (entries.len() - 1)];
        }
        *entries = larger;
        self.head.set(0);
        self.tail.set(len);
    }

    #[inline]
    fn entry(&self, position: usize) -> Entry {
        // SAFETY: nothing below calls out; the queue is not `Sync`.
        let entries = unsafe { &*self.entries.get() };
        // SAFETY: the callers pass positions between head and tail: initialised by the invariant.
        unsafe { entries[position & (entries.len() - 1)].assume_init() }
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<Runnable> {
        let len = self.len();
        if len == 0 {
            return None;
        }
        let head = self.head.get();
        let entry = self.entry(head);
        self.head.set(head.wrapping_add(1));
        if len > AHEAD {
            prefetch(self.entry(head.wrapping_add(AHEAD)));
        }
        Some(entry.decode())
    }

    /// Takes the head if it is a closure without a stack.
    #[inline]
    pub(crate) fn pop_fresh(&self) -> Option<&'static Slot> {
        if self.is_empty() {
            return None;
        }
        match self.entry(self.head.get()).decode() {
            Runnable::Fresh(slot) => {
                self.head.set(self.head.get().wrapping_add(1));
                Some(slot)
            }
            _ => None,
        }
    }
}

impl Entry {
    #[inline]
    fn decode(self) -> Runnable {
        let pointer = self.tagged.map_addr(|address| address & !TAG);
        match self.tagged.addr() & TAG {
            FIBER => Runnable::Fiber(pointer.cast()),
            // SAFETY: `push_fresh` made this entry from a `&'static Slot`.
            FRESH => Runnable::Fresh(unsafe { &*pointer.cast::<Slot>() }),
            _ => Runnable::Root,
        }
    }
}

/// Brings the first lines that a resume of this entry will touch nearer.
#[inline]
fn prefetch(entry: Entry) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let warm = entry.warm.cast::<i8>();
        for line in [0, 64, 128] {
            // SAFETY: a prefetch never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(warm.wrapping_add(line)) };
        }
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(entry.tagged.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = entry;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(n: usize) -> *const Body {
        ptr::without_provenance(n * 64)
    }

    #[test]
    fn keeps_the_order_while_it_grows_and_wraps() {
        let queue = RunQueue::new();
        let (mut pushed, mut popped) = (0, 0);
        for round in 1..200 {
            for _ in 0..round {
                pushed += 1;
                queue.push_fiber(body(pushed), ptr::null());
            }
            for _ in 0..round - round / 3 {
                popped += 1;
                match queue.pop() {
                    Some(Runnable::Fiber(found)) => assert_eq!(found, body(popped)),
                    _ => panic!("the queue holds {} entries", queue.len()),
                }
            }
        }
        assert_eq!(queue.len(), pushed - popped);
    }

    #[test]
    fn a_fresh_head_is_told_from_a_started_one() {
        let queue = RunQueue::new();
        assert!(queue.pop_fresh().is_none());
        queue.push_fiber(body(1), ptr::null());
        assert!(queue.pop_fresh().is_none());
        assert_eq!(queue.len(), 1);
        queue.push_root();
        assert!(matches!(queue.pop(), Some(Runnable::Fiber(_))));
        assert!(matches!(queue.pop(), Some(Runnable::Root)));
        assert!(queue.pop().is_none());
    }
}
