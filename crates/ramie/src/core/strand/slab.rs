//! The allocation of headers: a table of chunks for the process, a free list for each worker.
//!
//! A worker takes and returns headers without synchronisation. Only batches cross between workers,
//! because otherwise a worker that spawns strands which another worker joins would run out of
//! headers while the other hoards them.
#![allow(unsafe_code)]

use std::{cell::Cell, io, ptr, sync::Mutex};

use super::{
    header::StrandHeader,
    memory::{CHUNK_BYTES, CHUNK_HEADERS, COMMITTED_HEADERS, ChunkHead, commit, map_chunk},
};
use crate::core::primitive::Ordering;

/// Bounds the strands alive at once to 2^28: far beyond the memory of any machine.
pub(super) const CHUNKS: usize = (1 << 28) / CHUNK_HEADERS;
const BATCH: usize = 256;
/// From this index on headers are committed ahead of their use.
const FIRST_COMMITTED: usize = 4096;

// A plain static, also under a model checker: it holds no protocol, only addresses.
pub(super) static TABLE: [std::sync::atomic::AtomicPtr<StrandHeader>; CHUNKS] =
    [const { std::sync::atomic::AtomicPtr::new(ptr::null_mut()) }; CHUNKS];

static DEPOT: Mutex<Depot> =
    Mutex::new(Depot { batches: Vec::new(), single: Chain::EMPTY, fresh: 0 });

/// A list of free headers linked through `StrandHeader::link`.
#[derive(Clone, Copy)]
struct Chain {
    head: *const StrandHeader,
    len: usize,
}

// SAFETY: a chain owns the headers on it, and headers may be used from any thread (`StrandHeader:
// Sync`).
unsafe impl Send for Chain {}

impl Chain {
    const EMPTY: Chain = Chain { head: ptr::null(), len: 0 };

    fn push(&mut self, header: &'static StrandHeader) {
        header.link.store(self.head.cast_mut(), Ordering::Relaxed);
        self.head = header;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<&'static StrandHeader> {
        // SAFETY: the head is null or a header, and headers are never unmapped (memory.rs).
        let header = unsafe { self.head.as_ref() }?;
        self.head = header.link.load(Ordering::Relaxed);
        self.len -= 1;
        Some(header)
    }
}

struct Depot {
    batches: Vec<Chain>,
    single: Chain,
    /// The index of the first header never used.
    fresh: u32,
}

impl Depot {
    fn fresh_range(&mut self) -> io::Result<(u32, u32)> {
        let start = self.fresh;
        if (start as usize).is_multiple_of(CHUNK_HEADERS) {
            let chunk = start as usize / CHUNK_HEADERS;
            let entry = TABLE
                .get(chunk)
                .ok_or_else(|| io::Error::other("at most 2^28 strands can be alive at once"))?;
            entry.store(map_chunk(chunk as u32)?, Ordering::Release);
            self.fresh = start + BATCH as u32;
            // The chunk's first header is its head.
            return Ok((start + 1, self.fresh));
        }
        if start as usize >= FIRST_COMMITTED && (start as usize).is_multiple_of(COMMITTED_HEADERS) {
            commit(ptr::from_ref(header_at(start)).cast_mut());
        }
        self.fresh = start + BATCH as u32;
        Ok((start, self.fresh))
    }
}

fn depot() -> std::sync::MutexGuard<'static, Depot> {
    DEPOT.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The indices of all headers that some strand has or had.
pub(super) fn headers_in_use() -> impl Iterator<Item = u32> {
    (0..depot().fresh).filter(|index| !is_chunk_head(*index))
}

/// Whether some strand has or had the header of that index.
pub(super) fn is_in_use(index: u32) -> bool {
    index < depot().fresh && !is_chunk_head(index)
}

/// The first header of each chunk is the chunk's head.
fn is_chunk_head(index: u32) -> bool {
    (index as usize).is_multiple_of(CHUNK_HEADERS)
}

