//! The program's allocator: the system's, which counts allocations while it is asked to.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct CountingAllocator;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);

/// A part of the counts. Threads are spread over several parts, because one counter for all would
/// slow down workloads on several threads. Aligned to two cache lines, because the prefetcher loads
/// them in pairs.
#[repr(align(128))]
struct Part {
    allocations: AtomicU64,
    bytes: AtomicU64,
}

const PARTS: usize = 16;
static COUNTS: [Part; PARTS] =
    [const { Part { allocations: AtomicU64::new(0), bytes: AtomicU64::new(0) } }; PARTS];

/// Allocations and the bytes that they asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct Allocations {
    pub(super) allocations: u64,
    pub(super) bytes: u64,
}

/// Starts or stops counting.
pub(super) fn count_allocations(counts: bool) {
    IS_COUNTING.store(counts, Relaxed);
}

/// The allocations that were counted since the program began.
pub(super) fn counted() -> Allocations {
    COUNTS.iter().fold(Allocations::default(), |sum, part| Allocations {
        allocations: sum.allocations + part.allocations.load(Relaxed),
        bytes: sum.bytes + part.bytes.load(Relaxed),
    })
}

#[inline(always)]
fn note(bytes: usize) {
    if IS_COUNTING.load(Relaxed) {
        count(bytes);
    }
}

#[cold]
fn count(bytes: usize) {
    // Without a destructor and initialized at compile time, so the access does not allocate, and
    // works while the thread ends.
    thread_local! { static PLACE: u8 = const { 0 } }
    let address = PLACE.with(|place| std::ptr::from_ref(place).addr() as u64);
    // The addresses of different threads differ in the middle bits, which this brings to the top.
    let part = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - PARTS.ilog2());
    let part = &COUNTS[part as usize];
    part.allocations.fetch_add(1, Relaxed);
    part.bytes.fetch_add(bytes as u64, Relaxed);
}

// SAFETY: every call is passed on to the system's allocator with the same arguments, and counting
// neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The growth alone, because the other bytes are counted already.
        note(size.saturating_sub(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}
