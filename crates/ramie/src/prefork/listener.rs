//! A listening socket that is there before any process.

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
/// this does not.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl Listener {
    /// Makes a listener bound to the first of the addresses that can be bound, as
    /// [`TcpListener::bind`] does. A host name is resolved by std, right here.
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

    /// Returns the address it is bound to.
    ///
    /// # Errors
    /// None, unless another descriptor was put in the place of this one.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        sys::local_addr(&self.fd)
    }

    /// Makes a listener to accept with, in the process that calls.
    ///
    /// Its open file description is that of all processes, and nonblocking, which those who use it
    /// through Ramie do not notice.
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
