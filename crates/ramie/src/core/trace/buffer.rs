//! The events of one worker: one writer, any number of readers, no lock.
//!
//! # Protocol
//! Event number `n` lies in slot `n % capacity`. `head` is the number of events that are whole.
//!
//! The writer, which is the worker alone:
//! 1. a release fence,
//! 2. the words of event `head` (relaxed),
//! 3. `head` + 1 (release).
//!
//! A reader:
//! 1. `head` (acquire): all events below it are whole, unless they have been replaced since;
//! 2. the words of the events that it wants (relaxed);
//! 3. an acquire fence, and `head` again, as `now`: it drops the events whose slots the writer may
//!    have touched meanwhile, those below `now + 1 - capacity`.
//!
//! The words are atomics, so no access is a data race; a copy may only be a mixture of two events.
//! *The race to fear* is a mixture that the reader keeps, because the words contain addresses which
//! it follows. Assume that the reader has read a word of event `n`, from the slot of an older one.
//! The writer's fence before that word and the reader's fence behind its reads synchronise. So the
//! reader's second look at `head` sees what the writer had stored before the fence, which is `n` at
//! least, and the reader drops the event of that slot, which is `n - capacity`.
//!
//! A signal handler does not write events: it may wake no strand of its own thread, because that
//! would change the run queue in the middle of a change.

use crate::core::primitive::{AtomicU64, Ordering, fence};

/// The number of words of an event.
const WORDS: usize = 4;

/// An event: its time and kind, and three words to which the kind gives a meaning.
pub(crate) type EventWords = [u64; WORDS];

/// The events of one worker.
pub(crate) struct TraceBuffer {
    /// The events that are whole, counted since the buffer was made.
    head: AtomicU64,
    slots: Box<[[AtomicU64; WORDS]]>,
    /// The number of slots less 1; their number is a power of two.
    mask: u64,
    /// The clock of the events ([`ramie_driver::sys::ticks`]).
    pub(super) has_fast_ticks: bool,
}

/// The part of a buffer that a reader has copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CopiedEvents {
    /// The number of the first event.
    pub(crate) first: u64,
    /// The number of the next one, which was not copied.
    pub(crate) next: u64,
}

impl TraceBuffer {
    /// Makes a buffer of that many events, rounded up to a power of two.
    pub(crate) fn new(events: usize, has_fast_ticks: bool) -> Self {
        let count = events.next_power_of_two();
        let slot = |_| std::array::from_fn(|_| AtomicU64::new(0));
        let slots = (0..count).map(slot).collect();
        TraceBuffer { head: AtomicU64::new(0), slots, mask: count as u64 - 1, has_fast_ticks }
    }

    /// The number of events that have been written.
    pub(crate) fn written(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// The number of events that it holds.
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Adds an event. Called by the worker alone.
    #[inline]
    pub(crate) fn push(&self, event: EventWords) {
        // Relaxed: this thread has stored it.
        let head = self.head.load(Ordering::Relaxed);
        // The fence of step 1; see the protocol.
        fence(Ordering::Release);
        let slot = &self.slots[(head & self.mask) as usize];
        for (place, word) in slot.iter().zip(event) {
            place.store(word, Ordering::Relaxed);
        }
        // Release: a reader that sees the number sees the words.
        self.head.store(head + 1, Ordering::Release);
    }

    /// Appends the events from number `from` on to `events`, `most` at most, and without those that
    /// have been replaced.
    pub(crate) fn copy(
        &self,
        from: u64,
        most: usize,
        events: &mut Vec<EventWords>,
    ) -> CopiedEvents {
        let start = events.len();
        let head = self.head.load(Ordering::Acquire);
        let capacity = self.mask + 1;
        let first = from.max(head.saturating_sub(capacity)).min(head);
        let next = head.min(first.saturating_add(most as u64));
        let load = |slot: &[AtomicU64; WORDS]| {
            std::array::from_fn(|word| slot[word].load(Ordering::Relaxed))
        };
        // In two parts, if the events go past the end of the slots.
        let at = (first & self.mask) as usize;
        let length = (next - first) as usize;
        let until_end = length.min(self.slots.len() - at);
        events.extend(self.slots[at..at + until_end].iter().map(load));
        events.extend(self.slots[..length - until_end].iter().map(load));
        // The fence of step 3; see the protocol.
        fence(Ordering::Acquire);
        let now = self.head.load(Ordering::Relaxed);
        let whole = (now + 1).saturating_sub(capacity).clamp(first, next);
        events.drain(start..start + (whole - first) as usize);
        CopiedEvents { first: whole, next }
    }
}
