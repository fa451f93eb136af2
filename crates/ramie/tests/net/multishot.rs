//! Multishot ops besides receives: accepting, watching; and sends that do not copy.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net as unix;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common;
use crate::common::{
    assert_success, child_with, descriptors, everywhere, is_child, on_each, wait_until,
};
use ramie::cancel::{self, Elapsed};
use ramie::fiber;
use ramie::io::Async;
use ramie::net::{TcpListener, TcpStream};
use ramie::os::unix::net::{UnixListener, UnixStream};

fn listener() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn every_connection_is_accepted_once() {
    everywhere(|| {
        const COUNT: usize = 150;
        let (listener, address) = listener();
        let clients = fiber::spawn(move || {
            let mut clients = Vec::new();
            for n in 0..COUNT as u32 {
                let mut client = TcpStream::connect(address).unwrap();
                client.write_all(&n.to_ne_bytes()).unwrap();
                clients.push(client);
            }
            clients
        });
        let mut seen = [false; COUNT];
        for stream in listener.incoming().take(COUNT) {
            let mut number = [0; 4];
            stream.unwrap().read_exact(&mut number).unwrap();
            let number = u32::from_ne_bytes(number) as usize;
            assert!(!std::mem::replace(&mut seen[number], true), "{number} came twice");
        }
        assert!(seen.iter().all(|seen| *seen));
        drop(clients.join().unwrap());
    });
}

#[test]
fn several_strands_share_a_listener() {
    everywhere(|| {
        const COUNT: usize = 60;
        let (listener, address) = listener();
        let accepted = AtomicUsize::new(0);
        fiber::scope(|s| {
            for way in 0..4 {
                let (listener, accepted) = (&listener, &accepted);
                s.spawn(move || {
                    let mut incoming = listener.incoming();
                    loop {
                        let mut stream = match way {
                            0 => listener.accept().unwrap().0,
                            _ => incoming.next().unwrap().unwrap(),
                        };
                        let mut byte = [0];
                        stream.read_exact(&mut byte).unwrap();
                        match byte {
                            [0] => return,
                            _ => accepted.fetch_add(1, Ordering::SeqCst),
                        };
                    }
                });
            }
            let send = |byte: u8| TcpStream::connect(address).unwrap().write_all(&[byte]).unwrap();
            (0..COUNT).for_each(|_| send(1));
            wait_until(|| accepted.load(Ordering::SeqCst) == COUNT);
            (0..4).for_each(|_| send(0));
        });
        assert_eq!(accepted.into_inner(), COUNT);
    });
}

#[test]
fn connections_that_came_early_belong_to_the_listener() {
    everywhere(|| {
        let (listener, address) = listener();
        let connect = || TcpStream::connect(address).unwrap();
        let first = connect();
        let mut incoming = listener.incoming();
        let accepted = incoming.next().unwrap().unwrap();
        assert_eq!(accepted.peer_addr().unwrap(), first.local_addr().unwrap());
        let mut clients = [(); 3].map(|()| connect());
        fiber::sleep(Duration::from_millis(2));
        // Whether it is dropped or forgotten, its connections are accepted next, in order.
        std::mem::forget(incoming);
        let (second, peer) = listener.accept().unwrap();
        assert_eq!(peer, clients[0].local_addr().unwrap());
        assert_eq!(second.peer_addr().unwrap(), peer);
        let third = listener.incoming().next().unwrap().unwrap();
        assert_eq!(third.peer_addr().unwrap(), clients[1].local_addr().unwrap());
        drop(listener);
        assert!(clients[2].read(&mut [0]).map_or(true, |count| count == 0), "closed or reset");
        TcpListener::bind(address).expect("the port is free at once");
    });
}

