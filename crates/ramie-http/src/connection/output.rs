//! Bytes to be sent.

use std::{io, mem};

use super::presence::{Phase, Presence};
use crate::io::{FileRange, Stream, spare};

/// Output of this size is sent, though more is to come.
const LARGE: usize = 32 << 10;

/// Gathers heads and small bodies, so that the responses to pipelined requests are sent at once.
pub(super) struct Output<'a> {
    stream: &'a Stream,
    presence: &'a dyn Presence,
    buffer: Vec<u8>,
}

impl<'a> Output<'a> {
    pub(super) fn new(stream: &'a Stream, presence: &'a dyn Presence) -> Self {
        Output { stream, presence, buffer: Vec::new() }
    }

    /// Calls `f`, which the server cancels if the client goes away.
    pub(super) fn while_client_waits<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let scope = self.presence.scope();
        scope.run(|| f(self))
    }

    /// The bytes that are not sent yet, to be added to.
    #[inline(always)]
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        spare::equip(&mut self.buffer);
        &mut self.buffer
    }

    /// Sends what there is.
    #[inline]
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() { Ok(()) } else { self.flush_some() }
    }

    #[inline(never)]
    fn flush_some(&mut self) -> io::Result<()> {
        self.flush_inlined()
    }

    /// As [`flush`](Self::flush), for the caller that waits most often. Inlined, because the
    /// processor predicts no return from a frame that has waited, and the cache lines of that frame
    /// are cold then.
    #[inline(always)]
    pub(super) fn flush_inlined(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let presence = self.presence;
        self.send(|stream, buffer| {
            stream.write_pieces(buffer, &mut || presence.enter(Phase::Write))
        })
    }

    /// Lets the client notice that the body which ends with the connection is incomplete.
    pub(super) fn reset_on_close(&self) {
        self.stream.socket().reset_on_close();
    }

    #[inline]
    pub(super) fn flush_if_large(&mut self) -> io::Result<()> {
        if self.buffer.len() < LARGE { Ok(()) } else { self.flush() }
    }

    /// Sends what there is, then `bytes`, without copying them.
    pub(super) fn send_with(&mut self, bytes: &[u8]) -> io::Result<()> {
        let presence = self.presence;
        self.send(|stream, buffer| {
            stream.write_both(buffer, bytes, &mut || presence.enter(Phase::Write))
        })
    }

    #[inline(always)]
    fn send(&mut self, send: impl FnOnce(&Stream, &[u8]) -> io::Result<()>) -> io::Result<()> {
        self.presence.enter(Phase::Write);
        let buffer = mem::take(&mut self.buffer);
        let sent = send(self.stream, &buffer);
        spare::put(buffer);
        self.presence.enter(Phase::Stream);
        sent
    }

    /// Sends what there is, then a part of a file. The client has the time of a write for each
    /// piece of it.
    pub(super) fn send_file(&mut self, part: FileRange) -> io::Result<()> {
        let presence = self.presence;
        let mut progressed = || presence.enter(Phase::Write);
        self.send(|stream, buffer| part.send(stream, buffer, &mut progressed))
    }
}
