//! Buffers that a driver lends out: their holders, and their way back.
//!
//! A [`Buffer`] is a piece of memory that belongs to one driver's [`pool`]. The driver, or the
//! kernel in its name, fills it from the front; each part that was filled goes out as a [`Lease`].
//!
//! # Protocol: a count of holders
//!
//! | state | held by | changed by |
//! |---|---|---|
//! | free | the pool's list | `take`, to filling |
//! | filling | the pool or the kernel: one hold, and those for later parts; each lease of a part: one | the last byte was filled, or the group ends: one hold may pass to the last part's lease, the others are released |
//! | lent | leases only | the last lease that is dropped, on any thread: to returned |
//! | returned | the stack [`Returns`] | `take_all` of the pool: to free |
//!
//! *The race to fear* is a lease dropped on another thread while the pool is dropped. The stack's
//! head is then [`closed`], for good: a holder that finds this mark frees the buffer itself. Only
//! the last holder pushes a buffer, and does not touch it once it is on the stack. The pool takes
//! the whole stack in one swap, so a push never compares the head with one that was taken off and
//! pushed again in between.
//!
//! # Holds without locked instructions
//! A locked instruction takes 20 cycles, and longer if earlier stores are not in the cache yet. So
//! a group of buffers that the kernel fills part by part makes the holds for all parts in advance
//! ([`Buffer::offer`]), and while the buffer is on offer, leases that are dropped on the driver's
//! own thread are only counted, in `released`. The group subtracts this count when it withdraws the
//! buffer ([`Buffer::withdraw`]). Until then it has a hold of its own, so the number of holders is
//! too high and never reaches 0. A driver is not `Send`, so one thread offers and withdraws a
//! buffer. Only this thread finds its number in `offered_by`, and only it writes both fields.
//!
//! Safe code can raise the count without limit, because a part of a lease can be forgotten. A
//! count that wrapped around would give the buffer back while leases of it are alive, so the
//! process ends before that, at half of the range, as it does for an `Arc`.
#![allow(unsafe_code)]

mod lease;
mod pool;
#[cfg(test)]
pub(crate) mod tests;

use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use crate::sys::{map_pages, unmap_pages};

pub use lease::Lease;
pub(crate) use pool::{Pool, Size};

/// A buffer's head; its memory lies elsewhere, on pages of its own. The allocator would keep the
/// pages of freed buffers, because memory that is still in use lies between them.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// The number of holders (module documentation).
    holders: AtomicU32,
    /// The holds that the thread `offered_by` has released and not subtracted from `holders`.
    released: AtomicU32,
    /// The number of the thread whose driver offers the buffer to the kernel, or `NOBODY`.
    offered_by: AtomicU64,
    size: Size,
    /// The next buffer on the stack of returned buffers.
    next: AtomicPtr<Buffer>,
    memory: NonNull<u8>,
    returns: Arc<Returns>,
}

/// The most holders of a buffer: half of the range, so that threads which all pass the limit at
/// once, before one of them ends the process, do not reach the end of the range.
const MOST_HOLDERS: u32 = u32::MAX / 2;

/// The number of no thread.
const NOBODY: u64 = u64::MAX;

/// The releases that are counted before they are subtracted, so that a program which splits and
/// drops leases without end does not reach `MOST_HOLDERS`.
const MOST_RELEASED: u32 = 1 << 16;

thread_local! {
    /// The number of this thread, never used again; 0 if it has offered no buffer.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of this thread, which it gets if it has none.
fn own_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    if NUMBER.get() == 0 {
        NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
    }
    NUMBER.get()
}

#[cold]
fn abort_too_many_holders() -> ! {
    crate::sys::fatal(
        "a received buffer has more than 2147483647 leases: parts that `split_off` \
         returned were kept or forgotten (mem::forget): drop each part; aborting",
    )
}

impl Buffer {
    /// Makes a buffer with one hold, the caller's. None: there is no memory for it.
    fn new(size: Size, returns: &Arc<Returns>) -> Option<NonNull<Buffer>> {
        // Allocated as `Box` does, so that `free` can use `Box::from_raw`, but without aborting if
        // there is no memory. SAFETY: the layout's size is not zero.
        let place = NonNull::new(unsafe { alloc(Layout::new::<Buffer>()) })?.cast::<Buffer>();
        let Some(memory) = map_pages(size.mapped()).ok().and_then(NonNull::new) else {
            // SAFETY: allocated above with this layout, and nothing is in it.
            unsafe { dealloc(place.as_ptr().cast(), Layout::new::<Buffer>()) };
            return None;
        };
        let buffer = Buffer {
            holders: AtomicU32::new(1),
            released: AtomicU32::new(0),
            offered_by: AtomicU64::new(NOBODY),
            size,
            next: AtomicPtr::new(ptr::null_mut()),
            memory,
            returns: Arc::clone(returns),
        };
        // SAFETY: allocated above, with the size and alignment of a buffer.
        unsafe { place.write(buffer) };
        Some(place)
    }

    pub(crate) fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Adds `count` holds; the caller has one already.
    #[inline]
    pub(crate) fn hold(&self, count: u32) {
        // Relaxed: the new holders get the buffer by other means.
        if self.holders.fetch_add(count, Ordering::Relaxed) > MOST_HOLDERS {
            abort_too_many_holders();
        }
    }

