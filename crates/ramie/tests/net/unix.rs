//! Unix sockets on both drivers, on fibers and on plain threads.

use std::{
    io::{ErrorKind, IoSlice, IoSliceMut, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::SocketAddr,
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::common::everywhere;
use ramie::{
    fiber,
    os::unix::net::{UnixDatagram, UnixListener, UnixStream},
};

static NAMES: AtomicUsize = AtomicUsize::new(0);

fn name() -> String {
    let number = NAMES.fetch_add(1, Ordering::Relaxed);
    format!("ramie-test-{}-{number}", std::process::id())
}

/// A path that is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        Place(std::env::temp_dir().join(name()))
    }
}

impl AsRef<Path> for Place {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_listener_at_a_path_accepts() {
    everywhere(|| {
        let place = Place::new();
        let listener = UnixListener::bind(&place).unwrap();
        let path = place.0.clone();
        let client = fiber::spawn(move || {
            let mut stream = UnixStream::connect(&path).unwrap();
            assert_eq!(stream.peer_addr().unwrap().as_pathname(), Some(&*path));
            stream.write_all(b"hello").unwrap();
        });
        let (mut stream, peer) = listener.accept().unwrap();
        assert!(peer.is_unnamed());
        assert_eq!(stream.local_addr().unwrap().as_pathname(), Some(&*place.0));
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        client.join().unwrap();
    });
}

#[test]
fn abstract_names_may_hold_zero_bytes() {
    everywhere(|| {
        let name = format!("{}\0tail", name());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let local = listener.local_addr().unwrap();
        assert_eq!(local.as_abstract_name(), Some(name.as_bytes()));
        let client = UnixStream::connect_addr(&address).unwrap();
        assert_eq!(client.peer_addr().unwrap().as_abstract_name(), Some(name.as_bytes()));
        assert!(listener.incoming().next().unwrap().is_ok());
    });
}

#[test]
fn a_connect_waits_while_the_queue_is_full() {
    everywhere(|| {
        let address = SocketAddr::from_abstract_name(name()).unwrap();
        // A queue of one, by way of std's own type and a second listen(2).
        let listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
        ramie_driver::sys::listen(&listener, 0).unwrap();
        let listener = UnixListener::from(listener);
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let address = address.clone();
                fiber::spawn(move || UnixStream::connect_addr(&address).unwrap())
            })
            .collect();
        fiber::sleep(Duration::from_millis(2));
        let served: Vec<_> = (0..4).map(|_| listener.accept().unwrap()).collect();
        for client in clients {
            client.join().unwrap();
        }
        drop(served);
    });
}

#[test]
fn a_pair_talks_both_ways() {
    everywhere(|| {
        let (left, mut right) = UnixStream::pair().unwrap();
        let reader = fiber::spawn(move || {
            let mut buffer = [0; 6];
            right.read_exact(&mut buffer).unwrap();
            right.write_all(&buffer).unwrap();
        });
        fiber::yield_now();
        assert_eq!(
            (&left).write_vectored(&[IoSlice::new(b"one"), IoSlice::new(b"two")]).unwrap(),
            6
        );
        let (mut a, mut b) = ([0; 2], [0; 4]);
        let mut parts = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        assert_eq!((&left).read_vectored(&mut parts).unwrap(), 6);
        assert_eq!((&a, &b), (b"on", b"etwo"));
        reader.join().unwrap();
    });
}

