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
//! `arch/x86_64.rs` draws the stack, and the tests of backtraces follow real suspensions.
//! Everything is read from copies, so a wrong guess gives a wrong backtrace and nothing worse.

#![allow(unsafe_code)]

use std::ops::Range;

use crate::{
    StackPool, StackSize,
    bare::{BareCoroutine, BareYielder},
    stack_of,
};

/// The number of words that the switch has pushed.
pub const SAVED_WORDS: usize = 3;

/// The word of a [`BareCoroutine`] that is presumed to be the saved stack pointer. The compiler may
/// lay the words out in another order: that is why reports search it
/// ([`index_of_stack_pointer`]), and why this one serves prefetches only.
pub(crate) const STACK_POINTER_WORD: usize = 4;

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

/// The coroutine of a [`with_probe`].
pub type Probe = BareCoroutine<(), (), ()>;

/// Calls `f` with a coroutine that has suspended, and with the part of its stack in which its
/// frames lie. `None` if there is no memory for its stack.
pub fn with_probe<R>(f: impl FnOnce(&Probe, Range<usize>) -> R) -> Option<R> {
    let stack = StackPool::new(StackSize::new(StackSize::MIN_BYTES).ok()?).take().ok()?;
    let base = stack.base().get();
    // Without the guard, whose lower end is among the words of a coroutine, too.
    let frames = stack_of(base - 1)?.floor()..base;
    let body = |yielder: &BareYielder<(), ()>, ()| {
        // SAFETY: on the coroutine's own stack.
        unsafe { yielder.suspend(()) };
    };
    let mut probe = Probe::with_stack(stack, body);
    probe.resume(());
    let result = f(&probe, frames);
    probe.resume(());
    Some(result)
}

/// Finds the index of the saved stack pointer in a copy of a suspended coroutine: the words of a
/// [`BareCoroutine`]. The coroutine has suspended on its own stack, `stack`.
///
/// Two words of a coroutine are addresses in its stack: the stack pointer of its start, and the
/// saved one, which is lower. `None` on other processors than x86-64.
#[must_use]
pub fn index_of_stack_pointer(words: &[usize], stack: Range<usize>) -> Option<usize> {
    if cfg!(not(target_arch = "x86_64")) {
        return None;
    }
    let inside = || words.iter().enumerate().filter(|(_, word)| stack.contains(word));
    let (index, lowest) = inside().min_by_key(|(_, word)| **word)?;
    inside().any(|(_, word)| word != lowest).then_some(index)
}

/// Returns where a coroutine whose frames end at `base` has the link to its resumer: the address at
/// which the resumer's registers lie, in the order frame pointer, instruction, rbx.
#[must_use]
pub fn link_of(base: usize) -> usize {
    base - 2 * size_of::<usize>()
}

impl SavedRegisters {
    /// Returns the registers of a resumer, from the words at the address that a link holds.
    #[must_use]
    pub fn of_resumer(address: usize, words: &[usize; 2]) -> SavedRegisters {
        let [frame, instruction] = *words;
        SavedRegisters { instruction, stack: address + SAVED_WORDS * size_of::<usize>(), frame }
    }

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
        assert_eq!(index_of_stack_pointer(&[2000, 1500, 7, 1900], stack.clone()), Some(1));
        assert_eq!(index_of_stack_pointer(&[2000, 7, 7, 2500], stack.clone()), None);
        // Fresh: both are the same.
        assert_eq!(index_of_stack_pointer(&[2000, 1900, 7, 1900], stack), None);
    }

    #[test]
    fn the_presumed_stack_pointer_is_the_saved_one() {
        let found = with_probe(|probe, stack| {
            const WORDS: usize = size_of::<Probe>() / size_of::<usize>();
            // SAFETY: a coroutine consists of words.
            let words = unsafe { std::ptr::from_ref(probe).cast::<[usize; WORDS]>().read() };
            let index = index_of_stack_pointer(&words, stack).expect("it has suspended");
            (words[index], probe.presumed_stack_pointer().addr(), index)
        });
        let (saved, presumed, index) = found.expect("memory for a stack");
        assert_eq!(saved, presumed, "the stack pointer is word {index}");
    }

    #[test]
    fn registers_are_in_the_order_of_the_switch() {
        let registers = SavedRegisters::from_words(64, &[1, 2, 3]);
        assert_eq!(registers, SavedRegisters { instruction: 1, stack: 88, frame: 3 });
    }
}
