//! Connections without descriptors.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr},
    time::Duration,
};

use crate::common;
use crate::common::{assert_success, child_with, descriptors, is_child, on_each};
use ramie::{
    Driver, Runtime, cancel,
    fiber::{self, JoinHandle},
    net::{TcpListener, TcpStream},
    ring::{DirectStream, accept_direct},
};

/// A client that sends a message and reads until the end.
fn client(address: SocketAddr, says: &'static str) -> JoinHandle<String> {
    fiber::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(says.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Echoes the received bytes.
fn echo(mut connection: impl Read + Write) {
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    connection.write_all(text.as_bytes()).unwrap();
}

/// Runs `f` on a runtime of one worker on io_uring, if that is available.
fn on_uring(f: impl FnOnce()) {
    if common::has_ring() {
        Runtime::builder().driver(Driver::Uring).workers(1).build().unwrap().run(f);
    }
}

fn alone(test: &str, variables: &[(&str, &str)], f: impl Fn()) {
    match is_child() {
        true => f(),
        false => assert_success(&child_with("true", test, variables)),
    }
}

#[test]
fn bytes_and_the_end_arrive_and_the_peer_is_notified() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let (listener, address) = listener();
            for says in ["one", "another", ""] {
                let client = client(address, says);
                let (connection, peer) = accept_direct(&listener).unwrap();
                assert!(peer.to_ip().unwrap().ip().is_loopback());
                echo(connection);
                assert_eq!(client.join().unwrap(), says);
            }
        });
    });
}

#[test]
fn a_connection_takes_no_descriptor_until_it_is_asked_for_one() {
    alone("a_connection_takes_no_descriptor_until_it_is_asked_for_one", &[], || {
        on_uring(|| {
            let (listener, address) = listener();
            let peers: Vec<_> =
                (0..5).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
            let before = descriptors();
            let mut accepted: Vec<_> =
                (0..5).map(|_| accept_direct(&listener).unwrap().0).collect();
            assert_eq!(descriptors(), before, "{accepted:?}");
            assert!(accepted.iter().all(DirectStream::is_direct));

            let mut first = accepted.remove(0);
            first.write_all(b"place, ").unwrap();
            let fd = first.try_into_fd().unwrap();
            assert_eq!(descriptors(), before + 1);
            let flags = fs::read_to_string(
                "/proc/self/fdinfo/".to_owned() + &std::os::fd::AsRawFd::as_raw_fd(&fd).to_string(),
            )
            .unwrap();
            assert!(flags.contains("flags:\t02"), "closed on exec: {flags}");
            let mut stream = TcpStream::from(fd);
            stream.write_all(b"descriptor").unwrap();
            drop((stream, accepted));
            let mut texts: Vec<_> = peers
                .into_iter()
                .map(|mut peer| {
                    let mut text = String::new();
                    peer.read_to_string(&mut text).unwrap();
                    text
                })
                .collect();
            texts.sort();
            assert_eq!(texts, ["", "", "", "", "place, descriptor"]);
        });
    });
}

#[test]
fn without_the_features_a_connection_has_a_descriptor() {
    let test = "without_the_features_a_connection_has_a_descriptor";
    for masked in ["-fixed_files", "-fixed_fd_install", "linux-5.15"] {
        alone(test, &[("RAMIE_CAPS", masked)], || {
            on_uring(|| {
                let (listener, address) = listener();
                let client = client(address, "plainly");
                let (connection, _peer) = accept_direct(&listener).unwrap();
                assert!(!connection.is_direct());
                echo(TcpStream::from(connection.try_into_fd().unwrap()));
                assert_eq!(client.join().unwrap(), "plainly");
            });
        });
    }
}

#[test]
fn a_cancelled_accept_has_taken_no_connection_and_no_index() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (listener, address) = listener();
            for _ in 0..3 {
                let cut =
                    cancel::with_timeout(Duration::from_millis(1), || accept_direct(&listener));
                assert!(!matches!(cut, Ok(Ok(_))), "there was nobody");
            }
            let client = client(address, "at last");
            echo(accept_direct(&listener).unwrap().0);
            assert_eq!(client.join().unwrap(), "at last");
        });
    });
}

#[test]
fn a_connection_that_outlives_its_runtime_is_closed() {
    if !common::has_ring() {
        return;
    }
    let runtime = Runtime::builder().driver(Driver::Uring).workers(1).build().unwrap();
    let peers = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = peers.local_addr().unwrap();
    let mut peer = std::net::TcpStream::connect(address).unwrap();
    let (mut connection, _) = runtime.run(|| accept_direct(&peers)).unwrap();
    if !connection.is_direct() {
        return;
    }
    assert_eq!(peer.read(&mut [0; 4]).unwrap(), 0, "the end");
    // A runtime with a table of its own, in which the same place is another's.
    runtime.run(|| {
        let mut second = std::net::TcpStream::connect(address).unwrap();
        let (other, _) = accept_direct(&peers).unwrap();
        assert!(connection.write(b"lost").is_err() && connection.read(&mut [0; 4]).is_err());
        second.write_all(b"mine").unwrap();
        let mut got = [0; 4];
        (&other).read_exact(&mut got).unwrap();
        assert_eq!(got, *b"mine");
        let refused = connection.try_into_fd().unwrap_err();
        assert_ne!(refused.kind(), ErrorKind::WouldBlock);
        (&other).write_all(b"still here").unwrap();
        drop(other);
        let mut text = String::new();
        second.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still here");
    });
}

#[test]
fn on_an_ordinary_thread_a_connection_has_a_descriptor() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (connection, _) = accept_direct(&listener).unwrap();
    assert!(!connection.is_direct());
    peer.write_all(b"echo").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    echo(connection);
    let mut text = String::new();
    peer.read_to_string(&mut text).unwrap();
    assert_eq!(text, "echo");
}

#[test]
fn connections_accepted_early_come_first() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            for is_forgotten in [true, false] {
                let (listener, address) = listener();
                let mut incoming = listener.incoming();
                let mut peers: Vec<_> =
                    (0..3).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
                drop(incoming.next().unwrap().unwrap());
                fiber::sleep(Duration::from_millis(2));
                match is_forgotten {
                    true => std::mem::forget(incoming),
                    false => drop(incoming),
                }
                peers.push(std::net::TcpStream::connect(address).unwrap());
                for peer in &mut peers[1..] {
                    let limit = Duration::from_secs(20);
                    let accepted = cancel::with_timeout(limit, || accept_direct(&listener));
                    let (mut connection, from) = accepted.expect("it waits").unwrap();
                    assert_eq!(from.to_ip().unwrap(), peer.local_addr().unwrap());
                    connection.write_all(b"here").unwrap();
                    drop(connection);
                    let mut text = String::new();
                    peer.read_to_string(&mut text).unwrap();
                    assert_eq!(text, "here");
                }
            }
        });
    });
}

/// Its worker does not know it.
#[test]
fn a_connection_with_a_descriptor_outlives_its_runtime() {
    let peers = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = std::net::TcpStream::connect(peers.local_addr().unwrap()).unwrap();
    let runtime = Runtime::builder().driver(Driver::Poll).workers(1).build().unwrap();
    let (mut connection, _) = runtime.run(|| accept_direct(&peers)).unwrap();
    assert!(!connection.is_direct());
    drop(runtime);
    connection.write_all(b"still ").unwrap();
    let mut stream = std::net::TcpStream::from(connection.try_into_fd().unwrap());
    stream.write_all(b"here").unwrap();
    drop(stream);
    let mut text = String::new();
    peer.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
}
