//! The header: the cache line that a strand owns from spawn to join.
//!
//! # Access to the fields
//! Headers are type-stable: the memory of a header is never unmapped and never becomes anything
//! else, so a stale reference may always look at the atomic words and be turned away by them.
//!
//! | field | written by |
//! |---|---|
//! | `word` | anyone, by compare-and-swap under the protocol below |
//! | `link` | the thread that holds the right to start or to schedule the strand, or the free list |
//! | `join` | the strand's end and the holder of its handle, by the protocol in `core/wait/completion.rs` |
//! | `stack` | the spawner, with the tagged location of the spawn; the worker that starts the strand, before the strand first waits; read by the winner of the claim of a wait, and by dumps |
//! | `table` | the spawner; the worker that runs the strand, with its outcome; read by their owners and by watchdogs |
//! | the other cells | the worker that runs the strand; before the start, the spawner; after `join` is done, the holder of the handle |
//!
//! Data that a strand needs only while it runs or waits lies in its [`FiberStack`]. So a closure
//! that has no stack yet occupies this cache line and nothing else.
//!
//! # The wait word
//! `generation:32 | epoch:24 | token:1 | parking:1 | cancellable:1 | 0:2 | state:3`
//!
//! | state | changed by | to |
//! |---|---|---|
//! | `RUNNING` (also: runnable) | the strand: [`StrandHeader::begin_wait`] | `WAITING`, epoch + 1 |
//! | `WAITING` | the winner of the compare-and-swap in [`StrandHeader::claim`], [`StrandHeader::unpark`] or [`StrandHeader::cancel`] | [`Wake::Woken`], [`Wake::TimedOut`], [`Wake::Cancelled`] |
//! | [`Wake::Woken`], [`Wake::TimedOut`], [`Wake::Cancelled`] | the strand, by beginning its next wait | `WAITING`, epoch + 1 |
//!
//! The winner of the compare-and-swap, and nobody else, schedules the strand. Until it does, the
//! strand stays suspended, so the frame in which the strand waits does not change: the winner may
//! still read from that frame, and must have finished reading before it schedules the strand.
//!
//! *The race to fear*: a waker holds a reference to a wait that is over, and the strand is in its
//! next wait by now. The epochs differ, so the waker does not even try the compare-and-swap.
//!
//! ## Memory ordering
//! Beginning a wait, claiming it and cancelling it are relaxed, because the word decides the winner
//! and carries nothing else:
//! - Writes of the strand before its wait are visible to a waker, because the waker received the
//!   reference, or found the entry in a scope's list, under a lock or through a word that was
//!   released and acquired.
//! - Writes of the winner, before or after its claim, are visible to the strand, because the winner
//!   schedules it through its worker's inbox, or runs on the same thread. Until it is scheduled,
//!   the strand looks at nothing but the word itself.
//!
//! Park and unpark are different. An id may reach the caller of `unpark` before the strand has
//! started, so the word itself makes `stack` visible to that caller. The token, like std's, makes
//! the writes before the `unpark` visible to the parked strand.

use std::{mem::MaybeUninit, panic::Location, ptr};

use super::{
    FiberId, WakeRef,
    attributes::AttributesWord,
    id::{EPOCH_MASK, THREAD_TAG},
    job::JobTable,
    slab,
};
use crate::core::{
    primitive::{AtomicPtr, AtomicU64, Cell, Ordering, PointerCell},
    wait::completion::Completion,
    worker::FiberStack,
};

const STATE: u64 = 0b111;
const RUNNING: u64 = 0;
const WAITING: u64 = 1;
/// Set while [`StrandHeader::cancel`] may end the wait.
const CANCELLABLE: u64 = 1 << 5;
const PARKING: u64 = 1 << 6;
const TOKEN: u64 = 1 << 7;
const EPOCH_SHIFT: u32 = 8;
const GENERATION_SHIFT: u32 = 32;

/// The reason for which a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Wake {
    Woken = 2,
    TimedOut = 3,
    Cancelled = 4,
}

/// The result of [`StrandHeader::unpark`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unpark {
    /// The strand was parked: the caller schedules it.
    Schedule,
    /// The token is stored for the next park, or the strand has ended.
    Nothing,
}