#[test]
fn timeouts_are_kept_and_clones_share_them() {
    everywhere(|| {
        let (left, _right) = UnixStream::pair().unwrap();
        left.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let clone = left.try_clone().unwrap();
        assert_eq!((&clone).read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let error = left.set_write_timeout(Some(Duration::ZERO)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn descriptors_travel_over_streams() {
    everywhere(|| {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let receiver = fiber::spawn(move || {
            let (mut buffer, mut fds) = ([0; 8], Vec::new());
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let received = right.recv_vectored_with_fds(&mut parts, &mut fds).unwrap();
            assert!(!received.is_missing_fds);
            assert_eq!((received.bytes, fds.len()), (3, 2));
            (fds, right)
        });
        fiber::yield_now();
        let fds = [theirs.as_fd(), theirs.as_fd()];
        left.send_vectored_with_fds(&[IoSlice::new(b"fds")], &fds).unwrap();
        let (fds, right) = receiver.join().unwrap();
        for fd in &fds {
            let info = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
            let info = std::fs::read_to_string(info).unwrap();
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            // O_CLOEXEC.
            assert_ne!(u32::from_str_radix(flags.trim(), 8).unwrap() & 0o2_000_000, 0);
        }
        for fd in fds {
            UnixStream::from(fd).write_all(b"x").unwrap();
        }
        drop(theirs);
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        assert_eq!(text, "xx");
        drop(left);
        let mut fds = Vec::new();
        let end = right.recv_vectored_with_fds(&mut [IoSliceMut::new(&mut [0])], &mut fds).unwrap();
        assert_eq!((end.bytes, fds.len()), (0, 0));
    });
}

/// The message waits for room, and then arrives whole.
#[test]
fn descriptors_wait_for_room() {
    everywhere(|| {
        let (left, mut right) = UnixStream::pair().unwrap();
        left.set_nonblocking(true).unwrap();
        let mut filled = 0;
        while let Ok(count) = (&left).write(&[0; 4096]) {
            filled += count;
        }
        left.set_nonblocking(false).unwrap();
        let sender = fiber::spawn(move || {
            let parts = [IoSlice::new(b"after "), IoSlice::new(b"all")];
            left.send_vectored_with_fds(&parts, &[left.as_fd()]).unwrap()
        });
        fiber::sleep(Duration::from_millis(1));
        let mut rest = vec![0; filled];
        right.read_exact(&mut rest).unwrap();
        let (mut buffer, mut fds) = ([0; 16], Vec::new());
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let received = right.recv_vectored_with_fds(&mut parts, &mut fds).unwrap();
        assert_eq!((received.bytes, sender.join().unwrap(), fds.len()), (9, 9, 1));
        assert_eq!(&buffer[..9], b"after all");
    });
}

#[test]
fn as_many_descriptors_as_linux_takes_and_no_more() {
    everywhere(|| {
        let (left, right) = UnixDatagram::pair().unwrap();
        let most = vec![left.as_fd(); ramie_driver::sys::MAX_PASSED_FDS];
        left.send_vectored_with_fds(&[IoSlice::new(b"data")], &most).unwrap();
        let (mut buffer, mut fds) = ([0; 2], Vec::<OwnedFd>::new());
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let received = right.recv_vectored_with_fds(&mut parts, &mut fds).unwrap();
        assert_eq!((received.bytes, fds.len()), (2, most.len()));
        assert!(received.is_truncated && !received.is_missing_fds);

        let more = vec![left.as_fd(); most.len() + 1];
        let error = left.send_vectored_with_fds(&[IoSlice::new(b"data")], &more).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn datagrams_carry_their_senders_address() {
    everywhere(|| {
        let (place, other) = (Place::new(), Place::new());
        let receiver = UnixDatagram::bind(&place).unwrap();
        let named = UnixDatagram::bind(&other).unwrap();
        let unnamed = UnixDatagram::unbound().unwrap();
        let mut buffer = [0; 8];
        named.send_to(b"one", &place).unwrap();
        let (count, from) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!((count, from.as_pathname()), (3, Some(&*other.0)));
        unnamed.connect(&place).unwrap();
        unnamed.send(b"four").unwrap();
        let (count, from) = receiver.recv_from(&mut buffer).unwrap();
        assert!(count == 4 && from.is_unnamed());
    });
}

#[test]
fn a_sender_waits_while_the_receivers_queue_is_full() {
    everywhere(|| {
        const COUNT: u32 = 2_000;
        for is_connected in [true, false] {
            let place = Place::new();
            let receiver = UnixDatagram::bind(&place).unwrap();
            let path = place.0.clone();
            let sender = fiber::spawn(move || {
                let sender = UnixDatagram::unbound().unwrap();
                if is_connected {
                    sender.connect(&path).unwrap();
                }
                for number in 0..COUNT {
                    let data = number.to_ne_bytes();
                    let sent = if is_connected {
                        sender.send(&data)
                    } else {
                        sender.send_to(&data, &path)
                    };
                    sent.unwrap();
                }
            });
            for number in 0..COUNT {
                let mut data = [0; 4];
                receiver.recv(&mut data).unwrap();
                assert_eq!(u32::from_ne_bytes(data), number);
                if number % 200 == 0 {
                    fiber::sleep(Duration::from_micros(200));
                }
            }
            sender.join().unwrap();
        }
    });
}

#[test]
fn a_full_queue_and_a_sender_that_will_not_wait() {
    everywhere(|| {
        let place = Place::new();
        let _receiver = UnixDatagram::bind(&place).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_write_timeout(Some(Duration::from_millis(3))).unwrap();
        let error = (0..10_000).find_map(|_| sender.send_to(b"x", &place).err()).unwrap();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        sender.set_write_timeout(None).unwrap();
        sender.set_nonblocking(true).unwrap();
        assert_eq!(sender.send_to(b"x", &place).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn std_sockets_come_and_go() {
    everywhere(|| {
        let (left, right) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut ours = UnixStream::from(left);
        ours.write_all(b"x").unwrap();
        drop(std::os::unix::net::UnixStream::from(ours));
        let mut text = String::new();
        UnixStream::from(right).read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    });
}
