//! The run queue of one worker: first in, first out, for this thread only.
//!
//! A list linked through what it holds, so that it neither grows nor fails: a started fiber is
//! linked through its body, a closure without a stack through its slot. A link is a pointer with
//! the kind of what it points to in its low bits.
//!
//! With thousands of fibers each stack has left the first-level cache by the time its turn comes
//! round. So the queue keeps a second pointer, `ahead`, a few places down, which moves on with every
//! pop, and prefetches there. It is lost when the queue gets shorter than that, and found again by
//! [`RunQueue::look_ahead`]. INVARIANT: `ahead` is null or a member of the queue behind the head.
#![allow(unsafe_code)]

use std::{cell::Cell, ptr};

use super::Body;
use crate::{
    primitive::{AtomicPtr, Ordering},
    strand::Slot,
};

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

/// A pointer to the link of the next member, tagged with the kind of that member.
pub(crate) type Link = AtomicPtr<()>;

const FIBER: usize = 0;
const FRESH: usize = 1;
const ROOT: usize = 2;
const TAG: usize = 3;

/// How many places down the queue the prefetch looks.
const AHEAD: usize = 4;

pub(crate) struct RunQueue {
    /// INVARIANT: null, or the tagged link of a member that stays in place until it is popped:
    /// bodies and slots do, and the root's link is boxed.
    head: Cell<*mut ()>,
    /// The link of the last member; meaningful while `head` is not null.
    tail: Cell<*const Link>,
    ahead: Cell<*mut ()>,
    root: Box<Link>,
}

impl RunQueue {
    pub(crate) fn new() -> Self {
        RunQueue {
            head: Cell::new(ptr::null_mut()),
            tail: Cell::new(ptr::null()),
            ahead: Cell::new(ptr::null_mut()),
            root: Box::new(Link::new(ptr::null_mut())),
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get().is_null()
    }

    #[inline(always)]
    pub(crate) fn push_fiber(&self, body: &Body) {
        self.push(body.link(), FIBER);
    }

    #[inline(always)]
    pub(crate) fn push_fresh(&self, slot: &'static Slot) {
        self.push(slot.queue_link(), FRESH);
    }

    pub(crate) fn push_root(&self) {
        self.push(&self.root, ROOT);
    }

    #[inline(always)]
    fn push(&self, link: &Link, kind: usize) {
        link.store(ptr::null_mut(), Ordering::Relaxed);
        let link: *const Link = link;
        let tagged = link.cast_mut().cast::<()>().map_addr(|address| address | kind);
        if self.is_empty() {
            self.head.set(tagged);
        } else {
            // SAFETY: the tail of a queue that is not empty is the link of a member.
            unsafe { &*self.tail.get() }.store(tagged, Ordering::Relaxed);
        }
        self.tail.set(link);
    }

    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Runnable> {
        let head = self.head.get();
        if head.is_null() {
            return None;
        }
        self.head.set(next_of(head));
        let ahead = self.ahead.get();
        if !ahead.is_null() {
            self.move_ahead(ahead);
        }
        Some(decode(head))
    }

    /// Takes the head if it is a closure without a stack.
    #[inline]
    pub(crate) fn pop_fresh(&self) -> Option<&'static Slot> {
        if self.head.get().addr() & TAG != FRESH {
            return None;
        }
        match self.pop() {
            Some(Runnable::Fresh(slot)) => Some(slot),
            _ => None,
        }
    }

    #[inline(always)]
    fn move_ahead(&self, ahead: *mut ()) {
        let next = next_of(ahead);
        self.ahead.set(next);
        if next.addr() & TAG == FIBER && !next.is_null() {
            // SAFETY: a member of the queue (invariant of `ahead`), of this kind.
            let body = unsafe { &*Body::of_link(next.cast_const().cast()) };
            prefetch(body.stack_bottom());
            prefetch(body.warm());
            prefetch(body.warm().wrapping_byte_add(64));
        }
    }

    /// Finds the place of the prefetch again, if the queue is long enough to have one.
    pub(crate) fn look_ahead(&self) {
        if !self.ahead.get().is_null() {
            return;
        }
        let mut ahead = self.head.get();
        for _ in 0..AHEAD {
            if ahead.is_null() {
                return;
            }
            ahead = next_of(ahead);
        }
        self.ahead.set(ahead);
    }
}

#[inline(always)]
fn link_of(tagged: *mut ()) -> *const Link {
    tagged.map_addr(|address| address & !TAG).cast_const().cast()
}

#[inline(always)]
fn next_of(tagged: *mut ()) -> *mut () {
    // SAFETY: callers pass members of the queue; their links stay in place until they are popped.
    unsafe { &*link_of(tagged) }.load(Ordering::Relaxed)
}

#[inline(always)]
fn decode(tagged: *mut ()) -> Runnable {
    let link = link_of(tagged);
    match tagged.addr() & TAG {
        FIBER => Runnable::Fiber(Body::of_link(link)),
        // SAFETY: `push_fresh` made this link from a `&'static Slot`.
        FRESH => Runnable::Fresh(unsafe { Slot::of_queue_link(link) }),
        _ => Runnable::Root,
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
    use crate::strand::FreeList;

    fn index(next: Option<Runnable>) -> Option<u32> {
        match next {
            Some(Runnable::Fresh(slot)) => Some(slot.index()),
            Some(_) => Some(u32::MAX),
            None => None,
        }
    }

    #[test]
    fn keeps_the_order_through_every_length_and_look_ahead() {
        let slots = FreeList::new();
        let fresh: Vec<_> = (0..500).map(|_| slots.take(false)).collect();
        let queue = RunQueue::new();
        let (mut pushed, mut popped) = (0, 0);
        for round in 1..30 {
            for _ in 0..round {
                queue.push_fresh(fresh[pushed]);
                pushed += 1;
            }
            queue.look_ahead();
            for _ in 0..round - round / 3 {
                assert_eq!(index(queue.pop()), Some(fresh[popped].index()));
                popped += 1;
            }
        }
        while let Some(found) = index(queue.pop()) {
            assert_eq!(found, fresh[popped].index());
            popped += 1;
        }
        assert_eq!(pushed, popped);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_fresh_head_is_told_from_the_root() {
        let slots = FreeList::new();
        let slot = slots.take(false);
        let queue = RunQueue::new();
        assert!(queue.pop_fresh().is_none());
        queue.push_root();
        queue.push_fresh(slot);
        assert!(queue.pop_fresh().is_none());
        assert_eq!(index(queue.pop()), Some(u32::MAX));
        assert!(queue.pop_fresh().is_some_and(|found| ptr::eq(found, slot)));
        assert!(queue.pop().is_none());
    }
}
