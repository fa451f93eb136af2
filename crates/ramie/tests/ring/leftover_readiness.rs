//! Waits for readiness, on a socket whose data or connections an iterator has received early: the
//! next call does not wait, so the socket is ready.

use std::{
    io::{self, Write},
    mem,
    time::Duration,
};

use ramie::{
    fiber,
    io::Polled,
    net::{TcpListener, TcpStream, UdpSocket},
    ring::{self, PollFlags, RecvFlags},
};

use super::leftover::{leave, left_stream, received, soon};
use crate::common::{everywhere, tcp_pair};

/// Takes all that is there, without waiting.
fn empty(from: &TcpStream) {
    while ring::recv(from, &mut [0; 16], RecvFlags::DONTWAIT).is_ok() {}
}

#[test]
fn a_socket_with_left_bytes_is_ready() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let (_to, from) = left_stream(is_forgotten);
            assert_eq!(soon(|| ring::poll(&from, PollFlags::IN)), PollFlags::IN);
            let both = PollFlags::IN | PollFlags::OUT;
            assert_eq!(soon(|| ring::poll(&from, both)), both);
            assert_eq!(soon(|| ring::poll(&from, PollFlags::RDNORM)), PollFlags::RDNORM);
            let (pipe, mut to_pipe) = ramie::io::pipe().unwrap();
            let found = || {
                let mut polled = [Polled::readable(&pipe), Polled::new(&from, both)];
                let count = soon(|| ramie::io::wait_any(&mut polled));
                (count, polled.map(|polled| polled.ready()))
            };
            assert_eq!(found(), (1, [PollFlags::empty(), both]));
            to_pipe.write_all(b"x").unwrap();
            assert_eq!(found(), (2, [PollFlags::IN, both]));
            // Nobody has taken anything, until now.
            assert_eq!(received(&from, 6), b"cdefgh");
            assert_eq!(found(), (2, [PollFlags::IN, PollFlags::OUT]));
            assert_eq!(soon(|| ring::poll(&from, both)), PollFlags::OUT);
        }
    });
}

#[test]
fn sockets_with_left_datagrams_and_connections_are_ready() {
    everywhere(|| {
        for is_forgotten in [true, false] {
            let (socket, peer) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
            let (socket, peer) = (socket.unwrap(), peer.unwrap());
            let to = socket.local_addr().unwrap();
            let mut datagrams = socket.recv_from_each();
            peer.send_to(b"first", to).unwrap();
            datagrams.next().unwrap().unwrap();
            peer.send_to(b"second", to).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let mut incoming = listener.incoming();
            let _clients = [(); 2].map(|()| TcpStream::connect(address).unwrap());
            drop(incoming.next().unwrap().unwrap());
            fiber::sleep(Duration::from_millis(2));
            leave(datagrams, is_forgotten);
            leave(incoming, is_forgotten);

            let mut polled = [Polled::readable(&socket), Polled::readable(&listener)];
            // An op that still runs keeps its items for itself while another descriptor is ready.
            assert!(soon(|| ramie::io::wait_any(&mut polled)) >= 1);
            for polled in &mut polled {
                assert_eq!(soon(|| ramie::io::wait_any(std::slice::from_mut(polled))), 1);
            }
            assert_eq!(soon(|| ring::poll(&socket, PollFlags::IN)), PollFlags::IN);
            assert_eq!(soon(|| ring::poll(&listener, PollFlags::IN)), PollFlags::IN);
        }
    });
}

/// The op of an iterator would take the bytes that the wait is for.
#[test]
fn a_wait_for_readiness_ends_the_op_of_an_iterator() {
    type Wait = fn(&TcpStream) -> io::Result<()>;
    let waits: [Wait; 2] = [
        |from| ring::poll(from, PollFlags::IN).map(drop),
        |from| ramie::io::wait_any(&mut [Polled::readable(from)]).map(drop),
    ];
    everywhere(|| {
        for wait in waits {
            let (mut to, from) = tcp_pair();
            to.write_all(b"a").unwrap();
            let mut iterator = from.recv_each();
            assert_eq!(&*iterator.next().unwrap().unwrap(), b"a");
            mem::forget(iterator);
            fiber::scope(|s| {
                let waiting = s.spawn_local(|| soon(|| wait(&from)));
                fiber::yield_now();
                to.write_all(b"b").unwrap();
                waiting.join().unwrap();
            });
            empty(&from);
        }
    });
}
