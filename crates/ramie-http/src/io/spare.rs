//! Buffers for output, which connections share, because most of them are idle most of the time.

use std::cell::RefCell;

/// A buffer keeps its memory up to this size.
const KEPT: usize = 64 << 10;
/// How many buffers a thread keeps. About as many responses are on their way to the kernel at once
/// if some hundred clients send requests all the time.
const SPARES: usize = 64;

thread_local! {
    /// Nothing suspends while it is borrowed.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer.
#[inline]
pub(crate) fn take() -> Vec<u8> {
    SPARE.with_borrow_mut(Vec::pop).unwrap_or_else(another)
}

#[cold]
fn another() -> Vec<u8> {
    Vec::with_capacity(4 << 10)
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
