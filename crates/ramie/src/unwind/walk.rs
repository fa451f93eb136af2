//! From a copy of a stack to the addresses of its calls.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

use framehop::{
    ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, Unwinder,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};

use ramie_coro::saved::SavedRegisters;

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
    with_walker(|walker| match copy.registers.frame {
        0 => walker.walk_without_frame_pointer(copy),
        frame => walker.walk(copy, frame).calls,
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

    /// For registers without the frame pointer, which the kernel does not show.
    ///
    /// Some functions find their caller by it; std is compiled in that way. Such a function has
    /// stored its caller's frame pointer and, before that, the call has stored the address of the
    /// return. So each pair of words above the stack pointer whose second word is an address of
    /// code may be that place. The right one is the first from which the walk reaches the end of
    /// the fiber's stack. If none does, the longest walk counts.
    fn walk_without_frame_pointer(&mut self, copy: &StackCopy) -> Vec<usize> {
        let mut longest = self.walk(copy, 0);
        let start = copy.registers.stack;
        for frame in (start..start + MOST_LOCALS).step_by(WORD) {
            let Some(caller) = copy.read(frame + WORD) else { break };
            if longest.is_whole {
                break;
            }
            if self.is_code(caller) {
                let walk = self.walk(copy, frame);
                if walk.is_whole || walk.calls.len() > longest.calls.len() {
                    longest = walk;
                }
            }
        }
        longest.calls
    }

    fn walk(&mut self, copy: &StackCopy, frame: usize) -> Walk {
        let mut registers = to_unwinder(SavedRegisters { frame, ..copy.registers });
        let mut read = |address: u64| copy.read(address as usize).map(|word| word as u64).ok_or(());
        let mut call = FrameAddress::from_instruction_pointer(registers.ip());
        let mut walk = Walk::default();
        while walk.calls.len() < MOST_CALLS {
            walk.calls.push(call.address_for_lookup() as usize);
            let link = registers.bp() as usize;
            let step = self.unwinder.unwind_frame(call, &mut registers, &mut self.cache, &mut read);
            let Ok(Some(caller)) = step else { break };
            let caller = match resumer(copy, link, caller) {
                Resumer::None => caller,
                Resumer::Known(saved) => {
                    registers = to_unwinder(saved);
                    registers.ip()
                }
                Resumer::NotCopied => {
                    walk.is_whole = true;
                    break;
                }
            };
            let Some(caller) = FrameAddress::from_return_address(caller) else { break };
            call = caller;
        }
        walk
    }
}

/// The addresses of calls.
#[derive(Default)]
struct Walk {
    calls: Vec<usize>,
    /// It has reached the first function of the fiber.
    is_whole: bool,
}

/// What is below a frame, if that is the first one of a coroutine.
enum Resumer {
    /// It is not.
    None,
    Known(SavedRegisters),
    /// The worker's loop, or a stack too many.
    NotCopied,
}

/// Looks for the end of a coroutine's stack. The first function of each coroutine finds its caller
/// by an expression that the unwinder does not evaluate; the unwinder then takes the frame pointer
/// for that of a usual function. It is the address of the link to the resumer, and the word behind
/// it, the entry of the first function of the body, comes out as the caller.
fn resumer(copy: &StackCopy, link: usize, caller: u64) -> Resumer {
    let is_end = copy.is_link(link) && copy.read(link + WORD) == Some(caller as usize);
    if !is_end {
        return Resumer::None;
    }
    let saved = copy.read(link).and_then(|address| {
        let words = [copy.read(address)?, copy.read(address + WORD)?];
        Some(SavedRegisters::of_resumer(address, &words))
    });
    saved.map_or(Resumer::NotCopied, Resumer::Known)
}

fn to_unwinder(registers: SavedRegisters) -> UnwindRegsX86_64 {
    let SavedRegisters { instruction, stack, frame } = registers;
    UnwindRegsX86_64::new(instruction as u64, stack as u64, frame as u64)
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
