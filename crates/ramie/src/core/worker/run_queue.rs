//! The run queue of one worker: first in, first out, for this thread only.
//!
//! A ring of words. A word is the address of a started fiber's [`FiberStack`], the length of a
//! *run* of closures without a stack (which are linked through their headers), or a mark for the
//! worker's root. So a million closures queued in a row take one word here, and no other memory
//! than their headers.
//!
//! # Prefetch
//! With thousands of fibers each stack has left the first-level cache by its next turn. So, while
//! the queue is long, each pop prefetches the `FiberStack` that is [`AHEAD`] places down, and
//! frames below it: a few lines if the next fibers are shallow, otherwise more. Places beyond the
//! tail hold old words, which does no harm, because a prefetch cannot fault.
//!
//! Fibers whose ops have completed may be much deeper, and the kernel's work evicts their stacks
//! from the cache even if there are only a hundred. They return through few of their frames before
//! they wait again. So the frames in which they continue are prefetched [`NEAR`] places down, when
//! the `FiberStack` has arrived. That reads the `FiberStack`, so it is done only for words between
//! head and tail.
//!
//! (A list linked through the stacks needs fewer instructions. It was tried and rejected, because
//! the load of the next link, from a line that is not in the cache, delays every switch.)
#![allow(unsafe_code)]

use std::{
    cell::Cell,
    ptr::{self, NonNull},
};

use super::{
    FiberStack,
    prefetch::{self, Prefetch},
};
use crate::core::{primitive::Ordering, strand::StrandHeader};

/// An entry of the run queue: a strand that can be run next.
#[derive(Clone, Copy)]
pub(crate) enum Next {
    /// A fiber that has started, suspended on its own stack.
    Fiber(*const FiberStack),
    /// A closure that has no stack yet.
    Fresh(&'static StrandHeader),
    /// The code that waits on the worker's own stack.
    Root,
}

impl Next {
    /// The header of the fiber.
    pub(crate) fn header(&self) -> Option<&'static StrandHeader> {
        match self {
            // SAFETY: a strand that can be run next is alive until it has run.
            Next::Fiber(stack) => Some(unsafe { &**stack }.header()),
            Next::Fresh(header) => Some(header),
            Next::Root => None,
        }
    }
}

/// A stack's address; or, by the low bits, a run with its length above them, or the root.
type Word = *const FiberStack;

const FIBER: usize = 0;
const FRESH: usize = 1;
const ROOT: usize = 2;
const TAG: usize = 3;
const ONE_FRESH: usize = 4;
const WORD: isize = size_of::<Word>() as isize;

/// How many places down the queue stacks are prefetched; that many words lie behind the ring's end.
const AHEAD: usize = 6;
/// How many places down the queue the frames of waits are prefetched, which reads the stack.
const NEAR: usize = 3;
/// The number of fibers from which prefetching pays; fewer stay in the first-level cache anyway.
const LONG: usize = 32;

/// Words in a new ring, and how many an empty one may keep through a quiet time.
const FIRST: usize = 32;
const KEPT: usize = 1024;

/// A place in the ring, by which a queued fiber is found again.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    /// The ring, as its start. Marks are compared and never read through.
    ring: NonNull<Word>,
    place: NonNull<Word>,
}

#[repr(C)]
pub(crate) struct RunQueue {
    /// INVARIANT: `start` to `end` plus `AHEAD` is one allocation of initialised words; `head` and
    /// `tail` lie from `start` to before `end`; equal, they mean that the queue is empty, and it is
    /// never full.
    start: Cell<NonNull<Word>>,
    end: Cell<NonNull<Word>>,
    head: Cell<NonNull<Word>>,
    tail: Cell<NonNull<Word>>,
    prefetch: Cell<Prefetch>,
    /// The closures of all runs, in order. INVARIANT: their number is the sum of the lengths of the
    /// runs in the ring.
    first_fresh: Cell<*const StrandHeader>,
    last_fresh: Cell<*const StrandHeader>,
}

fn allocate(len: usize) -> NonNull<Word> {
    let words: Box<[Word]> = vec![ptr::null(); len + AHEAD].into_boxed_slice();
    NonNull::from(Box::leak(words)).cast()
}

