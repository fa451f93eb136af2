//! Copies of this process's own memory, made by the kernel.
//!
//! A watchdog reads data of threads that run, or that may continue at any time. Another thread may
//! change such memory meanwhile, or give it back. A load would then be a data race or a fault; a
//! copy by the kernel is neither. What the copy contains is for the caller to validate.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use sc::nr;

use crate::sys::abi::IoVec;

/// Copies a value from any address of this process. Returns `None` if there is no such memory, or
/// if the system forbids process_vm_readv(2).
#[must_use]
pub fn copy_value<T>(address: *const T) -> Option<MaybeUninit<T>> {
    let mut copy = MaybeUninit::<T>::uninit();
    // SAFETY: the memory of `copy`, which has no other borrow.
    let is_copied = unsafe { fill(copy.as_mut_ptr().cast(), size_of::<T>(), address.addr()) };
    is_copied.then_some(copy)
}

/// Copies an array of words; see [`copy_value`].
#[must_use]
pub fn copy_words(address: usize, count: usize) -> Option<Vec<usize>> {
    let mut words = Vec::with_capacity(count);
    append_words(address, count, &mut words).then_some(words)
}

/// Copies words into an array; see [`copy_value`]. Returns whether they are there. Allocates
/// nothing.
#[must_use]
pub fn copy_words_to(address: usize, words: &mut [usize]) -> bool {
    // SAFETY: the memory of `words`, which has no other borrow; any bytes are valid words.
    unsafe { fill(words.as_mut_ptr().cast(), size_of_val(words), address) }
}

/// Appends copies of words; see [`copy_value`]. Returns whether they are there; otherwise nothing
/// is appended. Allocates nothing if the list has room.
#[must_use]
pub fn append_words(address: usize, count: usize, words: &mut Vec<usize>) -> bool {
    let start = words.len();
    words.resize(start + count, 0);
    let is_copied = copy_words_to(address, &mut words[start..]);
    if !is_copied {
        words.truncate(start);
    }
    is_copied
}

/// Copies a text, and replaces the bytes that are no UTF-8; see [`copy_value`].
#[must_use]
pub fn copy_text(address: usize, len: usize) -> Option<String> {
    let mut bytes = vec![0_u8; len];
    // SAFETY: the memory of `bytes`, which has no other borrow.
    let is_copied = unsafe { fill(bytes.as_mut_ptr(), len, address) };
    is_copied.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// Copies `len` bytes from `address` to `to`. Returns whether all of them are there.
///
/// # Safety
/// `to` is valid for writes of `len` bytes, of any content.
unsafe fn fill(to: *mut u8, len: usize, address: usize) -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get() as usize;
    let local = IoVec { base: to, len };
    let remote = IoVec { base: std::ptr::without_provenance_mut(address), len };
    let (local, remote) = (&raw const local as usize, &raw const remote as usize);
    // SAFETY: the caller's promise about `to`. The kernel reads at `address`, and fails if nothing
    // is mapped there.
    let copied = unsafe { sc::syscall6(nr::PROCESS_VM_READV, own, local, 1, remote, 1, 0) };
    copied == len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_words_and_texts_are_copied() {
        let value = (7_u64, 9_u8);
        // SAFETY: a copy of a value of this type.
        assert_eq!(unsafe { copy_value(&raw const value).unwrap().assume_init() }, value);
        let words = [1_usize, 2, 3];
        assert_eq!(copy_words(words.as_ptr().addr(), 3).unwrap(), words);
        let text = "a text\u{e4}";
        assert_eq!(copy_text(text.as_ptr().addr(), text.len()).unwrap(), text);
        assert_eq!(copy_text(text.as_ptr().addr(), 7).unwrap(), "a text\u{fffd}");
    }

    #[test]
    fn memory_that_is_not_there_is_no_fault() {
        assert!(copy_value(std::ptr::without_provenance::<u64>(8)).is_none());
        assert_eq!(copy_words(8, 2), None);
        assert_eq!(copy_text(8, 2), None);
    }
}
