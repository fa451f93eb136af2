//! Receives as iterators: the bytes lie in the runtime's buffers and are lent out.

use std::{fmt, io, iter::FusedIterator};

use super::{
    SocketAddr,
    socket::{Address, Socket},
};
use crate::{intake::Intake, io::Lease};

/// Iterates over what a stream receives; made by `recv_each`.
///
/// It ends when the peer has sent all, and after an error other than a timeout or a cancellation.
#[derive(Debug)]
pub struct RecvEach<'a> {
    socket: &'a Socket,
    intake: Intake,
    is_over: bool,
}

impl<'a> RecvEach<'a> {
    pub(crate) fn new(socket: &'a Socket) -> Self {
        RecvEach { socket, intake: socket.receiver(), is_over: false }
    }

    /// For Unix sockets. A kernel without "io_uring/poll: fix multishot recv missing EOF on
    /// wakeup race" (2026) may not tell a receive that is done again and again that their stream
    /// has ended.
    pub(crate) fn one_by_one(socket: &'a Socket) -> Self {
        RecvEach { socket, intake: socket.receiver().one_by_one(), is_over: false }
    }
}

impl Iterator for RecvEach<'_> {
    type Item = io::Result<Lease>;

    /// Inlined, down to the switch, into the code of the fiber: a call frame in between would have
    /// the processor predict two returns wrongly.
    #[track_caller]
    #[inline(always)]
    fn next(&mut self) -> Option<io::Result<Lease>> {
        if self.is_over {
            return None;
        }
        let received = self.socket.receive_next(&mut self.intake).transpose();
        self.is_over = match &received {
            Some(Ok(_)) => false,
            Some(Err(error)) => !is_passing(error),
            None => true,
        };
        received
    }
}

impl FusedIterator for RecvEach<'_> {}

/// Iterates over the datagrams that a socket receives, with their senders; made by
/// [`UdpSocket::recv_from_each`](super::UdpSocket::recv_from_each). It never ends.
#[derive(Debug)]
pub struct RecvFromEach<'a> {
    socket: &'a Socket,
    intake: Intake,
}

impl<'a> RecvFromEach<'a> {
    pub(crate) fn new(socket: &'a Socket) -> Self {
        RecvFromEach { socket, intake: socket.receiver_from() }
    }
}

impl Iterator for RecvFromEach<'_> {
    type Item = io::Result<(Lease, SocketAddr)>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<(Lease, SocketAddr)>> {
        let datagram = match self.socket.receive_next_from(&mut self.intake) {
            Ok(datagram) => datagram,
            Err(error) => return Some(Err(error)),
        };
        let from = Address { storage: datagram.from, len: datagram.from_len };
        Some(from.to_ip().map(|from| (datagram.bytes, from)))
    }
}

/// Whether the socket is as good as before.
fn is_passing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || crate::cancel::is_cancelled(error)
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::os::fd::{AsFd, AsRawFd};
        f.debug_struct("Socket").field("fd", &self.as_fd().as_raw_fd()).finish_non_exhaustive()
    }
}
