//! The header: the cache line that a strand owns from spawn to join.
//!
//! # Who may touch what
//! Headers are type-stable: the memory of a header is never unmapped and never becomes anything
//! else, so a stale reference may always look at the atomic words and be turned away by them.
//!
//! | field | written by |
//! |---|---|
//! | `word` | anyone, by compare-and-swap under the protocol below |
//! | `link` | whoever holds the right to start or to schedule the strand, or the free list |
//! | `join` | the strand's end and the holder of its handle, by the protocol in `core/wait/completion.rs` |
//! | `stack` | the worker that starts the strand, before the strand first waits; read by whoever won the claim of a wait |
//! | the other cells | the worker that runs the strand; before the start, the spawner; after `join` is done, the holder of the handle |
//!
//! Data that a strand needs only while it runs or waits lies in its [`FiberStack`]. So a closure
//! that has no stack yet takes this line and nothing else.
//!
//! # The wait word
//! `generation:32 | epoch:24 | token:1 | parking:1 | cancellable:1 | 0:2 | state:3`
//!
//! | state | left by | to |
//! |---|---|---|
//! | `RUNNING` (also: runnable) | the strand: [`StrandHeader::begin_wait`] | `WAITING`, epoch + 1 |
//! | `WAITING` | whoever wins the compare-and-swap in [`StrandHeader::claim`], [`StrandHeader::unpark`] or [`StrandHeader::cancel`] | `WOKEN`, `TIMED_OUT`, `CANCELLED` |
//! | those three | the strand, by beginning its next wait | `WAITING`, epoch + 1 |
//!
//! The winner of the compare-and-swap, and nobody else, schedules the strand. Until it does, the
//! strand stays suspended, so the frame it waits in stays as it is: the winner may still read from
//! it, and must have read all it needs before it schedules.
//!
//! *The race to fear*: a waker holds a reference to a wait that is over, and the strand is in its
//! next wait by now. The epoch differs, the compare-and-swap is not even tried.
//!
//! ## What orders what
//! Beginning a wait, claiming it and cancelling it are relaxed, because the word decides who wins
//! and carries nothing else:
//! - What the strand wrote before its wait is visible to a waker by the way on which the reference,
//!   or the place in a scope's list, came to it: under a lock, or by a word that was released and
//!   acquired.
//! - What the winner wrote, before or after its claim, is visible to the strand by the way on which
//!   it is scheduled: through its worker's inbox, or because both are on one thread. Until it is
//!   scheduled, the strand looks at nothing but the word itself.
//!
//! Park and unpark are different. An id may reach the caller of `unpark` before the strand has
//! started, so the word itself makes `stack` visible to it; and the token, like std's, passes on
//! what came before the `unpark`.

use std::{mem::MaybeUninit, ptr};

use super::{
    FiberId, WakeRef,
    attributes::AttributesWord,
    id::{EPOCH_MASK, THREAD_TAG},
    job::JobTable,
    slab,
};
use crate::core::{
    primitive::{AtomicPtr, AtomicU64, Cell, Ordering},
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

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Wake {
    Woken = 2,
    TimedOut = 3,
    Cancelled = 4,
}

/// What [`StrandHeader::unpark`] left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unpark {
    /// The strand was parked: the caller schedules it.
    Schedule,
    /// The token is there for the next park, or the strand has ended.
    Nothing,
}

/// Room for a small closure, a small value, or the two words of a panic's payload.
pub(super) const INLINE_WORDS: usize = 2;

/// The memory of one strand.
#[repr(C, align(64))]
pub(crate) struct StrandHeader {
    pub(super) word: AtomicU64,
    pub(crate) link: AtomicPtr<StrandHeader>,
    pub(crate) join: Completion,
    pub(crate) stack: Cell<*const FiberStack>,
    pub(super) table: Cell<Option<&'static JobTable>>,
    pub(crate) attributes: AttributesWord,
    pub(super) payload: Cell<[MaybeUninit<u64>; INLINE_WORDS]>,
}

// SAFETY: the cells are touched only by the one who owns that part of the header at that time: the
// table "Who may touch what" in the module's doc. All else is atomic.
#[allow(unsafe_code)]
unsafe impl Sync for StrandHeader {}

