//! The twin of `std::os::unix::net::UnixStream`.

use std::{
    fmt,
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

use ramie_driver::sys::{self, AddressFamily, SocketType};

use super::{Received, SocketAddr};
use crate::{
    core::time::Deadline,
    net::{
        RecvEach,
        handle::{bounded_like_std, converts_like_std, shared_like_std},
        message::Shape,
        socket::Socket,
    },
    op::{
        forward::{read_by_field, write_by_field},
        retry::Pauses,
    },
};

/// A Unix stream socket; twin of [`std::os::unix::net::UnixStream`].
///
/// It implements [`Read`](io::Read) and [`Write`](io::Write), also by shared reference, so that one
/// strand may read while another writes. It is closed when dropped.
///
/// # Blocking
/// A read or write that would wait parks the fiber, or the thread outside one.
///
/// # Cancellation
/// Reads, writes, sends, receives and connects are cancel points. The error of a cancelled
/// `write_all` or `read_exact` holds the number of bytes moved
/// ([`bytes_moved`](crate::cancel::bytes_moved)).
///
/// # Errors
/// As std's. `WouldBlock`: a timeout has passed. `ConnectionReset`, `BrokenPipe`: the peer is gone.
/// Never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
///
/// # Examples
/// ```
/// use std::io::{Read, Write};
/// use ramie::os::unix::net::UnixStream;
///
/// ramie::run(|| {
///     let (mut left, mut right) = UnixStream::pair()?;
///     left.write_all(b"hello")?;
///     drop(left);
///     let mut text = String::new();
///     right.read_to_string(&mut text)?;
///     assert_eq!(text, "hello");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UnixStream {
    socket: Socket,
}

impl UnixStream {
    pub(super) fn from_socket(socket: Socket) -> Self {
        UnixStream { socket }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Connects to the listener at a path.
    ///
    /// # Blocking
    /// Parks the strand while the listener's queue is full.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied`: the path does not exist, or must not be used.
    /// `ConnectionRefused`: no listener is bound to it. `InvalidInput`: the path is longer than 107
    /// bytes or contains a zero byte.
    #[track_caller]
    pub fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        UnixStream::connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Connects to the listener at an address.
    ///
    /// # Blocking
    /// Parks the strand while the listener's queue is full.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As for [`UnixStream::connect`].
    #[track_caller]
    pub fn connect_addr(socket_addr: &SocketAddr) -> io::Result<UnixStream> {
        let address = socket_addr.into();
        let mut pauses = Pauses::short();
        loop {
            let socket = Socket::stream(AddressFamily::UNIX)?;
            match socket.connect(&address, Deadline::NEVER) {
                Ok(()) => return Ok(UnixStream { socket }),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                // The listener's queue is full. Only the polling driver returns this; a ring waits
                // in the kernel.
                Err(_) => pauses.pause(),
            }
        }
    }

    /// Makes two connected sockets.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (left, right) = sys::socketpair(SocketType::STREAM)?;
        Ok((UnixStream { socket: left.into() }, UnixStream { socket: right.into() }))
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not a Unix socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sys::local_addr_unix(&self.socket)
    }

    /// Returns the address of the other end.
    ///
    /// # Errors
    /// `NotConnected`: the peer is gone.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        sys::peer_addr_unix(&self.socket)
    }

    /// Iterates over the bytes as they come, in buffers of the runtime; see
    /// [`TcpStream::recv_each`](crate::net::TcpStream::recv_each). Each step is a receive of its
    /// own, because in kernels older than spring 2026 a multishot receive may miss the end of a
    /// Unix stream. Descriptors sent with the bytes are closed, as by a read.
    ///
    /// # Blocking
    /// Each step that has to wait for bytes parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// Each step is a cancel point; a cancelled step loses no byte.
    ///
    /// # Errors
    /// Of a step: as for a read.
    pub fn recv_each(&self) -> RecvEach<'_> {
        RecvEach::one_by_one(&self.socket)
    }

    /// Shuts down reading, writing or both, for every handle of this connection. Reads that wait
    /// return 0; the peer can still read all bytes sent before.
    ///
    /// # Errors
    /// `NotConnected`: the peer is gone.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    /// Writes bytes, and passes duplicates of descriptors with the first byte.
    ///
    /// Write at least one byte, because Linux sends no descriptors on a stream without data. If
    /// fewer bytes than given are written, all descriptors were passed nevertheless.
    ///
    /// # Blocking
    /// As a write.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As for a write. `InvalidInput`: more than 253 descriptors.
    ///
    /// # Examples
    /// ```
    /// use std::{io::{IoSlice, IoSliceMut, Read, Write}, os::fd::AsFd};
    /// use ramie::os::unix::net::UnixStream;
    ///
    /// let (left, right) = UnixStream::pair()?;
    /// let (mut ours, theirs) = UnixStream::pair()?;
    /// left.send_vectored_with_fds(&[IoSlice::new(b"!")], &[theirs.as_fd()])?;
    ///
    /// let (mut byte, mut fds) = ([0], Vec::new());
    /// right.recv_vectored_with_fds(&mut [IoSliceMut::new(&mut byte)], &mut fds)?;
    /// let received = UnixStream::from(fds.pop().unwrap());
    /// (&received).write_all(b"through the copy")?;
    /// drop((received, theirs));
    ///
    /// let mut text = String::new();
    /// ours.read_to_string(&mut text)?;
    /// assert_eq!(text, "through the copy");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn send_vectored_with_fds(
        &self,
        bufs: &[IoSlice<'_>],
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<usize> {
        self.socket.send_fds(bufs, fds, Shape::Stream)
    }

    /// Reads bytes, and adds the descriptors that came with them to `fds`, closed on exec.
    ///
    /// One read receives the descriptors of one write at most. Any other kind of read discards
    /// descriptors.
    ///
    /// # Blocking
    /// As a read.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As a read.
    #[track_caller]
    pub fn recv_vectored_with_fds(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        fds: &mut Vec<OwnedFd>,
    ) -> io::Result<Received> {
        self.socket.receive_fds(bufs, fds)
    }
}

read_by_field!(socket: UnixStream, &UnixStream);
write_by_field!(socket: UnixStream, &UnixStream);
shared_like_std!(UnixStream);
bounded_like_std!(UnixStream);
converts_like_std!(UnixStream, std::os::unix::net::UnixStream);

impl fmt::Debug for UnixStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (local, peer) = (self.local_addr().ok(), self.peer_addr().ok());
        super::debug(f, "UnixStream", self.as_raw_fd(), local, peer)
    }
}
