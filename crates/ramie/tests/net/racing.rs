//! Connections raced against one another: which are awaited, which are not, and the reported
//! errors.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream},
    time::{Duration, Instant},
};

use crate::common::everywhere;
use ramie::{
    Driver, Runtime, cancel,
    net::{TcpListener, TcpStream},
    ring::{self, AddressFamily, SocketType},
    structured::Failures,
    time::ManualClock,
};

const NONE: &[SocketAddr] = &[];

/// An address where nobody listens, nor anybody can while the socket lasts.
fn refusing() -> (SocketAddr, StdStream) {
    let socket = ring::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    ring::bind(&socket, SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let socket = StdStream::from(socket);
    (socket.local_addr().unwrap(), socket)
}

/// An address that never answers: a listener whose queue is full. It lasts as long as the rest.
fn silent() -> (SocketAddr, StdListener, Vec<TcpStream>) {
    let socket = ring::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    ring::bind(&socket, SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    ring::listen(&socket, 0).unwrap();
    let listener = StdListener::from(socket);
    let address = listener.local_addr().unwrap();
    let soon = Duration::from_millis(100);
    let fill = || TcpStream::connect_timeout(&address, soon).ok();
    let queue = std::iter::from_fn(fill).collect();
    (address, listener, queue)
}

#[test]
fn a_silent_address_is_not_waited_for() {
    everywhere(|| {
        let (silent, _listener, _queue) = silent();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let answers = listener.local_addr().unwrap();
        let start = Instant::now();
        let stream = TcpStream::connect_racing(&[silent, answers][..]).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), answers);
        // The first has its time; the kernel would give up after minutes.
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(250), "{took:?}");
        assert!(took < Duration::from_secs(60), "{took:?}");
    });
}

/// On a clock that stands still nothing happens after a time.
#[test]
fn after_a_failure_the_next_begins_at_once() {
    for driver in [Driver::Uring, Driver::Poll] {
        let runtime = Runtime::builder().driver(driver).workers(1).clock(ManualClock::new());
        let Ok(runtime) = runtime.build() else { continue };
        runtime.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let answers = listener.local_addr().unwrap();
            let ((first, _first), (second, _second)) = (refusing(), refusing());
            let addresses = [first, second, answers];
            let stream = TcpStream::connect_racing(&addresses[..]).unwrap();
            assert_eq!(stream.peer_addr().unwrap(), answers);
        });
    }
}

#[test]
fn all_errors_are_kept() {
    everywhere(|| {
        let ((first, _first), (second, _second)) = (refusing(), refusing());
        let addresses = [first, second];
        let error = TcpStream::connect_racing(&addresses[..]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let all = error.get_ref().unwrap().downcast_ref::<Failures<std::io::Error>>().unwrap();
        assert_eq!(all.iter().count(), 2);
        for address in addresses {
            assert!(error.to_string().contains(&address.to_string()), "{error}");
        }
        let alone = TcpStream::connect_racing(addresses[0]).unwrap_err();
        assert_eq!(alone.kind(), ErrorKind::ConnectionRefused);
        let none = TcpStream::connect_racing(NONE).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn it_is_a_cancel_point() {
    everywhere(|| {
        let (first, _first, _queue) = silent();
        let (second, _second, _other_queue) = silent();
        let connect = || TcpStream::connect_racing(&[first, second][..]);
        let result = cancel::with_timeout(Duration::from_millis(20), connect);
        let error = result.unwrap_err().into_value().unwrap_err();
        assert!(cancel::is_cancelled(&error), "{error}");
        let late = cancel::with_timeout(Duration::from_millis(300), connect);
        let error = late.unwrap_err().into_value().unwrap_err();
        assert!(cancel::is_cancelled(&error), "{error}");
    });
}
