//! The twins of `std::net` give the same answers as std, and conversions between both keep
//! everything.

use std::{
    fmt::Debug,
    io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write},
    net as theirs,
    os::fd::{FromRawFd, IntoRawFd, OwnedFd},
    time::Duration,
};

use crate::common;
use ramie::{
    fiber,
    net::{TcpListener, TcpStream},
};
use ramie_driver::sys::{self, sockopt};

const THREE_SECONDS: Option<Duration> = Some(Duration::from_secs(3));

/// Runs `f` on each driver, and on a plain thread.
fn everywhere(f: impl Fn() + Send + Sync) {
    common::on_each(&[1, 2], |runtime| runtime.run(&f));
    std::thread::scope(|s| s.spawn(&f).join().expect("the plain thread's run"));
}

fn their_pair() -> (theirs::TcpStream, theirs::TcpStream) {
    let listener = theirs::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = theirs::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn pair() -> (TcpStream, TcpStream) {
    let (client, server) = their_pair();
    (client.into(), server.into())
}

/// Kind, errno where the system has one, else the text.
fn described<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => match error.raw_os_error() {
            Some(errno) => format!("{:?}, errno {errno}", error.kind()),
            None => format!("{:?}, {error}", error.kind()),
        },
    }
}

#[track_caller]
fn same<T: Debug>(theirs: io::Result<T>, ours: io::Result<T>) {
    assert_eq!(described(ours), described(theirs), "ours, then std's");
}

/// Closes `stream` so that the peer sees a reset: with data in its receive buffer that it never
/// read.
fn reset(stream: theirs::TcpStream, mut peer: impl Write) {
    peer.write_all(b"never read").unwrap();
    stream.peek(&mut [0; 1]).unwrap();
    drop(stream);
}

#[test]
fn a_reset_is_reported_as_by_std() {
    everywhere(|| {
        let (their_end, gone) = their_pair();
        reset(gone, &their_end);
        let (our_end, gone) = their_pair();
        let our_end = TcpStream::from(our_end);
        reset(gone, &our_end);

        same((&their_end).read(&mut [0; 8]), (&our_end).read(&mut [0; 8]));
        same((&their_end).read(&mut [0; 8]), (&our_end).read(&mut [0; 8]));
        same((&their_end).write(b"x"), (&our_end).write(b"x"));
        let part = [IoSlice::new(b"x")];
        same((&their_end).write_vectored(&part), (&our_end).write_vectored(&part));
        same(their_end.peer_addr(), our_end.peer_addr());
        let both = theirs::Shutdown::Both;
        same(their_end.shutdown(both), our_end.shutdown(both));
    });
}

#[test]
fn a_pending_error_is_taken_once() {
    everywhere(|| {
        let (our_end, gone) = their_pair();
        let our_end = TcpStream::from(our_end);
        reset(gone, &our_end);
        let taken = our_end.take_error().unwrap().expect("the reset is pending");
        assert_eq!(taken.kind(), ErrorKind::ConnectionReset);
        assert!(our_end.take_error().unwrap().is_none());
    });
}

