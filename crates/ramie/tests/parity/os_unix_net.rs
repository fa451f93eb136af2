//! The items of `std::os::unix::net`, in use.

use super::std;
use std::{
    fmt::Debug,
    io::{self, Read, Write},
    net::Shutdown,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd},
        unix::net::{Incoming, SocketAddr, UnixDatagram, UnixListener, UnixStream},
    },
    panic::{RefUnwindSafe, UnwindSafe},
    path::Path,
    time::Duration,
};

types! { Incoming['static], UnixDatagram, UnixListener, UnixStream }

methods! {
    UnixDatagram {
        fn bind[P: AsRef<Path>](path: P) -> io::Result<UnixDatagram>;
        fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixDatagram>;
        fn unbound() -> io::Result<UnixDatagram>;
        fn pair() -> io::Result<(UnixDatagram, UnixDatagram)>;
        fn connect[P: AsRef<Path>](this: &UnixDatagram, path: P) -> io::Result<()>;
        fn connect_addr(this: &UnixDatagram, socket_addr: &SocketAddr) -> io::Result<()>;
        fn try_clone(this: &UnixDatagram) -> io::Result<UnixDatagram>;
        fn local_addr(this: &UnixDatagram) -> io::Result<SocketAddr>;
        fn peer_addr(this: &UnixDatagram) -> io::Result<SocketAddr>;
        fn recv_from(this: &UnixDatagram, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
        fn recv(this: &UnixDatagram, buf: &mut [u8]) -> io::Result<usize>;
        fn send_to[P: AsRef<Path>](this: &UnixDatagram, buf: &[u8], path: P) -> io::Result<usize>;
        fn send_to_addr(
            this: &UnixDatagram, buf: &[u8], socket_addr: &SocketAddr
        ) -> io::Result<usize>;
        fn send(this: &UnixDatagram, buf: &[u8]) -> io::Result<usize>;
        fn set_read_timeout(this: &UnixDatagram, timeout: Option<Duration>) -> io::Result<()>;
        fn set_write_timeout(this: &UnixDatagram, timeout: Option<Duration>) -> io::Result<()>;
        fn read_timeout(this: &UnixDatagram) -> io::Result<Option<Duration>>;
        fn write_timeout(this: &UnixDatagram) -> io::Result<Option<Duration>>;
        fn set_nonblocking(this: &UnixDatagram, nonblocking: bool) -> io::Result<()>;
        fn take_error(this: &UnixDatagram) -> io::Result<Option<io::Error>>;
        fn shutdown(this: &UnixDatagram, how: Shutdown) -> io::Result<()>;
    }
    UnixListener {
        fn bind[P: AsRef<Path>](path: P) -> io::Result<UnixListener>;
        fn bind_addr(socket_addr: &SocketAddr) -> io::Result<UnixListener>;
        fn accept(this: &UnixListener) -> io::Result<(UnixStream, SocketAddr)>;
        fn try_clone(this: &UnixListener) -> io::Result<UnixListener>;
        fn local_addr(this: &UnixListener) -> io::Result<SocketAddr>;
        fn set_nonblocking(this: &UnixListener, nonblocking: bool) -> io::Result<()>;
        fn take_error(this: &UnixListener) -> io::Result<Option<io::Error>>;
        fn incoming(this: &UnixListener) -> Incoming<'_>;
    }
    UnixStream {
        fn connect[P: AsRef<Path>](path: P) -> io::Result<UnixStream>;
        fn connect_addr(socket_addr: &SocketAddr) -> io::Result<UnixStream>;
        fn pair() -> io::Result<(UnixStream, UnixStream)>;
        fn try_clone(this: &UnixStream) -> io::Result<UnixStream>;
        fn local_addr(this: &UnixStream) -> io::Result<SocketAddr>;
        fn peer_addr(this: &UnixStream) -> io::Result<SocketAddr>;
        fn set_read_timeout(this: &UnixStream, timeout: Option<Duration>) -> io::Result<()>;
        fn set_write_timeout(this: &UnixStream, timeout: Option<Duration>) -> io::Result<()>;
        fn read_timeout(this: &UnixStream) -> io::Result<Option<Duration>>;
        fn write_timeout(this: &UnixStream) -> io::Result<Option<Duration>>;
        fn set_nonblocking(this: &UnixStream, nonblocking: bool) -> io::Result<()>;
        fn take_error(this: &UnixStream) -> io::Result<Option<io::Error>>;
        fn shutdown(this: &UnixStream, how: Shutdown) -> io::Result<()>;
    }
}

impls! {
    ['a] Incoming<'a>: [Debug] [Iterator] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] UnixDatagram: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [FromRawFd] [IntoRawFd]
        [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<UnixDatagram>];
    [] UnixListener: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [FromRawFd] [IntoRawFd]
        [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<UnixListener>];
    ['a] &'a UnixListener: [IntoIterator];
    [] UnixStream: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [FromRawFd] [IntoRawFd] [Read] [Write]
        [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<UnixStream>];
    ['a] &'a UnixStream: [Read] [Write];
}

left_to_std! {
    std::os::unix::net {
        types: SocketAddr;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [types(), methods(), impls()].concat()
}
