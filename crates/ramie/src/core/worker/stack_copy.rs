//! Copies of stacks, from which another thread makes backtraces.
//!
//! A worker copies the frames of its suspended fibers when it answers a
//! [`survey`](super::survey), because a fiber that continues overwrites them. Everything else,
//! unwinding and the look-up of symbols, happens on the thread that asks, and reads only the copy.
//! So a wrong table of a compiler or a wrong guess here ends or falsifies one backtrace, and does
//! no harm to the fiber. The kernel copies, because frames have bytes that were never written.
// A build without backtraces makes no copies.
#![cfg_attr(not(all(feature = "backtrace", target_arch = "x86_64")), allow(dead_code))]

use std::ops::Range;

use ramie_coro::saved::{SAVED_WORDS, SavedRegisters, saved_stack_pointer};
use ramie_driver::sys::copy_words;

use super::FiberStack;

/// The most bytes of one stack that are copied. Frames beyond are missing in the backtrace.
const MOST_BYTES: usize = 32 * 1024;
const WORD: usize = size_of::<usize>();

/// The frames of a strand, and the registers with which it continues.
#[derive(Clone, Debug)]
pub(crate) struct StackCopy {
    pub(crate) registers: SavedRegisters,
    /// The stack on which the strand has suspended; then its own, if that is another one: a fiber
    /// may suspend inside a coroutine that it resumes.
    parts: Vec<StackPart>,
}

#[derive(Clone, Debug)]
struct StackPart {
    start: usize,
    words: Vec<usize>,
}

impl StackPart {
    /// Copies a part of a stack that ends at `end`, from `start` on.
    fn copy(start: usize, end: usize) -> Option<StackPart> {
        let len = end.saturating_sub(start).min(MOST_BYTES);
        Some(StackPart { start, words: copy_words(start, len / WORD)? })
    }
}

impl StackCopy {
    /// Copies the frames of a suspended fiber, at whose base `stack` lies.
    pub(super) fn of_suspended(stack: &FiberStack) -> Option<StackCopy> {
        let own = stack.info()?;
        let end = std::ptr::from_ref(stack).addr();
        let words =
            copy_words(end + FiberStack::COROUTINE_OFFSET, FiberStack::COROUTINE_BYTES / WORD)?;
        let pointer = saved_stack_pointer(&words, own.floor()..end)?;
        let saved = copy_words(pointer, SAVED_WORDS)?;
        let registers = SavedRegisters::from_words(pointer, saved.first_chunk()?);
        let mut copy = StackCopy::from_registers(registers)?;
        if !(own.floor()..end).contains(&pointer) {
            let start = end.saturating_sub(MOST_BYTES).max(own.floor());
            copy.parts.extend(StackPart::copy(start, end));
        }
        Some(copy)
    }

    /// Copies the frames of a fiber's stack above the stack pointer in `registers`; `None` if that
    /// is no stack of a fiber.
    pub(crate) fn from_registers(registers: SavedRegisters) -> Option<StackCopy> {
        let stack = ramie_coro::stack_of(registers.stack)?;
        let part = StackPart::copy(registers.stack, stack.base())?;
        Some(StackCopy { registers, parts: vec![part] })
    }

    /// Whether the copied frames hold one of these addresses, at `start` or above if that lies on
    /// the same stack.
    pub(crate) fn refers_to(&self, addresses: &Range<usize>, start: usize) -> bool {
        let mut words = self.parts.iter().flat_map(|part| {
            let below = start.saturating_sub(part.start) / WORD;
            part.words.get(below..).unwrap_or(&part.words)
        });
        words.any(|word| addresses.contains(word))
    }

    /// Reads a word of the copied frames.
    pub(crate) fn read(&self, address: usize) -> Option<usize> {
        let read = |part: &StackPart| {
            let offset = address.checked_sub(part.start)?;
            offset.is_multiple_of(WORD).then(|| part.words.get(offset / WORD).copied())?
        };
        self.parts.iter().find_map(read)
    }
}
