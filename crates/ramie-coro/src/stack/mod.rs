//! Stacks: guarded, coloured, lazily committed, reused.
//!
//! ```text
//!  highest  +--------------------------+ top: end of the slot
//!           | colour: 0 .. 1,472 bytes |  shifts the frames of different stacks to different
//!           +--------------------------+ base (16-aligned)                        cache sets
//!           | frames, growing down     |
//!           | ...                      |  committed at first touch, page by page
//!           | untouched                |
//!           +--------------------------+ floor
//!           | guard, 64 KiB            |  faults
//!  lowest   +--------------------------+ limit
//! ```
//!
//! The page below the top holds the colour and the frames of a shallow coroutine, so a parked one
//! costs a single page of 4 KiB. All data about a stack is kept elsewhere.
//!
//! Arenas ([`arena`]) own the memory, pools ([`StackPool`]) keep recently used stacks, and a
//! [`Stack`] is the right to use one.
#![allow(unsafe_code)]

mod arena;
pub(crate) mod chunk;
mod error;
mod guard;
mod pool;
mod size;
mod stats;

use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    mem,
    num::NonZeroUsize,
    ptr,
    sync::{Arc, atomic::Ordering},
};

use self::{
    arena::Arena,
    chunk::{Chunk, Label, SlotId},
};
pub use self::{
    error::StackError,
    guard::{GuardKind, Guards, force_protection, guards},
    pool::StackPool,
    size::{DEFAULT_USABLE_BYTES, GUARD_BYTES, StackSize},
    stats::{StackStats, stats},
};
use crate::sys::{self, Advise};

/// [`Stack::recycle`] checks the high-water mark after this number of uses of a stack.
const USES_PER_CHECK: u8 = 250;
/// If a stack was used deeper, recycling releases its memory below this many bytes.
const KEPT_BYTES: usize = 16 * 1024;
/// The number of pages below the kept ones that are checked; checking all would take longer for a
/// larger stack. Code with probed frames, such as Rust's, touches each page on its way down.
const PROBED_PAGES: usize = 4;

const COLOURS: usize = 24;
const COLOUR_STEP: usize = 64;

/// Owns a stack on which no code runs.
///
/// Dropping it returns the stack and its memory to the arena. It may be sent to another thread, but
/// it is not `Sync`.
pub struct Stack {
    /// INVARIANT: `slot_base(id)`, inside the usable range, 16-aligned.
    base: NonZeroUsize,
    slot: u32,
    chunk: u16,
    uses_left: u8,
    is_labelled: Cell<bool>,
    /// Not `Sync`: the label is changed through a shared reference.
    _not_sync: PhantomData<Cell<()>>,
}

/// The colour of a stack. All colours are equally frequent, and neighbours lie eleven steps apart,
/// further than the frames of a shallow coroutine reach. (With five steps, a switch between eight
/// fibers takes 9 ns instead of 5, because stores on one stack seem to overlap loads from another.)
fn colour(slot: u32) -> usize {
    slot as usize * 11 % COLOURS * COLOUR_STEP
}

fn slot_base(chunk: &Chunk, slot: u32) -> usize {
    chunk.top(slot) - colour(slot)
}

impl Stack {
    fn new(id: SlotId) -> Stack {
        let chunk = id.chunk();
        let base = slot_base(chunk, id.slot);
        Stack {
            base: NonZeroUsize::new(base).expect("nothing is mapped at address 0"),
            slot: id.slot,
            chunk: id.chunk,
            // Different for each stack, so that the checks of many do not coincide.
            uses_left: 1 + (id.slot % u32::from(USES_PER_CHECK)) as u8,
            is_labelled: Cell::new(false),
            _not_sync: PhantomData,
        }
    }

    #[inline]
    fn id(&self) -> SlotId {
        SlotId { chunk: self.chunk, slot: self.slot }
    }

    /// Returns the base: the highest address, from which a coroutine's frames grow down. It is
    /// 16-aligned and coloured.
    #[must_use]
    #[inline]
    pub fn base(&self) -> NonZeroUsize {
        self.base
    }

