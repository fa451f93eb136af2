//! From a copy of a stack to the addresses of its calls.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

use framehop::{
    ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, Unwinder,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};

use super::objects::{LoadedObject, Loads, loads, objects};
use crate::core::worker::StackCopy;

/// The most calls of a backtrace.
const MOST_CALLS: usize = 256;
/// How far above the stack pointer a frame pointer is looked for.
const MOST_LOCALS: usize = 8 * 1024;
const WORD: usize = size_of::<usize>();

static WALKER: Mutex<Option<Walker>> = Mutex::new(None);

/// The tables of all objects, and the rules that were found in them before.
struct Walker {
    loads: Loads,
    code: Vec<Range<usize>>,
    unwinder: UnwinderX86_64<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheX86_64<MayAllocateDuringUnwind>,
}

/// Returns an address inside each call, the innermost first. It ends at the first frame that is not
/// in the copy: with the first function of the fiber, whose caller is on the worker's stack.
pub(super) fn walk(copy: &StackCopy) -> Vec<usize> {
    with_walker(|walker| walker.walk(copy, copy.registers.frame))
}

/// As [`walk`], for registers without the frame pointer, which the kernel does not tell.
///
/// Some functions find their caller by it; std is compiled in that way. Such a function has stored
/// its caller's frame pointer and, before that, the call has stored the address of the return. So
/// each pair of words above the stack pointer whose second word is an address of code may be that
/// place. The walk from the right one goes up to the first function of the fiber, and from a wrong
/// one it ends after some calls. So the longest one counts.
pub(super) fn walk_without_frame_pointer(copy: &StackCopy) -> Vec<usize> {
    with_walker(|walker| {
        let mut longest = walker.walk(copy, 0);
        let start = copy.registers.stack;
        for frame in (start..start + MOST_LOCALS).step_by(WORD) {
            let Some(caller) = copy.read(frame + WORD) else { break };
            if walker.is_code(caller) {
                let calls = walker.walk(copy, frame);
                if calls.len() > longest.len() {
                    longest = calls;
                }
            }
        }
        longest
    })
}

fn with_walker(f: impl FnOnce(&mut Walker) -> Vec<usize>) -> Vec<usize> {
    let mut walker = WALKER.lock().unwrap_or_else(PoisonError::into_inner);
    let loads = loads();
    if walker.as_ref().is_none_or(|walker| walker.loads != loads) {
        *walker = Some(Walker::new(loads));
    }
    walker.as_mut().map_or_else(Vec::new, f)
}

impl Walker {
    fn new(loads: Loads) -> Walker {
        let mut unwinder = UnwinderX86_64::new();
        let mut code = Vec::new();
        for object in objects() {
            code.extend_from_slice(&object.code);
            unwinder.add_module(module(object));
        }
        Walker { loads, code, unwinder, cache: CacheX86_64::new_in() }
    }

    fn is_code(&self, address: usize) -> bool {
        self.code.iter().any(|code| code.contains(&address))
    }

    fn walk(&mut self, copy: &StackCopy, frame: usize) -> Vec<usize> {
        let registers = copy.registers;
        let start = registers.instruction as u64;
        let unwound = UnwindRegsX86_64::new(start, registers.stack as u64, frame as u64);
        let mut read = |address: u64| copy.read(address as usize).map(|word| word as u64).ok_or(());
        let mut calls = self.unwinder.iter_frames(start, unwound, &mut self.cache, &mut read);
        let mut addresses = Vec::new();
        while addresses.len() < MOST_CALLS
            && let Ok(Some(call)) = calls.next()
        {
            addresses.push(call.address_for_lookup() as usize);
        }
        addresses
    }
}

fn module(object: LoadedObject) -> Module<Vec<u8>> {
    let LoadedObject { base, range, code: _, index, index_bytes, table, table_bytes } = object;
    // Addresses of the file, which are those of the memory without the base.
    let in_file = |range: Range<usize>| {
        range.start.wrapping_sub(base) as u64..range.end.wrapping_sub(base) as u64
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        eh_frame_svma: Some(in_file(table)),
        eh_frame: Some(table_bytes),
        eh_frame_hdr_svma: Some(in_file(index)),
        eh_frame_hdr: Some(index_bytes),
        ..Default::default()
    };
    let range = range.start as u64..range.end as u64;
    Module::new(String::new(), range, base as u64, sections)
}
