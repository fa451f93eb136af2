//! Descriptors that are ready and yet would wait: sockets that were shut down, and others.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::fd::{AsFd, AsRawFd},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::{Duration, Instant},
};

use crate::common;
use ramie::{
    cancel::{self, is_cancelled, with_timeout},
    fiber,
    io::Async,
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::{UnixDatagram, UnixListener, UnixStream},
    ring,
};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);
const TURNS: u32 = 10;

/// Runs `call`, which has to end soon; another fiber must get on meanwhile.
#[track_caller]
fn ends<T: Send>(what: &str, call: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    with_timeout(LONG, call).unwrap_or_else(|late| panic!("{what} never ended: {late}"))
}

fn errno<T>(result: io::Result<T>) -> Result<T, (io::ErrorKind, Option<i32>)> {
    result.map_err(|error| (error.kind(), error.raw_os_error()))
}

/// Shuts reading down before a receive, and while one waits.
fn shut_down_for_reading<T: Send + PartialEq + std::fmt::Debug>(
    what: &str,
    shutdown: impl Fn() + Sync,
    receive: impl Fn() -> io::Result<T> + Sync,
    expected: &Result<T, (io::ErrorKind, Option<i32>)>,
) {
    fiber::scope(|s| {
        let waiter = s.spawn(|| errno(ends(what, &receive)));
        fiber::sleep(Duration::from_millis(5));
        shutdown();
        assert_eq!(&waiter.join().unwrap(), expected, "{what}, which waited");
    });
    assert_eq!(&errno(ends(what, &receive)), expected, "{what}");
}

