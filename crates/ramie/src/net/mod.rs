//! Twins of `std::net`: TCP and UDP sockets whose calls park the strand, never the worker. Unix
//! sockets are in [`os::unix::net`](crate::os::unix::net), where std has them.
//!
//! Signatures, defaults and error kinds are std's. What differs, and why:
//! - Timeouts and `set_nonblocking` are kept beside the descriptor and shared by `try_clone`. They
//!   are read from a descriptor that comes in, and set on one that is given away. In between, the
//!   open file description, which other processes may share, stays as it is. (A listener of ours
//!   on the polling driver is nonblocking meanwhile.)
//! - [`ToSocketAddrs`] is a trait of this crate with std's implementations: names are resolved on
//!   the blocking pool, and std's trait cannot promise that its implementor may be used there.
//! - No call fails with `ErrorKind::Interrupted`.
//!
//! Dropping a socket closes its descriptor at once.

mod addr;
mod each;
mod early;
pub(crate) mod handle;
pub(crate) mod message;
pub(crate) mod socket;
mod tcp_listener;
mod tcp_stream;
mod udp;

pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
};

pub use self::{
    addr::ToSocketAddrs,
    each::{RecvEach, RecvFromEach},
    tcp_listener::{Incoming, TcpListener},
    tcp_stream::TcpStream,
    udp::UdpSocket,
};
