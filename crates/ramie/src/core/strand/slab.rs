//! Where slots come from and go to: a table of chunks for the process, a free list for each worker.
//!
//! A worker takes and returns slots without synchronisation. Only batches cross between workers:
//! one that spawns what another joins would otherwise hoard or starve.
#![allow(unsafe_code)]

use std::{cell::Cell, io, ptr, sync::Mutex};

use super::{
    memory::{CHUNK_BYTES, CHUNK_SLOTS, COMMITTED_SLOTS, ChunkHead, commit, map_chunk},
    slot::Slot,
};
use crate::core::primitive::Ordering;

/// Bounds the strands alive at once to 2^28: far beyond the memory of any machine.
const CHUNKS: usize = (1 << 28) / CHUNK_SLOTS;
const BATCH: usize = 256;
/// From this index on slots are committed ahead of their use.
const FIRST_COMMITTED: usize = 4096;

// A plain static, also under a model checker: it holds no protocol, only addresses.
static TABLE: [std::sync::atomic::AtomicPtr<Slot>; CHUNKS] =
    [const { std::sync::atomic::AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

static DEPOT: Mutex<Depot> =
    Mutex::new(Depot { batches: Vec::new(), single: Chain::EMPTY, fresh: 0 });

/// A list of free slots linked through `Slot::link`.
#[derive(Clone, Copy)]
struct Chain {
    head: *const Slot,
    len: usize,
}

// SAFETY: a chain owns the slots on it, and slots may be used from any thread (`Slot: Sync`).
unsafe impl Send for Chain {}

impl Chain {
    const EMPTY: Chain = Chain { head: ptr::null(), len: 0 };

    fn push(&mut self, slot: &'static Slot) {
        slot.link.store(self.head.cast_mut(), Ordering::Relaxed);
        self.head = slot;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<&'static Slot> {
        // SAFETY: the head is null or a slot, and slots are never unmapped (memory.rs).
        let slot = unsafe { self.head.as_ref() }?;
        self.head = slot.link.load(Ordering::Relaxed);
        self.len -= 1;
        Some(slot)
    }
}

struct Depot {
    batches: Vec<Chain>,
    single: Chain,
    /// The index of the first slot never used.
    fresh: u32,
}

impl Depot {
    fn fresh_range(&mut self) -> io::Result<(u32, u32)> {
        let start = self.fresh;
        if (start as usize).is_multiple_of(CHUNK_SLOTS) {
            let chunk = start as usize / CHUNK_SLOTS;
            let entry = TABLE.get(chunk).ok_or_else(|| {
                io::Error::other("2^28 strands alive at once is the most there is")
            })?;
            entry.store(map_chunk(chunk as u32)?, Ordering::Release);
            self.fresh = start + BATCH as u32;
            // The chunk's first slot is its head.
            return Ok((start + 1, self.fresh));
        }
        if start as usize >= FIRST_COMMITTED && (start as usize).is_multiple_of(COMMITTED_SLOTS) {
            commit(ptr::from_ref(slot_at(start)).cast_mut());
        }
        self.fresh = start + BATCH as u32;
        Ok((start, self.fresh))
    }
}

fn depot() -> std::sync::MutexGuard<'static, Depot> {
    DEPOT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Finds the slot of an index that some strand has or had.
#[inline]
pub(crate) fn slot_at(index: u32) -> &'static Slot {
    let chunk = TABLE[index as usize / CHUNK_SLOTS].load(Ordering::Acquire);
    debug_assert!(!chunk.is_null(), "an index comes from a slot");
    // SAFETY: indices are made only by `fresh_range`, after their chunk was mapped: the offset
    // lies within the chunk.
    let slot = unsafe { chunk.add(index as usize % CHUNK_SLOTS) };
    // SAFETY: chunks are never unmapped, zeroed memory is a valid slot, slots are shared only
    // (`&Slot`), never borrowed mutably.
    unsafe { &*slot }
}

/// The index of a slot: its chunk's number, which the chunk knows, and its place in there.
#[inline(always)]
pub(super) fn index_of(slot: &Slot) -> u32 {
    let address = ptr::from_ref(slot).addr();
    let place = (address % CHUNK_BYTES) / size_of::<Slot>();
    let head: *const ChunkHead = ptr::with_exposed_provenance(address - address % CHUNK_BYTES);
    // SAFETY: slots lie only in chunks, which are aligned to their size and never unmapped, and
    // whose head was written before any of their slots was handed out (memory.rs).
    let number = unsafe { (*head).number };
    number * CHUNK_SLOTS as u32 + place as u32
}

/// The slots that one worker keeps at hand.
pub(crate) struct FreeList {
    chain: Cell<Chain>,
    fresh: Cell<(u32, u32)>,
}

impl FreeList {
    pub(crate) fn new() -> Self {
        FreeList { chain: Cell::new(Chain::EMPTY), fresh: Cell::new((0, 0)) }
    }

    /// Opens a slot for a new strand.
    ///
    /// # Errors
    /// No memory for one more.
    #[inline]
    pub(crate) fn take(&self, is_thread: bool) -> io::Result<&'static Slot> {
        let mut chain = self.chain.get();
        if let Some(slot) = chain.pop() {
            self.chain.set(chain);
            slot.open(is_thread);
            return Ok(slot);
        }
        let (next, end) = self.fresh.get();
        if next == end {
            return self.refill(is_thread);
        }
        self.fresh.set((next + 1, end));
        let slot = slot_at(next);
        slot.open(is_thread);
        Ok(slot)
    }

    #[cold]
    fn refill(&self, is_thread: bool) -> io::Result<&'static Slot> {
        {
            let mut depot = depot();
            if let Some(batch) = depot.batches.pop() {
                self.chain.set(batch);
            } else if depot.single.len > 0 {
                self.chain.set(depot.single);
                depot.single = Chain::EMPTY;
            } else {
                self.fresh.set(depot.fresh_range()?);
            }
        }
        self.take(is_thread)
    }

    /// Takes back the slot of a strand that ended and that nobody holds.
    ///
    /// # Safety
    /// The slot belongs to the caller and its payload is empty.
    #[inline]
    pub(crate) unsafe fn free(&self, slot: &'static Slot) {
        slot.belongings.drop_all();
        if !slot.retire() {
            return;
        }
        let mut chain = self.chain.get();
        chain.push(slot);
        if chain.len >= 2 * BATCH {
            self.give_batch(&mut chain);
        }
        self.chain.set(chain);
    }

    #[cold]
    fn give_batch(&self, chain: &mut Chain) {
        let mut batch = Chain::EMPTY;
        for _ in 0..BATCH {
            if let Some(slot) = chain.pop() {
                batch.push(slot);
            }
        }
        depot().batches.push(batch);
    }
}

impl Drop for FreeList {
    fn drop(&mut self) {
        let mut depot = depot();
        if self.chain.get().len > 0 {
            depot.batches.push(self.chain.get());
        }
        let (next, end) = self.fresh.get();
        for index in next..end {
            let slot = slot_at(index);
            slot.open(false);
            if slot.retire() {
                depot.single.push(slot);
            }
        }
    }
}

/// Takes back a slot on a thread that has no worker.
///
/// # Safety
/// As for [`FreeList::free`].
pub(crate) unsafe fn free_without_worker(slot: &'static Slot) {
    slot.belongings.drop_all();
    if !slot.retire() {
        return;
    }
    depot().single.push(slot);
}
