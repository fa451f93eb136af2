//! Conversion of host names and address texts to socket addresses.

use std::{io, iter, net, option, slice, vec};

use ramie_driver::sys::AddressFamily;

use crate::{
    core::cancel,
    fiber,
    sync::oneshot::{self, RecvError},
};

use super::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A value that converts into socket addresses; twin of [`std::net::ToSocketAddrs`], implemented
/// for the same types.
///
/// # Blocking
/// Parks the fiber for a host name, while the system's resolver looks it up on the blocking pool.
/// Never for addresses and literals.
///
/// # Cancellation
/// A cancel point if a host name is resolved. The system's resolver cannot be stopped, so it
/// continues, [`run`](crate::run()) waits for its end, and its result is dropped.
///
/// # Examples
/// ```
/// use ramie::net::ToSocketAddrs;
///
/// let address = "127.0.0.1:80".to_socket_addrs()?.next();
/// assert_eq!(address, Some(([127, 0, 0, 1], 80).into()));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ToSocketAddrs {
    /// Yields the addresses, the preferred ones first.
    type Iter: Iterator<Item = SocketAddr>;

    /// Finds the addresses.
    ///
    /// # Errors
    /// `InvalidInput`: the text is no address, or has no port. The resolver's own error: the name
    /// is unknown, or no server answers. Cancelled.
    fn to_socket_addrs(&self) -> io::Result<Self::Iter>;
}

/// Implements the trait by a conversion that cannot fail.
macro_rules! converts {
    ($($from:ty),*) => {$(
        impl ToSocketAddrs for $from {
            type Iter = option::IntoIter<SocketAddr>;

            fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
                Ok(Some(SocketAddr::from(*self)).into_iter())
            }
        }
    )*};
}

converts!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl ToSocketAddrs for str {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        match self.parse() {
            Ok(literal) => Ok(vec![literal].into_iter()),
            Err(_) => resolve(|| self.to_owned()),
        }
    }
}

impl ToSocketAddrs for String {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        self.as_str().to_socket_addrs()
    }
}

impl ToSocketAddrs for (&str, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        match self.0.parse::<IpAddr>() {
            Ok(literal) => Ok(vec![SocketAddr::new(literal, self.1)].into_iter()),
            Err(_) => resolve(|| (self.0.to_owned(), self.1)),
        }
    }
}

impl ToSocketAddrs for (String, u16) {
    type Iter = vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (self.0.as_str(), self.1).to_socket_addrs()
    }
}

impl<'a> ToSocketAddrs for &'a [SocketAddr] {
    type Iter = iter::Cloned<slice::Iter<'a, SocketAddr>>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(self.iter().cloned())
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    type Iter = T::Iter;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        (**self).to_socket_addrs()
    }
}

fn resolve<N>(name: impl FnOnce() -> N) -> io::Result<vec::IntoIter<SocketAddr>>
where
    N: net::ToSocketAddrs<Iter = vec::IntoIter<SocketAddr>> + Send + 'static,
{
    cancel::check_io()?;
    let name = name();
    let resolve = move || crate::op::blocking(move || name.to_socket_addrs());
    if !cancel::may_be_cancelled() {
        return resolve();
    }
    // Another strand resolves the name, because the resolver cannot be stopped and a cancelled
    // caller must not wait for it.
    let (sender, receiver) = oneshot::channel();
    let strand = fiber::spawn(move || drop(sender.send(resolve())));
    match receiver.recv() {
        Ok(found) => found,
        Err(RecvError::Cancelled) => Err(cancel::error()),
        Err(RecvError::Closed) => {
            strand.join_or_raise();
            Err(io::Error::other("a name cannot be resolved while the strand unwinds"))
        }
    }
}

pub(super) fn family_of(address: &SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// Tries `each` address in turn and returns the first success, otherwise the last error, as std
/// does.
pub(super) fn first_success<T>(
    addresses: impl ToSocketAddrs,
    mut each: impl FnMut(&SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last_error = None;
    for address in addresses.to_socket_addrs()? {
        match each(&address) {
            Ok(value) => return Ok(value),
            Err(error) => last_error = Some(error),
        }
    }
    Err(last_error.unwrap_or_else(no_address))
}

pub(super) fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")
}
