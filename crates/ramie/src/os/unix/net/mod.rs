//! Twins of `std::os::unix::net`: Unix sockets whose calls park the strand, never the worker.
//!
//! Signatures, defaults and error kinds are std's, with the differences listed in
//! [`net`](crate::net). Beyond std, streams and datagrams can pass descriptors, for example by
//! [`UnixStream::send_vectored_with_fds`].

mod datagram;
mod listener;
mod stream;

#[doc(no_inline)]
pub use std::os::unix::net::SocketAddr;

pub use self::{
    datagram::UnixDatagram,
    listener::{Incoming, UnixListener},
    stream::UnixStream,
};
pub use crate::net::message::Received;

use std::fmt;

/// Formats a socket as std does: its descriptor, its address, its peer's address.
fn debug(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    fd: i32,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
) -> fmt::Result {
    let mut debug = f.debug_struct(name);
    debug.field("fd", &fd);
    if let Some(local) = local {
        debug.field("local", &local);
    }
    if let Some(peer) = peer {
        debug.field("peer", &peer);
    }
    debug.finish()
}
