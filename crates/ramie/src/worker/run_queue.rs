//! The run queue of one worker: first in, first out, for this thread only.
//!
//! An entry of a fiber carries an address near the top of its suspended stack. The worker prefetches the entry a few places down while it runs the one at the head: with thousands
//! of fibers each stack has left the first-level cache by the time its turn comes round.
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    mem::MaybeUninit,
    ptr::{self, NonNull},
};

use super::Body;
use crate::{primitive::Ordering, strand::Slot};

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

/// `tagged` is a pointer with the kind in its low two bits; all kinds of memory are aligned to 8.
///
/// | kind | `tagged` | `warm` |
/// |---|---|---|
/// | `FIBER` | the body | the top of its suspended stack, a hint |
/// | `FRESH` | the first slot of a chain linked through `Slot::link` | the last slot of the chain |
/// | `ROOT` | - | - |
///
/// Closures queued one after another share an entry: a million of them need no more room here than
/// one, since each has its slot anyway.
#[derive(Clone, Copy)]
struct Entry {
    tagged: *const (),
    warm: *const (),
}

const FIBER: usize = 0;
const FRESH: usize = 1;
const ROOT: usize = 2;
const TAG: usize = 3;

/// How many places down the queue the prefetch of a stack looks, and how many that of the body
/// which says where the bottom of that stack is.
const STACK_AHEAD: usize = 3;
const BODY_AHEAD: usize = 6;

pub(crate) struct RunQueue {
    /// INVARIANT: points to `mask + 1` entries, a power of two, from `Box::into_raw` of a slice;
    /// those from `head` to `tail`, counted modulo their number, are initialised.
    entries: Cell<NonNull<MaybeUninit<Entry>>>,
    mask: Cell<usize>,
    head: Cell<usize>,
    tail: Cell<usize>,
}

fn allocate(len: usize) -> NonNull<MaybeUninit<Entry>> {
    let entries: Box<[MaybeUninit<Entry>]> = Box::new_uninit_slice(len);
    NonNull::from(Box::leak(entries)).cast()
}

impl RunQueue {
    pub(crate) fn new() -> Self {
        const START: usize = 64;
        RunQueue {
            entries: Cell::new(allocate(START)),
            mask: Cell::new(START - 1),
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.tail.get().wrapping_sub(self.head.get())
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(always)]
    pub(crate) fn push_fiber(&self, body: *const Body, warm: *const ()) {
        self.push(Entry { tagged: body.cast(), warm });
    }

    #[inline]
    pub(crate) fn push_fresh(&self, slot: &'static Slot) {
        let slot: *const Slot = slot;
        if let Some(last) = self.last_of_tail_chain() {
            last.link.store(slot.cast_mut(), Ordering::Relaxed);
            let tail = self.at(self.tail.get().wrapping_sub(1)).cast::<Entry>();
            // SAFETY: `last_of_tail_chain` found a live entry there.
            unsafe { (*tail.as_ptr()).warm = slot.cast() };
            return;
        }
        self.push(Entry { tagged: slot.cast::<()>().map_addr(|a| a | FRESH), warm: slot.cast() });
    }

    #[inline]
    fn last_of_tail_chain(&self) -> Option<&'static Slot> {
        if self.is_empty() {
            return None;
        }
        let entry = self.entry(self.tail.get().wrapping_sub(1));
        // SAFETY: an entry of this kind holds slots, which are never unmapped.
        (entry.tagged.addr() & TAG == FRESH).then(|| unsafe { &*entry.warm.cast::<Slot>() })
    }

    pub(crate) fn push_root(&self) {
        self.push(Entry { tagged: ptr::without_provenance(ROOT), warm: ptr::null() });
    }

    #[inline(always)]
    fn at(&self, position: usize) -> NonNull<MaybeUninit<Entry>> {
        // SAFETY: the mask keeps the offset within the allocation (invariant of `entries`).
        unsafe { self.entries.get().add(position & self.mask.get()) }
    }

    #[inline(always)]
    fn push(&self, entry: Entry) {
        if self.len() > self.mask.get() {
            self.grow();
        }
        let tail = self.tail.get();
        // SAFETY: within the allocation, and not one of the live entries, of which there are fewer
        // than places.
        unsafe { self.at(tail).write(MaybeUninit::new(entry)) };
        self.tail.set(tail.wrapping_add(1));
    }

    #[cold]
    #[inline(never)]
    fn grow(&self) {
        let old_len = self.mask.get() + 1;
        let larger = allocate(old_len * 2);
        for offset in 0..self.len() {
            let from = self.at(self.head.get().wrapping_add(offset)).as_ptr();
            // SAFETY: `offset` is below the new length.
            let to = unsafe { larger.add(offset) }.as_ptr();
            // SAFETY: one entry each, from a live place to a new allocation.
            unsafe { ptr::copy_nonoverlapping(from, to, 1) };
        }
        let (old, len) = (self.entries.replace(larger), self.len());
        free(old, old_len);
        self.mask.set(old_len * 2 - 1);
        self.head.set(0);
        self.tail.set(len);
    }

