//! Bytes to be sent.

use std::{io, mem};

use crate::io::{Stream, spare};

/// Output of this size is sent, though more is to come.
const LARGE: usize = 32 << 10;

/// Gathers heads and small bodies, so that the responses to pipelined requests are sent at once.
pub(super) struct Output<'a> {
    stream: &'a Stream,
    buffer: Vec<u8>,
}

impl<'a> Output<'a> {
    pub(super) fn new(stream: &'a Stream) -> Self {
        Output { stream, buffer: Vec::new() }
    }

    /// The bytes that are not sent yet, to be added to.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.buffer.capacity() == 0 {
            self.buffer = spare::take();
        }
        &mut self.buffer
    }

    /// Sends what there is.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let buffer = mem::take(&mut self.buffer);
        let written = self.stream.write_all(&buffer);
        spare::put(buffer);
        written
    }

    pub(super) fn flush_if_large(&mut self) -> io::Result<()> {
        if self.buffer.len() < LARGE { Ok(()) } else { self.flush() }
    }

    /// Sends what there is, then `bytes`, without copying them.
    pub(super) fn send_with(&mut self, bytes: &[u8]) -> io::Result<()> {
        let buffer = mem::take(&mut self.buffer);
        let written = self.stream.write_both(&buffer, bytes);
        spare::put(buffer);
        written
    }
}