    /// Returns the limit, the lowest address, which includes the guard.
    #[must_use]
    #[inline]
    pub fn limit(&self) -> NonZeroUsize {
        let limit = self.id().chunk().limit(self.slot);
        NonZeroUsize::new(limit).expect("nothing is mapped at address 0")
    }

    /// Returns the number of bytes between the guard and the base: the size less the colour.
    #[must_use]
    pub fn usable_bytes(&self) -> usize {
        self.base.get() - self.id().chunk().floor(self.slot)
    }

    /// Returns the requested size, rounded up to whole pages.
    #[must_use]
    #[inline]
    pub fn size(&self) -> StackSize {
        self.id().chunk().size()
    }

    /// Returns how deep the stack was used since its memory was last released, in bytes.
    ///
    /// This measures the memory that is present, so it is accurate to one page, and too low once
    /// the system has swapped. It takes a system call, 1.4 µs for 256 KiB.
    #[must_use]
    pub fn high_water_mark(&self) -> usize {
        StackInfo::of(self.id()).high_water_mark()
    }

    /// Returns memory to the system, all but the `keep_bytes` next to the base, in whole pages.
    ///
    /// For a stack with a suspended coroutine, use [`release_unused`](Self::release_unused).
    pub fn release_memory(&mut self, keep_bytes: usize) {
        // SAFETY: `self` is borrowed exclusively: no coroutine is on the stack.
        unsafe { self.release_unused(keep_bytes) };
    }

    /// Returns memory to the system while a coroutine is on the stack.
    ///
    /// # Safety
    /// The coroutine is suspended, and its frames reach no deeper than `keep_bytes` from the base.
    pub unsafe fn release_unused(&self, keep_bytes: usize) {
        let floor = self.id().chunk().floor(self.slot);
        let keep_from = self.base.get().saturating_sub(keep_bytes) & !(sys::page_size() - 1);
        let end = if keep_bytes == 0 { floor + self.size().usable_bytes() } else { keep_from };
        if let Some(bytes) = end.checked_sub(floor).filter(|bytes| *bytes > 0) {
            // A refusal (locked memory) leaves the memory where it is.
            // SAFETY: between the guard and the kept part of a stack that is never unmapped; its
            // contents are dead by the caller's promise.
            let _ = unsafe { sys::advise(floor, bytes, Advise::DontNeed) };
        }
    }

    /// Prepares the stack for its next use: removes its label, and every 250th time releases the
    /// memory of calls deeper than 16 KiB.
    ///
    /// The check of the four pages below takes a system call of 1 µs, which is 4 ns on average.
    #[inline]
    pub fn recycle(&mut self) {
        if self.is_labelled.get() {
            self.set_label(None);
        }
        self.uses_left -= 1;
        if self.uses_left == 0 {
            self.check_depth();
        }
    }

    #[cold]
    fn check_depth(&mut self) {
        self.uses_left = USES_PER_CHECK;
        let kept_from = (self.base.get() - KEPT_BYTES) & !(sys::page_size() - 1);
        let probed_from = kept_from.saturating_sub(PROBED_PAGES * sys::page_size());
        let probed_from = probed_from.max(self.id().chunk().floor(self.slot));
        if is_any_resident(probed_from, kept_from) {
            self.release_memory(KEPT_BYTES);
        }
    }

    /// Sets the stack's name in reports of overflows.
    pub fn set_label(&self, label: Option<Arc<str>>) {
        self.is_labelled.set(label.is_some());
        let label = label.map_or(ptr::null_mut(), |label| Box::into_raw(Box::new(label)));
        // Relaxed, because only the thread that owns the stack changes the label, and only a signal
        // handler on the same thread reads it.
        let old = self.id().chunk().label(self.slot).swap(label, Ordering::Relaxed);
        if !old.is_null() {
            // SAFETY: made by `Box::into_raw` above, and the swap has removed it.
            drop(unsafe { Box::from_raw(old) });
        }
    }

