//! The streams that a server serves.

use std::{
    io::{self, IoSlice},
    net::Shutdown,
    time::Duration,
};

use super::{Socket, TlsStream};

/// A stream of one connection. All its methods take it shared, because a body that is read on one
/// fiber and a response that is written on another use it at once. In one line of the cache,
/// because the streams of most connections are not in the cache when bytes arrive.
#[repr(align(64))]
pub(crate) struct Stream(StreamKind);

const _: () = assert!(size_of::<Stream>() == 64);

enum StreamKind {
    Plain(Socket),
    /// In a box, because it is large.
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "no value of it exists"))]
    Tls(Box<TlsStream>),
}

impl Stream {
    pub(crate) fn plain(socket: Socket) -> Self {
        Stream(StreamKind::Plain(socket))
    }

    #[cfg(feature = "tls")]
    pub(crate) fn tls(stream: TlsStream) -> Self {
        Stream(StreamKind::Tls(Box::new(stream)))
    }

    /// The stream, if it speaks TLS.
    pub(crate) fn as_tls(&self) -> Option<&TlsStream> {
        match &self.0 {
            StreamKind::Plain(_) => None,
            StreamKind::Tls(stream) => Some(stream),
        }
    }

    /// The socket, also of a TLS stream: for timeouts, shutdown and receives. Bytes that are
    /// written to it are not encrypted.
    pub(crate) fn socket(&self) -> &Socket {
        match &self.0 {
            StreamKind::Plain(socket) => socket,
            StreamKind::Tls(stream) => stream.socket(),
        }
    }

    /// Whether a request for an `https` resource may arrive on it: only if it is encrypted, or if
    /// the peer is a proxy of this machine, which Unix sockets are for.
    pub(crate) fn carries_https(&self) -> bool {
        match &self.0 {
            StreamKind::Plain(Socket::Tcp(_)) => false,
            StreamKind::Plain(Socket::Unix(_)) | StreamKind::Tls(_) => true,
        }
    }

    #[inline]
    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match &self.0 {
            StreamKind::Plain(socket) => socket.read(buf),
            StreamKind::Tls(stream) => stream.read(buf),
        }
    }

    #[inline]
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            StreamKind::Plain(socket) => socket.write(bytes),
            StreamKind::Tls(stream) => stream.write(bytes),
        }
    }

    #[inline]
    pub(crate) fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.0 {
            StreamKind::Plain(socket) => socket.write_vectored(parts),
            StreamKind::Tls(stream) => stream.write_vectored(parts),
        }
    }

    pub(crate) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.0 {
            StreamKind::Plain(socket) => socket.write_all(bytes),
            StreamKind::Tls(stream) => stream.write_all(&[bytes], &mut || {}),
        }
    }

    /// As [`Socket::write_pieces`].
    #[inline]
    pub(crate) fn write_pieces(
        &self,
        bytes: &[u8],
        progressed: &mut dyn FnMut(),
    ) -> io::Result<()> {
        match &self.0 {
            StreamKind::Plain(socket) => socket.write_pieces(bytes, progressed),
            StreamKind::Tls(stream) => stream.write_all(&[bytes], progressed),
        }
    }

    /// As [`Socket::write_both`].
    pub(crate) fn write_both(
        &self,
        head: &[u8],
        body: &[u8],
        progressed: &mut dyn FnMut(),
    ) -> io::Result<()> {
        match &self.0 {
            StreamKind::Plain(socket) => socket.write_both(head, body, progressed),
            StreamKind::Tls(stream) => stream.write_all(&[head, body], progressed),
        }
    }

    /// The socket, if the kernel may write to it for the stream; none if the bytes must be changed
    /// on their way.
    pub(crate) fn as_plain(&self) -> Option<&Socket> {
        match &self.0 {
            StreamKind::Plain(socket) => Some(socket),
            StreamKind::Tls(_) => None,
        }
    }

    /// Tells the client that the stream ends as it should, if the protocol has a word for it.
    pub(crate) fn say_goodbye(&self) -> io::Result<()> {
        match &self.0 {
            StreamKind::Plain(_) => Ok(()),
            StreamKind::Tls(stream) => stream.say_goodbye(),
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match &self.0 {
            StreamKind::Plain(socket) => socket.shutdown(how),
            StreamKind::Tls(stream) => stream.shutdown(how),
        }
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.0 {
            StreamKind::Plain(socket) => socket.set_read_timeout(timeout),
            StreamKind::Tls(stream) => stream.set_read_timeout(timeout),
        }
    }
}
