//! Calls that get only the descriptor, after an iterator on the same socket was forgotten or
//! dropped: the data or connections that the iterator has received and not yielded come first.

use std::{
    io::{self, IoSliceMut, Write},
    mem,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use ramie::{
    Driver, Runtime,
    cancel::with_timeout,
    fiber,
    net::{TcpListener, TcpStream, UdpSocket},
    ring::{self, RecvFlags, RegisteredBuffer, SpliceFlags},
};
use rustix::io::Errno;

use crate::common::{everywhere, has_ring};

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

/// Receives that number of bytes, in several calls if necessary.
pub(super) fn received(from: &TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let mut done = 0;
    while done < count {
        done += soon(|| ring::recv(from, &mut bytes[done..], RecvFlags::empty()));
    }
    bytes
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

/// Reads two bytes at a time, in several calls if necessary.
type ReadTwo = fn(&TcpStream, &mut [u8]) -> io::Result<usize>;

/// Moves bytes to a pipe within the kernel, and reads them from there.
fn splice_and_read(from: &TcpStream, buf: &mut [u8]) -> io::Result<usize> {
    let (out, into) = ring::pipe()?;
    let moved = ring::splice(from, None, &into, None, buf.len(), SpliceFlags::empty())?;
    drop(into);
    let mut done = 0;
    while done < moved {
        done += ring::read(&out, &mut buf[done..moved], None)?;
    }
    Ok(moved)
}

#[test]
fn reads_by_other_calls_take_what_an_iterator_has_left_first() {
    let calls: [(&str, ReadTwo); 4] = [
        ("read", |from, buf| ring::read(from, buf, None)),
        ("readv", |from, buf| {
            let (one, other) = buf.split_at_mut(1);
            ring::readv(from, &mut [IoSliceMut::new(one), IoSliceMut::new(other)], None)
        }),
        ("RegisteredBuffer::read", |from, buf| {
            let mut registered = RegisteredBuffer::new(16)?;
            let count = registered.read(from, 3..3 + buf.len(), None)?;
            buf[..count].copy_from_slice(&registered[3..3 + count]);
            Ok(count)
        }),
        ("splice", splice_and_read),
    ];
    everywhere(|| {
        for (name, call) in calls {
            for is_forgotten in [true, false] {
                let (mut to, from) = left_stream(is_forgotten);
                to.write_all(b"ijkl").unwrap();
                // What is left, and then what is in the socket.
                let mut got = Vec::new();
                while got.len() < 10 {
                    let mut buf = [0; 2];
                    let count = soon(|| call(&from, &mut buf));
                    assert!((1..=2).contains(&count), "{name}: {count}");
                    got.extend_from_slice(&buf[..count]);
                }
                assert_eq!(got, b"cdefghijkl", "{name}");
                drop(to);
                assert_eq!(soon(|| call(&from, &mut [0; 2])), 0, "{name}");
            }
        }
    });
}

/// Datagrams "second" and "third" that an iterator has left, and "fourth" in the socket.
pub(super) fn left_datagrams(is_forgotten: bool) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.connect(socket.local_addr().unwrap()).unwrap();
    let mut iterator = socket.recv_from_each();
    peer.send(b"first").unwrap();
    assert_eq!(&*iterator.next().unwrap().unwrap().0, b"first");
    peer.send(b"second").unwrap();
    peer.send(b"third").unwrap();
    fiber::sleep(Duration::from_millis(2));
    leave(iterator, is_forgotten);
    peer.send(b"fourth").unwrap();
    socket
}

#[test]
fn reads_take_one_left_datagram_at_a_time() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let socket = left_datagrams(is_forgotten);
            // A read without room takes nothing.
            assert_eq!(soon(|| ring::read(&socket, &mut [], None)), 0);
            let mut buf = [0; 9];
            assert_eq!(soon(|| ring::read(&socket, &mut buf, None)), 6);
            assert_eq!(&buf[..6], b"second");
            // What does not fit into the buffer is lost, as with read(2).
            assert_eq!(
                soon(|| ring::readv(&socket, &mut [IoSliceMut::new(&mut buf[..2])], None)),
                2
            );
            assert_eq!(&buf[..2], b"th");
            assert_eq!(soon(|| ring::read(&socket, &mut buf, None)), 6);
            assert_eq!(&buf[..6], b"fourth");
        }
    });
}

/// A pipe into which no further byte fits.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (out, into) = ring::pipe().unwrap();
    let mut writer = std::fs::File::from(into.try_clone().unwrap());
    rustix::io::ioctl_fionbio(&into, true).unwrap();
    while writer.write(&[0; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&into, false).unwrap();
    (out, into)
}

#[test]
fn a_splice_that_fails_takes_nothing_of_what_is_left() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let (_to, from) = left_stream(is_forgotten);
            let errno = |to: &dyn AsFd, at, flags| {
                let spliced = ring::splice(&from, None, to.as_fd(), at, 2, flags);
                spliced.unwrap_err().raw_os_error().map(Errno::from_raw_os_error)
            };
            let (_out, into) = ring::pipe().unwrap();
            assert_eq!(errno(&into, Some(7), SpliceFlags::empty()), Some(Errno::SPIPE));
            assert_eq!(errno(&from, None, SpliceFlags::empty()), Some(Errno::INVAL));
            let (_out, into) = full_pipe();
            assert_eq!(errno(&into, None, SpliceFlags::NONBLOCK), Some(Errno::AGAIN));
            let waits = || ring::splice(&from, None, &into, None, 2, SpliceFlags::empty());
            assert!(with_timeout(Duration::from_millis(1), waits).is_err());
            assert_eq!(received(&from, 6), b"cdefgh");
        }
    });
}

/// Without a ring, the call waits for the end that was given as the target.
#[test]
fn what_is_left_is_not_moved_to_the_reading_end_of_a_pipe() {
    if !has_ring() {
        return;
    }
    Runtime::builder().driver(Driver::Uring).workers(1).build().unwrap().run(|| {
        let (_to, from) = left_stream(false);
        let (out, _into) = ring::pipe().unwrap();
        let refused = || ring::splice(&from, None, &out, None, 2, SpliceFlags::empty());
        let error = with_timeout(LIMIT, refused).expect("it waits").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
        assert_eq!(received(&from, 6), b"cdefgh");
    });
}
