//! The twin of `std::net::UdpSocket`.

use std::{
    fmt, io,
    os::fd::{AsFd, AsRawFd},
};

use ramie_driver::sys::{self, sockopt};

use super::{
    Ipv4Addr, Ipv6Addr, RecvFromEach, SocketAddr, ToSocketAddrs,
    addr::{family_of, first_success},
    handle::{bounded_like_std, converts_like_std, shared_like_std},
    socket::Socket,
};

/// A UDP socket; twin of [`std::net::UdpSocket`]. It is closed when dropped.
///
/// # Blocking
/// A call that would wait parks the fiber, or the thread outside one: `recv`, `recv_from`, `peek`
/// and `peek_from` for a datagram, `send` and `send_to` for room in the send buffer.
///
/// # Cancellation
/// Sends and receives are cancel points.
///
/// # Errors
/// As std's. `WouldBlock`: a timeout has passed. `ConnectionRefused`: the connected peer was not
/// there for an earlier datagram; this is reported once. Never `Interrupted`.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
///
/// # Examples
/// ```
/// use ramie::net::UdpSocket;
///
/// ramie::run(|| {
///     let (left, right) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
///     left.send_to(b"hello", right.local_addr()?)?;
///     let mut buffer = [0; 16];
///     let (count, from) = right.recv_from(&mut buffer)?;
///     assert_eq!((&buffer[..count], from), (&b"hello"[..], left.local_addr()?));
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UdpSocket {
    socket: Socket,
}

impl UdpSocket {
    /// Makes a socket bound to the first of the addresses that can be bound.
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
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        first_success(addr, |address| {
            let socket = Socket::datagram(family_of(address))?;
            sys::bind(&socket, address)?;
            Ok(UdpSocket { socket })
        })
    }

    /// Receives a datagram and returns its length and sender. Bytes that do not fit into `buf` are
    /// discarded.
    ///
    /// # Errors
    /// See the type.
    #[track_caller]
    pub fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (bytes, from) = self.socket.receive_from(buf, 0)?;
        Ok((bytes, from.to_ip()?))
    }

    /// Iterates over the datagrams as they come, with their senders, in buffers of the runtime, as
    /// [`TcpStream::recv_each`](super::TcpStream::recv_each) does over a stream's bytes. Datagrams
    /// of any length are complete.
    ///
    /// If the iterator is dropped, the next `recv_from` or `recv`, or the next read by
    /// [`ring`](crate::ring), returns datagrams that were received and not taken; a call that
    /// already waits on another strand may miss them. For duplicates of the descriptor see
    /// [`TcpStream::recv_each`](super::TcpStream::recv_each).
    ///
    /// # Blocking
    /// Each step that has to wait for a datagram parks the fiber, or the thread outside one. If the
    /// program shuts the socket down by its descriptor (shutdown(2)), `recv` and `recv_from` end,
    /// whereas a step by a multishot op continues to wait (seen on Linux 6.18).
    ///
    /// # Cancellation
    /// Each step is a cancel point; a cancelled step loses no datagram.
    ///
    /// # Errors
    /// Of a step: see the type. The iterator continues after an error.
    pub fn recv_from_each(&self) -> RecvFromEach<'_> {
        RecvFromEach::new(&self.socket)
    }

    /// Receives a datagram and its sender without removing it, so the next receive returns it
    /// again.
    ///
    /// # Errors
    /// See the type.
    #[track_caller]
    pub fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (bytes, from) = self.socket.receive_from(buf, sys::MSG_PEEK)?;
        Ok((bytes, from.to_ip()?))
    }

    /// Sends a datagram to the first of the addresses, and returns its length.
    ///
    /// # Blocking
    /// Parks the strand while there is no room, and while a host name is resolved.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// See the type. `InvalidInput`: there was no address.
    #[track_caller]
    pub fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        match addr.to_socket_addrs()?.next() {
            Some(address) => self.socket.send_datagram(buf, Some(&(&address).into())),
            None => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "no addresses to send data to"))
            }
        }
    }

    /// Sets the peer, to which `send` sends; datagrams from other senders are no longer received.
    ///
    /// # Blocking
    /// Parks the strand while a host name is resolved; otherwise never.
    ///
    /// # Cancellation
    /// A cancel point if a host name is resolved.
    ///
    /// # Errors
    /// That of the last address tried. `InvalidInput`: there was no address.
    pub fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        first_success(addr, |address| sys::connect(&self.socket, address))
    }

    /// Sends a datagram to the peer.
    ///
    /// # Errors
    /// See the type. `EDESTADDRREQ`: there is no peer.
    #[track_caller]
    pub fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.socket.send_datagram(buf, None)
    }

    /// Receives a datagram from the peer. Bytes that do not fit into `buf` are discarded.
    ///
    /// # Errors
    /// See the type.
    #[track_caller]
    pub fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buf, 0)
    }

    /// Receives a datagram from the peer without removing it, so the next receive returns it again.
    ///
    /// # Errors
    /// See the type.
    #[track_caller]
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.receive(buf, sys::MSG_PEEK)
    }

    /// Returns the address that the socket is connected to.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        sys::peer_addr(&self.socket)
    }

    /// Returns the address that the socket is bound to.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not an IP socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sys::local_addr(&self.socket)
    }
}

