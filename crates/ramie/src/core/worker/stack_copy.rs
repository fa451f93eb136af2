//! Copies of stacks, from which another thread makes backtraces.
//!
//! A worker copies the frames of its suspended fibers when it answers a [`survey`](super::survey),
//! because a fiber that continues overwrites them. Everything else, unwinding and the look-up of
//! symbols, happens on the thread that asks, and reads only the copy. So a wrong table of a
//! compiler or a wrong guess here ends or falsifies one backtrace, and does no harm to the fiber.
//! The kernel copies, because frames have bytes that were never written.
//!
//! A fiber may suspend inside a coroutine that it resumes, and that inside another one. The base of
//! each such stack has a link to the frames of its resumer ([`link_of`]), by which the copy goes on
//! to the next stack, down to the fiber's own.

// A build without backtraces makes no copies.
#![cfg_attr(not(all(feature = "backtrace", target_arch = "x86_64")), allow(dead_code))]

use std::{ops::Range, ptr, sync::OnceLock};

use ramie_coro::saved::{
    Probe, SAVED_WORDS, SavedRegisters, index_of_stack_pointer, link_of, with_probe,
};
use ramie_driver::sys::{append_words, copy_words};

use super::FiberStack;

/// The most bytes of one stack that are copied. Frames beyond are missing in the backtrace.
const MOST_BYTES: usize = 32 * 1024;
/// The most stacks on which one strand has frames.
const MOST_STACKS: usize = 8;
/// The most bytes of all stacks of one strand.
const MOST_BYTES_OF_STRAND: usize = 64 * 1024;
const WORD: usize = size_of::<usize>();

/// The frames of a strand, and the registers with which it continues.
#[derive(Clone, Debug)]
pub(crate) struct StackCopy {
    pub(crate) registers: SavedRegisters,
    words: Vec<usize>,
    /// The stack on which the strand has suspended first, its own one last.
    parts: Vec<StackPart>,
    /// Whether all frames are there.
    is_whole: bool,
}

#[derive(Clone, Debug)]
struct StackPart {
    start: usize,
    /// Its place among the words.
    words: Range<usize>,
    /// Where this stack has the link to its resumer.
    link: usize,
}

/// Room for copies, one after the other. Filling it allocates nothing.
pub(crate) struct StackRoom(StackCopy);

impl StackRoom {
    pub(crate) fn new() -> StackRoom {
        StackRoom(StackCopy {
            registers: SavedRegisters { instruction: 0, stack: 0, frame: 0 },
            words: Vec::with_capacity(MOST_BYTES_OF_STRAND / WORD),
            parts: Vec::with_capacity(MOST_STACKS),
            is_whole: false,
        })
    }

    /// Copies the frames of a suspended fiber, at whose base `stack` lies.
    pub(super) fn copy_suspended(&mut self, stack: &FiberStack) -> Option<StackCopy> {
        let own = ptr::from_ref(stack).addr();
        let at = own + FiberStack::COROUTINE_OFFSET + index()? * WORD;
        let pointer = copy_words(at, 1)?[0];
        let saved = copy_words(pointer, SAVED_WORDS)?;
        let registers = SavedRegisters::from_words(pointer, saved.first_chunk()?);
        self.fill(registers, own).then(|| self.0.clone())
    }

    /// Copies the frames of a fiber above the stack pointer in `registers`. Its own stack ends at
    /// `own`. Returns false if the stack pointer is on no stack of a fiber or a coroutine.
    pub(crate) fn fill(&mut self, registers: SavedRegisters, own: usize) -> bool {
        let StackCopy { words, parts, is_whole, .. } = &mut self.0;
        *is_whole = false;
        words.clear();
        parts.clear();
        let (mut pointer, mut has_cut) = (registers.stack, false);
        while parts.len() < MOST_STACKS
            && let Some(stack) = ramie_coro::stack_of(pointer)
        {
            let is_own = (stack.floor()..=stack.base()).contains(&own);
            let end = if is_own { own } else { stack.base() };
            let room = MOST_BYTES_OF_STRAND - words.len() * WORD;
            let len = end.saturating_sub(pointer).min(MOST_BYTES).min(room) / WORD;
            let start = words.len();
            if len == 0 || !append_words(pointer, len, words) {
                break;
            }
            let link = link_of(end);
            has_cut |= len < end.saturating_sub(pointer) / WORD;
            *is_whole = is_own && !has_cut;
            parts.push(StackPart { start: pointer, words: start..words.len(), link });
            let mut resumer = [0];
            if is_own || !copy_word(link, &mut resumer) {
                break;
            }
            pointer = resumer[0];
        }
        self.0.registers = registers;
        !self.0.parts.is_empty()
    }

    pub(crate) fn into_copy(self) -> StackCopy {
        self.0
    }
}

fn copy_word(address: usize, word: &mut [usize; 1]) -> bool {
    ramie_driver::sys::copy_words_to(address, word)
}

impl StackCopy {
    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * WORD
    }

    /// Whether all frames of the strand are there.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether the copied frames hold one of these addresses, at `start` or above if that lies on
    /// the same stack.
    pub(crate) fn refers_to(&self, addresses: &Range<usize>, start: usize) -> bool {
        let mut words = self.parts.iter().flat_map(|part| {
            let words = &self.words[part.words.clone()];
            let below = start.saturating_sub(part.start) / WORD;
            words.get(below..).unwrap_or(words)
        });
        words.any(|word| addresses.contains(word))
    }

    /// Reads a word of the copied frames.
    pub(crate) fn read(&self, address: usize) -> Option<usize> {
        let read = |part: &StackPart| {
            let offset = address.checked_sub(part.start)?;
            let words = &self.words[part.words.clone()];
            offset.is_multiple_of(WORD).then(|| words.get(offset / WORD).copied())?
        };
        self.parts.iter().find_map(read)
    }

    /// Whether a stack has the link to its resumer at this address.
    pub(crate) fn is_link(&self, address: usize) -> bool {
        self.parts.iter().any(|part| part.link == address)
    }
}

/// Finds out where a coroutine keeps its stack pointer, before the first copy is made.
pub(super) fn prepare() {
    index();
}

/// The index of the saved stack pointer among the words of a coroutine. The layout of a coroutine
/// is not specified, so it is read from one that has suspended.
fn index() -> Option<usize> {
    static INDEX: OnceLock<Option<usize>> = OnceLock::new();
    *INDEX.get_or_init(|| {
        let copy =
            |probe: &Probe| copy_words(ptr::from_ref(probe).addr(), size_of_val(probe) / WORD);
        let (words, stack) = with_probe(|probe, stack| (copy(probe), stack))?;
        index_of_stack_pointer(&words?, stack)
    })
}
