//! The twin of `std::net::TcpListener`.

use std::{
    fmt, io,
    iter::FusedIterator,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use ramie_driver::sys::{self, sockopt};

use super::{
    SocketAddr, TcpStream, ToSocketAddrs,
    addr::{family_of, first_success},
    handle::{converts_like_std, shared_like_std},
    socket::{BACKLOG, Socket},
};
use crate::{core::cancel::Steps, fiber, op::multishot::MultishotSource};

/// A socket that accepts TCP connections; twin of [`std::net::TcpListener`].
///
/// It is closed when dropped, and its port can be bound again at once.
///
/// # Examples
/// ```
/// use ramie::net::{TcpListener, TcpStream};
///
/// ramie::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let client = TcpStream::connect(listener.local_addr()?)?;
///     let (server, peer) = listener.accept()?;
///     assert_eq!(peer, client.local_addr()?);
///     assert_eq!(server.peer_addr()?, peer);
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpListener {
    socket: Socket,
}

impl TcpListener {
    /// Makes a listener bound to the first of the addresses that can be bound.
    ///
    /// Port 0 asks the system for a free port; [`TcpListener::local_addr`] returns it. As in std,
    /// `SO_REUSEADDR` is set.
    ///
    /// # Blocking
    /// Parks the strand while a host name is resolved; otherwise never.
    ///
    /// # Cancellation
    /// A cancel point if a host name is resolved.
    ///
    /// # Errors
    /// That of the last address tried. `AddrInUse`, `PermissionDenied` (a port below 1,024),
    /// `AddrNotAvailable`: the address cannot be bound. `InvalidInput`: there was no address.
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        first_success(addr, |address| {
            let listener = TcpListener::bound(address, false)?;
            sys::listen(&listener.socket, BACKLOG)?;
            Ok(listener)
        })
    }

    /// Makes one listener on the address for each worker of the runtime. Each listener has a queue
    /// of its own, among which the kernel distributes connections by a hash of the peer's address
    /// (`SO_REUSEPORT`).
    ///
    /// Let a fiber on each worker accept from one of them, as the example of [`on_each_worker`]
    /// does; then no worker wakes another, and no connection moves. Accept from every listener,
    /// because a connection stays in the queue that it was put into. With few connections, or
    /// connections of very different cost, some workers get more than their share; then use one
    /// listener and [`Place::LeastLoaded`]. The [module's
    /// documentation](super#connections-for-several-workers) compares the two.
    ///
    /// The address must be free, as for [`bind`](Self::bind); of a host name or a list, the first
    /// free address is used. As long as the listeners are open, another process of the same user
    /// can bind the same address if it sets `SO_REUSEPORT`, too.
    ///
    /// [`on_each_worker`]: crate::fiber::on_each_worker
    /// [`Place::LeastLoaded`]: crate::fiber::Place::LeastLoaded
    ///
    /// # Blocking
    /// Parks the strand while a host name is resolved; otherwise never.
    ///
    /// # Cancellation
    /// A cancel point if a host name is resolved.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); the process is out of descriptors.
    ///
    /// # Outside a fiber
    /// Outside [`run`](crate::run()), and if strands are threads, it makes one listener.
    pub fn bind_per_worker<A: ToSocketAddrs>(addr: A) -> io::Result<Vec<TcpListener>> {
        first_success(addr, |address| {
            // A socket without `SO_REUSEPORT` is bound first, so that a second server of this kind
            // is refused.
            let first = TcpListener::bound(address, false)?;
            let address = first.local_addr()?;
            sockopt::set_socket_reuseport(&first.socket, true)?;
            let mut listeners = vec![first];
            for _ in 1..fiber::workers() {
                listeners.push(TcpListener::bound(&address, true)?);
            }
            for listener in &listeners {
                sys::listen(&listener.socket, BACKLOG)?;
            }
            Ok(listeners)
        })
    }

    /// Makes the nonblocking descriptor of a listener without using a driver.
    pub(crate) fn descriptor(address: &SocketAddr) -> io::Result<OwnedFd> {
        let fd = sys::socket(family_of(address), sys::SocketType::STREAM, true)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        sys::bind(&fd, address)?;
        sys::listen(&fd, BACKLOG)?;
        Ok(fd)
    }

    /// Makes a listener of a descriptor from [`descriptor`](Self::descriptor), which other
    /// processes may share.
    pub(crate) fn shared(fd: OwnedFd) -> TcpListener {
        TcpListener { socket: Socket::shared_listener(fd) }
    }

    /// Makes a socket that is bound and does not listen yet.
    fn bound(address: &SocketAddr, shares_port: bool) -> io::Result<TcpListener> {
        let socket = Socket::stream(family_of(address))?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, shares_port)?;
        sys::bind(&socket, address)?;
        Ok(TcpListener { socket })
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not an IP socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sys::local_addr(&self.socket)
    }

    /// Waits for a connection and accepts it.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// A cancel point. No connection is lost, because a cancelled call has accepted none.
    ///
    /// # Errors
    /// The process or the system is out of descriptors (`EMFILE`, `ENFILE`): the connection stays
    /// in the queue. `ConnectionAborted`: the peer closed the connection before it was accepted.
    /// `WouldBlock`: [`TcpListener::set_nonblocking`] is on and there is no connection.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, peer) = self.socket.accept()?;
        Ok((TcpStream::from_socket(socket), peer.to_ip()?))
    }

    /// Iterates over the connections; each step is as an [`accept`](TcpListener::accept).
    ///
    /// # Cancellation
    /// Each step is a cancel point. A step that is cancelled yields the error; if the next step is
    /// made inside the same cancelled scope, or after the same deadline, the iteration ends for
    /// good. So a `for` loop that continues after errors ends in a cancelled scope. Otherwise the
    /// iteration never ends: a limit around a single step does not end it.
    ///
    /// # Connections accepted early
    /// While only one strand accepts by this iterator, one multishot op accepts connection after
    /// connection. Connections that it accepted and the program has not taken, a few dozen at most,
    /// belong to the listener: the next call that accepts takes them first, and the last handle
    /// closes them when it is dropped.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self, source: self.socket.acceptor(), steps: Steps::Going }
    }

    /// Sets the time to live of the packets sent.
    ///
    /// # Errors
    /// The value is 0 or above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_ttl(&self.socket, ttl)?)
    }

    /// Returns the time to live of the packets sent.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not an IPv4 socket.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(sockopt::ip_ttl(&self.socket)?)
    }

    /// Chooses whether an IPv6 listener accepts IPv6 only.
    ///
    /// # Errors
    /// The listener is bound already, as every `TcpListener` is, or is IPv4.
    #[deprecated(note = "as in std: it can only be set before the socket is bound")]
    pub fn set_only_v6(&self, only_v6: bool) -> io::Result<()> {
        Ok(sockopt::set_ipv6_v6only(&self.socket, only_v6)?)
    }

    /// Returns whether an IPv6 listener accepts IPv6 only.
    ///
    /// # Errors
    /// The listener is IPv4.
    #[deprecated(note = "as in std: it can only be set before the socket is bound")]
    pub fn only_v6(&self) -> io::Result<bool> {
        Ok(sockopt::ipv6_v6only(&self.socket)?)
    }
}

shared_like_std!(TcpListener);
converts_like_std!(TcpListener, std::net::TcpListener);

/// Iterates over a listener's connections; made by [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
    source: MultishotSource,
    steps: Steps,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        if !self.steps.go_on() {
            return None;
        }
        let accepted = self.listener.socket.accept_next(&mut self.source);
        Some(self.steps.noted(accepted).map(TcpStream::from_socket))
    }
}

impl FusedIterator for Incoming<'_> {}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(f, "TcpListener", self.as_raw_fd(), self.local_addr().ok(), None)
    }
}