/// Options. Their errors are the system's: a value out of range, a group or interface that does not
/// exist, an IPv4 option on an IPv6 socket or the reverse.
impl UdpSocket {
    /// Chooses whether datagrams may be sent to broadcast addresses.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not a socket.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_broadcast(&self.socket, broadcast)?)
    }

    /// Returns whether datagrams may be sent to broadcast addresses.
    ///
    /// # Errors
    /// As for [`UdpSocket::set_broadcast`].
    pub fn broadcast(&self) -> io::Result<bool> {
        Ok(sockopt::socket_broadcast(&self.socket)?)
    }

    /// Sets the time to live of the datagrams sent.
    ///
    /// # Errors
    /// The value is 0 or above 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_ttl(&self.socket, ttl)?)
    }

    /// Returns the time to live of the datagrams sent.
    ///
    /// # Errors
    /// The descriptor, made elsewhere, is not an IP socket.
    pub fn ttl(&self) -> io::Result<u32> {
        Ok(sockopt::ip_ttl(&self.socket)?)
    }

    /// Chooses whether multicast datagrams sent over IPv4 come back to this machine.
    ///
    /// # Errors
    /// As for the other options.
    pub fn set_multicast_loop_v4(&self, multicast_loop_v4: bool) -> io::Result<()> {
        Ok(sockopt::set_ip_multicast_loop(&self.socket, multicast_loop_v4)?)
    }

    /// Returns whether multicast datagrams sent over IPv4 come back to this machine.
    ///
    /// # Errors
    /// As for the other options.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        Ok(sockopt::ip_multicast_loop(&self.socket)?)
    }

    /// Sets the time to live of multicast datagrams sent over IPv4.
    ///
    /// # Errors
    /// The value is above 255.
    pub fn set_multicast_ttl_v4(&self, multicast_ttl_v4: u32) -> io::Result<()> {
        Ok(sockopt::set_ip_multicast_ttl(&self.socket, multicast_ttl_v4)?)
    }

    /// Returns the time to live of multicast datagrams sent over IPv4.
    ///
    /// # Errors
    /// As for the other options.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        Ok(sockopt::ip_multicast_ttl(&self.socket)?)
    }

    /// Chooses whether multicast datagrams sent over IPv6 come back to this machine.
    ///
    /// # Errors
    /// As for the other options.
    pub fn set_multicast_loop_v6(&self, multicast_loop_v6: bool) -> io::Result<()> {
        Ok(sockopt::set_ipv6_multicast_loop(&self.socket, multicast_loop_v6)?)
    }

    /// Returns whether multicast datagrams sent over IPv6 come back to this machine.
    ///
    /// # Errors
    /// As for the other options.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        Ok(sockopt::ipv6_multicast_loop(&self.socket)?)
    }

    /// Joins an IPv4 group on the interface with this address; for `0.0.0.0` the system chooses.
    ///
    /// # Errors
    /// `multiaddr` is no multicast address, or no interface has the other address.
    pub fn join_multicast_v4(&self, multiaddr: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        Ok(sockopt::set_ip_add_membership(&self.socket, multiaddr, interface)?)
    }

    /// Joins an IPv6 group on the interface with this index; for 0 the system chooses.
    ///
    /// # Errors
    /// `multiaddr` is no multicast address, or there is no such interface.
    pub fn join_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        Ok(sockopt::set_ipv6_add_membership(&self.socket, multiaddr, interface)?)
    }

    /// Leaves an IPv4 group.
    ///
    /// # Errors
    /// The socket has not joined the group.
    pub fn leave_multicast_v4(&self, multiaddr: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        Ok(sockopt::set_ip_drop_membership(&self.socket, multiaddr, interface)?)
    }

    /// Leaves an IPv6 group.
    ///
    /// # Errors
    /// The socket has not joined the group.
    pub fn leave_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        Ok(sockopt::set_ipv6_drop_membership(&self.socket, multiaddr, interface)?)
    }
}

shared_like_std!(UdpSocket);
bounded_like_std!(UdpSocket);
converts_like_std!(UdpSocket, std::net::UdpSocket);

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::debug(f, "UdpSocket", self.as_raw_fd(), self.local_addr().ok(), None)
    }
}
