//! Calls at the edge, where a ring or a vectored call answers otherwise than the system call that
//! std makes: empty buffers, and time-outs of sockets that were shut down.

use std::{
    fs as std_fs,
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::fs::FileExt,
    time::Duration,
};

use ramie::{
    fs::File,
    net::UdpSocket,
    os::unix::net::{UnixDatagram, UnixStream},
};

use crate::common::{everywhere, tcp_pair};

const SHORT: Option<Duration> = Some(Duration::from_nanos(1));

fn kind(result: io::Result<usize>) -> Result<usize, io::ErrorKind> {
    result.map_err(|error| error.kind())
}

#[test]
fn an_empty_receive_of_tcp_is_nothing_when_its_time_is_over() {
    let std_listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let std_client = std::net::TcpStream::connect(std_listener.local_addr().unwrap()).unwrap();
    std_client.set_read_timeout(SHORT).unwrap();
    assert_eq!(kind((&std_client).read(&mut [])), Ok(0), "std");
    assert_eq!(kind(std_client.peek(&mut [])), Ok(0), "std");
    everywhere(|| {
        let (client, _server) = tcp_pair();
        client.set_read_timeout(SHORT).unwrap();
        assert_eq!(kind((&client).read(&mut [])), Ok(0));
        assert_eq!(kind(client.peek(&mut [])), Ok(0));
        assert_eq!(kind((&client).read(&mut [0])), Err(io::ErrorKind::WouldBlock));
        client.set_nonblocking(true).unwrap();
        assert_eq!(kind((&client).read(&mut [])), Err(io::ErrorKind::WouldBlock));
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(SHORT).unwrap();
        assert_eq!(kind((&ours).read(&mut [])), Err(io::ErrorKind::WouldBlock));
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_read_timeout(SHORT).unwrap();
        assert_eq!(kind(udp.recv(&mut [])), Err(io::ErrorKind::WouldBlock));
    });
}

/// However short the time, the end of the socket is seen first.
#[test]
fn a_datagram_socket_that_was_shut_down_ends_before_its_time_is_over() {
    let std_pair = std::os::unix::net::UnixDatagram::pair().unwrap();
    std_pair.0.shutdown(Shutdown::Read).unwrap();
    std_pair.0.set_read_timeout(SHORT).unwrap();
    assert_eq!(kind(std_pair.0.recv(&mut [0; 9])), Ok(0), "std");
    everywhere(|| {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        theirs.send(b"before").unwrap();
        ours.shutdown(Shutdown::Read).unwrap();
        ours.set_read_timeout(SHORT).unwrap();
        let mut buf = [0; 9];
        assert_eq!(kind(ours.recv(&mut buf)), Ok(6));
        assert_eq!(kind(ours.recv(&mut buf)), Ok(0));
        assert_eq!(kind(ours.recv_from(&mut buf).map(|(count, _)| count)), Ok(0));
        ours.set_nonblocking(true).unwrap();
        assert_eq!(kind(ours.recv(&mut buf)), Err(io::ErrorKind::WouldBlock));
    });
}

#[test]
fn an_empty_write_or_read_of_a_device_asks_the_device() {
    everywhere(|| {
        let full = File::options().read(true).write(true).open("/dev/full").unwrap();
        assert_eq!((&full).write(&[]).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        assert_eq!(full.write_at(&[], 3).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        assert_eq!((&full).read(&mut []).unwrap(), 0);
        let folder = File::open("/").unwrap();
        assert_eq!((&folder).read(&mut []).unwrap_err().raw_os_error(), Some(libc::EISDIR));
        assert_eq!(folder.read_at(&mut [], 3).unwrap_err().raw_os_error(), Some(libc::EISDIR));
    });
    let std_full = std_fs::File::options().write(true).open("/dev/full").unwrap();
    assert_eq!((&std_full).write(&[]).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(std_full.write_at(&[], 3).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    let std_folder = std_fs::File::open("/").unwrap();
    assert_eq!((&std_folder).read(&mut []).unwrap_err().raw_os_error(), Some(libc::EISDIR));
    assert_eq!(std_folder.read_at(&mut [], 3).unwrap_err().raw_os_error(), Some(libc::EISDIR));
}

/// An empty write to a file or a pipe is one of no bytes, and does not wait.
#[test]
fn an_empty_write_elsewhere_is_nothing() {
    everywhere(|| {
        let (_reader, writer) = ramie::io::pipe().unwrap();
        let writer = File::from(std::os::fd::OwnedFd::from(writer));
        assert_eq!((&writer).write(&[]).unwrap(), 0);
        let reading = File::open("/proc/self/exe").unwrap();
        let (theirs, ours) = (std_fs::File::open("/proc/self/exe").unwrap(), &reading);
        assert_eq!(told((&theirs).write(&[])), told((&*ours).write(&[])));
        assert_eq!((&reading).read(&mut []).unwrap(), 0);
    });
}

fn told(result: io::Result<usize>) -> Result<usize, Option<i32>> {
    result.map_err(|error| error.raw_os_error())
}
