//! A listening socket that exists before the processes do.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use ramie_driver::sys;

use crate::net::TcpListener;

/// A TCP listener made before [`prefork`](super::prefork()), for all processes to accept from.
///
/// [`TcpListener::bind`] opens the driver of its thread, after which a process cannot be forked;
/// [`bind`](Self::bind) does not.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl Listener {
    /// Makes a listener bound to the first of the addresses that can be bound, as
    /// [`TcpListener::bind`] does. A host name is resolved by std, on this thread.
    ///
    /// # Errors
    /// As [`TcpListener::bind`].
    pub fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<Listener> {
        let mut last_error = None;
        for address in addr.to_socket_addrs()? {
            match TcpListener::descriptor(&address) {
                Ok(fd) => return Ok(Listener { fd }),
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.unwrap_or_else(|| {
            let text = "could not resolve to any addresses";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        }))
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Errors
    /// None, unless the program replaced the descriptor.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sys::local_addr(&self.fd)
    }

    /// Makes a listener that accepts connections in the calling process.
    ///
    /// All processes share its open file description, which is nonblocking. That makes no
    /// difference to calls through Ramie.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn open(&self) -> io::Result<TcpListener> {
        Ok(TcpListener::shared(sys::dup_cloexec(&self.fd)?))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