    /// Adds `parts` holds, and lets the calling thread, which has a hold, count the leases that it
    /// drops. The same thread calls [`withdraw`](Self::withdraw) before it releases its own hold.
    pub(crate) fn offer(&self, parts: u32) {
        self.hold(parts);
        self.offered_by.store(own_number(), Ordering::Relaxed);
    }

    /// Ends [`offer`](Self::offer). Returns the number of holds that the thread has released; the
    /// caller subtracts it, with one of its own holds or more.
    pub(crate) fn withdraw(&self) -> u32 {
        self.offered_by.store(NOBODY, Ordering::Relaxed);
        self.released.swap(0, Ordering::Relaxed)
    }

    /// Counts a released hold, if this thread offers the buffer; otherwise returns false.
    #[inline]
    fn count_released(&self) -> bool {
        // Relaxed: only the thread with this number has stored it, and only this thread changes it.
        if self.offered_by.load(Ordering::Relaxed) != NUMBER.get() {
            return false;
        }
        let released = self.released.load(Ordering::Relaxed) + 1;
        if released < MOST_RELEASED {
            self.released.store(released, Ordering::Relaxed);
        } else {
            self.released.store(0, Ordering::Relaxed);
            // Does not reach 0, because the group has a hold. Release: as in `let_go`.
            self.holders.fetch_sub(released, Ordering::Release);
        }
        true
    }

    /// # Safety
    /// The caller is the only holder, and nobody refers to the buffer any more.
    unsafe fn free(buffer: NonNull<Buffer>) {
        // SAFETY: allocated by `new` as a box allocates it; the caller's promise.
        let buffer = unsafe { Box::from_raw(buffer.as_ptr()) };
        // SAFETY: mapped by `new` with this length; nobody holds the buffer.
        unsafe { unmap_pages(buffer.memory.as_ptr(), buffer.size.mapped()) };
    }
}

/// Releases the hold of a lease; the last one returns the buffer.
///
/// # Safety
/// The caller has the hold, and does not touch the buffer by it afterwards.
#[inline]
pub(crate) unsafe fn let_go_of_lease(buffer: NonNull<Buffer>) {
    // SAFETY: held.
    if !unsafe { buffer.as_ref() }.count_released() {
        // SAFETY: the caller's promise.
        unsafe { let_go(buffer, 1) };
    }
}

/// Releases `count` holds; the last one returns the buffer.
///
/// # Safety
/// The caller has these holds, and does not touch the buffer by them afterwards.
#[inline]
pub(crate) unsafe fn let_go(buffer: NonNull<Buffer>, count: u32) {
    if count == 0 {
        return;
    }
    // SAFETY: held.
    let head = unsafe { buffer.as_ref() };
    // Release: this holder's uses of the bytes come before the next use.
    if head.holders.fetch_sub(count, Ordering::Release) == count {
        fence(Ordering::Acquire);
        // SAFETY: the caller released the last hold.
        unsafe { give_back(buffer) };
    }
}

/// # Safety
/// Nobody holds the buffer; the caller was the last.
unsafe fn give_back(buffer: NonNull<Buffer>) {
    // SAFETY: nobody else frees it before it is on the stack.
    let head = unsafe { buffer.as_ref() };
    // The last holder keeps it alive; on the stack it may be gone at once.
    let returns = Arc::as_ptr(&head.returns);
    loop {
        // SAFETY: the buffer, which still belongs to this call, keeps its stack alive.
        let top = unsafe { &*returns }.top.load(Ordering::Relaxed);
        if top == closed() {
            // SAFETY: the pool is gone, and nobody holds the buffer.
            return unsafe { Buffer::free(buffer) };
        }
        head.next.store(top, Ordering::Relaxed);
        // SAFETY: as above; the exchange below is the last access.
        let top_word = unsafe { &(*returns).top };
        // Release: pairs with `take_all`.
        let pushed = top_word.compare_exchange_weak(
            top,
            buffer.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        if pushed.is_ok() {
            return;
        }
    }
}

/// The mark of a stack whose pool is gone; no buffer has this address.
fn closed() -> *mut Buffer {
    ptr::without_provenance_mut(1)
}

/// The buffers on their way back to a pool, from any thread.
#[derive(Debug)]
struct Returns {
    top: AtomicPtr<Buffer>,
}

impl Returns {
    fn new() -> Arc<Self> {
        Arc::new(Returns { top: AtomicPtr::new(ptr::null_mut()) })
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.top.load(Ordering::Relaxed).is_null()
    }

    /// Takes all that came back. Only the pool, which has not closed the stack, may.
    fn take_all(&self) -> Chain {
        // Acquire: pairs with the pushes.
        Chain { next: self.top.swap(ptr::null_mut(), Ordering::Acquire) }
    }

    /// Takes all buffers that came back; later ones are freed by their last holders.
    fn close(&self) -> Chain {
        Chain { next: self.top.swap(closed(), Ordering::Acquire) }
    }
}

/// Buffers taken off the stack; each is the taker's alone. Those left are leaked.
struct Chain {
    next: *mut Buffer,
}

impl Iterator for Chain {
    type Item = NonNull<Buffer>;

    fn next(&mut self) -> Option<NonNull<Buffer>> {
        let buffer = NonNull::new(self.next)?;
        // SAFETY: the buffer was on the stack, so it is alive, and it belongs to this call since it
        // was taken.
        self.next = unsafe { buffer.as_ref() }.next.load(Ordering::Relaxed);
        Some(buffer)
    }
}

// A stack frees nothing: `Pool::drop` closes it and frees the buffers on it.