impl StrandHeader {
    /// Takes a header off a free list into use.
    pub(super) fn open(&self, is_thread: bool) {
        let tag = if is_thread { THREAD_TAG } else { 0 };
        let old = self.word.load(Ordering::Relaxed);
        // Never used, the memory is zeroed; afterwards `retire` has counted.
        let generation = ((old >> GENERATION_SHIFT) as u32 & !THREAD_TAG).max(1);
        let epoch = old & (EPOCH_MASK << EPOCH_SHIFT);
        let word = u64::from(generation | tag) << GENERATION_SHIFT | epoch | RUNNING;
        // Relaxed: whoever learns of the new generation learns of it through the spawn's own
        // hand-over; whoever still holds an old one is turned away by either value.
        self.word.store(word, Ordering::Relaxed);
        self.join.reset();
        self.stack.set(ptr::null());
        self.table.set(None);
    }

    /// Makes every outstanding id and wait reference of this header stale. Tells whether the header
    /// may be used again: after 2^31 uses its ids would repeat, so it is left alone then.
    #[inline]
    #[must_use]
    pub(crate) fn retire(&self) -> bool {
        let old = self.word.load(Ordering::Relaxed);
        let new = (old & !(STATE | PARKING | TOKEN)).wrapping_add(1 << GENERATION_SHIFT);
        // A plain store, 5 ns cheaper than a compare-and-swap: nobody waits any more, so all that
        // others may do to the word is set the token, which goes in any case: either before this,
        // or in vain, because the word they compare with is no longer there.
        self.word.store(new, Ordering::Release);
        (old >> GENERATION_SHIFT) as u32 & !THREAD_TAG < THREAD_TAG - 2
    }

    #[inline(always)]
    pub(crate) fn index(&self) -> u32 {
        slab::index_of(self)
    }

    pub(crate) fn id(&self) -> FiberId {
        FiberId::new(self.index(), self.generation())
    }

    /// [`id`](Self::id) as a word, without a look whether it is 0: locks compare owners by it.
    #[inline(always)]
    pub(crate) fn id_bits(&self) -> u64 {
        FiberId::bits(self.index(), self.generation())
    }

    #[inline(always)]
    fn generation(&self) -> u32 {
        (self.word.load(Ordering::Relaxed) >> GENERATION_SHIFT) as u32
    }

    /// Begins a wait and names it.
    #[inline(always)]
    pub(crate) fn begin_wait(&self) -> WakeRef {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            let epoch = ((old >> EPOCH_SHIFT) + 1) & EPOCH_MASK;
            let keep = old & (u64::from(u32::MAX) << GENERATION_SHIFT | TOKEN);
            let new = keep | epoch << EPOCH_SHIFT | WAITING;
            // Relaxed: the module's doc says why.
            match self.word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return WakeRef::new(self.index(), epoch),
                Err(now) => old = now,
            }
        }
    }

    /// Begins a wait for the token of `unpark`; `None` when the token was there, and is used up.
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
            // Relaxed: the module's doc says why.
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
            // AcqRel even if the token was there already: this call's writes must reach the park
            // that consumes it.
            match self.word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if parked => return Unpark::Schedule,
                Ok(_) => return Unpark::Nothing,
                Err(now) => old = now,
            }
        }
    }

    /// Lets [`StrandHeader::cancel`] end the wait that has just begun.
    pub(crate) fn allow_cancel(&self) {
        // Relaxed: the caller's fence comes between this and its look at what may cancel it. If the
        // wait is over already, the bit does no harm: the next wait begins without it.
        self.word.fetch_or(CANCELLABLE, Ordering::Relaxed);
    }

    /// Ends the wait of the strand of that generation, if it is in one that may be cancelled; the
    /// winner must schedule the strand.
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

    /// The name of the wait that goes on, if one does.
    pub(crate) fn current_wait(&self) -> Option<WakeRef> {
        // Relaxed: asked by the strand's own worker.
        let word = self.word.load(Ordering::Relaxed);
        let epoch = (word >> EPOCH_SHIFT) & EPOCH_MASK;
        (word & STATE == WAITING).then(|| WakeRef::new(self.index(), epoch))
    }

    /// How the last wait ended; meaningful to the strand itself, once it runs again.
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
}
