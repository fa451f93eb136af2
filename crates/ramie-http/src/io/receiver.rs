//! Receives the bytes of a stream.

use std::io;

use ramie::net::RecvEach;

use super::{Input, Socket, Stream, TlsStream};

/// Receives the bytes of a stream in the runtime's buffers, so that an idle connection has none.
pub(crate) struct Receiver<'a> {
    each: RecvEach<'a>,
    /// Decrypts what was received.
    tls: Option<&'a TlsStream>,
}

impl<'a> Receiver<'a> {
    pub(crate) fn new(stream: &'a Stream) -> Self {
        Receiver { tls: stream.as_tls(), ..Receiver::of_socket(stream.socket()) }
    }

    /// Receives the bytes as they arrive.
    pub(crate) fn of_socket(socket: &'a Socket) -> Self {
        Receiver { each: socket.recv_each(), tls: None }
    }

    /// Waits for bytes, and adds them to the input. Returns false at the end of the stream.
    #[inline]
    pub(crate) fn receive(&mut self, input: &mut Input) -> io::Result<bool> {
        match self.tls {
            None => self.receive_as_they_are(input),
            Some(tls) => tls.receive(self, input),
        }
    }

    /// As [`receive`](Self::receive), without decrypting the bytes.
    #[inline]
    pub(crate) fn receive_as_they_are(&mut self, input: &mut Input) -> io::Result<bool> {
        match self.each.next() {
            Some(received) => {
                input.add(received?);
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
