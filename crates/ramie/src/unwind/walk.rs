//! From a copy of a stack to the addresses of its calls.

use std::sync::{Mutex, PoisonError};

use framehop::{
    ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, Unwinder,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};

use super::objects::{LoadedObject, Loads, loads, objects};
use crate::core::worker::StackCopy;

/// The most calls of a backtrace.
const MOST_CALLS: usize = 256;

static WALKER: Mutex<Option<Walker>> = Mutex::new(None);

/// The tables of all objects, and the rules that were found in them before.
struct Walker {
    loads: Loads,
    unwinder: UnwinderX86_64<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheX86_64<MayAllocateDuringUnwind>,
}

/// Returns an address inside each call, the innermost first. It ends at the first frame that is not
/// in the copy: with the first function of the fiber, whose caller is on the worker's stack.
pub(super) fn walk(copy: &StackCopy) -> Vec<usize> {
    let mut walker = WALKER.lock().unwrap_or_else(PoisonError::into_inner);
    let loads = loads();
    if walker.as_ref().is_none_or(|walker| walker.loads != loads) {
        *walker = Some(Walker::new(loads));
    }
    walker.as_mut().map_or_else(Vec::new, |walker| walker.walk(copy))
}

impl Walker {
    fn new(loads: Loads) -> Walker {
        let mut unwinder = UnwinderX86_64::new();
        objects().into_iter().for_each(|object| unwinder.add_module(module(object)));
        Walker { loads, unwinder, cache: CacheX86_64::new_in() }
    }

    fn walk(&mut self, copy: &StackCopy) -> Vec<usize> {
        let registers = copy.registers;
        let start = registers.instruction as u64;
        let unwound = UnwindRegsX86_64::new(start, registers.stack as u64, registers.frame as u64);
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
    let LoadedObject { base, range, index, index_bytes, table, table_bytes } = object;
    // Addresses of the file, which are those of the memory without the base.
    let in_file = |range: std::ops::Range<usize>| {
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