impl RunQueue {
    pub(crate) fn new() -> Self {
        let start = allocate(FIRST);
        RunQueue {
            start: Cell::new(start),
            // SAFETY: `FIRST` words were allocated.
            end: Cell::new(unsafe { start.add(FIRST) }),
            head: Cell::new(start),
            tail: Cell::new(start),
            prefetch: Cell::new(Prefetch::Nothing),
            first_fresh: Cell::new(ptr::null()),
            last_fresh: Cell::new(ptr::null()),
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get() == self.tail.get()
    }

    #[inline(always)]
    pub(crate) fn push_fiber(&self, stack: &FiberStack) {
        self.push(stack);
    }

    /// Queues an entry again that `pop` has returned.
    pub(crate) fn push_stack(&self, stack: *const FiberStack) {
        self.push(stack);
    }

    pub(crate) fn push_root(&self) {
        self.push(ptr::without_provenance(ROOT));
    }

    #[inline]
    pub(crate) fn push_fresh(&self, header: &'static StrandHeader) {
        header.link.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: null or a queued header; headers are never unmapped.
        match unsafe { self.last_fresh.get().as_ref() } {
            Some(last) => last.link.store(ptr::from_ref(header).cast_mut(), Ordering::Relaxed),
            None => self.first_fresh.set(header),
        }
        self.last_fresh.set(header);
        let last = self.before(self.tail.get());
        let word = read(last);
        if !self.is_empty() && word.addr() & TAG == FRESH {
            write(last, word.map_addr(|run| run + ONE_FRESH));
        } else {
            self.push(ptr::without_provenance(FRESH + ONE_FRESH));
        }
    }

    #[inline(always)]
    fn push(&self, word: Word) {
        let tail = self.tail.get();
        write(tail, word);
        let next = self.after(tail);
        self.tail.set(next);
        if next == self.head.get() {
            self.grow();
        }
    }

    #[inline(always)]
    fn after(&self, place: NonNull<Word>) -> NonNull<Word> {
        // SAFETY: `place` lies before `end`, so the next lies at most at `end`.
        let next = unsafe { place.add(1) };
        if next == self.end.get() { self.start.get() } else { next }
    }

    fn before(&self, place: NonNull<Word>) -> NonNull<Word> {
        let after_it = if place == self.start.get() { self.end.get() } else { place };
        // SAFETY: behind `start`, so the one before lies within the ring.
        unsafe { after_it.sub(1) }
    }

    /// Doubles a ring in which the last free place was just taken.
    #[cold]
    #[inline(never)]
    fn grow(&self) {
        let (start, head) = (self.start.get(), self.head.get());
        let len = self.capacity();
        let larger = allocate(len * 2);
        let mut from = head;
        for offset in 0..len {
            // SAFETY: `offset` lies within the new ring.
            write(unsafe { larger.add(offset) }, read(from));
            from = self.after(from);
        }
        free(start, len);
        self.start.set(larger);
        self.head.set(larger);
        // SAFETY: within the new allocation.
        self.tail.set(unsafe { larger.add(len) });
        // SAFETY: as above.
        self.end.set(unsafe { larger.add(len * 2) });
    }

    /// Whether the ring is much larger than an empty queue needs.
    pub(crate) fn has_surplus(&self) -> bool {
        self.is_empty() && self.capacity() > KEPT
    }

    /// Makes the ring of an empty queue small again.
    pub(crate) fn give_back_surplus(&self) {
        if self.has_surplus() {
            free(self.start.get(), self.capacity());
            let start = allocate(FIRST);
            self.start.set(start);
            self.head.set(start);
            self.tail.set(start);
            // SAFETY: `FIRST` words were allocated.
            self.end.set(unsafe { start.add(FIRST) });
        }
    }

    fn capacity(&self) -> usize {
        // SAFETY: both lie in one allocation, `end` behind `start`.
        unsafe { self.end.get().offset_from_unsigned(self.start.get()) }
    }

    #[inline(always)]
    pub(crate) fn pop(&self) -> Option<Next> {
        if self.is_empty() {
            return None;
        }
        let head = self.head.get();
        let word = read(head);
        if word.addr() & TAG == FIBER {
            self.head.set(self.after(head));
            let prefetch = self.prefetch.get();
            // Not one match, which would become a jump through a table.
            if prefetch != Prefetch::Nothing {
                self.prefetch_ahead(prefetch, head);
            }
            return Some(Next::Fiber(word));
        }
        Some(self.pop_other(head, word))
    }

    #[inline(never)]
    fn pop_other(&self, head: NonNull<Word>, word: Word) -> Next {
        if word.addr() & TAG == ROOT {
            self.head.set(self.after(head));
            return Next::Root;
        }
        Next::Fresh(self.pop_of_run(head, word))
    }

    /// Takes the head if it is a closure without a stack.
    #[inline]
    pub(crate) fn pop_fresh(&self) -> Option<&'static StrandHeader> {
        let head = self.head.get();
        let word = read(head);
        let is_fresh = !self.is_empty() && word.addr() & TAG == FRESH;
        is_fresh.then(|| self.pop_of_run(head, word))
    }

