//! Socket addresses as the kernel reads and writes them.

use std::{
    io,
    net::SocketAddr,
    os::{fd::OwnedFd, unix::net as unix},
};

use ramie_driver::{SockAddrStorage, sys};

/// A socket address as the kernel reads and writes it; converts from and into std's types.
///
/// # Examples
/// ```
/// use ramie::ring::Address;
///
/// let local = std::net::SocketAddr::from(([127, 0, 0, 1], 80));
/// assert_eq!(Address::from(local).to_ip()?, local);
/// assert!(Address::from(local).to_unix().is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Address {
    pub(crate) storage: SockAddrStorage,
    /// The number of bytes of `storage` that are in use.
    pub(crate) len: u32,
}

impl Address {
    /// Makes an empty address for the kernel to fill.
    pub(crate) fn new() -> Self {
        Address { storage: SockAddrStorage::new(), len: SockAddrStorage::LEN }
    }

    /// Returns the address of an accepted connection's peer.
    pub(crate) fn of_peer(fd: &OwnedFd) -> io::Result<Self> {
        match sys::peer_storage(fd) {
            Ok((storage, len)) => Ok(Address { storage, len }),
            // The peer has closed the connection already. Peers of Unix sockets rarely have a name.
            Err(_) if sys::local_addr_unix(fd).is_ok() => {
                let (storage, len) = SockAddrStorage::unnamed_unix();
                Ok(Address { storage, len })
            }
            // The peer has closed the connection already: the error is that of an accept after the
            // close.
            Err(_) => Err(sys::Errno::CONNABORTED.into()),
        }
    }

    /// Converts the address to an IP address with a port.
    ///
    /// # Errors
    /// `InvalidInput`: the address is of another family.
    pub fn to_ip(&self) -> io::Result<SocketAddr> {
        self.storage.to_std(self.len).ok_or_else(sys::not_an_ip_address)
    }

    /// Converts the address to that of a Unix socket.
    ///
    /// # Errors
    /// `InvalidInput`: the address is of another family.
    pub fn to_unix(&self) -> io::Result<unix::SocketAddr> {
        self.storage.to_unix(self.len).ok_or_else(sys::not_a_unix_address)
    }
}

impl From<&SocketAddr> for Address {
    fn from(address: &SocketAddr) -> Self {
        let (storage, len) = SockAddrStorage::from_std(address);
        Address { storage, len }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address::from(&address)
    }
}

impl From<&unix::SocketAddr> for Address {
    fn from(address: &unix::SocketAddr) -> Self {
        let (storage, len) = SockAddrStorage::from_unix(address);
        Address { storage, len }
    }
}

impl From<unix::SocketAddr> for Address {
    fn from(address: unix::SocketAddr) -> Self {
        Address::from(&address)
    }
}
