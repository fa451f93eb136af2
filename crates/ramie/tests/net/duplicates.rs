//! Sockets that were made of a duplicate of another socket's descriptor: what an iterator over one
//! has received early comes first in the calls of the other.

use std::{
    io::{Read, Write},
    mem,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use crate::common::{everywhere, tcp_pair};
use ramie::{
    cancel, fiber,
    net::{TcpListener, TcpStream, UdpSocket},
};

const LIMIT: Duration = Duration::from_secs(20);

/// Makes a call, which must end before the limit.
#[track_caller]
fn soon<T>(call: impl FnOnce() -> T) -> T {
    cancel::with_timeout(LIMIT, call).unwrap_or_else(|_| panic!("it waits for what came early"))
}

fn duplicate<S: From<OwnedFd>>(of: impl AsFd) -> S {
    S::from(of.as_fd().try_clone_to_owned().unwrap())
}

/// Ends an iterator by dropping or by forgetting it, after what was sent has arrived.
fn leave<T>(iterator: T, is_forgotten: bool) {
    fiber::sleep(Duration::from_millis(2));
    match is_forgotten {
        true => mem::forget(iterator),
        false => drop(iterator),
    }
}

/// Bytes "bcd" that an iterator has left, and "ef" behind them.
fn left_stream(is_forgotten: bool) -> (TcpStream, TcpStream) {
    let (mut to, from) = tcp_pair();
    to.write_all(b"a").unwrap();
    let mut iterator = from.recv_each();
    assert_eq!(&*iterator.next().unwrap().unwrap(), b"a");
    to.write_all(b"bcd").unwrap();
    leave(iterator, is_forgotten);
    to.write_all(b"ef").unwrap();
    (to, from)
}

#[track_caller]
fn assert_next(mut from: &TcpStream, expected: &[u8]) {
    for byte in expected {
        let mut got = [0];
        assert_eq!(soon(|| from.read(&mut got)).unwrap(), 1);
        assert_eq!(got[0] as char, *byte as char);
    }
}

#[test]
fn a_duplicate_reads_what_was_left_first() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let (to, from) = left_stream(is_forgotten);
            let other: TcpStream = duplicate(&from);
            assert_next(&other, b"b");
            assert_next(&from, b"c");
            assert_next(&other, b"def");
            drop(to);
            assert_eq!(soon(|| (&from).read(&mut [0])).unwrap(), 0);
        }
    });
}

#[test]
fn what_was_left_stays_as_long_as_a_duplicate() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let (mut to, from) = left_stream(is_forgotten);
            let (one, other): (TcpStream, TcpStream) = (duplicate(&from), duplicate(&from));
            drop(from);
            assert_next(&one, b"b");
            drop(OwnedFd::from(one));
            assert_next(&other, b"cdef");
            let mut iterator = other.recv_each();
            to.write_all(b"g").unwrap();
            assert_eq!(&*soon(|| iterator.next()).unwrap().unwrap(), b"g");
            leave(iterator, is_forgotten);
            drop(other);
            // No op keeps the socket open.
            assert_eq!(soon(|| to.read(&mut [0])).unwrap(), 0);
        }
    });
}

#[test]
fn iterators_over_duplicates_yield_each_byte_once_and_in_order() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let (mut to, from) = tcp_pair();
            // Made before there is an iterator.
            let other: TcpStream = duplicate(&from);
            let mut got = Vec::new();
            for round in 0..20u8 {
                let stream = if round % 2 == 0 { &from } else { &other };
                to.write_all(&[3 * round]).unwrap();
                let mut iterator = stream.recv_each();
                got.extend_from_slice(&soon(|| iterator.next()).unwrap().unwrap());
                to.write_all(&[3 * round + 1]).unwrap();
                leave(iterator, is_forgotten);
                to.write_all(&[3 * round + 2]).unwrap();
            }
            to.shutdown(ramie::net::Shutdown::Write).unwrap();
            other.recv_each().for_each(|bytes| got.extend_from_slice(&bytes.unwrap()));
            assert!(got.iter().copied().eq(0..60), "{got:?}");
        }
    });
}

#[test]
fn duplicates_of_other_sockets_take_what_was_left_first() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let (socket, peer) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
            let (socket, peer) = (socket.unwrap(), peer.unwrap());
            peer.connect(socket.local_addr().unwrap()).unwrap();
            let mut iterator = socket.recv_from_each();
            peer.send(b"a").unwrap();
            assert_eq!(&*iterator.next().unwrap().unwrap().0, b"a");
            peer.send(b"b").unwrap();
            leave(iterator, is_forgotten);
            peer.send(b"c").unwrap();
            let other: UdpSocket = duplicate(&socket);
            let mut buffer = [0; 4];
            for expected in [b"b", b"c"] {
                let (count, from) = soon(|| other.recv_from(&mut buffer)).unwrap();
                assert_eq!((&buffer[..count], from), (&expected[..], peer.local_addr().unwrap()));
            }

            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let mut incoming = listener.incoming();
            let clients = [(); 2].map(|()| TcpStream::connect(address).unwrap());
            drop(incoming.next().unwrap().unwrap());
            leave(incoming, is_forgotten);
            let other: TcpListener = duplicate(&listener);
            let (_stream, peer) = soon(|| other.accept()).unwrap();
            assert_eq!(peer, clients[1].local_addr().unwrap());
        }
    });
}
