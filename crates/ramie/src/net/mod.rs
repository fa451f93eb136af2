//! Twins of `std::net`: TCP and UDP sockets whose calls park the strand, never the worker. Unix
//! sockets are in [`os::unix::net`](crate::os::unix::net), where std has them.
//!
//! Signatures, defaults and error kinds are std's. The differences, and the reasons:
//! - Timeouts and `set_nonblocking` are kept beside the descriptor and shared by `try_clone`. They
//!   are read from a descriptor when a socket is made of it, and set on the descriptor that a
//!   socket is converted to. In between, the open file description, which other processes may
//!   share, does not change. (Except that a listener on the polling driver, or one that processes
//!   share, is nonblocking meanwhile.)
//! - [`ToSocketAddrs`] is a trait of this crate with std's implementations, because names are
//!   resolved on the blocking pool, and implementors of std's trait need not be usable there.
//! - No call fails with `ErrorKind::Interrupted`.
//!
//! Dropping a socket closes its descriptor at once.
//!
//! # Connections for several workers
//! A fiber stays on the worker that started it, so a server chooses a worker for each connection
//! when it accepts it. There are three ways, each of a few lines; the table shows the server's CPU
//! time for an HTTP request, with two workers under wrk on one machine:
//!
//! | way | 256 connections kept open | one connection for each request | suits |
//! |---|---|---|---|
//! | [`TcpListener::bind_per_worker`], [`fiber::on_each_worker`], [`fiber::spawn_local`] | 6.2 us | 29 us | many connections; `ramie serve` uses it |
//! | one listener, [`Place::LeastLoaded`] | 6.1 us | 35 us | few connections that live long and cost much |
//! | one listener, from which a fiber on each worker accepts | 6.1 us | 29 us | processes that share the listener |
//! | one worker, for comparison | 5.8 us | 26 us | |
//!
//! The first distributes connections by a hash, so one of two workers may well get 6 of 8
//! connections. The second distributes them evenly, at the cost of a wake-up of the other worker.
//! In the third, the worker that is awake takes most of them. If the accepting fiber spawns without
//! a choice, long-lived connections spread as [`Place`] describes: evenly, as long as the other
//! worker is idle now and then.
//!
//! [`fiber::on_each_worker`]: crate::fiber::on_each_worker
//! [`fiber::spawn_local`]: crate::fiber::spawn_local
//! [`Place`]: crate::fiber::Place
//! [`Place::LeastLoaded`]: crate::fiber::Place::LeastLoaded

mod accept;
mod addr;
mod each;
pub(crate) mod handle;
mod late;
mod leftover;
pub(crate) mod message;
mod racing;
pub(crate) mod socket;
mod tcp_listener;
mod tcp_stream;
mod udp;
mod zero_copy;

#[doc(no_inline)]
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

use std::fmt;

/// Formats a socket as std does: its address, its peer's address, its descriptor.
fn debug(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    fd: i32,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
) -> fmt::Result {
    let mut debug = f.debug_struct(name);
    if let Some(local) = local {
        debug.field("addr", &local);
    }
    if let Some(peer) = peer {
        debug.field("peer", &peer);
    }
    debug.field("fd", &fd).finish()
}
