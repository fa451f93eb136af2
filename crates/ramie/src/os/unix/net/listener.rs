//! The twin of `std::os::unix::net::UnixListener`.

use std::{
    fmt, io,
    iter::FusedIterator,
    os::fd::{AsFd, AsRawFd},
    path::Path,
};

use ramie_driver::sys::{self, AddressFamily};

use super::{SocketAddr, UnixStream};
use crate::{
    core::cancel::Steps,
    net::{
        handle::{converts_like_std, shared_like_std},
        socket::{BACKLOG, Socket},
    },
    op::multishot::MultishotSource,
};

/// A socket that accepts Unix stream connections; twin of [`std::os::unix::net::UnixListener`].
///
/// It is closed when dropped. As in std, its path is not removed from the file system.
///
/// # Examples
/// ```
/// use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
/// use ramie::os::unix::net::{UnixListener, UnixStream};
///
/// ramie::run(|| {
///     let name = format!("ramie-doc-{}", std::process::id());
///     let address = SocketAddr::from_abstract_name(name)?;
///     let listener = UnixListener::bind_addr(&address)?;
///     let client = UnixStream::connect_addr(&address)?;
///     let (server, peer) = listener.accept()?;
///     assert!(peer.is_unnamed());
///     # drop((client, server));
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UnixListener {
    socket: Socket,
}

impl UnixListener {
    /// Makes a listener at a path, which must not exist yet.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// `AddrInUse`: the path exists. `NotFound`, `PermissionDenied`: its folder does not exist, or
    /// must not be written to. `InvalidInput`: the path is longer than 107 bytes or contains a zero
    /// byte.
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        UnixListener::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// Makes a listener at an address.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// As for [`UnixListener::bind`].
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixListener> {
        let socket = Socket::stream(AddressFamily::UNIX)?;
        sys::bind_unix(&socket, socket_addr)?;
        sys::listen(&socket, BACKLOG)?;
        Ok(UnixListener { socket })
    }

    /// Waits for a connection and accepts it.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// The process or the system is out of descriptors (`EMFILE`, `ENFILE`): the connection stays
    /// in the queue. `WouldBlock`: [`UnixListener::set_nonblocking`] is on and there is none.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (socket, peer) = self.socket.accept()?;
        Ok((UnixStream::from_socket(socket), peer.to_unix()?))
    }

    /// Iterates over the connections; each step is an [`accept`](UnixListener::accept) of its own.
    /// So unlike [`TcpListener::incoming`](crate::net::TcpListener::incoming), the iterator accepts
    /// no connection before the program asks for it.
    ///
    /// # Cancellation
    /// As for [`TcpListener::incoming`](crate::net::TcpListener::incoming): after the error of a
    /// cancelled step, the iteration ends if the next step is made inside the same cancelled scope,
    /// or after the same deadline.
    pub fn incoming(&self) -> Incoming<'_> {
        // A multishot accept does not end when a Unix listener is shut down: the kernel tries it
        // without waiting, which then fails with `EAGAIN`, whereas an accept that waits fails with
        // `EINVAL` (seen on Linux 6.18).
        let source = self.socket.acceptor().one_by_one();
        Incoming { listener: self, source, steps: Steps::Going }
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not a Unix socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sys::local_addr_unix(&self.socket)
    }
}

shared_like_std!(UnixListener);
converts_like_std!(UnixListener, std::os::unix::net::UnixListener);

// Same name as `net::Incoming`: std names both iterators so.
/// Iterates over a listener's connections; made by [`UnixListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a UnixListener,
    source: MultishotSource,
    steps: Steps,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<UnixStream>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<UnixStream>> {
        if !self.steps.go_on() {
            return None;
        }
        let accepted = self.listener.socket.accept_next(&mut self.source);
        Some(self.steps.noted(accepted).map(UnixStream::from_socket))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl FusedIterator for Incoming<'_> {}

impl<'a> IntoIterator for &'a UnixListener {
    type Item = io::Result<UnixStream>;
    type IntoIter = Incoming<'a>;

    fn into_iter(self) -> Incoming<'a> {
        self.incoming()
    }
}

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(f, "UnixListener", self.as_raw_fd(), self.local_addr().ok(), None)
    }
}
