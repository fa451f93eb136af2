//! Sockets that send bytes as they are.

use std::{
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use ramie::{
    net::{RecvEach, TcpStream},
    os::unix::net::UnixStream,
};

/// The socket of a connection.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Socket {
    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(stream) => stream.peer_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    /// Lets the close of the socket reset the connection: the peer notices that something is
    /// missing, and the kernel drops the bytes that the peer does not take. Unix sockets have no
    /// such reset.
    pub(crate) fn reset_on_close(&self) {
        if let Socket::Tcp(stream) = self {
            // If this fails, the connection is gone already.
            let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
        }
    }

    pub(crate) fn recv_each(&self) -> RecvEach<'_> {
        match self {
            Socket::Tcp(stream) => stream.recv_each(),
            Socket::Unix(stream) => stream.recv_each(),
        }
    }

    #[inline]
    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => { stream }.read(buf),
            Socket::Unix(stream) => { stream }.read(buf),
        }
    }

    #[inline]
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => { stream }.write(bytes),
            Socket::Unix(stream) => { stream }.write(bytes),
        }
    }

    #[inline]
    pub(crate) fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => { stream }.write_vectored(parts),
            Socket::Unix(stream) => { stream }.write_vectored(parts),
        }
    }

    pub(crate) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => { stream }.write_all(bytes),
            Socket::Unix(stream) => { stream }.write_all(bytes),
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

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.shutdown(how),
            Socket::Unix(stream) => stream.shutdown(how),
        }
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_read_timeout(timeout),
            Socket::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_write_timeout(timeout),
            Socket::Unix(stream) => stream.set_write_timeout(timeout),
        }
    }
}
