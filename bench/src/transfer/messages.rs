//! The bytes of a transfer: each message begins with its number, the rest is the pair's own
//! pattern.

use std::ops::{Deref, DerefMut};

use super::Plan;

/// How many bytes of a message hold its number, at most.
const NUMBER: usize = 8;

/// Bytes aligned to a cache line. Comparing them takes half as long as comparing bytes with
/// malloc's alignment, which would differ between peers.
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

const LINE: usize = 64;

impl Buffer {
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + LINE];
        let start = bytes.as_ptr().align_offset(LINE);
        Buffer { bytes, start, len }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

/// Makes the first message of a pair.
fn first_message(pair: u64, bytes: usize) -> Buffer {
    let mut message = Buffer::new(bytes);
    for (at, byte) in message.iter_mut().enumerate() {
        *byte = (at as u64 * 31 + pair * 7) as u8;
    }
    stamp(&mut message, 0);
    message
}

fn stamp(message: &mut [u8], number: u64) {
    let count = message.len().min(NUMBER);
    message[..count].copy_from_slice(&number.to_le_bytes()[..count]);
}

/// The messages of a writer.
pub struct Source {
    left: u64,
    next: u64,
}

impl Source {
    pub fn new(plan: Plan, pair: u64) -> (Self, Buffer) {
        (Source { left: plan.messages, next: 0 }, first_message(pair, plan.bytes))
    }

    /// Turns the message into the next one; returns false if there is none.
    #[inline]
    pub fn advance(&mut self, message: &mut [u8]) -> bool {
        if self.left == 0 {
            return false;
        }
        stamp(message, self.next);
        self.left -= 1;
        self.next += 1;
        true
    }
}

/// The state of a reader, which checks every byte.
pub struct Check {
    message: Buffer,
    number: u64,
    /// The position in the message.
    at: usize,
    left: u64,
}

impl Check {
    pub fn new(plan: Plan, pair: u64) -> Self {
        let message = first_message(pair, plan.bytes);
        Check { message, number: 0, at: 0, left: plan.messages * plan.bytes as u64 }
    }

    /// Compares the bytes of one read; returns whether more must come.
    #[inline]
    pub fn take(&mut self, mut read: &[u8]) -> bool {
        assert!(!read.is_empty(), "the end came {} bytes early", self.left);
        self.left = self.left.checked_sub(read.len() as u64).expect("no more than was written");
        while !read.is_empty() {
            let count = read.len().min(self.message.len() - self.at);
            let (now, rest) = read.split_at(count);
            assert!(now == &self.message[self.at..self.at + count], "other bytes than written");
            read = rest;
            self.at += count;
            if self.at == self.message.len() {
                self.at = 0;
                self.number += 1;
                stamp(&mut self.message, self.number);
            }
        }
        self.left > 0
    }
}