#[test]
fn a_datagram_socket_that_was_shut_down_is_at_its_end() {
    let theirs = {
        let (ours, _peer) = std::os::unix::net::UnixDatagram::pair().unwrap();
        ours.shutdown(Shutdown::Read).unwrap();
        errno(ours.recv(&mut [0; 8]))
    };
    assert_eq!(theirs, Ok(0), "std");
    common::everywhere(|| {
        let (ours, _peer) = UnixDatagram::pair().unwrap();
        let shutdown = || ours.shutdown(Shutdown::Read).unwrap();
        shut_down_for_reading("recv", shutdown, || ours.recv(&mut [0; 8]), &theirs);
        let (count, from) = ends("recv_from", || ours.recv_from(&mut [0; 8])).unwrap();
        assert!(count == 0 && from.is_unnamed());
        ours.set_nonblocking(true).unwrap();
        assert_eq!(ours.recv(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    });
}

/// Two UDP sockets that are connected with each other.
macro_rules! udp_pair {
    ($socket:ty) => {{
        let (one, other) =
            (<$socket>::bind("127.0.0.1:0").unwrap(), <$socket>::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        (one, other)
    }};
}

fn shut_down(fd: &impl AsRawFd) {
    // SAFETY: it points to nothing, and the socket is open.
    unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RD) };
}

#[test]
fn a_connected_udp_socket_that_was_shut_down_is_at_its_end() {
    let (theirs, _peer) = udp_pair!(std::net::UdpSocket);
    shut_down(&theirs);
    let expected = errno(theirs.recv(&mut [0; 8]));
    assert_eq!(expected, Ok(0), "std");
    let expected_from = errno(theirs.recv_from(&mut [0; 8]));
    common::everywhere(|| {
        let (ours, peer) = udp_pair!(UdpSocket);
        shut_down_for_reading("recv", || shut_down(&ours), || ours.recv(&mut [0; 8]), &expected);
        assert_eq!(errno(ends("recv_from", || ours.recv_from(&mut [0; 8]))), expected_from);
        // Data that comes nevertheless is received.
        peer.send(b"late").unwrap();
        assert_eq!(ends("recv of a late one", || ours.recv(&mut [0; 8])).unwrap(), 4);
    });
}

#[test]
fn a_listener_that_was_shut_down_accepts_no_more() {
    common::everywhere(|| {
        let dir = std::env::temp_dir();
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, SeqCst);
        let path = dir.join(format!("ramie-in-vain-{}-{number}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let invalid = Err((io::ErrorKind::InvalidInput, Some(libc::EINVAL)));
        let accept = || listener.accept().map(drop);
        shut_down_for_reading("accept (Unix)", || shut_down(&listener), accept, &invalid);

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let accept = || listener.accept().map(drop);
        shut_down_for_reading("accept (TCP)", || shut_down(&listener), accept, &invalid);
    });
}

/// As by an accept, std's iterator would yield the error again and again.
#[test]
fn the_iterator_of_a_listener_that_was_shut_down_ends() {
    common::everywhere(|| {
        let dir = std::env::temp_dir();
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, SeqCst);
        let path = dir.join(format!("ramie-in-vain-each-{}-{number}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let _early = UnixStream::connect(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let incoming = std::sync::Mutex::new(listener.incoming());
        let next = || incoming.lock().unwrap().next().expect("a step").map(drop);
        ends("incoming (Unix), early", next).unwrap();
        let invalid = Err((io::ErrorKind::InvalidInput, Some(libc::EINVAL)));
        shut_down_for_reading("incoming (Unix)", || shut_down(&listener), next, &invalid);

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let incoming = std::sync::Mutex::new(listener.incoming());
        let next = || incoming.lock().unwrap().next().expect("a step").map(drop);
        shut_down_for_reading("incoming (TCP)", || shut_down(&listener), next, &invalid);
    });
}

/// A connection with a byte to be read, of which a `peek` sees none.
fn readable_and_nothing_to_peek_at() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let server = listener.accept().unwrap().0;
    client.write_all(b"x").unwrap();
    ring::poll(&server, ring::PollFlags::IN).unwrap();
    let offset: libc::c_int = 100;
    // SAFETY: the option is an int, which lives longer than the call.
    let set = unsafe {
        libc::setsockopt(
            server.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEEK_OFF,
            (&raw const offset).cast(),
            size_of_val(&offset) as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
    (server, client)
}

/// Waits in vain until another fiber of the worker has had its turns, and leaves the CPU to others.
fn waits_in_vain(what: &str, call: impl FnOnce() -> io::Result<()> + Send) {
    let (cpu, start) = (common::cpu_time(), Instant::now());
    let waited = with_timeout(LONG, || {
        cancel::scope(|waiting| {
            let waiting = waiting.handle();
            let ticker = fiber::spawn(move || {
                let mut turns = 0;
                // As many turns as it needs, because on a loaded machine each takes milliseconds.
                while turns < TURNS || start.elapsed() < SHORT {
                    fiber::sleep(Duration::from_millis(1));
                    turns += 1;
                }
                waiting.cancel();
            });
            let error = call().expect_err(what);
            ticker.join().unwrap();
            error
        })
    });
    let took = start.elapsed();
    let error = waited.unwrap_or_else(|_| panic!("{what}: {TURNS} turns of others took {took:?}"));
    assert!(is_cancelled(&error), "{what}: {error}");
    let cpu = common::cpu_time() - cpu;
    assert!(cpu < took / 2, "{what}: {cpu:?} of CPU time while waiting for {took:?}");
}

#[test]
fn readiness_in_vain_starves_nobody() {
    if !common::is_child() {
        // Alone: it looks at the CPU time of the process.
        return common::assert_success(&common::child("readiness_in_vain_starves_nobody"));
    }
    common::on_each(&[1], |runtime| {
        runtime.run(|| {
            let (server, _client) = readable_and_nothing_to_peek_at();
            waits_in_vain("peek", || server.peek(&mut [0]).map(drop));
            let (mut readable, mut writer) = io::pipe().unwrap();
            writer.write_all(b"x").unwrap();
            let watched = Async::from_fd(readable.as_fd().try_clone_to_owned().unwrap()).unwrap();
            let refuse = |_: &std::os::fd::OwnedFd| -> io::Result<()> {
                Err(io::ErrorKind::WouldBlock.into())
            };
            waits_in_vain("Async::with_read", || watched.with_read(refuse));
            let mut byte = [0];
            readable.read_exact(&mut byte).unwrap();
        });
    });
}