    #[inline]
    fn pop_of_run(&self, head: NonNull<Word>, word: Word) -> &'static StrandHeader {
        // SAFETY: the head is a run, so there is a first one; headers are never unmapped.
        let header = unsafe { &*self.first_fresh.get() };
        let next = header.link.load(Ordering::Relaxed);
        prefetch::line(next);
        self.first_fresh.set(next);
        if next.is_null() {
            self.last_fresh.set(ptr::null());
        }
        if word.addr() == FRESH + ONE_FRESH {
            self.head.set(self.after(head));
        } else {
            write(head, word.map_addr(|run| run - ONE_FRESH));
        }
        header
    }

    /// The number of strands that can be run; reads the whole ring.
    pub(super) fn len(&self) -> usize {
        let (mut place, mut count) = (self.head.get(), 0);
        while place != self.tail.get() {
            let word = read(place).addr();
            count += if word & TAG == FRESH { word / ONE_FRESH } else { 1 };
            place = self.after(place);
        }
        count
    }

    /// The number of entries; a run of closures is one.
    pub(super) fn entries(&self) -> usize {
        self.distance(self.head.get(), self.tail.get())
    }

    /// Marks the last entry, if it is a fiber.
    pub(super) fn mark_last_fiber(&self) -> Option<Mark> {
        let place = self.before(self.tail.get());
        let is_fiber = !self.is_empty() && read(place).addr() & TAG == FIBER;
        is_fiber.then(|| Mark { ring: self.start.get(), place })
    }

    /// The number of entries before the marked one; `None` if that one is not queued any more.
    pub(super) fn entries_ahead_of(&self, mark: Mark) -> Option<usize> {
        let ahead = self.distance(self.head.get(), mark.place);
        if mark.ring != self.start.get() || ahead >= self.entries() {
            return None;
        }
        // A run at the head counts as its closures, or a sample would look up after each of them,
        // and none could run in the place of the one before (91 ns a closure instead of 52).
        let head = read(self.head.get()).addr();
        let more = if head & TAG == FRESH { head / ONE_FRESH - 1 } else { 0 };
        Some(ahead + more)
    }

    /// The number of places from one place of the ring to another.
    fn distance(&self, from: NonNull<Word>, to: NonNull<Word>) -> usize {
        let places = to.addr().get().wrapping_sub(from.addr().get()).cast_signed() / WORD;
        let places = if places < 0 { places + self.capacity() as isize } else { places };
        places as usize
    }

    /// Finds out which prefetches pay; called now and then.
    pub(crate) fn measure(&self) {
        if !self.is_long() {
            return self.prefetch.set(Prefetch::Nothing);
        }
        let word = read((0..NEAR).fold(self.head.get(), |place, _| self.after(place)));
        if self.prefetch.get() != Prefetch::Waits && word.addr() & TAG == FIBER {
            // SAFETY: the queue is longer than `NEAR`, and a queued fiber is alive.
            self.prefetch.set(Prefetch::for_fibers_like(unsafe { &*word }));
        }
    }

    /// Finds out whether prefetching pays, after the queue has got fibers whose ops are complete.
    pub(crate) fn measure_waits(&self) {
        self.prefetch.set(if self.is_long() { Prefetch::Waits } else { Prefetch::Nothing });
    }

    fn is_long(&self) -> bool {
        self.entries() > LONG
    }

    #[inline(always)]
    fn prefetch_ahead(&self, prefetch: Prefetch, head: NonNull<Word>) {
        // SAFETY: `AHEAD` words lie behind the ring's end.
        let stack = read(unsafe { head.add(AHEAD) });
        prefetch::stack(stack);
        if prefetch == Prefetch::Waits {
            return self.prefetch_wait(head);
        }
        prefetch::few_frames(stack);
        if prefetch == Prefetch::Deep {
            prefetch::deeper_frames(stack);
        }
    }

    #[inline(always)]
    fn prefetch_wait(&self, head: NonNull<Word>) {
        // SAFETY: fewer than `AHEAD`, which lie behind the ring's end.
        let near = unsafe { head.add(NEAR) };
        let last = if self.tail.get() < head { self.end.get() } else { self.tail.get() };
        if near < last && read(near).addr() & TAG == FIBER {
            // SAFETY: it lies between head and tail: a queued fiber is alive.
            prefetch::frames_of_wait(unsafe { &*read(near) });
        }
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        free(self.start.get(), self.capacity());
    }
}

fn free(start: NonNull<Word>, len: usize) {
    let words = NonNull::slice_from_raw_parts(start, len + AHEAD);
    // SAFETY: the allocation came from `allocate` with this length, and nobody uses it any more.
    drop(unsafe { Box::from_raw(words.as_ptr()) });
}

#[inline(always)]
fn read(place: NonNull<Word>) -> Word {
    // SAFETY: callers pass places of the ring, which are initialised (invariant of `RunQueue`).
    unsafe { place.read() }
}

#[inline(always)]
fn write(place: NonNull<Word>, word: Word) {
    // SAFETY: callers pass places of the ring; nobody else refers to them.
    unsafe { place.write(word) };
}

#[cfg(test)]
mod tests;