    /// Abandons the stack with all values on it.
    pub(crate) fn leak(self) {
        stats::count_leaked();
        mem::forget(self);
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.is_labelled.get() {
            self.set_label(None);
        }
        self.release_memory(0);
        let id = self.id();
        id.chunk().arena().give([id]);
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Stack({:#x}..{:#x})", self.limit(), self.base)
    }
}

/// Returns many unlabelled stacks of one arena, and their memory, at once.
fn give_back(arena: &Arena, stacks: std::vec::Drain<'_, Stack>) {
    let floors = stacks.as_slice().iter().map(|stack| stack.id().chunk().floor(stack.slot));
    let bytes = arena.size().usable_bytes();
    // A refusal (locked memory) leaves the memory where it is.
    // SAFETY: usable ranges of stacks that are never unmapped and that the caller owns, so no
    // coroutine is on any of them.
    let _ = unsafe { sys::advise_many(floors, bytes, Advise::DontNeed) };
    arena.give(stacks.map(|stack| mem::ManuallyDrop::new(stack).id()));
}

/// Whether a page of a short range is in memory.
fn is_any_resident(from: usize, end: usize) -> bool {
    let mut pages = [0_u8; PROBED_PAGES];
    let count = end.saturating_sub(from) / sys::page_size();
    let pages = &mut pages[..count.min(PROBED_PAGES)];
    !pages.is_empty()
        && sys::resident(from, pages).is_ok()
        && pages.iter().any(|page| page & 1 == 1)
}

/// Takes one stack without a pool.
pub(crate) fn take_one(size: StackSize) -> Result<Stack, StackError> {
    let mut stacks = Vec::new();
    Arena::of(size).take(1, &mut stacks)?;
    stacks.pop().ok_or(StackError::bookkeeping())
}

/// Describes the stack to which an address belongs.
#[derive(Clone, Copy)]
pub struct StackInfo {
    id: SlotId,
}

impl StackInfo {
    pub(crate) fn of(id: SlotId) -> StackInfo {
        StackInfo { id }
    }

    fn chunk(&self) -> &'static Chunk {
        self.id.chunk()
    }

    /// Returns the base, see [`Stack::base`].
    #[must_use]
    pub fn base(&self) -> usize {
        slot_base(self.chunk(), self.id.slot)
    }

    /// Returns the lowest usable address, where the guard ends.
    #[must_use]
    pub fn floor(&self) -> usize {
        self.chunk().floor(self.id.slot)
    }

    /// Returns the limit, see [`Stack::limit`].
    #[must_use]
    pub fn limit(&self) -> usize {
        self.chunk().limit(self.id.slot)
    }

    /// Returns the requested size, rounded up to whole pages.
    #[must_use]
    pub fn size(&self) -> StackSize {
        self.chunk().size()
    }

    /// Returns how deep the stack was used, see [`Stack::high_water_mark`].
    #[must_use]
    pub fn high_water_mark(&self) -> usize {
        let page = sys::page_size();
        let mut from = self.floor();
        let top = self.chunk().top(self.id.slot);
        let mut pages = [0_u8; 256];
        while from < top {
            let pages = &mut pages[..((top - from) / page).min(256)];
            if sys::resident(from, pages).is_err() {
                return 0;
            }
            if let Some(at) = pages.iter().position(|page| page & 1 == 1) {
                return self.base().saturating_sub(from + at * page);
            }
            from += pages.len() * page;
        }
        0
    }

    pub(crate) fn label(&self) -> *const Label {
        self.chunk().label(self.id.slot).load(Ordering::Relaxed)
    }
}

impl fmt::Debug for StackInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "StackInfo({:#x}..{:#x})", self.limit(), self.base())
    }
}

/// Finds the stack to which an address belongs, its guard included.
///
/// It takes no lock and is safe in a signal handler. Stacks are never unmapped, so the answer stays
/// true. It does not show whether the stack is in use.
#[must_use]
pub fn stack_of(address: usize) -> Option<StackInfo> {
    chunk::find(address).map(StackInfo::of)
}