#[test]
fn writing_after_shutdown_is_a_broken_pipe_and_no_signal() {
    everywhere(|| {
        let (their_end, _their_peer) = their_pair();
        let (our_end, _our_peer) = pair();
        their_end.shutdown(theirs::Shutdown::Write).unwrap();
        our_end.shutdown(theirs::Shutdown::Write).unwrap();
        same((&their_end).write(b"x"), (&our_end).write(b"x"));
        assert_eq!((&our_end).write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn empty_vectors_do_not_wait() {
    everywhere(|| {
        let (their_end, _their_peer) = their_pair();
        let (our_end, _our_peer) = pair();
        let mut none: [u8; 0] = [];
        let mut their_end = &their_end;
        let mut our_end = &our_end;
        same(their_end.read_vectored(&mut []), our_end.read_vectored(&mut []));
        let mut buffers = [IoSliceMut::new(&mut none)];
        same(their_end.read_vectored(&mut buffers), our_end.read_vectored(&mut buffers));
        same(their_end.write_vectored(&[]), our_end.write_vectored(&[]));
    });
}

/// With a backlog of 0, one connection waits to be accepted, and the next gets no answer.
fn deaf_listener() -> (OwnedFd, theirs::SocketAddr) {
    let fd = sys::socket(sys::AddressFamily::INET, sys::SocketType::STREAM, false).unwrap();
    sys::bind(&fd, &([127, 0, 0, 1], 0).into()).unwrap();
    sys::listen(&fd, 0).unwrap();
    let address = sys::local_addr(&fd).unwrap();
    (fd, address)
}

#[test]
fn connecting_to_a_silent_peer_times_out_as_in_std() {
    everywhere(|| {
        let (_listener, address) = deaf_listener();
        let _fills_the_queue = TcpStream::connect(address).unwrap();
        let timeout = Duration::from_millis(10);
        let theirs = theirs::TcpStream::connect_timeout(&address, timeout).map(drop);
        same(theirs, TcpStream::connect_timeout(&address, timeout).map(drop));
    });
}

#[test]
fn connecting_in_time_succeeds() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect_timeout(&address, Duration::from_secs(60)).unwrap();
        assert_eq!(client.peer_addr().unwrap(), address);
    });
}

#[test]
fn the_first_address_that_works_is_taken() {
    everywhere(|| {
        let closed = theirs::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let stream = TcpStream::connect(&[closed, open][..]).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        let elsewhere = "192.0.2.1:0".parse().unwrap();
        let bound = TcpListener::bind(&[elsewhere, ([127, 0, 0, 1], 0).into()][..]).unwrap();
        assert!(bound.local_addr().unwrap().ip().is_loopback());
    });
}

#[test]
fn options_read_back_as_in_std() {
    everywhere(|| {
        let (their_end, _their_peer) = their_pair();
        let (our_end, _our_peer) = pair();
        for nodelay in [true, false] {
            same(their_end.set_nodelay(nodelay), our_end.set_nodelay(nodelay));
            same(their_end.nodelay(), our_end.nodelay());
        }
        for ttl in [1, 64, 255, 0, 256] {
            same(their_end.set_ttl(ttl), our_end.set_ttl(ttl));
            same(their_end.ttl(), our_end.ttl());
        }
        for timeout in [THREE_SECONDS, Some(Duration::ZERO), None] {
            same(their_end.set_read_timeout(timeout), our_end.set_read_timeout(timeout));
            same(their_end.read_timeout(), our_end.read_timeout());
            same(their_end.set_write_timeout(timeout), our_end.set_write_timeout(timeout));
            same(their_end.write_timeout(), our_end.write_timeout());
        }
    });
}

#[test]
#[allow(deprecated)]
fn a_listeners_options_read_back_as_in_std() {
    everywhere(|| {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let theirs = theirs::TcpListener::bind(address).map_err(|error| error.kind());
            let ours = TcpListener::bind(address).map_err(|error| error.kind());
            // A machine without IPv6: both are refused.
            let (Ok(theirs), Ok(ours)) = (&theirs, &ours) else {
                assert_eq!(ours.err(), theirs.err());
                continue;
            };
            same(theirs.only_v6(), ours.only_v6());
            same(theirs.set_only_v6(true), ours.set_only_v6(true));
            same(theirs.set_ttl(7), ours.set_ttl(7));
            same(theirs.ttl(), ours.ttl());
            same(theirs.take_error().map(|_| ()), ours.take_error().map(|_| ()));
        }
    });
}

#[test]
fn debug_output_is_that_of_std() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = format!("{listener:?}");
        assert_eq!(ours, format!("{:?}", theirs::TcpListener::from(listener)));
        let (stream, _peer) = pair();
        let ours = format!("{stream:?}");
        assert_eq!(ours, format!("{:?}", theirs::TcpStream::from(stream)));
    });
}

