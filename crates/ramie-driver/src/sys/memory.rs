//! Anonymous memory for structures that live as long as the process.
#![allow(unsafe_code)]

use std::io;
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Maps `len` zeroed bytes at a multiple of `align`; they stay mapped until the process ends.
///
/// `len` is a multiple of the page size and `align` a power of two. `huge` asks for huge pages,
/// which the kernel may ignore.
///
/// # Errors
/// `ENOMEM`: memory, address space (`ulimit -v`) or mappings are used up.
///
/// # Panics
/// `align` is not a power of two.
pub fn map_anonymous(len: usize, align: usize, huge: bool) -> io::Result<*mut u8> {
    assert!(align.is_power_of_two(), "an alignment is a power of two, not {align}");
    let spare = align.max(PAGE) - PAGE;
    let total = len.checked_add(spare).ok_or(rustix::io::Errno::NOMEM)?;
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), total, prot, flags) }?.cast::<u8>();
    let before = start.align_offset(align);
    let kept = start.wrapping_add(before);
    unmap(start, before);
    unmap(kept.wrapping_add(len), spare.saturating_sub(before));
    if huge {
        // SAFETY: the range was just mapped and holds nothing. Advice that is refused is no loss.
        let _ = unsafe { madvise(kept.cast(), len, Advice::LinuxHugepage) };
    }
    Ok(kept)
}

/// Gives a part of the new mapping back; nobody has seen it yet.
fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: `map_anonymous` passes page-aligned ends of the mapping it has just made, and
        // keeps no pointer into them. A refusal (too many mappings) costs address space only.
        let _ = unsafe { munmap(start.cast(), len) };
    }
}

/// The smallest page there is: mappings start at a multiple of it.
const PAGE: usize = 4096;
