//! Buffers for output, which connections share, because most of them are idle most of the time.

use std::{cell::RefCell, mem};

/// The size of a buffer that is new.
const SMALLEST: usize = 4 << 10;
/// A buffer keeps its memory up to this size.
const KEPT: usize = 64 << 10;
/// How many buffers a thread keeps. About as many responses are on their way to the kernel at once
/// if some hundred clients send requests all the time.
const SPARES: usize = 64;

thread_local! {
    /// Nothing suspends while it is borrowed.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Gives a buffer memory if it has none. In place, because a buffer that is returned would be moved
/// several times.
#[inline]
pub(crate) fn equip(buffer: &mut Vec<u8>) {
    if buffer.capacity() == 0 {
        SPARE.with_borrow_mut(|spare| match spare.pop() {
            Some(kept) => mem::forget(mem::replace(buffer, kept)),
            None => buffer.reserve_exact(SMALLEST),
        });
    }
}

/// Lets others use the buffer.
#[inline]
pub(crate) fn put(mut buffer: Vec<u8>) {
    if buffer.capacity() <= KEPT && buffer.capacity() > 0 {
        buffer.clear();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARES {
                spare.push(buffer);
            }
        });
    }
}