#[test]
fn a_cancelled_step_accepts_none_and_the_next_goes_on() {
    everywhere(|| {
        let (listener, address) = listener();
        let mut incoming = listener.incoming();
        for _ in 0..3 {
            let waited =
                cancel::with_timeout(Duration::from_millis(1), || incoming.next().unwrap());
            let error = waited.unwrap_err().into_value().unwrap_err();
            assert!(cancel::is_cancelled(&error), "{error}");
        }
        let client = TcpStream::connect(address).unwrap();
        let accepted = incoming.next().unwrap().unwrap();
        assert_eq!(accepted.peer_addr().unwrap(), client.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        let error = incoming.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn unix_listeners_do_the_same() {
    everywhere(|| {
        use std::os::linux::net::SocketAddrExt;
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ramie-multishot-{}-{nth}", std::process::id());
        let address = unix::SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let mut incoming = listener.incoming();
        for _ in 0..10 {
            let mut client = UnixStream::connect_addr(&address).unwrap();
            client.write_all(b"hi").unwrap();
            let mut server = incoming.next().unwrap().unwrap();
            server.read_exact(&mut [0; 2]).unwrap();
        }
        let early = UnixStream::connect_addr(&address).unwrap();
        fiber::sleep(Duration::from_millis(1));
        std::mem::forget(incoming);
        drop(early);
        assert!(listener.accept().unwrap().1.is_unnamed());
    });
}

/// Out of descriptors is an error of one step; the connection stays in the queue.
#[test]
fn a_lack_of_descriptors_is_reported_and_passes() {
    if !is_child() {
        for driver in common::driver_names() {
            let test = "a_lack_of_descriptors_is_reported_and_passes";
            assert_success(&child_with("ulimit -n 64", test, &[("RAMIE_DRIVER", driver)]));
        }
        return;
    }
    ramie::run(|| {
        let (listener, address) = listener();
        let client = TcpStream::connect(address).unwrap();
        let mut hoard: Vec<OwnedFd> = Vec::new();
        while let Ok(fd) = client.as_fd().try_clone_to_owned() {
            hoard.push(fd);
        }
        let mut incoming = listener.incoming();
        let error = incoming.next().unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
        hoard.truncate(hoard.len() - 4);
        let stream = incoming.next().unwrap().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
    });
}

#[test]
fn readiness_is_reported_again_and_again() {
    everywhere(|| {
        let (left, mut right) = unix::UnixStream::pair().unwrap();
        left.set_nonblocking(true).unwrap();
        let left = Async::from_fd(left).unwrap();
        let writer = fiber::spawn(move || {
            for _ in 0..50 {
                right.write_all(&[7; 100]).unwrap();
                fiber::yield_now();
            }
        });
        let (mut sum, mut buffer) = (0, [0; 64]);
        'all: for ready in left.readable_each() {
            ready.unwrap();
            loop {
                match left.get_ref().read(&mut buffer) {
                    Ok(0) => break 'all,
                    Ok(count) => sum += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert_eq!(sum, 5000);
        writer.join().unwrap();
    });
}

#[test]
fn a_watch_can_be_cancelled_and_forgotten() {
    everywhere(|| {
        let (left, right) = unix::UnixStream::pair().unwrap();
        let left = Async::from_fd(left).unwrap();
        let mut each = left.readable_each();
        let waited = cancel::with_timeout(Duration::from_millis(1), || each.next().unwrap());
        assert!(cancel::is_cancelled(&waited.unwrap_err().into_value().unwrap_err()));
        (&right).write_all(b"x").unwrap();
        each.next().unwrap().unwrap();
        left.writable_each().next().unwrap().unwrap();
        std::mem::forget(each);
        drop(left);
        // The watch kept the file for no longer: the other end sees it closed.
        right.set_nonblocking(true).unwrap();
        let answer = (&right).read(&mut [0]);
        assert!(!matches!(&answer, Err(error) if error.kind() == ErrorKind::WouldBlock));
    });
}

#[test]
fn sends_that_do_not_copy_arrive_whole() {
    everywhere(|| {
        let (listener, address) = listener();
        let client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let data: Vec<u8> = (0..700_000_usize).map(|n| (n % 253) as u8).collect();
        let expected = data.clone();
        let reader = fiber::spawn(move || {
            let mut all = Vec::new();
            server.read_to_end(&mut all).unwrap();
            all
        });
        let mut sent = client.send_zero_copy(&data[..10]).unwrap();
        // Each send has enough bytes not to be copied, and leaves some for the next.
        for is_vectored in [true, false].into_iter().cycle() {
            let rest = &data[sent..data.len().min(sent + 200_000)];
            let (head, tail) = rest.split_at(rest.len() / 3);
            sent += if is_vectored {
                let parts = [IoSlice::new(head), IoSlice::new(&[]), IoSlice::new(tail)];
                client.send_vectored_zero_copy(&parts).unwrap()
            } else {
                client.send_zero_copy(rest).unwrap()
            };
            if sent == data.len() {
                break;
            }
        }
        assert_eq!(client.send_zero_copy(&[]).unwrap(), 0);
        drop(client);
        assert_eq!(reader.join().unwrap(), expected);
    });
}

/// Takes bytes whenever no send comes back for a second, and counts them. A send that has found a
/// little room is not cancelled any more: it waits until its bytes are taken, however long.
fn take_for_whoever_hangs(from: &TcpStream) -> (mpsc::Sender<()>, thread::JoinHandle<usize>) {
    let mut from = std::net::TcpStream::from(from.as_fd().try_clone_to_owned().unwrap());
    let (is_back, comes_back) = mpsc::channel();
    let taker = thread::spawn(move || {
        let (mut taken, mut bytes) = (0, vec![0; 1 << 20]);
        loop {
            match comes_back.recv_timeout(Duration::from_secs(1)) {
                Ok(()) => {}
                // Nobody else takes any, so there are some.
                Err(mpsc::RecvTimeoutError::Timeout) => taken += from.read(&mut bytes).unwrap(),
                Err(mpsc::RecvTimeoutError::Disconnected) => return taken,
            }
        }
    });
    (is_back, taker)
}

#[test]
fn a_send_that_does_not_copy_can_be_cancelled() {
    everywhere(|| {
        let (listener, address) = listener();
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        let data = vec![1; 1 << 20];
        // Nobody reads, so that soon there is no room.
        let fill = || {
            client.set_nonblocking(true).unwrap();
            let filled: usize = std::iter::from_fn(|| (&client).write(&data).ok()).sum();
            client.set_nonblocking(false).unwrap();
            filled
        };
        let limit = Duration::from_millis(5);
        let mut sent = 0;
        let (is_back, taken) = take_for_whoever_hangs(&server);
        // The kernel may find some more room meanwhile.
        let mut until_error = |send: &dyn Fn() -> io::Result<usize>| loop {
            sent += fill();
            let result = send();
            is_back.send(()).unwrap();
            match result {
                Ok(count) => sent += count,
                Err(error) => return error,
            }
        };
        let error = until_error(&|| {
            let waited = cancel::with_timeout(limit, || client.send_zero_copy(&data));
            waited.unwrap_or_else(Elapsed::into_value)
        });
        assert!(cancel::is_cancelled(&error), "{error}");
        client.set_write_timeout(Some(limit)).unwrap();
        let error = until_error(&|| client.send_zero_copy(&data));
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        drop(is_back);
        let taken = taken.join().unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let received: usize = server.recv_each().map(|bytes| bytes.unwrap().len()).sum();
        assert_eq!(received + taken, sent);
        drop(server);
        let error = loop {
            if let Err(error) = client.send_zero_copy(&data) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

/// The kernel has the bytes until the peer takes them, which it never does.
#[test]
fn a_send_that_does_not_copy_is_given_up_with_its_fiber() {
    for driver in common::drivers() {
        let grace = Duration::from_millis(50);
        let runtime = ramie::Runtime::builder().driver(driver).workers(1).grace(grace);
        let kept = runtime.build().unwrap().run(|| {
            let (listener, address) = listener();
            let client = TcpStream::connect(address).unwrap();
            let (server, _) = listener.accept().unwrap();
            fiber::spawn(move || {
                let data = vec![1; 4 << 20];
                while client.send_zero_copy(&data).is_ok() {}
            });
            fiber::sleep(Duration::from_millis(10));
            OwnedFd::from(server)
        });
        drop(kept);
    }
}

#[test]
fn nothing_is_left_open() {
    if !is_child() {
        let test = "nothing_is_left_open";
        for driver in common::driver_names() {
            assert_success(&child_with("true", test, &[("RAMIE_DRIVER", driver)]));
        }
        return;
    }
    on_each(&[1], |runtime| runtime.run(|| drop(listener())));
    let before = descriptors();
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let (listener, address) = listener();
            let mut incoming = listener.incoming();
            let clients = [(); 20].map(|()| TcpStream::connect(address).unwrap());
            let accepted: Vec<_> = incoming.by_ref().take(5).map(Result::unwrap).collect();
            std::mem::forget(accepted[0].recv_each());
            let mut each = accepted[1].recv_each();
            let _ = cancel::with_timeout(Duration::from_millis(1), || each.next().is_some());
            std::mem::forget(each);
            std::mem::forget(incoming);
            drop(clients);
        });
    });
    assert_eq!(descriptors(), before);
}

#[test]
fn older_kernels_give_the_same_results() {
    if is_child() {
        every_connection_is_accepted_once();
        several_strands_share_a_listener();
        connections_that_came_early_belong_to_the_listener();
        readiness_is_reported_again_and_again();
        return sends_that_do_not_copy_arrive_whole();
    }
    for caps in ["-multishot", "-zerocopy", "linux-6.6", "linux-6.1", "linux-5.15"] {
        let test = "older_kernels_give_the_same_results";
        assert_success(&child_with("true", test, &[("RAMIE_CAPS", caps)]));
    }
}