/// Timeouts belong to the connection, so a descriptor carries them, whatever type it is in.
#[test]
fn a_bare_descriptor_carries_its_timeouts() {
    everywhere(|| {
        let (stream, _peer) = their_pair();
        stream.set_read_timeout(THREE_SECONDS).unwrap();
        let ours = TcpStream::from(OwnedFd::from(stream));
        assert_eq!(ours.read_timeout().unwrap(), THREE_SECONDS);
        ours.set_read_timeout(None).unwrap();
        ours.set_write_timeout(THREE_SECONDS).unwrap();

        let back = theirs::TcpStream::from(OwnedFd::from(ours));
        assert_eq!(back.read_timeout().unwrap(), None);
        assert_eq!(back.write_timeout().unwrap(), THREE_SECONDS);
        // SAFETY: `into_raw_fd` has just given the descriptor up.
        let raw = unsafe { TcpStream::from_raw_fd(back.into_raw_fd()) };
        assert_eq!(raw.write_timeout().unwrap(), THREE_SECONDS);
    });
}

#[test]
fn nonblocking_goes_to_std_and_back() {
    everywhere(|| {
        let (stream, _peer) = their_pair();
        stream.set_nonblocking(true).unwrap();
        let ours = TcpStream::from(stream);
        assert_eq!((&ours).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(sys::is_nonblocking(theirs::TcpStream::from(ours)).unwrap());

        for nonblocking in [true, false] {
            let (stream, _peer) = their_pair();
            stream.set_nonblocking(!nonblocking).unwrap();
            let ours = TcpStream::from(stream);
            ours.set_nonblocking(nonblocking).unwrap();
            let back = theirs::TcpStream::from(ours);
            assert_eq!(sys::is_nonblocking(&back).unwrap(), nonblocking);
        }
    });
}

/// A descriptor that came in nonblocking waits once it is made blocking: on either driver.
#[test]
fn an_adopted_nonblocking_stream_can_wait() {
    everywhere(|| {
        let (stream, mut peer) = their_pair();
        stream.set_nonblocking(true).unwrap();
        let ours = TcpStream::from(stream);
        ours.set_nonblocking(false).unwrap();
        let reader = fiber::spawn(move || {
            let mut buffer = [0; 4];
            (&ours).read_exact(&mut buffer).unwrap();
            buffer
        });
        fiber::yield_now();
        peer.write_all(b"wait").unwrap();
        assert_eq!(&reader.join().unwrap(), b"wait");
    });
}

#[test]
fn descriptors_that_are_given_away_are_blocking() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            assert!(!sys::is_nonblocking(stream).unwrap());
        }
        assert!(!sys::is_nonblocking(theirs::TcpListener::from(listener)).unwrap());
        assert!(!sys::is_nonblocking(OwnedFd::from(client)).unwrap());
    });
}

#[test]
fn descriptors_are_closed_on_exec() {
    // FD_CLOEXEC as Linux shows it in a descriptor's flags.
    const O_CLOEXEC: u32 = 0o2_000_000;
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let clone = server.try_clone().unwrap();
        let fds = [OwnedFd::from(listener), client.into(), server.into(), clone.into()]
            .map(IntoRawFd::into_raw_fd);
        for fd in fds {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            let flags = u32::from_str_radix(flags.trim(), 8).unwrap();
            assert_ne!(flags & O_CLOEXEC, 0, "descriptor {fd}");
            // SAFETY: `into_raw_fd` has given the descriptor up.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    });
}

#[test]
fn a_listener_from_std_accepts_and_goes_back() {
    everywhere(|| {
        let listener = theirs::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ours = TcpListener::from(listener);
        let accepting = fiber::spawn(move || (ours.accept().unwrap().1, ours));
        fiber::yield_now();
        let client = TcpStream::connect(address).unwrap();
        let (peer, ours) = accepting.join().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());

        let back = theirs::TcpListener::from(ours);
        let _client = TcpStream::connect(address).unwrap();
        back.accept().unwrap();
    });
}

#[test]
fn bind_listens_and_may_reuse_the_address() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(sockopt::socket_acceptconn(&listener).unwrap());
        assert!(sockopt::socket_reuseaddr(&listener).unwrap());
    });
}
