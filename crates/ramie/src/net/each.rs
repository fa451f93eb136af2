//! Iterators that receive into the runtime's buffers and lend them to the program.

use std::{fmt, io, iter::FusedIterator};

use ramie_driver::Lease;

use super::{
    SocketAddr,
    socket::{Address, Socket},
};
use crate::{core::cancel::Steps, op::multishot::MultishotSource};

/// Iterates over the bytes that a stream receives; made by `recv_each`.
///
/// The iterator ends when the peer has closed its side, and after an error other than a timeout or
/// a cancellation. After the error of a cancelled step it ends if the next step is made inside the
/// same cancelled scope, or after the same deadline.
#[derive(Debug)]
pub struct RecvEach<'a> {
    socket: &'a Socket,
    source: MultishotSource,
    steps: Steps,
}

impl<'a> RecvEach<'a> {
    pub(crate) fn new(socket: &'a Socket) -> Self {
        RecvEach { socket, source: socket.receiver(), steps: Steps::Going }
    }

    /// For Unix sockets. A kernel without "io_uring/poll: fix multishot recv missing EOF on wakeup
    /// race" (2026) may not notify a multishot receive that a Unix stream has ended.
    pub(crate) fn one_by_one(socket: &'a Socket) -> Self {
        RecvEach { socket, source: socket.receiver().one_by_one(), steps: Steps::Going }
    }
}

impl Iterator for RecvEach<'_> {
    type Item = io::Result<Lease>;

    /// Inlined, down to the switch, into the code of the fiber, because a call frame in between
    /// would make the processor predict two returns wrongly.
    #[track_caller]
    #[inline(always)]
    fn next(&mut self) -> Option<io::Result<Lease>> {
        if !self.steps.go_on() {
            return None;
        }
        let received = self.socket.receive_next(&mut self.source).transpose();
        match &received {
            Some(Ok(_)) => {}
            Some(Err(error)) => self.note(error),
            None => self.steps.end(),
        }
        received
    }
}

impl RecvEach<'_> {
    #[cold]
    #[inline(never)]
    fn note(&mut self, error: &io::Error) {
        if error.kind() != io::ErrorKind::WouldBlock {
            self.steps.end();
        }
        self.steps.note(error);
    }
}

impl FusedIterator for RecvEach<'_> {}

/// Iterates over the datagrams that a socket receives, with their senders; made by
/// [`UdpSocket::recv_from_each`](super::UdpSocket::recv_from_each). It ends when a step was
/// cancelled and the next step is made inside the same cancelled scope, or after the same deadline.
#[derive(Debug)]
pub struct RecvFromEach<'a> {
    socket: &'a Socket,
    source: MultishotSource,
    steps: Steps,
}

impl<'a> RecvFromEach<'a> {
    pub(crate) fn new(socket: &'a Socket) -> Self {
        RecvFromEach { socket, source: socket.receiver_from(), steps: Steps::Going }
    }
}

impl Iterator for RecvFromEach<'_> {
    type Item = io::Result<(Lease, SocketAddr)>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<(Lease, SocketAddr)>> {
        if !self.steps.go_on() {
            return None;
        }
        let received = self.socket.receive_next_from(&mut self.source);
        Some(self.steps.noted(received).and_then(|datagram| {
            let from = Address { storage: datagram.from, len: datagram.from_len };
            Ok((datagram.bytes, from.to_ip()?))
        }))
    }
}

impl FusedIterator for RecvFromEach<'_> {}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::os::fd::{AsFd, AsRawFd};
        f.debug_struct("Socket").field("fd", &self.as_fd().as_raw_fd()).finish_non_exhaustive()
    }
}