/// Finds the header of an index that some strand has or had.
#[inline]
pub(crate) fn header_at(index: u32) -> &'static StrandHeader {
    let chunk = TABLE[index as usize / CHUNK_HEADERS].load(Ordering::Acquire);
    debug_assert!(!chunk.is_null(), "an index comes from a header");
    // SAFETY: indices are made only by `fresh_range`, after their chunk was mapped: the offset
    // lies within the chunk.
    let header = unsafe { chunk.add(index as usize % CHUNK_HEADERS) };
    // SAFETY: chunks are never unmapped, zeroed memory is a valid header, headers are shared only
    // (`&StrandHeader`), never borrowed mutably.
    unsafe { &*header }
}

/// Finds the header at an address that need not be a header's. Only headers that some strand has or
/// had are ever in use.
pub(crate) fn find_header(address: usize) -> Option<&'static StrandHeader> {
    let (chunk, place) = (address - address % CHUNK_BYTES, address % CHUNK_BYTES);
    let chunks = TABLE.iter().map(|chunk| chunk.load(Ordering::Acquire));
    let chunk = chunks.take_while(|chunk| !chunk.is_null()).find(|found| found.addr() == chunk)?;
    if place == 0 || !place.is_multiple_of(size_of::<StrandHeader>()) {
        return None;
    }
    // SAFETY: the offset lies within the chunk.
    let header = unsafe { chunk.byte_add(place) };
    // SAFETY: as in `header_at`; the place of the chunk's head is excluded.
    Some(unsafe { &*header })
}

/// The index of a header: computed from the number in its chunk's head and its position in the
/// chunk.
#[inline(always)]
pub(super) fn index_of(header: &StrandHeader) -> u32 {
    let address = ptr::from_ref(header).addr();
    let place = (address % CHUNK_BYTES) / size_of::<StrandHeader>();
    let head: *const ChunkHead = ptr::with_exposed_provenance(address - address % CHUNK_BYTES);
    // SAFETY: headers lie only in chunks, which are aligned to their size and never unmapped, and
    // whose head was written before any of their headers was handed out (memory.rs).
    let number = unsafe { (*head).number };
    number * CHUNK_HEADERS as u32 + place as u32
}

/// The headers that one worker keeps at hand.
pub(crate) struct FreeList {
    chain: Cell<Chain>,
    fresh: Cell<(u32, u32)>,
}

impl FreeList {
    pub(crate) fn new() -> Self {
        FreeList { chain: Cell::new(Chain::EMPTY), fresh: Cell::new((0, 0)) }
    }

    /// Opens a header for a new strand.
    ///
    /// # Errors
    /// No memory for one more.
    #[inline]
    pub(crate) fn take(&self, is_thread: bool) -> io::Result<&'static StrandHeader> {
        let mut chain = self.chain.get();
        if let Some(header) = chain.pop() {
            self.chain.set(chain);
            header.open(is_thread);
            return Ok(header);
        }
        let (next, end) = self.fresh.get();
        if next == end {
            return self.refill(is_thread);
        }
        self.fresh.set((next + 1, end));
        let header = header_at(next);
        header.open(is_thread);
        Ok(header)
    }

    #[cold]
    fn refill(&self, is_thread: bool) -> io::Result<&'static StrandHeader> {
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

    /// Takes back the header of a strand that ended and that nobody holds.
    ///
    /// # Safety
    /// The header belongs to the caller and its payload is empty.
    #[inline]
    pub(crate) unsafe fn free(&self, header: &'static StrandHeader) {
        header.attributes.drop_all();
        if !header.retire() {
            return;
        }
        let mut chain = self.chain.get();
        chain.push(header);
        if chain.len >= 2 * BATCH {
            self.give_batch(&mut chain);
        }
        self.chain.set(chain);
    }

    #[cold]
    fn give_batch(&self, chain: &mut Chain) {
        let mut batch = Chain::EMPTY;
        for _ in 0..BATCH {
            if let Some(header) = chain.pop() {
                batch.push(header);
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
            let header = header_at(index);
            header.open(false);
            if header.retire() {
                depot.single.push(header);
            }
        }
    }
}

/// Takes back a header on a thread that has no worker.
///
/// # Safety
/// As for [`FreeList::free`].
pub(crate) unsafe fn free_without_worker(header: &'static StrandHeader) {
    header.attributes.drop_all();
    if !header.retire() {
        return;
    }
    depot().single.push(header);
}
