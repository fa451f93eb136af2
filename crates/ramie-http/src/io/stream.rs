//! The streams that a server serves.

use std::{
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use ramie::{net::TcpStream, os::unix::net::UnixStream};

use super::TlsStream;

/// A stream of one connection. All its methods take it shared, because a body that is read on one
/// fiber and a response that is written on another use it at once. In one line of the cache,
/// because the streams of most connections are not in the cache when bytes arrive.
#[repr(align(64))]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "no value of it exists"))]
    Tls(Box<TlsStream>),
}

const _: () = assert!(size_of::<Stream>() == 64);

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.transport().as_fd(),
        }
    }
}

impl Stream {
    /// The stream that sends the bytes as they are.
    pub(crate) fn transport(&self) -> &Stream {
        match self {
            Stream::Tls(stream) => stream.transport(),
            _ => self,
        }
    }

    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Unix(_) => None,
            Stream::Tls(stream) => stream.transport().peer_addr(),
        }
    }

    /// Whether a request for an `https` resource may arrive on it: only if it is encrypted, or if
    /// the peer is a proxy of this machine, which Unix sockets are for.
    pub(crate) fn carries_https(&self) -> bool {
        match self {
            Stream::Tcp(_) => false,
            Stream::Unix(_) | Stream::Tls(_) => true,
        }
    }

    /// Lets the close of the stream reset the connection: the peer notices that something is
    /// missing, and the kernel drops the bytes that the peer does not take. Unix sockets have no
    /// such reset.
    pub(crate) fn reset_on_close(&self) {
        if let Stream::Tcp(stream) = self.transport() {
            // If this fails, the connection is gone already.
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
    }

    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => { stream }.read(buf),
            Stream::Unix(stream) => { stream }.read(buf),
            Stream::Tls(stream) => stream.read(buf),
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => { stream }.write(bytes),
            Stream::Unix(stream) => { stream }.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    pub(crate) fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => { stream }.write_vectored(parts),
            Stream::Unix(stream) => { stream }.write_vectored(parts),
            Stream::Tls(stream) => stream.write_vectored(parts),
        }
    }

    pub(crate) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => { stream }.write_all(bytes),
            Stream::Unix(stream) => { stream }.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(&[bytes], &mut || {}),
        }
    }

    /// Writes all, and calls `progressed` each time that the client has made room for a part: its
    /// time counts for each wait, however long the whole takes.
    #[inline]
    pub(crate) fn write_pieces(
        &self,
        mut bytes: &[u8],
        progressed: &mut dyn FnMut(),
    ) -> io::Result<()> {
        if let Stream::Tls(stream) = self {
            return stream.write_all(&[bytes], progressed);
        }
        while !bytes.is_empty() {
            match self.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if !bytes.is_empty() {
                progressed();
            }
        }
        Ok(())
    }

    /// As [`write_pieces`](Self::write_pieces) for two parts, by one system call if the kernel
    /// takes them at once.
    pub(crate) fn write_both(
        &self,
        head: &[u8],
        body: &[u8],
        progressed: &mut dyn FnMut(),
    ) -> io::Result<()> {
        if let Stream::Tls(stream) = self {
            return stream.write_all(&[head, body], progressed);
        }
        let parts = [IoSlice::new(head), IoSlice::new(body)];
        let written = self.write_vectored(&parts)?;
        match written.checked_sub(head.len()) {
            None => {
                self.write_pieces(&head[written..], progressed)?;
                self.write_pieces(body, progressed)
            }
            Some(of_body) => {
                progressed();
                self.write_pieces(&body[of_body..], progressed)
            }
        }
    }

    /// The socket, if the kernel may write to it for the stream; none if the bytes must be changed
    /// on their way.
    pub(crate) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Stream::Tcp(stream) => Some(stream.as_fd()),
            Stream::Unix(stream) => Some(stream.as_fd()),
            Stream::Tls(_) => None,
        }
    }

    /// Tells the client that the stream ends as it should, if the protocol has a word for it.
    pub(crate) fn say_goodbye(&self) -> io::Result<()> {
        match self {
            Stream::Tls(stream) => stream.say_goodbye(),
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
            Stream::Tls(stream) => stream.shutdown(how),
        }
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
            Stream::Tls(stream) => stream.set_read_timeout(timeout),
        }
    }

    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_write_timeout(timeout),
            Stream::Unix(stream) => stream.set_write_timeout(timeout),
            Stream::Tls(stream) => stream.transport().set_write_timeout(timeout),
        }
    }
}
