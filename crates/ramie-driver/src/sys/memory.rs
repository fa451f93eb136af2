//! Anonymous memory for tables that live as long as the process, and hints about memory.
#![allow(unsafe_code)]

use std::ptr;

use rustix::{
    io,
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap},
};

/// Maps `bytes` of zeroed memory, aligned to `align` (a power of two), committed when touched.
///
/// # Errors
/// `ENOMEM`: the address space or its limit (`ulimit -v`) is exhausted.
pub fn map_anonymous(bytes: usize, align: usize) -> io::Result<*mut u8> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes + align, protection, flags) }?;
    let lead = start.align_offset(align);
    let aligned = start.wrapping_byte_add(lead);
    if lead > 0 {
        // SAFETY: the head of the mapping just made; nothing refers to it.
        let _ = unsafe { munmap(start, lead) };
    }
    let tail = align - lead;
    if tail > 0 {
        // SAFETY: the tail of the mapping just made; nothing refers to it.
        let _ = unsafe { munmap(aligned.wrapping_byte_add(bytes), tail) };
    }
    Ok(aligned.cast())
}

/// Maps `bytes` of zeroed memory, whole pages, of which each is committed when it is touched.
///
/// # Errors
/// `ENOMEM`: the address space or its limit (`ulimit -v`) is exhausted, or there are too many
/// mappings.
pub(crate) fn map_pages(bytes: usize) -> io::Result<*mut u8> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }?;
    Ok(start.cast())
}

/// Gives back pages of [`map_pages`].
///
/// # Safety
/// The mapping is as `map_pages` returned it, and nobody refers to it any more.
pub(crate) unsafe fn unmap_pages(start: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    if unsafe { munmap(start.cast(), bytes) }.is_err() {
        // The kernel merges neighbouring mappings, and the process has too many mappings to split
        // this one. The range of addresses is leaked, but its memory is released.
        // SAFETY: as above.
        let _ = unsafe { madvise(start.cast(), bytes, Advice::LinuxDontNeed) };
    }
}

/// Commits a part of a mapping in one call (Linux 5.14). If the kernel refuses, pages are committed
/// when they are touched.
///
/// # Safety
/// The range is page-aligned and lies in one mapping of [`map_anonymous`], which stays mapped.
pub unsafe fn populate(start: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise; populating changes no contents.
    let _ = unsafe { madvise(start.cast(), bytes, Advice::LinuxPopulateWrite) };
}

/// Asks for all lines of the cache in which a value may lie; any address will do.
#[inline(always)]
pub fn prefetch_value<T>(value: *const T) {
    for offset in (0..size_of::<T>()).step_by(64) {
        prefetch(value.cast::<u8>().wrapping_add(offset));
    }
    // The value may begin in the middle of a cache line.
    if align_of::<T>() < 64 {
        prefetch(value.wrapping_add(1).cast());
    }
}

/// Asks for the cache line of `address`; any address will do, since a prefetch cannot fault.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the feature is part of the architecture's base, and a prefetch has no effect that a
    // program can see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
