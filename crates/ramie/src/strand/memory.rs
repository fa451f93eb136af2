//! Memory for slots: mapped in chunks, never unmapped.

use super::slot::Slot;

/// Slots in a chunk: 2 MiB, the size of a huge page on x86-64 and aarch64.
pub(super) const CHUNK_SLOTS: usize = 2 * 1024 * 1024 / size_of::<Slot>();

/// Maps one chunk of zeroed slots; all but the first chunk ask for a huge page, because a program
/// that comes so far has tens of thousands of strands and saves hundreds of page faults.
pub(super) fn map_chunk(is_first: bool) -> *mut Slot {
    let bytes = CHUNK_SLOTS * size_of::<Slot>();
    match ramie_driver::sys::map_anonymous(bytes, bytes, !is_first) {
        Ok(address) => address.cast(),
        Err(error) => panic!(
            "no memory for more strands ({error}); raise the address space limit (ulimit -v) or \
             run fewer at once"
        ),
    }
}
