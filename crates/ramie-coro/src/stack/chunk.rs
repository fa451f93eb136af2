//! A chunk: one mapping that holds many stacks, and the table that maps an address to its stack.
//!
//! ```text
//! start                                                                start + slots * stride
//! | guard | usable ............ | guard | usable ............ | ... | labels: 8 bytes a stack |
//! ^ limit ^ floor               ^ top                                (committed when first used)
//! ```
//!
//! | state of a chunk | changed by |
//! |---|---|
//! | not in the table | [`publish`] |
//! | in the table | nothing: chunks are never unmapped |
//!
//! The table is read without locks, because a signal handler reads it. A published chunk never
//! changes, so the only race is whether a reader sees it already.
#![allow(unsafe_code)]

use std::{
    ptr,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
};

use super::{StackError, StackSize, arena::Arena, size::guard_bytes};
use crate::sys;

/// Limits the table to 64 KiB; a u16 could name more chunks.
const MAX_CHUNKS: usize = 1024;

static CHUNKS: [OnceLock<Chunk>; MAX_CHUNKS] = [const { OnceLock::new() }; MAX_CHUNKS];
static PUBLISHED: AtomicUsize = AtomicUsize::new(0);

/// A stack's label. Behind one pointer, which a signal handler can read atomically.
pub(crate) type Label = Arc<str>;

/// Identifies a stack: its chunk in the table, and its number in the chunk.
#[derive(Clone, Copy)]
pub(crate) struct SlotId {
    pub(crate) chunk: u16,
    pub(crate) slot: u32,
}

impl SlotId {
    #[inline]
    pub(crate) fn chunk(self) -> &'static Chunk {
        CHUNKS[usize::from(self.chunk)].get().expect("a stack's chunk is published")
    }
}

pub(crate) struct Chunk {
    /// INVARIANT: a mapping of `mapped_bytes(size, slots)` begins here, and is never unmapped.
    start: usize,
    slots: u32,
    size: StackSize,
    guard_bytes: usize,
    /// INVARIANT: the guard and the usable bytes. Stored, because rounding to pages takes a
    /// division.
    stride: usize,
    arena: &'static Arena,
}

impl Chunk {
    #[inline]
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    #[inline]
    pub(crate) fn size(&self) -> StackSize {
        self.size
    }

    #[inline]
    pub(crate) fn guard_bytes(&self) -> usize {
        self.guard_bytes
    }

    #[inline]
    pub(crate) fn arena(&self) -> &'static Arena {
        self.arena
    }

    /// The lowest address of a stack, its guard included.
    #[inline]
    pub(crate) fn limit(&self, slot: u32) -> usize {
        debug_assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        self.start + slot as usize * self.stride
    }

    /// The lowest usable address.
    #[inline]
    pub(crate) fn floor(&self, slot: u32) -> usize {
        self.limit(slot) + self.guard_bytes
    }

    /// The end of a stack, below which its colour lies.
    #[inline]
    pub(crate) fn top(&self, slot: u32) -> usize {
        self.limit(slot) + self.stride
    }

    /// The address of a stack's label.
    pub(crate) fn label(&self, slot: u32) -> &AtomicPtr<Label> {
        debug_assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        let labels = self.start + self.slots as usize * self.stride;
        let labels = ptr::with_exposed_provenance::<AtomicPtr<Label>>(labels);
        // SAFETY: the mapping has one pointer for each slot behind the stacks (`mapped_bytes`).
        let label = unsafe { labels.add(slot as usize) };
        // SAFETY: aligned, because it lies a multiple of 8 above the start of a page; initially
        // zero, which is the null pointer; accessed only as an atomic; never unmapped (`start`).
        unsafe { &*label }
    }

    fn slot_of(&self, address: usize) -> Option<u32> {
        let slot = address.checked_sub(self.start)? / self.stride;
        u32::try_from(slot).ok().filter(|slot| *slot < self.slots)
    }
}

fn stride(size: StackSize) -> usize {
    guard_bytes() + size.usable_bytes()
}

/// The bytes of a chunk: the stacks, and a pointer to a label for each.
pub(crate) fn mapped_bytes(size: StackSize, slots: u32) -> usize {
    let stacks = stride(size) * slots as usize;
    (stacks + slots as usize * size_of::<AtomicPtr<Label>>()).next_multiple_of(sys::page_size())
}

/// Maps a chunk and enters it in the table.
pub(crate) fn publish(arena: &'static Arena, slots: u32) -> Result<u16, StackError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let at = PUBLISHED.load(Ordering::Relaxed);
    if at == MAX_CHUNKS {
        return Err(StackError::chunks(at));
    }
    let size = arena.size();
    let bytes = mapped_bytes(size, slots);
    let start = sys::map_stacks(bytes).map_err(|errno| StackError::map(bytes, errno))?;
    let (guard_bytes, stride) = (guard_bytes(), stride(size));
    CHUNKS[at].get_or_init(|| Chunk { start, slots, size, guard_bytes, stride, arena });
    // Release: a reader that sees the new count also sees the chunk.
    PUBLISHED.store(at + 1, Ordering::Release);
    Ok(at as u16)
}

/// Finds the stack to which an address belongs, its guard included. Safe in a signal handler.
pub(crate) fn find(address: usize) -> Option<SlotId> {
    // Acquire: pairs with the store in `publish`.
    let published = PUBLISHED.load(Ordering::Acquire);
    (0..published).find_map(|at| {
        let slot = CHUNKS[at].get()?.slot_of(address)?;
        Some(SlotId { chunk: at as u16, slot })
    })
}

/// The number of mapped chunks.
pub(crate) fn count() -> usize {
    PUBLISHED.load(Ordering::Relaxed)
}
