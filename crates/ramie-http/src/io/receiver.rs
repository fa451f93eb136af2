//! Receives the bytes of a stream.

use std::io;

use ramie::net::RecvEach;

use super::{Input, Stream};

/// Receives the bytes of a stream in the runtime's buffers, so that an idle connection has none.
pub(crate) struct Receiver<'a>(RecvEach<'a>);

impl<'a> Receiver<'a> {
    pub(crate) fn new(stream: &'a Stream) -> Self {
        Receiver(match stream {
            Stream::Tcp(stream) => stream.recv_each(),
            Stream::Unix(stream) => stream.recv_each(),
        })
    }

    /// Waits for bytes, and adds them to the input. Returns false at the end of the stream.
    #[inline]
    pub(crate) fn receive(&mut self, input: &mut Input) -> io::Result<bool> {
        match self.0.next() {
            Some(received) => {
                input.add(received?);
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
