//! Streams that a polling driver keeps registered between waits: its knowledge of them must never
//! be wrong. A ring, which keeps an index for them, passes the same tests.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::support::{self, both, cancel, finish, submit};
use ramie_driver::{Choice, Config, Driver, FixedFile, Op, OpFrame, Submitted, Wait, sys};

/// A socket beside its registration, which goes first.
struct Kept<S: AsRawFd> {
    file: FixedFile,
    socket: S,
}

impl<S: AsRawFd> Drop for Kept<S> {
    fn drop(&mut self) {
        // Rings are asked by `release`; this is for those that a test has dropped.
        self.file.release_elsewhere();
    }
}

impl<S: AsRawFd> Kept<S> {
    fn new(socket: S) -> Self {
        Kept { file: FixedFile::default(), socket }
    }

    /// Submits; true if the op is in flight.
    fn submit(&self, driver: &mut Driver, frame: &OpFrame) -> bool {
        // SAFETY: the tests keep frames, buffers, and this, until the op is complete; it is of the
        // descriptor that the op names.
        unsafe { driver.submit_fixed(NonNull::from(frame), &self.file) == Submitted::InFlight }
    }

    fn recv(&self, buf: &mut [u8]) -> OpFrame {
        self.recv_with(buf, 0)
    }

    fn recv_with(&self, buf: &mut [u8], flags: i32) -> OpFrame {
        let (fd, len) = (self.socket.as_raw_fd(), buf.len() as u32);
        OpFrame::new(Op::Recv { fd, buf: buf.as_mut_ptr(), len, flags })
    }

    fn send(&self, buf: &[u8]) -> OpFrame {
        let (fd, len) = (self.socket.as_raw_fd(), buf.len() as u32);
        OpFrame::new(Op::Send { fd, buf: buf.as_ptr(), len, flags: 0 })
    }

    /// Receives data that must come.
    fn take(&self, driver: &mut Driver, len: usize) -> Vec<u8> {
        let mut buf = vec![0; len];
        let frame = self.recv(&mut buf);
        self.submit(driver, &frame);
        let count = finish(driver, &frame);
        assert!(count >= 0, "errno {}", -count);
        buf.truncate(count as usize);
        buf
    }

    /// Begins to receive, runs `meanwhile`, and receives the resulting data.
    fn take_of(&self, driver: &mut Driver, meanwhile: impl FnOnce()) -> Vec<u8> {
        let mut buf = vec![0; 64];
        let frame = self.recv(&mut buf);
        assert!(self.submit(driver, &frame), "nothing is there yet");
        meanwhile();
        let count = finish(driver, &frame);
        buf.truncate(count as usize);
        buf
    }
}

fn tcp() -> (TcpStream, Kept<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    (client, Kept::new(listener.accept().unwrap().0))
}

/// Waits until bytes (or the end) have arrived, and lets the driver see that.
fn arrived(driver: &mut Driver, socket: &impl AsRawFd, events: u32) {
    let start = Instant::now();
    // SAFETY: the tests hold the socket open.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(socket.as_raw_fd()) };
    while sys::poll_now(fd, events).unwrap() & events == 0 {
        assert!(start.elapsed() < support::PATIENCE, "nothing arrives");
    }
    driver.turn(Wait::Never).unwrap();
}

#[test]
fn requests_and_answers_follow_one_another() {
    both(|driver| {
        let (mut client, kept) = tcp();
        for round in 0..100u8 {
            let early = round % 3 == 0;
            if early {
                client.write_all(&[round; 3]).unwrap();
                arrived(driver, &kept.socket, sys::POLL_IN);
                assert_eq!(kept.take(driver, 64), [round; 3]);
            } else {
                assert_eq!(
                    kept.take_of(driver, || client.write_all(&[round; 3]).unwrap()),
                    [round; 3]
                );
            }
            let frame = kept.send(b"yes");
            kept.submit(driver, &frame);
            assert_eq!(finish(driver, &frame), 3);
            let mut answer = [0; 3];
            client.read_exact(&mut answer).unwrap();
        }
    });
}

