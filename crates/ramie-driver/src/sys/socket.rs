//! Socket calls that do not wait. Calls that wait are ops; options are in [`super::sockopt`].

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::SockAddrStorage;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};

/// Makes a socket, closed on exec; `nonblocking` sets `O_NONBLOCK`.
///
/// # Errors
/// Out of descriptors (`EMFILE`, `ENFILE`), or a family that this kernel lacks.
pub fn socket(family: AddressFamily, kind: SocketType, nonblocking: bool) -> io::Result<OwnedFd> {
    let mut flags = SocketFlags::CLOEXEC;
    flags.set(SocketFlags::NONBLOCK, nonblocking);
    Ok(net::socket_with(family, kind, flags, None)?)
}

/// Binds a socket to an address.
///
/// # Errors
/// `EADDRINUSE`, `EACCES` (port below 1024 without permission), `EADDRNOTAVAIL`.
pub fn bind(fd: impl AsFd, addr: &SocketAddr) -> io::Result<()> {
    Ok(net::bind(fd, addr)?)
}

/// Makes a socket accept connections, keeping up to `backlog` of them waiting.
///
/// # Errors
/// `EADDRINUSE`, or not a stream socket.
pub fn listen(fd: impl AsFd, backlog: i32) -> io::Result<()> {
    Ok(net::listen(fd, backlog)?)
}

/// Starts to connect; on a nonblocking socket `EINPROGRESS` means that the kernel continues.
///
/// # Errors
/// Those of connect(2).
pub fn connect(fd: impl AsFd, addr: &SocketAddr) -> io::Result<()> {
    Ok(net::connect(fd, addr)?)
}

/// Accepts one connection, closed on exec. Waits if the listener is blocking.
///
/// # Errors
/// `EAGAIN` (nothing there, listener nonblocking), `EMFILE`, `ECONNABORTED`.
pub fn accept(fd: impl AsFd) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let (stream, peer) = net::acceptfrom_with(fd, SocketFlags::CLOEXEC)?;
    Ok((stream, peer.and_then(|peer| SocketAddr::try_from(peer).ok())))
}

/// Shuts down one or both halves of a connection.
///
/// # Errors
/// `ENOTCONN`.
pub fn shutdown(fd: impl AsFd, how: Shutdown) -> io::Result<()> {
    Ok(net::shutdown(fd, how)?)
}

/// Returns the address the socket is bound to.
///
/// # Errors
/// Not a socket, or not an IP address (`InvalidInput`).
pub fn local_addr(fd: impl AsFd) -> io::Result<SocketAddr> {
    net::getsockname(fd)?.try_into().map_err(|_| not_an_ip_address())
}

/// Returns the address of the peer.
///
/// # Errors
/// `ENOTCONN`, or not an IP address (`InvalidInput`).
pub fn peer_addr(fd: impl AsFd) -> io::Result<SocketAddr> {
    let peer = net::getpeername(fd)?.ok_or_else(not_an_ip_address)?;
    peer.try_into().map_err(|_| not_an_ip_address())
}

/// Returns the address of the peer, of any family, and the number of bytes that count.
///
/// # Errors
/// `ENOTCONN`.
pub fn peer_storage(fd: impl AsFd) -> io::Result<(SockAddrStorage, u32)> {
    super::raw::peer_of(fd.as_fd().as_raw_fd())
        .map_err(|error| io::Error::from_raw_os_error(-error))
}

/// Returns whether it is a TCP socket.
pub fn is_tcp(fd: impl AsFd) -> bool {
    net::sockopt::socket_protocol(fd) == Ok(Some(net::ipproto::TCP))
}

/// std's error for an address of another family.
pub fn not_an_ip_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "invalid argument")
}

/// Receives available bytes, never waiting (`MSG_DONTWAIT` is added).
///
/// # Errors
/// `EAGAIN` if nothing is there; those of recv(2).
pub fn recv(fd: impl AsFd, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    let (received, _) = net::recv(fd, buf, flags | RecvFlags::DONTWAIT)?;
    Ok(received)
}

/// Sends as many bytes as fit now, never waiting and without SIGPIPE.
///
/// # Errors
/// `EAGAIN` if nothing fits; those of send(2).
pub fn send(fd: impl AsFd, buf: &[u8], flags: SendFlags) -> io::Result<usize> {
    Ok(net::send(fd, buf, flags | SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
}
