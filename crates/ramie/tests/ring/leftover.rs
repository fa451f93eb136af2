//! Calls that get only the descriptor, after an iterator on the same socket was forgotten or
//! dropped: the data or connections that the iterator has received and not yielded come first.

use std::{
    io::{self, IoSliceMut, Write},
    mem,
    os::fd::AsFd,
    time::Duration,
};

use ramie::{
    cancel::with_timeout,
    fiber,
    net::{TcpListener, TcpStream, UdpSocket},
    ring::{self, RecvFlags},
};

use crate::common::everywhere;

const LIMIT: Duration = Duration::from_secs(20);

/// Makes a call, which must end before the limit.
#[track_caller]
pub(super) fn soon<T: std::fmt::Debug>(call: impl FnOnce() -> io::Result<T>) -> T {
    with_timeout(LIMIT, call).expect("it waits for what came early").unwrap()
}

/// Ends an iterator by dropping or by forgetting it.
pub(super) fn leave<T>(iterator: T, is_forgotten: bool) {
    match is_forgotten {
        true => mem::forget(iterator),
        false => drop(iterator),
    }
}

/// A connection whose iterator has yielded the bytes "ab" and was then left; "cdefgh" has arrived
/// since.
pub(super) fn left_stream(is_forgotten: bool) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut to = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let from = listener.accept().unwrap().0;
    to.write_all(b"ab").unwrap();
    let mut iterator = from.recv_each();
    assert_eq!(&*iterator.next().unwrap().unwrap(), b"ab");
    to.write_all(b"cdefgh").unwrap();
    // The op, if there is one, has these once the loop has looked.
    fiber::sleep(Duration::from_millis(2));
    leave(iterator, is_forgotten);
    (to, from)
}

#[test]
fn bytes_that_an_iterator_has_left_come_first() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let (mut to, from) = left_stream(is_forgotten);
            let mut buf = [0; 2];
            assert_eq!(soon(|| ring::recv(&from, &mut buf, RecvFlags::PEEK)), 2);
            assert_eq!(&buf, b"cd");
            assert_eq!(soon(|| ring::recv(&from, &mut buf, RecvFlags::empty())), 2);
            assert_eq!(&buf, b"cd");
            let (mut one, mut other) = ([0; 1], [0; 2]);
            let mut bufs = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
            let message = soon(|| ring::recvmsg(&from, &mut bufs, RecvFlags::empty()));
            assert_eq!((message.bytes, message.is_truncated), (3, false));
            assert_eq!((&one, &other), (b"e", b"fg"));
            // The rest of the leftover data, and later data.
            to.write_all(b"ijk").unwrap();
            let mut all = [0; 4];
            assert_eq!(soon(|| ring::recv(&from, &mut all, RecvFlags::WAITALL)), 4);
            assert_eq!(&all, b"hijk");
            drop(to);
            assert_eq!(soon(|| ring::recv(&from, &mut all, RecvFlags::empty())), 0);
        }
    });
}

#[test]
fn datagrams_that_an_iterator_has_left_come_first() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
            peer.connect(socket.local_addr().unwrap()).unwrap();
            let mut iterator = socket.recv_from_each();
            peer.send(b"first").unwrap();
            assert_eq!(&*iterator.next().unwrap().unwrap().0, b"first");
            for datagram in [b"second", b"third!", b"fourth"] {
                peer.send(datagram).unwrap();
            }
            fiber::sleep(Duration::from_millis(2));
            leave(iterator, is_forgotten);
            let mut buf = [0; 9];
            assert_eq!(soon(|| ring::recv(&socket, &mut buf, RecvFlags::empty())), 6);
            assert_eq!(&buf[..6], b"second");
            let (mut one, mut other) = ([0; 2], [0; 2]);
            let mut bufs = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
            let message = soon(|| ring::recvmsg(&socket, &mut bufs, RecvFlags::empty()));
            assert_eq!((message.bytes, message.is_truncated), (4, true));
            assert_eq!((&one, &other), (b"th", b"ir"));
            assert_eq!(message.from.to_ip().unwrap(), peer.local_addr().unwrap());
            assert_eq!(soon(|| ring::recv(&socket, &mut buf, RecvFlags::empty())), 6);
            assert_eq!(&buf[..6], b"fourth");
        }
    });
}

#[test]
fn connections_that_an_iterator_has_left_come_first() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let mut incoming = listener.incoming();
            let connections: Vec<_> =
                (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
            drop(incoming.next().unwrap().unwrap());
            fiber::sleep(Duration::from_millis(2));
            leave(incoming, is_forgotten);
            for connection in &connections[1..] {
                let (_fd, peer) = soon(|| ring::accept(&listener));
                assert_eq!(peer.to_ip().unwrap(), connection.local_addr().unwrap());
            }
        }
    });
}

/// The leftover stays with the first socket object when a second one is made over the same socket.
#[test]
fn a_leftover_is_found_beside_another_object_of_the_socket() {
    everywhere(|| {
        for is_other_first in [true, false] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut to = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let from = listener.accept().unwrap().0;
            let duplicate = from.as_fd().try_clone_to_owned().unwrap();
            let other = TcpStream::from(duplicate);
            if is_other_first {
                drop(other.recv_each());
            }
            to.write_all(b"a").unwrap();
            let mut iterator = from.recv_each();
            assert_eq!(&*iterator.next().unwrap().unwrap(), b"a");
            to.write_all(b"c").unwrap();
            fiber::sleep(Duration::from_millis(2));
            mem::forget(iterator);
            drop(other.recv_each());
            // One byte, because no injected fault can shorten that.
            let mut buf = [0];
            assert_eq!(soon(|| ring::recv(&from, &mut buf, RecvFlags::PEEK)), 1);
            drop(other);
            assert_eq!(soon(|| ring::recv(&from, &mut buf, RecvFlags::empty())), 1);
            assert_eq!(&buf, b"c");
        }
    });
}
