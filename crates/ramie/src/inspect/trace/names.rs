//! The texts behind the addresses in events.
#![allow(unsafe_code)]

use std::{collections::HashSet, panic::Location, ptr, slice};

use super::chunk::{Chunk, TEXTS};
use crate::core::{
    trace::{EventKind, EventWords, unpack_address, unpack_bits},
    wait::park::WaitKind,
};

/// The most addresses of one trace; texts of further ones are left out.
const MOST_NAMES: usize = 65_536;
/// The number of addresses that are recognised without a search, a power of two.
const RECENT: usize = 64;

/// The addresses whose texts are in the trace already.
pub(super) struct Names {
    seen: HashSet<usize>,
    recent: [usize; RECENT],
}

impl Names {
    pub(super) fn new() -> Names {
        Names { seen: HashSet::new(), recent: [0; RECENT] }
    }

    /// Whether the address is met for the first time.
    #[inline]
    fn is_new(&mut self, address: usize) -> bool {
        // Static data is aligned to 8 bytes or more.
        let recent = &mut self.recent[(address >> 3) % RECENT];
        if address == 0 || *recent == address {
            return false;
        }
        *recent = address;
        self.is_unseen(address)
    }

    #[cold]
    #[inline(never)]
    fn is_unseen(&mut self, address: usize) -> bool {
        self.seen.len() < MOST_NAMES && self.seen.insert(address)
    }

    /// Appends the texts of the addresses in an event that were not met before.
    ///
    /// # Safety
    /// The event was copied whole from a buffer of this process ([`TraceBuffer::copy`]).
    ///
    /// [`TraceBuffer::copy`]: crate::core::trace::TraceBuffer::copy
    pub(super) unsafe fn add(&mut self, event: &EventWords, texts: &mut Vec<(u64, String)>) {
        let [_, _, second, third] = *event;
        if !EventKind::has_addresses(event) {
            return;
        }
        let mut add = |address: usize, text: &dyn Fn() -> String| {
            if self.is_new(address) {
                texts.push((address as u64, text()));
            }
        };
        match EventKind::of(event) {
            Some(
                EventKind::Waits
                | EventKind::Woken
                | EventKind::TimedOut
                | EventKind::WaitCancelled,
            ) => {
                // SAFETY: the words of this kind hold the addresses of a static kind of wait and of
                // a static location (`TraceBuffer::add_wait`).
                add(unpack_address(second), &|| unsafe { purpose_at(unpack_address(second)) });
                // SAFETY: as above.
                add(unpack_address(third), &|| unsafe { location_at(unpack_address(third)) });
            }
            Some(EventKind::Spawned) => {
                // SAFETY: the last word holds the address of a static location
                // (`TraceBuffer::add_spawn`).
                add(unpack_address(third), &|| unsafe { location_at(unpack_address(third)) });
            }
            Some(EventKind::Started) => {
                // SAFETY: the third word holds the address of a static location
                // (`TraceBuffer::add_start`).
                add(unpack_address(second), &|| unsafe { location_at(unpack_address(second)) });
                let length = usize::from(unpack_bits(third));
                // SAFETY: the last one holds the address and the length of a static text.
                add(unpack_address(third), &|| unsafe { text_at(unpack_address(third), length) });
            }
            _ => {}
        }
    }
}

/// Writes the texts as a chunk.
pub(super) fn chunk_of(texts: &[(u64, String)]) -> Vec<u8> {
    let add = |chunk: Chunk, (address, text): &(u64, String)| chunk.u64(*address).text(text);
    texts.iter().fold(Chunk::new(TEXTS), add).end()
}

/// # Safety
/// The address is that of a static kind of wait, and was exposed.
unsafe fn purpose_at(address: usize) -> String {
    let kind: *const WaitKind = ptr::with_exposed_provenance(address);
    // SAFETY: the caller's promise.
    unsafe { &*kind }.name.to_owned()
}

/// # Safety
/// The address is that of a static location, and was exposed.
unsafe fn location_at(address: usize) -> String {
    let location: *const Location<'static> = ptr::with_exposed_provenance(address);
    // SAFETY: the caller's promise.
    unsafe { &*location }.to_string()
}

/// # Safety
/// The address and the length are those of a static text, and the address was exposed.
unsafe fn text_at(address: usize, length: usize) -> String {
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address), length) };
    String::from_utf8_lossy(bytes).into_owned()
}
