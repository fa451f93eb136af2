//! The arena of a stack size: all its chunks, and the stacks that are not in use.
//!
//! | state of a stack | changed by |
//! |---|---|
//! | fresh: mapped, no guard | [`Arena::take`], which guards it |
//! | handed out: in a pool or a coroutine | its drop (free), or a leak (final) |
//! | free: guarded, in the list | [`Arena::take`] |
//!
//! Protected by a lock, which is taken once per batch.
#![allow(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{
    Stack, StackError, StackSize,
    chunk::{self, SlotId},
    guard,
};

/// The number of stacks in the first chunk; each further chunk doubles the total.
const FIRST_CHUNK_SLOTS: u32 = 64;
/// Under a limit on address space, smaller chunks are tried, down to this size. The rest of the
/// address space is left to the program, so that it can report the error.
const MIN_CHUNK_SLOTS: u32 = 16;
const MOST_CHUNK_SLOTS: u32 = 65_536;
/// No chunk takes more address space than this.
const MAX_CHUNK_BYTES: usize = 64 * 1024 * 1024 * 1024;

pub(crate) struct Arena {
    size: StackSize,
    inner: Mutex<Inner>,
}

struct Inner {
    /// INVARIANT: its capacity suffices for all stacks made, so that returning one allocates
    /// nothing.
    free: Vec<SlotId>,
    /// The chunk with fresh stacks, and the first of them.
    fresh: Option<SlotId>,
    /// Stacks that have a guard.
    made: usize,
    /// Stacks in all chunks.
    mapped: u64,
}

static ARENAS: Mutex<Vec<&'static Arena>> = Mutex::new(Vec::new());

impl Arena {
    /// Returns the process's arena of a size.
    pub(crate) fn of(size: StackSize) -> &'static Arena {
        let mut arenas = ARENAS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(arena) = arenas.iter().find(|arena| arena.size == size) {
            return arena;
        }
        let inner = Inner { free: Vec::new(), fresh: None, made: 0, mapped: 0 };
        // Leaked, because its stacks are never unmapped and refer to it.
        let arena: &'static Arena = Box::leak(Box::new(Arena { size, inner: Mutex::new(inner) }));
        arenas.push(arena);
        arena
    }

    pub(crate) fn size(&self) -> StackSize {
        self.size
    }

    /// Adds up to `count` stacks to `stacks`, and at least one.
    pub(crate) fn take(
        &'static self,
        count: usize,
        stacks: &mut Vec<Stack>,
    ) -> Result<(), StackError> {
        stacks.try_reserve(count).map_err(|_| StackError::bookkeeping())?;
        let mut inner = self.lock();
        let kept = inner.free.len().saturating_sub(count);
        if kept < inner.free.len() {
            stacks.extend(inner.free.drain(kept..).map(Stack::new));
            return Ok(());
        }
        self.take_fresh(&mut inner, count, stacks)
    }

    /// Takes stacks back.
    pub(crate) fn give(&self, ids: impl IntoIterator<Item = SlotId>) {
        self.lock().free.extend(ids);
    }

    /// How many stacks were made, and how many of them are free.
    fn counts(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.made, inner.free.len())
    }

    fn take_fresh(
        &'static self,
        inner: &mut Inner,
        count: usize,
        stacks: &mut Vec<Stack>,
    ) -> Result<(), StackError> {
        let SlotId { chunk: at, slot: first } = match inner.fresh {
            Some(id) => id,
            None => self.map_chunk(inner)?,
        };
        let chunk = SlotId { chunk: at, slot: first }.chunk();
        let count = count.min((chunk.slots() - first) as usize);
        let room = inner.made + count - inner.free.len();
        inner.free.try_reserve(room).map_err(|_| StackError::bookkeeping())?;
        // SAFETY: fresh stacks, handed out only below.
        let (made, result) = unsafe { guard::install(chunk, first, count as u32) };
        let end = first + made;
        stacks.extend((first..end).map(|slot| Stack::new(SlotId { chunk: at, slot })));
        inner.made += made as usize;
        inner.fresh = (end < chunk.slots()).then_some(SlotId { chunk: at, slot: end });
        if made == 0 { result } else { Ok(()) }
    }

    fn map_chunk(&'static self, inner: &mut Inner) -> Result<SlotId, StackError> {
        let mut slots = self.next_chunk_slots(inner);
        loop {
            match chunk::publish(self, slots) {
                Ok(chunk) => {
                    inner.mapped += u64::from(slots);
                    let id = SlotId { chunk, slot: 0 };
                    inner.fresh = Some(id);
                    return Ok(id);
                }
                Err(error) if slots <= MIN_CHUNK_SLOTS || error.raw_os_error().is_none() => {
                    return Err(error);
                }
                Err(_) => slots /= 2,
            }
        }
    }

    fn next_chunk_slots(&self, inner: &Inner) -> u32 {
        let most = MAX_CHUNK_BYTES / chunk::mapped_bytes(self.size, 1);
        let most = MOST_CHUNK_SLOTS.min(most.max(1) as u32);
        let doubled = u32::try_from(inner.mapped).unwrap_or(u32::MAX);
        doubled.max(FIRST_CHUNK_SLOTS).min(most)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The only code that could panic under the lock is an allocation, which was reserved for.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many stacks were made in all arenas, and how many of them are free.
pub(crate) fn counts() -> (usize, usize) {
    let arenas = ARENAS.lock().unwrap_or_else(PoisonError::into_inner);
    arenas
        .iter()
        .map(|arena| arena.counts())
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}
