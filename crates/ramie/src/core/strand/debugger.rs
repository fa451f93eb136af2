//! The places of the strands in memory, for `tools/debugger/ramie.py`.
//!
//! The script reads them from a section of the program, so it needs neither types of the program
//! nor its symbols, and it works on a live process as well as on a core file.
#![allow(unsafe_code)]

use std::{hint::black_box, mem::offset_of, panic::Location, sync::atomic::AtomicPtr};

use super::{
    SpawnAttributes, StrandHeader,
    job::JobTable,
    memory::CHUNK_HEADERS,
    slab::{CHUNKS, TABLE},
};
use crate::core::{
    wait::{park::WaitRecord, record::WaitKind},
    worker::FiberStack,
};

/// The last character is the version of all that follows; the script refuses others.
const MAGIC: [u8; 8] = *b"RamieDb1";

#[repr(C)]
struct DebuggerLayout {
    magic: [u8; 8],
    chunks: &'static [AtomicPtr<StrandHeader>; CHUNKS],
    /// By this one the script checks that it reads locations as the compiler lays them out.
    sample: &'static Location<'static>,
    /// Sizes, counts and offsets, in the order in which the script names them.
    numbers: [usize; 19],
}

#[used]
// SAFETY: a section of its own, which nothing else reads or runs.
#[unsafe(link_section = ".ramie_debugger")]
static LAYOUT: DebuggerLayout = DebuggerLayout {
    magic: MAGIC,
    chunks: &TABLE,
    sample: Location::caller(),
    numbers: [
        size_of::<StrandHeader>(),
        CHUNK_HEADERS,
        CHUNKS,
        offset_of!(StrandHeader, word),
        offset_of!(StrandHeader, stack),
        offset_of!(StrandHeader, table),
        offset_of!(StrandHeader, attributes),
        offset_of!(JobTable, run),
        size_of::<FiberStack>(),
        FiberStack::HEADER_OFFSET,
        FiberStack::COROUTINE_OFFSET,
        FiberStack::COROUTINE_BYTES,
        FiberStack::RECORD_OFFSET,
        FiberStack::SIZE_OFFSET,
        offset_of!(WaitRecord, kind),
        offset_of!(WaitRecord, location),
        offset_of!(WaitRecord, is_plain),
        offset_of!(WaitKind, name),
        offset_of!(SpawnAttributes, options.name),
    ],
};

/// Keeps the linker from leaving the section out.
pub(crate) fn be_open_to_debuggers() {
    black_box(&LAYOUT);
}
