//! Calls on Unix sockets that do not wait, with std's addresses.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr;

use rustix::net::{self, AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType};

/// Binds a Unix socket to an address.
///
/// # Errors
/// `EADDRINUSE`: something has that name. Those of a path: `ENOENT`, `EACCES`, `ENOTDIR`.
pub fn bind_unix(fd: impl AsFd, addr: &SocketAddr) -> io::Result<()> {
    Ok(net::bind(fd, &encoded(addr)?)?)
}

/// Connects a Unix socket; of a datagram socket, sets the peer.
///
/// # Errors
/// `ENOENT`, `ECONNREFUSED`: nobody is there. `EPROTOTYPE`: the peer is of another kind. `EAGAIN`:
/// the queue of a listener is full, and the socket is nonblocking.
pub fn connect_unix(fd: impl AsFd, addr: &SocketAddr) -> io::Result<()> {
    Ok(net::connect(fd, &encoded(addr)?)?)
}

/// The process at the other end of a Unix stream, when it connected or began to listen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PeerCredentials {
    /// The id of the process; 0 if it belongs to another namespace.
    pub process: u32,
    /// The effective id of the user.
    pub user: u32,
}

/// Returns the process at the other end of a Unix stream.
///
/// # Errors
/// Not a socket.
pub fn peer_credentials(fd: impl AsFd) -> io::Result<PeerCredentials> {
    match super::raw::peer_credentials(fd.as_fd().as_raw_fd()) {
        Ok([process, user, _group]) => Ok(PeerCredentials { process, user }),
        Err(error) => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Returns the address a Unix socket is bound to.
///
/// # Errors
/// Not a Unix socket.
pub fn local_addr_unix(fd: impl AsFd) -> io::Result<SocketAddr> {
    decoded(Some(net::getsockname(fd)?))
}

/// Returns the address of the peer of a Unix socket.
///
/// # Errors
/// `ENOTCONN`, or not a Unix socket.
pub fn peer_addr_unix(fd: impl AsFd) -> io::Result<SocketAddr> {
    decoded(net::getpeername(fd)?)
}

/// Makes two connected Unix sockets, closed on exec.
///
/// # Errors
/// Out of descriptors (`EMFILE`, `ENFILE`).
pub fn socketpair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

fn encoded(addr: &SocketAddr) -> io::Result<SocketAddrUnix> {
    if let Some(path) = addr.as_pathname() {
        return Ok(SocketAddrUnix::new(path)?);
    }
    match addr.as_abstract_name() {
        Some(name) => Ok(SocketAddrUnix::new_abstract_name(name)?),
        None => Ok(SocketAddrUnix::new_unnamed()),
    }
}

fn decoded(addr: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
    let Some(addr) = addr else { return SocketAddr::from_pathname("") };
    let addr = SocketAddrUnix::try_from(addr).map_err(|_| not_a_unix_address())?;
    match (addr.path_bytes(), addr.abstract_name()) {
        (Some(path), _) => SocketAddr::from_pathname(OsStr::from_bytes(path)),
        (None, Some(name)) => SocketAddr::from_abstract_name(name),
        // std's way to write an unnamed address.
        (None, None) => SocketAddr::from_pathname(""),
    }
}

/// std's error for a socket of another family.
pub fn not_a_unix_address() -> io::Error {
    let text = "file descriptor did not correspond to a Unix socket";
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
