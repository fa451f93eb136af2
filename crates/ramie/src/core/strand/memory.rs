//! Memory for headers: mapped in chunks, never unmapped.
#![allow(unsafe_code)]

use std::io;

use super::header::StrandHeader;

/// 2 MiB, the size of a huge page on x86-64 and aarch64. A chunk is aligned to its size.
pub(super) const CHUNK_BYTES: usize = 2 * 1024 * 1024;
pub(super) const CHUNK_HEADERS: usize = CHUNK_BYTES / size_of::<StrandHeader>();

/// The head of a chunk, in the memory of its first header.
#[repr(C)]
pub(super) struct ChunkHead {
    pub(super) number: u32,
}

const _: () = assert!(size_of::<StrandHeader>() == 64);
const _: () = assert!(size_of::<ChunkHead>() <= size_of::<StrandHeader>());

/// The number of headers that are committed at once in a program that has had thousands of strands
/// alive: one call costs less than 32 page faults. (A huge page costs still less while it is warm;
/// but a virtual machine whose host takes free huge pages back pays four times as much for a cold
/// one.)
pub(super) const COMMITTED_HEADERS: usize = 128 * 1024 / size_of::<StrandHeader>();

/// Commits the memory of `COMMITTED_HEADERS` headers from `first` on; if it cannot, they are
/// committed when they are touched.
pub(super) fn commit(first: *mut StrandHeader) {
    // SAFETY: the memory lies in a chunk, whose size is a multiple of this length.
    unsafe {
        ramie_driver::sys::populate(first.cast(), COMMITTED_HEADERS * size_of::<StrandHeader>())
    };
}

/// Maps a chunk of zeroed headers.
///
/// # Errors
/// The address space, or its limit, is exhausted.
pub(super) fn map_chunk(number: u32) -> io::Result<*mut StrandHeader> {
    let mapped = ramie_driver::sys::map_anonymous(CHUNK_BYTES, CHUNK_BYTES);
    let address = mapped.map_err(|error| {
        let error = io::Error::from(error);
        let advice = "raise the address space limit (ulimit -v) or run fewer strands at once";
        io::Error::new(error.kind(), format!("no memory for more strands ({error}); {advice}"))
    })?;
    let head: *mut ChunkHead = address.cast();
    // Exposed for `slab::index_of`.
    let _ = head.expose_provenance();
    // SAFETY: freshly mapped, writable, aligned to more than a page, and nobody else's.
    unsafe { head.write(ChunkHead { number }) };
    Ok(address.cast())
}
