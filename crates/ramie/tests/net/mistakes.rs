//! Each mistake made through std and through the twin: the same kind of error, the same errno.
//!
//! The rows are written once, in terms of `net`, `unix` and `io`, and read twice: with std's
//! modules of these names and with ours.

use std::{
    fmt::Debug,
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use rustix::net::{self as rnet, AddressFamily, SocketType};

use crate::common::everywhere;

/// Kind and errno where the system has one, else kind and text. Of a socket, its type.
fn described<T: Debug>(row: impl FnOnce() -> std::io::Result<T>) -> String {
    match row() {
        Ok(value) => format!("{value:?}").split(" {").next().unwrap_or_default().to_owned(),
        Err(error) => match error.raw_os_error() {
            Some(errno) => format!("{:?}, errno {errno}", error.kind()),
            None => format!("{:?}, {error}", error.kind()),
        },
    }
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NAMES: AtomicUsize = AtomicUsize::new(0);
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        let name = format!("ramie-test-mistakes-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const HERE: (&str, u16) = ("127.0.0.1", 0);
const SHORT: Duration = Duration::from_millis(5);

/// A port of TCP where nobody listens: bound, so that nobody else comes to.
fn closed_port() -> (OwnedFd, std::net::SocketAddr) {
    let holder = rnet::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rnet::bind(&holder, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = rnet::getsockname(&holder).unwrap().try_into().unwrap();
    (holder, address)
}

/// A listener whose queue is full, so that connecting to it takes forever.
fn full_listener() -> (std::net::TcpListener, Vec<std::net::TcpStream>) {
    let listener = std::net::TcpListener::bind(HERE).unwrap();
    ramie_driver::sys::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || std::net::TcpStream::connect_timeout(&address, 20 * SHORT);
    let clients = std::iter::repeat_with(connect).map_while(Result::ok).take(8).collect();
    (listener, clients)
}

type Rows = Vec<(&'static str, String)>;

macro_rules! rows {
    ($($name:literal: $row:block)*) => {
        macro_rules! rows_here {
            () => {
                pub(super) fn rows() -> super::Rows {
                    vec![$(($name, described(|| $row))),*]
                }
            };
        }
    };
}

rows! {
    "connect: refused": { net::TcpStream::connect(closed_port().1) }
    "connect: port 0": { net::TcpStream::connect(HERE) }
    "connect: unreachable": { net::TcpStream::connect("255.255.255.255:9") }
    "connect: no address": { net::TcpStream::connect(&[][..]) }
    "connect: the last of several errors": {
        net::TcpStream::connect(&["255.255.255.255:9".parse().unwrap(), closed_port().1][..])
    }
    "connect: no port": { net::TcpStream::connect("127.0.0.1") }
    "connect: bad port": { net::TcpStream::connect("127.0.0.1:65536") }
    "connect: nothing": { net::TcpStream::connect("") }
    "connect: zero byte in a name": { net::TcpStream::connect("a\0b:80") }
    "connect: zero timeout": {
        net::TcpStream::connect_timeout(&closed_port().1, Duration::ZERO)
    }
    "connect: timeout": {
        let (listener, _clients) = full_listener();
        net::TcpStream::connect_timeout(&listener.local_addr().unwrap(), SHORT)
    }
    "listen: in use": {
        let listener = net::TcpListener::bind(HERE)?;
        net::TcpListener::bind(listener.local_addr()?)
    }
    "listen: not our address": { net::TcpListener::bind("192.0.2.1:0") }
    "accept: nobody": {
        let listener = net::TcpListener::bind(HERE)?;
        listener.set_nonblocking(true)?;
        listener.accept().map(drop)
    }
    "listener: ttl out of range": { net::TcpListener::bind(HERE)?.set_ttl(256) }
    "stream: ends in the middle": {
        let (left, right) = tcp()?;
        (&left).write_all(b"half")?;
        drop(left);
        (&right).read_exact(&mut [0; 8])
    }
    "stream: read after reset": {
        let right = reset_stream()?;
        (&right).read(&mut [0; 8])
    }
    "stream: write after reset": {
        let right = reset_stream()?;
        let _ = (&right).read(&mut [0; 8]);
        (&right).write(b"x")
    }
    "stream: peer of a reset": { reset_stream()?.peer_addr() }
    "stream: write after shutdown": {
        let (left, _right) = tcp()?;
        left.shutdown(std::net::Shutdown::Write)?;
        (&left).write(b"x")
    }
    "stream: read after shutdown": {
        let (left, _right) = tcp()?;
        left.shutdown(std::net::Shutdown::Read)?;
        (&left).read(&mut [0; 8])
    }
    "stream: timeout": {
        let (left, _right) = tcp()?;
        left.set_read_timeout(Some(SHORT))?;
        (&left).read(&mut [0; 8])
    }
    "stream: zero timeout": { tcp()?.0.set_read_timeout(Some(Duration::ZERO)) }
    "stream: refuses to wait": {
        let (left, _right) = tcp()?;
        left.set_nonblocking(true)?;
        (&left).peek(&mut [0; 8])
    }
    "stream: ttl of zero": { tcp()?.0.set_ttl(0) }
    "stream: not connected": {
        let socket = sys::socket(sys::AddressFamily::INET, sys::SocketType::STREAM, false)?;
        (&net::TcpStream::from(socket)).read(&mut [0; 8])
    }
    "stream: shutdown, not connected": {
        let socket = sys::socket(sys::AddressFamily::INET, sys::SocketType::STREAM, false)?;
        net::TcpStream::from(socket).shutdown(std::net::Shutdown::Both)
    }
    "stream: not a socket": {
        let file = OwnedFd::from(fs::File::open("/dev/null")?);
        (&net::TcpStream::from(file)).read(&mut [0; 8])
    }
    "stream: of another family": {
        let (left, _right) = unix::UnixStream::pair()?;
        net::TcpStream::from(OwnedFd::from(left)).local_addr()
    }
    "udp: in use": {
        let socket = net::UdpSocket::bind(HERE)?;
        net::UdpSocket::bind(socket.local_addr()?)
    }
    "udp: not connected": { net::UdpSocket::bind(HERE)?.send(b"x") }
    "udp: no peer": { net::UdpSocket::bind(HERE)?.peer_addr() }
    "udp: nowhere": { net::UdpSocket::bind(HERE)?.send_to(b"x", &[][..]) }
    "udp: connect nowhere": { net::UdpSocket::bind(HERE)?.connect(&[][..]) }
    "udp: too long": { net::UdpSocket::bind(HERE)?.send_to(&[0; 70_000], "127.0.0.1:9") }
    "udp: no permission to broadcast": {
        net::UdpSocket::bind("0.0.0.0:0")?.send_to(b"x", "255.255.255.255:9")
    }
    "udp: another family": { net::UdpSocket::bind(HERE)?.send_to(b"x", "[::1]:9") }
    "udp: nobody there": {
        let gone = net::UdpSocket::bind(HERE)?.local_addr()?;
        let socket = net::UdpSocket::bind(HERE)?;
        socket.connect(gone)?;
        socket.send(b"x")?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.recv(&mut [0; 8])
    }
    "udp: timeout": {
        let socket = net::UdpSocket::bind(HERE)?;
        socket.set_read_timeout(Some(SHORT))?;
        socket.recv_from(&mut [0; 8])
    }
    "udp: not a group": {
        let here = std::net::Ipv4Addr::LOCALHOST;
        net::UdpSocket::bind(HERE)?.join_multicast_v4(&here, &here)
    }
    "udp: multicast ttl out of range": { net::UdpSocket::bind(HERE)?.set_multicast_ttl_v4(256) }
    "unix: not found": { unix::UnixStream::connect("/proc/nonexistent/socket").map(drop) }
    "unix: nobody listens": {
        let folder = Folder::new();
        let listener = unix::UnixListener::bind(folder.at("a"))?;
        // A child that another test is about to start may hold the descriptor for a moment.
        unix::UnixStream::from(OwnedFd::from(listener)).shutdown(net::Shutdown::Both)?;
        unix::UnixStream::connect(folder.at("a")).map(drop)
    }
    "unix: not a socket": { unix::UnixStream::connect("/dev/null").map(drop) }
    "unix: a folder": { unix::UnixStream::connect("/").map(drop) }
    "unix: too long": { unix::UnixStream::connect("x".repeat(108)).map(drop) }
    "unix: long but not too long": { unix::UnixStream::connect("x".repeat(107)).map(drop) }
    "unix: zero byte": { unix::UnixStream::connect("a\0b").map(drop) }
    "unix: in use": {
        let folder = Folder::new();
        let _listener = unix::UnixListener::bind(folder.at("a"))?;
        unix::UnixListener::bind(folder.at("a")).map(drop)
    }
    "unix: no folder": { unix::UnixListener::bind("/proc/nonexistent/socket").map(drop) }
    "unix: listen: too long": { unix::UnixListener::bind("x".repeat(200)).map(drop) }
    "unix: listen: zero byte": { unix::UnixListener::bind("a\0b").map(drop) }
    "unix: accept: nobody": {
        let folder = Folder::new();
        let listener = unix::UnixListener::bind(folder.at("a"))?;
        listener.set_nonblocking(true)?;
        listener.accept().map(drop)
    }
    "unix: ends in the middle": {
        let (left, right) = unix::UnixStream::pair()?;
        (&left).write_all(b"half")?;
        drop(left);
        (&right).read_exact(&mut [0; 8])
    }
    "unix: reset": {
        let (left, right) = unix::UnixStream::pair()?;
        (&left).write_all(b"never read")?;
        drop(right);
        (&left).read(&mut [0; 8])
    }
    "unix: broken pipe": {
        let (left, right) = unix::UnixStream::pair()?;
        drop(right);
        (&left).write(b"x")
    }
    "unix: broken pipe, vectored": {
        let (left, right) = unix::UnixStream::pair()?;
        drop(right);
        (&left).write_vectored(&[std::io::IoSlice::new(b"x")])
    }
    "unix: timeout": {
        let (left, _right) = unix::UnixStream::pair()?;
        left.set_read_timeout(Some(SHORT))?;
        (&left).read(&mut [0; 8])
    }
    "unix: peer of a listener": {
        let folder = Folder::new();
        let listener = unix::UnixListener::bind(folder.at("a"))?;
        unix::UnixStream::from(OwnedFd::from(listener)).peer_addr().map(drop)
    }
    "unix: another family": {
        let listener = net::TcpListener::bind(HERE)?;
        unix::UnixListener::from(OwnedFd::from(listener)).local_addr().map(drop)
    }
    "unix datagram: not connected": { unix::UnixDatagram::unbound()?.send(b"x") }
    "unix datagram: no peer": { unix::UnixDatagram::unbound()?.peer_addr().map(drop) }
    "unix datagram: not found": {
        unix::UnixDatagram::unbound()?.send_to(b"x", "/proc/nonexistent/socket")
    }
    "unix datagram: too long": { unix::UnixDatagram::pair()?.0.send(&vec![0; 8 << 20]) }
    "unix datagram: path too long": {
        unix::UnixDatagram::unbound()?.send_to(b"x", "x".repeat(108))
    }
    "unix datagram: to a stream": {
        let folder = Folder::new();
        let _listener = unix::UnixListener::bind(folder.at("a"))?;
        unix::UnixDatagram::unbound()?.send_to(b"x", folder.at("a"))
    }
    "unix datagram: connect: nobody": {
        let folder = Folder::new();
        drop(unix::UnixDatagram::bind(folder.at("a"))?);
        unix::UnixDatagram::unbound()?.connect(folder.at("a"))
    }
    "unix datagram: peer gone": {
        let (left, right) = unix::UnixDatagram::pair()?;
        drop(right);
        left.send(b"x")
    }
    "unix datagram: timeout": {
        let (left, _right) = unix::UnixDatagram::pair()?;
        left.set_read_timeout(Some(SHORT))?;
        left.recv(&mut [0; 8])
    }
    "unix datagram: queue full": {
        let (left, _right) = unix::UnixDatagram::pair()?;
        left.set_write_timeout(Some(SHORT))?;
        (0..100_000).try_for_each(|_| left.send(b"x").map(drop))
    }
    "pipe: broken": {
        let (reader, mut writer) = io::pipe()?;
        drop(reader);
        writer.write(b"x")
    }
    "pipe: ends in the middle": {
        let (mut reader, mut writer) = io::pipe()?;
        writer.write_all(b"half")?;
        drop(writer);
        reader.read_exact(&mut [0; 8])
    }
    "pipe: not UTF-8": {
        let (mut reader, mut writer) = io::pipe()?;
        writer.write_all(&[0xff])?;
        drop(writer);
        reader.read_to_string(&mut String::new())
    }
    "pipe: the wrong end": {
        let (reader, _writer) = io::pipe()?;
        io::PipeWriter::from(OwnedFd::from(reader)).write(b"x")
    }
    "pipe: a folder": {
        let folder = OwnedFd::from(fs::File::open("/")?);
        io::PipeReader::from(folder).read(&mut [0; 8])
    }
}

/// The arguments of the rows, made of whichever modules they are read with.
macro_rules! module {
    ($name:ident, $library:ident) => {
        mod $name {
            use std::{
                fs,
                io::{Read, Write},
                os::fd::OwnedFd,
                time::Duration,
            };

            use ramie_driver::sys;
            use $library::{io, net, os::unix::net as unix};

            use super::{Folder, HERE, SHORT, closed_port, described, full_listener};

            fn tcp() -> std::io::Result<(net::TcpStream, net::TcpStream)> {
                let listener = net::TcpListener::bind(HERE)?;
                let client = net::TcpStream::connect(listener.local_addr()?)?;
                Ok((client, listener.accept()?.0))
            }

            /// A stream whose peer closed with data in its receive buffer that it never read.
            fn reset_stream() -> std::io::Result<net::TcpStream> {
                let (left, right) = tcp()?;
                (&right).write_all(b"never read")?;
                left.peek(&mut [0; 1])?;
                drop(left);
                Ok(right)
            }

            rows_here!();
        }
    };
}

module!(theirs, std);
module!(ours, ramie);

#[test]
fn each_mistake_is_answered_as_by_std() {
    let theirs = theirs::rows();
    everywhere(|| {
        let rows = ours::rows();
        let pairs = rows.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs);
        let differing: Vec<_> = pairs
            .map(|((name, ours), (_, theirs))| format!("{name}: ours: {ours}; std's: {theirs}"))
            .collect();
        assert!(differing.is_empty(), "\n{}\n", differing.join("\n"));
    });
    for (name, outcome) in theirs {
        println!("{name}: {outcome}");
    }
}
