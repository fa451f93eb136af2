//! The bytes of a transfer. Each message begins with its number, and the rest is a pattern of the
//! pair, so the reader notices a byte that is lost, duplicated, out of order or of another pair.

use std::{
    io,
    ops::{Deref, DerefMut},
};

/// How many bytes of a message hold its number, at most.
const NUMBER: usize = size_of::<u64>();

/// The messages of one pair.
#[derive(Clone, Copy, Debug)]
pub struct PairPlan {
    /// The number of the pair.
    pub pair: u64,
    /// The number of messages.
    pub messages: u64,
    /// The length of a message.
    pub bytes: usize,
}

/// Bytes aligned to a cache line. Comparing them takes half as long as comparing bytes with
/// malloc's alignment, which would differ between engines and between peers.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

const LINE: usize = 64;

impl Buffer {
    /// A buffer of `len` zeros.
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + LINE];
        let start = bytes.as_ptr().align_offset(LINE);
        Buffer { bytes, start, len }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

impl PairPlan {
    fn first_message(self) -> Buffer {
        let mut message = Buffer::new(self.bytes);
        for (at, byte) in message.iter_mut().enumerate() {
            *byte = (at as u64).wrapping_mul(31).wrapping_add(self.pair * 7) as u8;
        }
        stamp(&mut message, 0);
        message
    }
}

#[inline]
fn stamp(message: &mut [u8], number: u64) {
    let count = message.len().min(NUMBER);
    message[..count].copy_from_slice(&number.to_le_bytes()[..count]);
}

/// Writes all messages of a pair, each with one `write_all`.
pub fn write(mut writer: impl io::Write, plan: PairPlan) -> io::Result<()> {
    let (mut source, mut message) = Source::new(plan);
    while source.advance(&mut message) {
        writer.write_all(&message)?;
    }
    Ok(())
}

/// Reads all messages of a pair, through a buffer as large as one, and checks every byte.
pub fn read(mut reader: impl io::Read, plan: PairPlan) -> io::Result<()> {
    let mut check = MessageCheck::new(plan);
    let mut buffer = Buffer::new(plan.bytes);
    loop {
        let count = reader.read(&mut buffer)?;
        if !check.take(&buffer[..count]).map_err(io::Error::other)? {
            return Ok(());
        }
    }
}

/// The messages of a writer.
#[derive(Debug)]
pub struct Source {
    left: u64,
    next: u64,
}

impl Source {
    /// The messages, and the buffer for [`advance`](Self::advance).
    pub fn new(plan: PairPlan) -> (Self, Buffer) {
        (Source { left: plan.messages, next: 0 }, plan.first_message())
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

/// Compares the bytes that a reader receives with the expected ones.
#[derive(Debug)]
pub struct MessageCheck {
    plan: PairPlan,
    /// The expected message.
    message: Buffer,
    number: u64,
    /// How many bytes of it have arrived.
    at: usize,
}

impl MessageCheck {
    /// The state of a reader that has read nothing yet.
    pub fn new(plan: PairPlan) -> Self {
        MessageCheck { plan, message: plan.first_message(), number: 0, at: 0 }
    }

    #[inline]
    fn wants_more(&self) -> bool {
        self.number < self.plan.messages
    }

    /// Compares the bytes of one read with the next expected bytes. Returns whether more must come.
    #[inline(always)]
    pub fn take(&mut self, mut read: &[u8]) -> Result<bool, String> {
        if read.is_empty() {
            return Err(self.complaint("is cut short"));
        }
        while !read.is_empty() {
            if !self.wants_more() {
                return Err(self.complaint("was never written"));
            }
            let count = read.len().min(self.message.len() - self.at);
            let (now, rest) = read.split_at(count);
            if now != &self.message[self.at..self.at + count] {
                return Err(self.complaint("has other bytes than were written"));
            }
            read = rest;
            self.at += count;
            if self.at == self.message.len() {
                self.at = 0;
                self.number += 1;
                stamp(&mut self.message, self.number);
            }
        }
        Ok(self.wants_more())
    }

    #[cold]
    fn complaint(&self, problem: &str) -> String {
        format!("message {} of pair {} {problem}", self.number, self.plan.pair)
    }
}

#[cfg(test)]
mod tests {
    use super::{PairPlan, read, write};

    const PLAN: PairPlan = PairPlan { pair: 5, messages: 300, bytes: 20 };

    fn written(plan: PairPlan) -> Vec<u8> {
        let mut all = Vec::new();
        write(&mut all, plan).unwrap();
        all
    }

    #[track_caller]
    fn complaint(bytes: &[u8], plan: PairPlan) -> String {
        read(bytes, plan).expect_err("the bytes are wrong").to_string()
    }

    #[test]
    fn messages_are_read_in_pieces_of_any_size() {
        for bytes in [1, 3, 8, 9, 1024] {
            let plan = PairPlan { bytes, ..PLAN };
            let all = written(plan);
            assert_eq!(all.len(), 300 * bytes);
            read(all.as_slice(), plan).unwrap();
            for piece in [1, 7, 1000] {
                read(Pieces(&all, piece), plan).unwrap();
            }
        }
    }

    struct Pieces<'a>(&'a [u8], usize);

    impl std::io::Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(buffer.len());
            self.0.read(&mut buffer[..count])
        }
    }

    #[test]
    fn a_wrong_byte_anywhere_is_found() {
        let all = written(PLAN);
        for at in (0..all.len()).step_by(13) {
            let mut wrong = all.clone();
            wrong[at] ^= 1;
            let said = complaint(&wrong, PLAN);
            assert_eq!(
                said,
                format!("message {} of pair 5 has other bytes than were written", at / 20)
            );
        }
    }

    #[test]
    fn lost_doubled_and_strange_messages_are_found() {
        let mut all = written(PLAN);
        let short = complaint(&all[..all.len() - 1], PLAN);
        assert_eq!(short, "message 299 of pair 5 is cut short");
        assert!(
            complaint(&written(PairPlan { pair: 6, ..PLAN }), PLAN).contains("message 0 of pair 5")
        );
        all.drain(20..40);
        assert!(complaint(&all, PLAN).starts_with("message 1 of pair 5 has other bytes"));
        let more = written(PairPlan { messages: 301, ..PLAN });
        // Both messages are in one read, so that the reader sees the surplus one.
        let mut check = super::MessageCheck::new(PLAN);
        assert_eq!(check.take(&more).unwrap_err(), "message 300 of pair 5 was never written");
    }
}
