//! Twins of `std::net`: TCP streams and listeners whose calls park the strand, never the worker.
//!
//! Signatures, defaults and error kinds are std's. What differs, and why:
//! - Timeouts and `set_nonblocking` are kept beside the descriptor, shared by `try_clone`, and
//!   handed to std on conversion. The open file description, which other processes may share,
//!   stays blocking. (A listener on the polling driver is the exception; it is set back on
//!   conversion.)
//! - [`ToSocketAddrs`] is a trait of this crate with std's implementations: names are resolved on
//!   the blocking pool, and std's trait cannot promise that its implementor may be used there.
//! - No call fails with `ErrorKind::Interrupted`.
//!
//! Dropping a stream or listener closes its descriptor at once.

mod addr;
mod socket;
mod tcp_listener;
mod tcp_stream;

pub use std::net::{
    AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
};

pub use self::{
    addr::ToSocketAddrs,
    tcp_listener::{Incoming, TcpListener},
    tcp_stream::TcpStream,
};