#[test]
fn the_leftover_of_a_short_buffer_is_found() {
    both(|driver| {
        let (mut client, kept) = tcp();
        assert_eq!(
            kept.take_of(driver, || client.write_all(b"0123456789").unwrap()),
            b"0123456789"
        );
        client.write_all(b"0123456789").unwrap();
        arrived(driver, &kept.socket, sys::POLL_IN);
        for part in [&b"012"[..], b"345", b"678", b"9"] {
            assert_eq!(kept.take(driver, 3), part);
        }
        assert_eq!(kept.take_of(driver, || client.write_all(b"more").unwrap()), b"more");
    });
}

#[test]
fn a_peek_leaves_the_bytes() {
    both(|driver| {
        let (mut client, kept) = tcp();
        assert_eq!(kept.take_of(driver, || client.write_all(b"first").unwrap()), b"first");
        client.write_all(b"second").unwrap();
        arrived(driver, &kept.socket, sys::POLL_IN);
        for _ in 0..2 {
            let mut buf = [0; 64];
            let frame = kept.recv_with(&mut buf, sys::MSG_PEEK);
            kept.submit(driver, &frame);
            assert_eq!(finish(driver, &frame), 6);
        }
        assert_eq!(kept.take(driver, 64), b"second");
    });
}

#[test]
fn the_end_is_seen_whenever_it_comes() {
    both(|driver| {
        // With the last bytes, after them, and while waiting.
        let (mut client, kept) = tcp();
        assert_eq!(kept.take_of(driver, || client.write_all(b"a").unwrap()), b"a");
        client.write_all(b"b").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        arrived(driver, &kept.socket, sys::POLL_RDHUP);
        assert_eq!(kept.take(driver, 64), b"b");
        assert_eq!(kept.take(driver, 64), b"");
        assert_eq!(kept.take(driver, 64), b"");
        let (mut client, kept) = tcp();
        assert_eq!(kept.take_of(driver, || client.write_all(b"a").unwrap()), b"a");
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(kept.take(driver, 64), b"");
        let (client, kept) = tcp();
        assert_eq!(kept.take_of(driver, || drop(client)), b"");
    });
}

#[test]
fn urgent_data_hides_nothing() {
    both(|driver| {
        let (mut client, kept) = tcp();
        assert_eq!(kept.take_of(driver, || client.write_all(b"a").unwrap()), b"a");
        client.write_all(b"before").unwrap();
        // SAFETY: the byte is borrowed for the call.
        let sent =
            unsafe { libc::send(client.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) };
        assert_eq!(sent, 1);
        client.write_all(b"after").unwrap();
        let mut received = Vec::new();
        while received.len() < 11 {
            received.extend(kept.take(driver, 64));
        }
        assert_eq!(received, b"beforeafter");
    });
}

#[test]
fn a_number_that_is_another_file_now_is_registered_anew() {
    both(|driver| {
        for round in 0..20u8 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let number = ours.as_raw_fd();
            // A duplicate keeps the file alive beyond the close of its number.
            let duplicate = (round % 2 == 0).then(|| ours.try_clone().unwrap());
            let kept = Kept::new(ours);
            assert_eq!(kept.take_of(driver, || theirs.write_all(&[round]).unwrap()), [round]);
            drop(kept);
            let (other, mut its_peer) = UnixStream::pair().unwrap();
            let other = if other.as_raw_fd() == number { other } else { moved_to(other, number) };
            // Fails where no duplicate is left to receive it.
            let _ = theirs.write_all(b"ghost");
            driver.turn(Wait::Never).unwrap();
            let other = Kept::new(other);
            for _ in 0..2 {
                assert_eq!(
                    other.take_of(driver, || its_peer.write_all(b"right").unwrap()),
                    b"right"
                );
            }
            drop(duplicate);
        }
    });
}

fn moved_to(socket: UnixStream, number: i32) -> UnixStream {
    // SAFETY: the number was closed, and nothing else runs in this test's process that opens one
    // at this very moment: if another test took it, dup3 is not asked to.
    let moved = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD_CLOEXEC, number) };
    // SAFETY: fcntl has just made it.
    unsafe { OwnedFd::from_raw_fd(moved) }.into()
}