    #[inline(always)]
    fn entry(&self, position: usize) -> Entry {
        // SAFETY: within the allocation; nobody writes meanwhile, the queue is not `Sync`.
        let entry = unsafe { self.at(position).read() };
        // SAFETY: the callers pass positions between head and tail: initialised by the invariant.
        unsafe { entry.assume_init() }
    }

    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Runnable> {
        let len = self.len();
        if len == 0 {
            return None;
        }
        let head = self.head.get();
        let entry = self.entry(head);
        if entry.tagged.addr() & TAG == FRESH {
            return self.pop_fresh().map(Runnable::Fresh);
        }
        self.head.set(head.wrapping_add(1));
        if len > BODY_AHEAD {
            self.entry(head.wrapping_add(BODY_AHEAD)).prefetch();
            self.entry(head.wrapping_add(STACK_AHEAD)).prefetch_stack_bottom();
        }
        Some(entry.decode())
    }

    /// Takes the head if it is a closure without a stack.
    #[inline]
    pub(crate) fn pop_fresh(&self) -> Option<&'static Slot> {
        if self.is_empty() {
            return None;
        }
        let head = self.head.get();
        let entry = self.entry(head);
        let Runnable::Fresh(first) = entry.decode() else { return None };
        if ptr::eq(first, entry.warm.cast()) {
            self.head.set(head.wrapping_add(1));
            return Some(first);
        }
        let next = first.link.load(Ordering::Relaxed).cast_const();
        prefetch(next.cast());
        prefetch(next.wrapping_byte_add(64).cast());
        let entry = self.at(head).cast::<Entry>();
        // SAFETY: the head is a live entry, read above.
        unsafe { (*entry.as_ptr()).tagged = next.cast::<()>().map_addr(|a| a | FRESH) };
        Some(first)
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        free(self.entries.get(), self.mask.get() + 1);
    }
}

fn free(entries: NonNull<MaybeUninit<Entry>>, len: usize) {
    let slice = NonNull::slice_from_raw_parts(entries, len);
    // SAFETY: the allocation came from `allocate` with this length, and nobody uses it any more.
    drop(unsafe { Box::from_raw(slice.as_ptr()) });
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

impl Entry {
    /// Brings the lines nearer that a resume of this entry touches first: the body's hot line and
    /// the top of its suspended stack.
    #[inline(always)]
    fn prefetch(self) {
        prefetch(self.tagged);
        prefetch(self.warm);
        prefetch(self.warm.wrapping_byte_add(64));
    }

    /// Brings the bottom of the stack nearer, where the switch keeps its link to the worker. The
    /// body's hot line has been prefetched by now.
    #[inline(always)]
    fn prefetch_stack_bottom(self) {
        if self.tagged.addr() & TAG == FIBER {
            // SAFETY: an untagged entry holds the body of a live fiber.
            prefetch(unsafe { &*self.tagged.cast::<Body>() }.stack_bottom());
        }
    }
}

#[inline(always)]
fn prefetch(address: *const ()) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zeroed places of a body's size: the prefetch looks into them.
    struct Places(Vec<Place>);

    #[derive(Clone, Copy)]
    #[repr(align(64))]
    struct Place([u8; size_of::<Body>()]);

    impl Places {
        fn new(count: usize) -> Self {
            Places(vec![Place([0; size_of::<Body>()]); count])
        }

        fn body(&self, n: usize) -> *const Body {
            (&raw const self.0[n].0).cast()
        }
    }

    #[test]
    fn keeps_the_order_while_it_grows_and_wraps() {
        let queue = RunQueue::new();
        let places = Places::new(20_000);
        let (mut pushed, mut popped) = (0, 0);
        for round in 1..200 {
            for _ in 0..round {
                pushed += 1;
                queue.push_fiber(places.body(pushed), ptr::null());
            }
            for _ in 0..round - round / 3 {
                popped += 1;
                match queue.pop() {
                    Some(Runnable::Fiber(found)) => assert_eq!(found, places.body(popped)),
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
        let places = Places::new(1);
        queue.push_fiber(places.body(0), ptr::null());
        assert!(queue.pop_fresh().is_none());
        assert_eq!(queue.len(), 1);
        queue.push_root();
        assert!(matches!(queue.pop(), Some(Runnable::Fiber(_))));
        assert!(matches!(queue.pop(), Some(Runnable::Root)));
        assert!(queue.pop().is_none());
    }

    #[test]
    fn closures_in_a_row_share_an_entry_and_keep_their_order() {
        let slots = crate::strand::FreeList::new();
        let fresh: Vec<_> = (0..10).map(|_| slots.take(false)).collect();
        let queue = RunQueue::new();
        fresh[..4].iter().for_each(|slot| queue.push_fresh(slot));
        assert_eq!(queue.len(), 1);
        queue.push_root();
        fresh[4..].iter().for_each(|slot| queue.push_fresh(slot));
        assert_eq!(queue.len(), 3);
        let mut order = Vec::new();
        while let Some(next) = queue.pop() {
            if let Runnable::Fresh(slot) = next {
                order.push(slot.index());
            }
        }
        assert_eq!(order, fresh.iter().map(|slot| slot.index()).collect::<Vec<_>>());
    }
}
