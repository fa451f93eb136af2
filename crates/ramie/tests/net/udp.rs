//! UDP on both drivers, on fibers and on plain threads.

use std::{io::ErrorKind, time::Duration};

use crate::common::everywhere;
use ramie::{
    fiber,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[test]
fn a_receiver_waits_and_learns_the_sender() {
    everywhere(|| {
        let ((left, left_addr), (right, right_addr)) = (bound(), bound());
        let receiver = fiber::spawn(move || {
            let mut buffer = [0; 16];
            let (count, from) = right.recv_from(&mut buffer).unwrap();
            (buffer[..count].to_vec(), from)
        });
        fiber::yield_now();
        assert_eq!(left.send_to(b"hello", right_addr).unwrap(), 5);
        assert_eq!(receiver.join().unwrap(), (b"hello".to_vec(), left_addr));
    });
}

#[test]
fn peeking_takes_nothing_and_long_datagrams_are_cut() {
    everywhere(|| {
        let ((left, left_addr), (right, right_addr)) = (bound(), bound());
        left.send_to(b"datagram", right_addr).unwrap();
        let mut buffer = [0; 4];
        assert_eq!(right.peek_from(&mut buffer).unwrap(), (4, left_addr));
        assert_eq!(right.recv_from(&mut buffer).unwrap(), (4, left_addr));
        assert_eq!(&buffer, b"data");
        left.send_to(b"", right_addr).unwrap();
        assert_eq!(right.recv_from(&mut buffer).unwrap(), (0, left_addr));
    });
}

#[test]
fn connected_sockets_send_and_receive() {
    everywhere(|| {
        let ((left, left_addr), (right, right_addr)) = (bound(), bound());
        assert_eq!(left.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        left.connect(right_addr).unwrap();
        right.connect(left_addr).unwrap();
        assert_eq!(left.peer_addr().unwrap(), right_addr);
        left.send(b"x").unwrap();
        let mut buffer = [0; 4];
        assert_eq!(right.peek(&mut buffer).unwrap(), 1);
        assert_eq!(right.recv(&mut buffer).unwrap(), 1);
    });
}

#[test]
fn timeouts_and_nonblocking_are_shared_by_clones() {
    everywhere(|| {
        let (socket, _) = bound();
        let clone = socket.try_clone().unwrap();
        clone.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let mut buffer = [0; 4];
        assert_eq!(socket.recv_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        clone.set_read_timeout(None).unwrap();
        clone.set_nonblocking(true).unwrap();
        assert_eq!(socket.recv_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn options_are_kept() {
    everywhere(|| {
        let (socket, _) = bound();
        for on in [true, false] {
            socket.set_broadcast(on).unwrap();
            assert_eq!(socket.broadcast().unwrap(), on);
            socket.set_multicast_loop_v4(on).unwrap();
            assert_eq!(socket.multicast_loop_v4().unwrap(), on);
        }
        socket.set_ttl(77).unwrap();
        assert_eq!(socket.ttl().unwrap(), 77);
        socket.set_multicast_ttl_v4(9).unwrap();
        assert_eq!(socket.multicast_ttl_v4().unwrap(), 9);
        assert!(socket.take_error().unwrap().is_none());
    });
}

#[test]
fn groups_are_joined_and_left() {
    everywhere(|| {
        let (socket, _) = bound();
        let group = Ipv4Addr::new(224, 0, 0, 199);
        // A machine without a multicast route cannot join, through std neither.
        let theirs = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let joined = socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST);
        let expected = theirs.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST);
        assert_eq!(joined.is_ok(), expected.is_ok());
        if joined.is_ok() {
            socket.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
        }
        let no_group = socket.join_multicast_v4(&Ipv4Addr::LOCALHOST, &Ipv4Addr::UNSPECIFIED);
        assert_eq!(no_group.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(socket.leave_multicast_v6(&Ipv6Addr::LOCALHOST, 0).is_err());
    });
}

#[test]
fn std_sockets_come_and_go() {
    everywhere(|| {
        let theirs = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        theirs.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let ours = UdpSocket::from(theirs);
        assert_eq!(ours.read_timeout().unwrap(), Some(Duration::from_secs(3)));
        ours.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let theirs = std::net::UdpSocket::from(ours);
        assert_eq!(theirs.read_timeout().unwrap(), Some(Duration::from_secs(5)));
    });
}
