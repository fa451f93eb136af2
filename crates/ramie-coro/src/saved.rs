//! The registers of a suspended coroutine, found in copies of its memory, for backtraces.
//!
//! The switch pushes the registers that a caller expects to find unchanged onto the stack, and
//! keeps the stack pointer in the coroutine:
//!
//! ```text
//!   | frame that called suspend           |
//!   | rbp                                 |
//!   | rbx                                 |
//!   | address at which it continues       |  <- saved stack pointer
//! ```
//!
//! corosensei shows neither, so this relies on the version that Cargo.toml names: its
//! `arch/x86_64.rs` draws the stack, and a test compares what is found here with a real suspension.
//! Everything is read from copies, so a wrong guess gives a wrong backtrace and nothing worse.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

/// The number of words that the switch has pushed.
pub const SAVED_WORDS: usize = 3;

/// Where a suspended coroutine continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedRegisters {
    /// The address of the next instruction.
    pub instruction: usize,
    /// The stack pointer at that instruction.
    pub stack: usize,
    /// The frame pointer.
    pub frame: usize,
}

/// The index of the saved stack pointer among the words of a coroutine, plus one; 0: not known.
static INDEX: AtomicUsize = AtomicUsize::new(0);

/// Finds the saved stack pointer in a copy of a suspended coroutine (the words of a
/// [`BareCoroutine`](crate::bare::BareCoroutine)) whose frames lie in `stack`.
///
/// Two words of a coroutine are addresses in its stack: the stack pointer of its start, and the
/// saved one, which is lower. If it has suspended inside a coroutine that it resumes, the saved one
/// lies in the stack of that coroutine. Then the word is known from coroutines that were looked at
/// before, or the answer is `None`. So it is on other processors than x86-64.
#[must_use]
pub fn saved_stack_pointer(words: &[usize], stack: Range<usize>) -> Option<usize> {
    if cfg!(not(target_arch = "x86_64")) {
        return None;
    }
    let inside = || words.iter().enumerate().filter(|(_, word)| stack.contains(word));
    let (index, lowest) = inside().min_by_key(|(_, word)| **word)?;
    if inside().any(|(_, word)| *word != *lowest) {
        INDEX.store(index + 1, Ordering::Relaxed);
        return Some(*lowest);
    }
    let index = INDEX.load(Ordering::Relaxed).checked_sub(1)?;
    words.get(index).copied().filter(|word| !stack.contains(word) && *word != 0)
}

impl SavedRegisters {
    /// Reads the registers from a copy of the words at the saved stack pointer.
    #[must_use]
    pub fn from_words(stack: usize, words: &[usize; SAVED_WORDS]) -> SavedRegisters {
        let [instruction, _, frame] = *words;
        SavedRegisters { instruction, stack: stack + size_of_val(words), frame }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_lower_of_two_addresses_is_the_saved_one() {
        let stack = 1000..2000;
        assert_eq!(saved_stack_pointer(&[2000, 1500, 7, 1900], stack.clone()), Some(1500));
        assert_eq!(saved_stack_pointer(&[2000, 7, 7, 2500], stack.clone()), None);
        // Suspended in the stack of another one: the word at the same place.
        assert_eq!(saved_stack_pointer(&[2000, 5000, 7, 1900], stack.clone()), Some(5000));
        // Fresh: both are the same.
        assert_eq!(saved_stack_pointer(&[2000, 1900, 7, 1900], stack), None);
    }

    #[test]
    fn registers_are_in_the_order_of_the_switch() {
        let registers = SavedRegisters::from_words(64, &[1, 2, 3]);
        assert_eq!(registers, SavedRegisters { instruction: 1, stack: 88, frame: 3 });
    }
}