#[test]
fn ops_without_it_may_wait_on_the_same_descriptor() {
    both(|driver| {
        let (mut client, kept) = tcp();
        assert_eq!(kept.take_of(driver, || client.write_all(b"a").unwrap()), b"a");
        let fd = kept.socket.as_raw_fd();
        for is_poll_first in [true, false] {
            let poll = OpFrame::new(Op::Poll { fd, events: sys::POLL_IN });
            let mut buf = [0; 8];
            let recv = kept.recv(&mut buf);
            for is_poll in [is_poll_first, !is_poll_first] {
                let submitted =
                    if is_poll { submit(driver, &poll) } else { kept.submit(driver, &recv) };
                assert!(submitted);
            }
            client.write_all(b"b").unwrap();
            assert_eq!(finish(driver, &recv), 1);
            if !poll.is_complete() {
                // The byte was gone before it could be reported.
                client.write_all(b"c").unwrap();
                finish(driver, &poll);
                kept.take(driver, 8);
            }
            assert_ne!(poll.result() as u32 & sys::POLL_IN, 0);
            assert_eq!(kept.take_of(driver, || client.write_all(b"d").unwrap()), b"d");
        }
    });
}

#[test]
fn a_wait_that_is_cancelled_leaves_it_as_good_as_before() {
    both(|driver| {
        let (mut client, kept) = tcp();
        for round in 0..3 {
            let mut buf = [0; 8];
            let frame = kept.recv(&mut buf);
            assert!(kept.submit(driver, &frame), "{round}");
            cancel(driver, &frame);
            assert_eq!(finish(driver, &frame), -libc::ECANCELED);
            assert_eq!(kept.take_of(driver, || client.write_all(b"a").unwrap()), b"a");
        }
    });
}

#[test]
fn two_drivers_may_share_a_socket_and_either_may_go() {
    both(|driver| {
        let choice = match driver.kind() {
            ramie_driver::Kind::Uring => Choice::Uring,
            ramie_driver::Kind::Poll => Choice::Poll,
        };
        let (mut client, kept) = tcp();
        let mut other = Driver::open(choice, &Config::small()).unwrap();
        for _ in 0..2 {
            assert_eq!(kept.take_of(&mut other, || client.write_all(b"a").unwrap()), b"a");
            assert_eq!(kept.take_of(driver, || client.write_all(b"b").unwrap()), b"b");
        }
        drop(other);
        for _ in 0..2 {
            assert_eq!(kept.take_of(driver, || client.write_all(b"c").unwrap()), b"c");
        }
    });
}

#[test]
fn a_full_socket_is_written_to_when_there_is_room() {
    both(|driver| {
        let (mut client, kept) = tcp();
        let bytes = vec![7; 1 << 20];
        let (mut sent, mut received) = (0, 0);
        let mut buf = vec![0; 1 << 16];
        client.set_nonblocking(true).unwrap();
        let start = Instant::now();
        while sent < 8 << 20 {
            let frame = kept.send(&bytes);
            let is_waiting = kept.submit(driver, &frame);
            while is_waiting && !frame.is_complete() {
                received += client.read(&mut buf).unwrap_or(0);
                driver.turn(Wait::Never).unwrap();
                assert!(start.elapsed() < support::PATIENCE, "the room is not noticed");
            }
            sent += finish(driver, &frame) as usize;
        }
        while received < sent {
            received += client.read(&mut buf).unwrap_or(0);
        }
    });
}

#[test]
fn a_socket_that_nobody_reads_does_not_keep_the_driver_awake() {
    let mut driver = Driver::open(Choice::Poll, &Config::default()).unwrap();
    let (mut client, kept) = tcp();
    assert_eq!(kept.take_of(&mut driver, || client.write_all(b"a").unwrap()), b"a");
    let mut ended_early = 0;
    for _ in 0..20 {
        client.write_all(b"unread").unwrap();
        let start = Instant::now();
        driver.turn(Wait::Until(Some(Duration::from_millis(5)))).unwrap();
        ended_early += usize::from(start.elapsed() < Duration::from_millis(3));
    }
    assert!(ended_early <= 3, "{ended_early} of 20 waits were ended by bytes that nobody awaits");
    assert_eq!(kept.take(&mut driver, 6), b"unread");
}