/// Set in `stack` while it holds a location instead of a stack.
const IS_LOCATION: usize = 1;
const _: () = assert!(align_of::<Location<'static>>() > IS_LOCATION);

/// Room for a small closure, a small value, or the two words of a panic's payload.
pub(super) const INLINE_WORDS: usize = 2;

/// The memory of one strand.
#[repr(C, align(64))]
pub(crate) struct StrandHeader {
    pub(super) word: AtomicU64,
    pub(crate) link: AtomicPtr<StrandHeader>,
    pub(crate) join: Completion,
    pub(crate) stack: PointerCell<FiberStack>,
    pub(super) table: PointerCell<JobTable>,
    pub(crate) attributes: AttributesWord,
    pub(super) payload: Cell<[MaybeUninit<u64>; INLINE_WORDS]>,
}

// SAFETY: a cell is touched only by the thread that owns that part of the header at that time: see
// the table "Access to the fields" in the module's doc. All other fields are atomic.
#[allow(unsafe_code)]
unsafe impl Sync for StrandHeader {}

impl StrandHeader {
    /// Takes a header off a free list into use.
    pub(super) fn open(&self, is_thread: bool) {
        let tag = if is_thread { THREAD_TAG } else { 0 };
        let old = self.word.load(Ordering::Relaxed);
        // Memory that was never used is zeroed; `retire` has counted each use.
        let generation = ((old >> GENERATION_SHIFT) as u32 & !THREAD_TAG).max(1);
        let epoch = old & (EPOCH_MASK << EPOCH_SHIFT);
        let word = u64::from(generation | tag) << GENERATION_SHIFT | epoch | RUNNING;
        // Relaxed: other threads learn the new generation through the spawn's own hand-over, and a
        // thread that still holds an old generation is turned away by either value.
        self.word.store(word, Ordering::Relaxed);
        self.join.reset();
        self.stack.set(ptr::null());
        self.table.set(ptr::null());
    }

    /// Makes every outstanding id and wait reference of this header stale. Returns whether the
    /// header may be used again: after 2^31 uses its ids would repeat, so it is not.
    #[inline]
    #[must_use]
    pub(crate) fn retire(&self) -> bool {
        let old = self.word.load(Ordering::Relaxed);
        let new = (old & !(STATE | PARKING | TOKEN)).wrapping_add(1 << GENERATION_SHIFT);
        // A plain store, which is 5 ns cheaper than a compare-and-swap. No wait is left, so the
        // only change that others may make is to set the token. The token is lost in either case:
        // this store overwrites it, or their compare-and-swap fails because the word has changed.
        self.word.store(new, Ordering::Release);
        (old >> GENERATION_SHIFT) as u32 & !THREAD_TAG < THREAD_TAG - 2
    }

    /// Notes where a strand that has not started was spawned.
    #[inline(always)]
    pub(crate) fn note_spawn(&self, location: &'static Location<'static>) {
        let tagged = ptr::from_ref(location).map_addr(|address| address | IS_LOCATION);
        self.stack.set(tagged.cast());
    }

    /// Forgets the location of the spawn, because the strand will never start.
    pub(super) fn forget_spawn(&self) {
        self.stack.set(ptr::null());
    }

    /// The stack of a strand that has started; null before that.
    #[inline(always)]
    pub(crate) fn stack_if_started(&self) -> *const FiberStack {
        let stack = self.stack.get();
        if stack.addr() & IS_LOCATION == 0 { stack } else { ptr::null() }
    }

    /// Where a strand that has not started was spawned.
    #[inline(always)]
    pub(crate) fn spawned_at(&self) -> Option<&'static Location<'static>> {
        spawned_at(self.stack.get())
    }

    /// The number of full waits that have begun in this header, modulo 2^24, over all its strands.
    pub(crate) fn epoch(&self) -> u32 {
        ((self.word.load(Ordering::Relaxed) >> EPOCH_SHIFT) & EPOCH_MASK) as u32
    }

    #[inline(always)]
    pub(crate) fn index(&self) -> u32 {
        slab::index_of(self)
    }

    pub(crate) fn id(&self) -> FiberId {
        FiberId::new(self.index(), self.generation())
    }

    /// [`id`](Self::id) as a word, without the check that it is not 0: locks compare their owners
    /// by it.
    #[inline(always)]
    pub(crate) fn id_bits(&self) -> u64 {
        FiberId::bits(self.index(), self.generation())
    }

    #[inline(always)]
    fn generation(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> GENERATION_SHIFT) as u32
    }

    /// Begins a wait and returns the reference to it.
    #[inline(always)]
    pub(crate) fn begin_wait(&self) -> WakeRef {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            let epoch = ((old >> EPOCH_SHIFT) + 1) & EPOCH_MASK;
            let keep = old & (u64::from(u32::MAX) << GENERATION_SHIFT | TOKEN);
            let new = keep | epoch << EPOCH_SHIFT | WAITING;
            // Relaxed: see "Memory ordering" in the module's doc.
            match self.word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return WakeRef::new(self.index(), epoch),
                Err(now) => old = now,
            }
        }
    }

    /// Begins a wait for the token of `unpark`. Returns `None` if the token was set, and clears it.
    #[inline(always)]
    pub(crate) fn begin_park(&self) -> Option<WakeRef> {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            let generation = old & (u64::from(u32::MAX) << GENERATION_SHIFT);
            let had_token = old & TOKEN != 0;
            let epoch = ((old >> EPOCH_SHIFT) + u64::from(!had_token)) & EPOCH_MASK;
            let state = if had_token { RUNNING } else { WAITING | PARKING };
            let new = generation | epoch << EPOCH_SHIFT | state;
            // AcqRel: a token synchronises with the `unpark` that gave it, as in std; and an
            // `unpark` that ends the park sees `stack`.
            match self.word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if had_token => return None,
                Ok(_) => return Some(WakeRef::new(self.index(), epoch)),
                Err(now) => old = now,
            }
        }
    }

    /// Tries to end the wait that `wait` names; the winner must schedule the strand.
    #[inline]
    pub(crate) fn claim(&self, wait: WakeRef, reason: Wake) -> bool {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            let epoch = (old >> EPOCH_SHIFT) & EPOCH_MASK;
            if old & STATE != WAITING || epoch != wait.epoch() {
                return false;
            }
            let new = old & !(STATE | PARKING | CANCELLABLE) | reason as u64;
            // Relaxed: see "Memory ordering" in the module's doc.
            match self.word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => old = now,
            }
        }
    }

    /// Gives the token to the strand of that generation, or ends its park.
    #[inline]
    pub(crate) fn unpark(&self, generation: u32) -> Unpark {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            if (old >> GENERATION_SHIFT) as u32 != generation {
                return Unpark::Nothing;
            }
            let parked = old & (STATE | PARKING) == WAITING | PARKING;
            let new =
                if parked { old & !(STATE | PARKING) | Wake::Woken as u64 } else { old | TOKEN };
            // AcqRel even if the token was set already: this call's writes must be visible to the
            // park that consumes the token.
            match self.word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if parked => return Unpark::Schedule,
                Ok(_) => return Unpark::Nothing,
                Err(now) => old = now,
            }
        }
    }

    /// Lets [`StrandHeader::cancel`] end the wait that has just begun.
    pub(crate) fn allow_cancel(&self) {
        // Relaxed: the caller's fence separates this from its look at the scopes that may cancel
        // it. If the wait is over already, the bit does no harm, because the next wait begins
        // without it.
        self.word.fetch_or(CANCELLABLE, Ordering::Relaxed);
    }

    /// Ends the wait of the strand of that generation, if that wait may be cancelled; the winner
    /// must schedule the strand.
    pub(crate) fn cancel(&self, generation: u32) -> bool {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            let is_cancellable = old & (STATE | CANCELLABLE) == WAITING | CANCELLABLE;
            if !is_cancellable || (old >> GENERATION_SHIFT) as u32 != generation {
                return false;
            }
            let new = old & !(STATE | PARKING | CANCELLABLE) | Wake::Cancelled as u64;
            // Relaxed: as in `claim`.
            match self.word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => old = now,
            }
        }
    }

    /// The reference to the current wait, if the strand waits.
    pub(crate) fn current_wait(&self) -> Option<WakeRef> {
        // Relaxed: only the strand's own worker calls this.
        let word = self.word.load(Ordering::Relaxed);
        let epoch = (word >> EPOCH_SHIFT) & EPOCH_MASK;
        (word & STATE == WAITING).then(|| WakeRef::new(self.index(), epoch))
    }

    /// The reason for which the last wait ended. Only the strand itself may ask, once it runs
    /// again.
    #[inline]
    pub(crate) fn wake_reason(&self) -> Wake {
        // Relaxed: the winner has scheduled the strand since.
        match self.word.load(Ordering::Relaxed) & STATE {
            3 => Wake::TimedOut,
            4 => Wake::Cancelled,
            _ => Wake::Woken,
        }
    }

    pub(crate) fn is_thread(&self) -> bool {
        self.id().is_thread()
    }

    /// The id and the spawn location of a strand that has not started. Any thread may ask.
    pub(crate) fn unstarted(&self) -> Option<(FiberId, &'static Location<'static>)> {
        // The word is the same before and after, so the location is that of this strand. A thread
        // that sees old values reports a strand that has just started or ended, which dumps allow.
        let before = self.id_bits();
        let location = self.spawned_at()?;
        let is_same = self.id_bits() == before;
        (is_same && before != 0).then(|| (self.id(), location))
    }
}

/// The location in a word of `stack`.
#[inline(always)]
#[allow(unsafe_code)]
fn spawned_at(stack: *const FiberStack) -> Option<&'static Location<'static>> {
    let location: *const Location<'static> =
        stack.map_addr(|address| address & !IS_LOCATION).cast();
    // SAFETY: a tagged word is a location of `note_spawn`, which is never unmapped.
    (stack.addr() & IS_LOCATION != 0).then(|| unsafe { &*location })
}
