//! The bytes of a transfer. Each message begins with its number, and the rest is a pattern of the
//! pair, so the reader notices a byte that is lost, duplicated, out of order or of another pair.

use std::io;

/// How many bytes of a message hold its number, at most.
const NUMBER: usize = size_of::<u64>();

/// The messages of one pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) pair: u64,
    pub(super) messages: u64,
    /// The length of a message.
    pub(super) bytes: usize,
}

impl Plan {
    fn first_message(self) -> Vec<u8> {
        let byte = |at: usize| (at as u64).wrapping_mul(31).wrapping_add(self.pair * 7) as u8;
        let mut message: Vec<u8> = (0..self.bytes).map(byte).collect();
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
pub(super) fn write(mut writer: impl io::Write, plan: Plan) -> io::Result<()> {
    let mut message = plan.first_message();
    for number in 0..plan.messages {
        stamp(&mut message, number);
        writer.write_all(&message)?;
    }
    Ok(())
}

/// Reads all messages of a pair, through a buffer as large as one, and checks every byte.
pub(super) fn read(mut reader: impl io::Read, plan: Plan) -> io::Result<()> {
    let mut check = Check::new(plan);
    let mut buffer = vec![0; plan.bytes];
    while check.wants_more() {
        let count = reader.read(&mut buffer)?;
        check.take(&buffer[..count]).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Compares the bytes that a reader receives with the expected ones.
struct Check {
    plan: Plan,
    /// The expected message.
    message: Vec<u8>,
    number: u64,
    /// How many bytes of it have arrived.
    at: usize,
}

impl Check {
    fn new(plan: Plan) -> Self {
        Check { plan, message: plan.first_message(), number: 0, at: 0 }
    }

    fn wants_more(&self) -> bool {
        self.number < self.plan.messages
    }

    /// Compares the bytes of one read with the next expected bytes.
    #[inline]
    fn take(&mut self, mut read: &[u8]) -> Result<(), String> {
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
        Ok(())
    }

    #[cold]
    fn complaint(&self, problem: &str) -> String {
        format!("message {} of pair {} {problem}", self.number, self.plan.pair)
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, read, write};

    const PLAN: Plan = Plan { pair: 5, messages: 300, bytes: 20 };

    fn written(plan: Plan) -> Vec<u8> {
        let mut all = Vec::new();
        write(&mut all, plan).unwrap();
        all
    }

    #[track_caller]
    fn complaint(bytes: &[u8], plan: Plan) -> String {
        read(bytes, plan).expect_err("the bytes are wrong").to_string()
    }

    #[test]
    fn messages_are_read_in_pieces_of_any_size() {
        for bytes in [1, 3, 8, 9, 1024] {
            let plan = Plan { bytes, ..PLAN };
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
            complaint(&written(Plan { pair: 6, ..PLAN }), PLAN).contains("message 0 of pair 5")
        );
        all.drain(20..40);
        assert!(complaint(&all, PLAN).starts_with("message 1 of pair 5 has other bytes"));
        let more = written(Plan { messages: 301, ..PLAN });
        // Both messages are in one read, so that the reader sees the surplus one.
        let mut check = super::Check::new(PLAN);
        assert_eq!(check.take(&more).unwrap_err(), "message 300 of pair 5 was never written");
    }
}
