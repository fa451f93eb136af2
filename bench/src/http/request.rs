//! The protocol of every server of the bench: the same parser, the same answer.

use std::{io, mem::MaybeUninit};

/// The answer of `ramie serve --hello`.
pub const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\n\
    Hello, world!\n";
/// The largest head of a request, in bytes, and the most fields in it.
pub const HEAD_MAX: usize = 8 * 1024;
const FIELDS_MAX: usize = 64;

/// Answers all requests that are complete and returns their length.
pub fn answer(input: &[u8], output: &mut Vec<u8>) -> io::Result<usize> {
    let mut used = 0;
    loop {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let parsed = request.parse_with_uninit_headers(&input[used..], &mut fields);
        match parsed.map_err(io::Error::other)? {
            httparse::Status::Complete(length) => used += length,
            httparse::Status::Partial => return Ok(used),
        }
        output.extend_from_slice(ANSWER);
    }
}

/// The protocol state of one connection: input that is not parsed yet, and answers to be sent.
pub struct Exchange {
    input: Box<[u8]>,
    filled: usize,
    pub output: Vec<u8>,
}

impl Exchange {
    pub fn new() -> Self {
        let input = vec![0; HEAD_MAX].into_boxed_slice();
        Exchange { input, filled: 0, output: Vec::new() }
    }

    /// Space for the next bytes. Empty if a head is too large: then nothing can be received, and
    /// the connection ends.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.input[self.filled..]
    }

    /// Records that `count` bytes were put into `space`.
    pub fn received(&mut self, count: usize) -> io::Result<()> {
        self.filled += count;
        let used = answer(&self.input[..self.filled], &mut self.output)?;
        self.input.copy_within(used..self.filled, 0);
        self.filled -= used;
        Ok(())
    }

    /// Like `received`, for bytes in another buffer. They are copied only if a request is
    /// incomplete.
    pub fn received_elsewhere(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.filled > 0 {
            let space = self.space().get_mut(..bytes.len());
            space.ok_or_else(|| io::Error::other("a head too large"))?.copy_from_slice(bytes);
            return self.received(bytes.len());
        }
        let used = answer(bytes, &mut self.output)?;
        let rest = &bytes[used..];
        self.input[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
        Ok(())
    }
}
