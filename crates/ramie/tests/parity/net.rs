//! The items of `std::net`, in use.

use super::std;
use std::{
    fmt::Debug,
    io::{self, Read, Write},
    iter::FusedIterator,
    net::{
        Incoming, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, SocketAddrV6,
        TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
    },
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd},
        linux::net::TcpStreamExt,
    },
    panic::{RefUnwindSafe, UnwindSafe},
    time::Duration,
};

types! { Incoming['static], TcpListener, TcpStream, UdpSocket }

traits! { ToSocketAddrs }

methods! {
    TcpListener {
        fn bind[A: ToSocketAddrs](addr: A) -> io::Result<TcpListener>;
        fn local_addr(this: &TcpListener) -> io::Result<SocketAddr>;
        fn try_clone(this: &TcpListener) -> io::Result<TcpListener>;
        fn accept(this: &TcpListener) -> io::Result<(TcpStream, SocketAddr)>;
        fn incoming(this: &TcpListener) -> Incoming<'_>;
        fn set_ttl(this: &TcpListener, ttl: u32) -> io::Result<()>;
        fn ttl(this: &TcpListener) -> io::Result<u32>;
        fn set_only_v6(this: &TcpListener, only_v6: bool) -> io::Result<()>;
        fn only_v6(this: &TcpListener) -> io::Result<bool>;
        fn take_error(this: &TcpListener) -> io::Result<Option<io::Error>>;
        fn set_nonblocking(this: &TcpListener, nonblocking: bool) -> io::Result<()>;
    }
    TcpStream {
        fn connect[A: ToSocketAddrs](addr: A) -> io::Result<TcpStream>;
        fn connect_timeout(addr: &SocketAddr, timeout: Duration) -> io::Result<TcpStream>;
        fn peer_addr(this: &TcpStream) -> io::Result<SocketAddr>;
        fn local_addr(this: &TcpStream) -> io::Result<SocketAddr>;
        fn shutdown(this: &TcpStream, how: Shutdown) -> io::Result<()>;
        fn try_clone(this: &TcpStream) -> io::Result<TcpStream>;
        fn set_read_timeout(this: &TcpStream, dur: Option<Duration>) -> io::Result<()>;
        fn set_write_timeout(this: &TcpStream, dur: Option<Duration>) -> io::Result<()>;
        fn read_timeout(this: &TcpStream) -> io::Result<Option<Duration>>;
        fn write_timeout(this: &TcpStream) -> io::Result<Option<Duration>>;
        fn peek(this: &TcpStream, buf: &mut [u8]) -> io::Result<usize>;
        fn set_nodelay(this: &TcpStream, nodelay: bool) -> io::Result<()>;
        fn nodelay(this: &TcpStream) -> io::Result<bool>;
        fn set_ttl(this: &TcpStream, ttl: u32) -> io::Result<()>;
        fn ttl(this: &TcpStream) -> io::Result<u32>;
        fn take_error(this: &TcpStream) -> io::Result<Option<io::Error>>;
        fn set_nonblocking(this: &TcpStream, nonblocking: bool) -> io::Result<()>;
    }
    ToSocketAddrs {
        fn to_socket_addrs[X: ToSocketAddrs](this: &X) -> io::Result<X::Iter>;
    }
    UdpSocket {
        fn bind[A: ToSocketAddrs](addr: A) -> io::Result<UdpSocket>;
        fn recv_from(this: &UdpSocket, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
        fn peek_from(this: &UdpSocket, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
        fn send_to[A: ToSocketAddrs](this: &UdpSocket, buf: &[u8], addr: A) -> io::Result<usize>;
        fn peer_addr(this: &UdpSocket) -> io::Result<SocketAddr>;
        fn local_addr(this: &UdpSocket) -> io::Result<SocketAddr>;
        fn try_clone(this: &UdpSocket) -> io::Result<UdpSocket>;
        fn set_read_timeout(this: &UdpSocket, dur: Option<Duration>) -> io::Result<()>;
        fn set_write_timeout(this: &UdpSocket, dur: Option<Duration>) -> io::Result<()>;
        fn read_timeout(this: &UdpSocket) -> io::Result<Option<Duration>>;
        fn write_timeout(this: &UdpSocket) -> io::Result<Option<Duration>>;
        fn set_broadcast(this: &UdpSocket, broadcast: bool) -> io::Result<()>;
        fn broadcast(this: &UdpSocket) -> io::Result<bool>;
        fn set_multicast_loop_v4(this: &UdpSocket, multicast_loop_v4: bool) -> io::Result<()>;
        fn multicast_loop_v4(this: &UdpSocket) -> io::Result<bool>;
        fn set_multicast_ttl_v4(this: &UdpSocket, multicast_ttl_v4: u32) -> io::Result<()>;
        fn multicast_ttl_v4(this: &UdpSocket) -> io::Result<u32>;
        fn set_multicast_loop_v6(this: &UdpSocket, multicast_loop_v6: bool) -> io::Result<()>;
        fn multicast_loop_v6(this: &UdpSocket) -> io::Result<bool>;
        fn set_ttl(this: &UdpSocket, ttl: u32) -> io::Result<()>;
        fn ttl(this: &UdpSocket) -> io::Result<u32>;
        fn join_multicast_v4(
            this: &UdpSocket, multiaddr: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<(
        )>;
        fn join_multicast_v6(
            this: &UdpSocket, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<(
        )>;
        fn leave_multicast_v4(
            this: &UdpSocket, multiaddr: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<(
        )>;
        fn leave_multicast_v6(
            this: &UdpSocket, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<(
        )>;
        fn take_error(this: &UdpSocket) -> io::Result<Option<io::Error>>;
        fn connect[A: ToSocketAddrs](this: &UdpSocket, addr: A) -> io::Result<()>;
        fn send(this: &UdpSocket, buf: &[u8]) -> io::Result<usize>;
        fn recv(this: &UdpSocket, buf: &mut [u8]) -> io::Result<usize>;
        fn peek(this: &UdpSocket, buf: &mut [u8]) -> io::Result<usize>;
        fn set_nonblocking(this: &UdpSocket, nonblocking: bool) -> io::Result<()>;
    }
}

impls! {
    ['a] Incoming<'a>: [Debug] [Iterator] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] Incoming<'_>: [FusedIterator];
    [] TcpListener: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [FromRawFd] [IntoRawFd]
        [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<TcpListener>] [From<UdpSocket>];
    [] TcpStream: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [FromRawFd] [IntoRawFd] [Read]
        [TcpStreamExt] [Write] [RefUnwindSafe] [Send] [Sync] [Unpin] [UnwindSafe];
    [] OwnedFd: [From<TcpStream>];
    [] &TcpStream: [Read] [Write];
    [] SocketAddr: [ToSocketAddrs];
    [] SocketAddrV4: [ToSocketAddrs];
    [] SocketAddrV6: [ToSocketAddrs];
    [] (IpAddr, u16): [ToSocketAddrs];
    [] (Ipv4Addr, u16): [ToSocketAddrs];
    [] (Ipv6Addr, u16): [ToSocketAddrs];
    [] (&str, u16): [ToSocketAddrs];
    [] (String, u16): [ToSocketAddrs];
    [] &str: [ToSocketAddrs];
    [] String: [ToSocketAddrs];
    [] &[SocketAddr]: [ToSocketAddrs];
    [T: ToSocketAddrs] &T: [ToSocketAddrs];
    [] UdpSocket: [AsFd] [AsRawFd] [Debug] [From<OwnedFd>] [FromRawFd] [IntoRawFd] [RefUnwindSafe]
        [Send] [Sync] [Unpin] [UnwindSafe];
}

left_to_std! {
    std::net {
        types: AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4,
            SocketAddrV6;
    }
}

pub(crate) fn twins() -> Vec<&'static str> {
    [types(), traits(), methods(), impls()].concat()
}
