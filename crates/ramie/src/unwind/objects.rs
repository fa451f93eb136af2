//! The program and its libraries in memory, with their tables for unwinding.
//!
//! The loader describes each object by its program headers (dl_iterate_phdr(3)). One of them gives
//! the place of `.eh_frame_hdr`, the index of the table; the index begins with the place of the
//! table itself, `.eh_frame`, whose length is not given: it ends with a terminator, inside the
//! segment in which it lies.
#![allow(unsafe_code)]

use std::{ffi::c_void, ops::Range, slice};

/// The index begins with its version and three formats. In this one, which all linkers use, the
/// place of the table follows as a difference of 32 bits.
const USUAL_HEAD: [u8; 2] = [1, 0x1b];

/// An object: its code, and copies of its tables.
pub(super) struct LoadedObject {
    /// The difference between the addresses in memory and those in the file.
    pub(super) base: usize,
    pub(super) range: Range<usize>,
    /// The segments that can be executed.
    pub(super) code: Vec<Range<usize>>,
    pub(super) index: Range<usize>,
    pub(super) index_bytes: Vec<u8>,
    pub(super) table: Range<usize>,
    pub(super) table_bytes: Vec<u8>,
}

/// How often objects were loaded and unloaded; a change means that others are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Loads(u64, u64);

/// Returns the objects that are loaded, those without tables left out.
pub(super) fn objects() -> Vec<LoadedObject> {
    let mut found = Vec::new();
    for_each(&mut |info| {
        found.extend(object(info));
        true
    });
    found
}

/// Returns the count of loads. A few objects, such as those of the loader itself, never change.
pub(super) fn loads() -> Loads {
    let mut loads = Loads::default();
    for_each(&mut |info| {
        loads = Loads(info.dlpi_adds, info.dlpi_subs);
        false
    });
    loads
}

type Visitor<'a> = &'a mut dyn FnMut(&libc::dl_phdr_info) -> bool;

/// Calls `visit` for each object, until it returns false. The loader's lock is held meanwhile, so
/// no object is unloaded.
fn for_each(mut visit: Visitor<'_>) {
    unsafe extern "C" fn call(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> i32 {
        // SAFETY: `data` is the visitor that `for_each` has passed, and which it still borrows.
        let visit = unsafe { &mut *data.cast::<Visitor<'_>>() };
        // SAFETY: dl_iterate_phdr passes a valid description for the time of this call.
        i32::from(!visit(unsafe { &*info }))
    }
    // SAFETY: `call` matches the declared type, and `visit` lives until this returns. The visitors
    // of this file do not panic: they copy memory.
    unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut visit).cast()) };
}

fn object(info: &libc::dl_phdr_info) -> Option<LoadedObject> {
    // SAFETY: the loader keeps the headers of a loaded object, as many as it says.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr as usize;
    let place = |header: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(header.p_vaddr as usize);
        start..start.wrapping_add(header.p_memsz as usize)
    };
    let segments = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let loaded = || segments().map(place);
    let code = segments().filter(|header| header.p_flags & libc::PF_X != 0).map(place).collect();
    // Nobody writes to such a segment, and all of it is from the file.
    let is_constant =
        |header: &&libc::Elf64_Phdr| header.p_flags & (libc::PF_R | libc::PF_W) == libc::PF_R;
    let constants = || {
        let in_file = |header: &libc::Elf64_Phdr| {
            let start = base.wrapping_add(header.p_vaddr as usize);
            start..start.wrapping_add(header.p_filesz as usize)
        };
        segments().filter(is_constant).map(in_file)
    };
    let index = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME).map(place)?;
    constants().find(|segment| segment.contains(&index.start) && index.end <= segment.end)?;
    // SAFETY: a part of a constant segment of an object that is not unloaded meanwhile.
    let index_bytes = unsafe { copy(&index) };
    let table_start = table_start(index.start, &index_bytes)?;
    let segment = constants().find(|segment| segment.contains(&table_start))?;
    let table = table_start..segment.end;
    let range = loaded().map(|segment| segment.start).min()?..loaded().map(|s| s.end).max()?;
    // SAFETY: as above.
    let table_bytes = unsafe { copy(&table) };
    Some(LoadedObject { base, range, code, index, index_bytes, table, table_bytes })
}

/// Decodes the place of the table from the head of the index.
fn table_start(index: usize, bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<8>()?;
    if head[..2] != USUAL_HEAD {
        return None;
    }
    let difference = i32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    Some(index.wrapping_add(4).wrapping_add_signed(difference as isize))
}

/// # Safety
/// The memory is readable, and nobody writes to it.
unsafe fn copy(range: &Range<usize>) -> Vec<u8> {
    let start = std::ptr::with_exposed_provenance::<u8>(range.start);
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(start, range.len()) }.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_the_c_library_are_found() {
        let objects = objects();
        let has = |address: usize| {
            let code =
                |object: &LoadedObject| object.code.iter().any(|code| code.contains(&address));
            objects.iter().any(code)
        };
        assert!(has(object as *const () as usize));
        assert!(has(libc::getpid as *const () as usize));
        assert_eq!(loads(), loads());
    }

    #[test]
    fn only_the_usual_index_is_understood() {
        let mut index = [1, 0x1b, 3, 0x3b, 0xf0, 0xff, 0xff, 0xff];
        assert_eq!(table_start(100, &index), Some(88));
        index[1] = 0;
        assert_eq!(table_start(100, &index), None);
        assert_eq!(table_start(100, &index[..7]), None);
    }
}
