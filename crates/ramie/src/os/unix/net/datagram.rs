//! The twin of `std::os::unix::net::UnixDatagram`.

use std::{
    fmt,
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

use ramie_driver::sys::{self, AddressFamily, SocketType};

use super::{Received, SocketAddr};
use crate::net::{
    handle::{bounded_like_std, converts_like_std, shared_like_std},
    message::Shape,
    socket::Socket,
};

/// A Unix datagram socket; twin of [`std::os::unix::net::UnixDatagram`]. It is closed when dropped.
///
/// # Blocking
/// A receive parks the strand until there is a datagram, a send until the receiver's queue has
/// room. (Linux notifies only connected senders of room, so a `send_to` to a full queue tries again
/// after 50 us at first, and after 5 ms at most.)
///
/// # Cancellation
/// Sends and receives are cancel points.
///
/// # Errors
/// As std's. `WouldBlock`: a timeout has passed. `ConnectionRefused`, `ConnectionReset`: the peer
/// is gone. Never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
///
/// # Examples
/// ```
/// use ramie::os::unix::net::UnixDatagram;
///
/// ramie::run(|| {
///     let (left, right) = UnixDatagram::pair()?;
///     left.send(b"one")?;
///     left.send(b"two")?;
///     let mut buffer = [0; 16];
///     assert_eq!(right.recv(&mut buffer)?, 3);
///     assert_eq!(&buffer[..3], b"one");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UnixDatagram {
    socket: Socket,
}

impl UnixDatagram {
    /// Makes a socket bound to a path, which must not exist yet.
    ///
    /// # Errors
    /// `AddrInUse`: the path exists. `NotFound`, `PermissionDenied`: its folder does not exist, or
    /// must not be written to. `InvalidInput`: the path is longer than 107 bytes or contains a zero
    /// byte.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        UnixDatagram::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Makes a socket bound to an address.
    ///
    /// # Errors
    /// As for [`UnixDatagram::bind`].
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixDatagram> {
        let datagram = UnixDatagram::unbound()?;
        sys::bind_unix(&datagram.socket, socket_addr)?;
        Ok(datagram)
    }

    /// Makes a socket without an address. It can send, and it can receive once it is connected.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn unbound() -> io::Result<UnixDatagram> {
        Ok(UnixDatagram { socket: Socket::datagram(AddressFamily::UNIX)? })
    }

    /// Makes two connected sockets.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (left, right) = sys::socketpair(SocketType::DGRAM)?;
        Ok((UnixDatagram { socket: left.into() }, UnixDatagram { socket: right.into() }))
    }

    /// Sets the peer, at a path, to which `send` sends; datagrams from other senders are no longer
    /// received.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`: the path does not exist, or must not be used.
    /// `ConnectionRefused`: no socket is bound to it. `InvalidInput`: the path is longer than 107
    /// bytes or contains a zero byte.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Sets the peer, at an address.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// As for [`UnixDatagram::connect`].
    pub fn connect_addr(&self, socket_addr: &SocketAddr) -> io::Result<()> {
        sys::connect_unix(&self.socket, socket_addr)
    }

    /// Returns the address of this socket.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not a Unix socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sys::local_addr_unix(&self.socket)
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        sys::peer_addr_unix(&self.socket)
    }

    /// Receives a datagram and returns its length and sender. Bytes that do not fit into `buf` are
    /// discarded.
    ///
    /// # Errors
    /// See the type.
    #[track_caller]
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (bytes, from) = self.socket.receive_from(buf, 0)?;
        Ok((bytes, from.to_unix()?))
    }

    /// Receives a datagram. Bytes that do not fit into `buf` are discarded.
    ///
    /// # Errors
    /// See the type.
    #[track_caller]
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buf, 0)
    }

    /// Sends a datagram to the socket at a path.
    ///
    /// # Errors
    /// See the type; for the path, as for [`UnixDatagram::connect`].
    #[track_caller]
    pub fn send_to<P: AsRef<Path>>(&self, buf: &[u8], path: P) -> io::Result<usize> {
        self.send_to_addr(buf, &SocketAddr::from_pathname(path)?)
    }

    /// Sends a datagram to the socket at an address.
    ///
    /// # Errors
    /// As for [`UnixDatagram::send_to`].
    #[track_caller]
    pub fn send_to_addr(&self, buf: &[u8], socket_addr: &SocketAddr) -> io::Result<usize> {
        self.socket.send_datagram(buf, Some(&socket_addr.into()))
    }

    /// Sends a datagram to the peer.
    ///
    /// # Errors
    /// See the type. `NotConnected`: there is no peer.
    #[track_caller]
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.socket.send_datagram(buf, None)
    }

    /// Shuts down reading, writing or both, for every handle of this socket.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    /// Sends a datagram to the peer, with duplicates of descriptors.
    ///
    /// # Blocking
    /// As a send.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As for a send. `InvalidInput`: more than 253 descriptors.
    #[track_caller]
    pub fn send_vectored_with_fds(
        &self,
        bufs: &[IoSlice<'_>],
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<usize> {
        self.socket.send_fds(bufs, fds, Shape::Datagram)
    }

    /// Receives a datagram, and adds the descriptors that came with it to `fds`, closed on exec.
    ///
    /// # Blocking
    /// As a receive.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As a receive.
    #[track_caller]
    pub fn recv_vectored_with_fds(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        fds: &mut Vec<OwnedFd>,
    ) -> io::Result<Received> {
        self.socket.receive_fds(bufs, fds)
    }
}

shared_like_std!(UnixDatagram);
bounded_like_std!(UnixDatagram);
converts_like_std!(UnixDatagram, std::os::unix::net::UnixDatagram);

impl fmt::Debug for UnixDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (local, peer) = (self.local_addr().ok(), self.peer_addr().ok());
        super::debug(f, "UnixDatagram", self.as_raw_fd(), local, peer)
    }
}
