//! Receives that hand out leased buffers: on each driver, with one worker and two, on threads.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::common;
use crate::common::{everywhere, on_each, wait_until};
use ramie::io::Lease;
use ramie::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use ramie::os::unix::net::UnixStream;
use ramie::{cancel, fiber};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = fiber::spawn(move || TcpStream::connect(address).unwrap());
    let (server, _) = listener.accept().unwrap();
    let client = client.join().unwrap();
    // Short writes would wait for acknowledgements, 40 ms each.
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    (client, server)
}

/// The byte at that place of every stream of these tests.
fn byte_at(place: usize) -> u8 {
    (place * 7 + place / 251) as u8
}

fn bytes(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(byte_at).collect()
}

#[track_caller]
fn check(received: &[u8], at: &mut usize) {
    let wrong = received.iter().enumerate().find(|(n, byte)| **byte != byte_at(*at + n));
    assert!(wrong.is_none(), "a byte from {at} on: {wrong:?}");
    *at += received.len();
}

#[test]
fn bytes_come_in_order_to_the_end() {
    everywhere(|| {
        const LEN: usize = 1 << 20;
        let (mut client, server) = pair();
        let writer = fiber::spawn(move || client.write_all(&bytes(0, LEN)).unwrap());
        let mut at = 0;
        let mut each = server.recv_each();
        for received in each.by_ref() {
            check(&received.unwrap(), &mut at);
        }
        assert_eq!(at, LEN);
        assert!(each.next().is_none(), "it is over");
        writer.join().unwrap();
    });
}

#[test]
fn messages_go_back_and_forth() {
    everywhere(|| {
        let (mut client, server) = pair();
        let echo = fiber::spawn(move || {
            let mut writer = &server;
            for received in server.recv_each() {
                writer.write_all(&received.unwrap()).unwrap();
            }
        });
        let mut back = [0; 300];
        for round in 0..100_u8 {
            client.write_all(&[round; 300]).unwrap();
            client.read_exact(&mut back).unwrap();
            assert_eq!(back, [round; 300]);
        }
        drop(client);
        echo.join().unwrap();
    });
}

#[test]
fn a_slow_reader_makes_the_peer_wait_and_gets_every_byte() {
    everywhere(|| {
        const LEN: usize = 1 << 20;
        let (mut client, server) = pair();
        let writer = fiber::spawn(move || client.write_all(&bytes(0, LEN)).unwrap());
        let mut at = 0;
        for (n, received) in server.recv_each().enumerate() {
            check(&received.unwrap(), &mut at);
            if n % 16 == 0 {
                fiber::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(at, LEN);
        writer.join().unwrap();
    });
}

#[test]
fn kept_leases_keep_their_bytes() {
    everywhere(|| {
        const LEN: usize = 2 << 20;
        let (mut client, server) = pair();
        let writer = fiber::spawn(move || client.write_all(&bytes(0, LEN)).unwrap());
        // More than the kernel is ever offered at once.
        let kept: Vec<Lease> = server.recv_each().map(Result::unwrap).collect();
        let mut at = 0;
        kept.iter().for_each(|lease| check(lease, &mut at));
        assert_eq!(at, LEN);
        writer.join().unwrap();
    });
}

#[test]
fn a_lease_can_be_split_changed_and_sent_away() {
    everywhere(|| {
        let (mut client, server) = pair();
        client.write_all(b"headbody").unwrap();
        let mut each = server.recv_each();
        let mut head = each.next().unwrap().unwrap();
        assert_eq!(head.len(), 8, "what was sent at once comes at once, over loopback");
        let mut body = head.split_off(4);
        body.make_ascii_uppercase();
        let there = std::thread::spawn(move || {
            assert_eq!(&*body, b"BODY");
            drop(body);
        });
        there.join().unwrap();
        assert_eq!(&*head, b"head");
        head.advance(2);
        head.truncate(1);
        assert_eq!(&*head, b"a");
    });
}

#[test]
fn leases_outlive_their_runtime() {
    for driver in common::drivers() {
        let runtime = ramie::Runtime::builder().driver(driver).workers(2).build().unwrap();
        let leases: Vec<Lease> = runtime.run(|| {
            let (mut client, server) = pair();
            client.write_all(&bytes(0, 100_000)).unwrap();
            drop(client);
            server.recv_each().map(Result::unwrap).collect()
        });
        drop(runtime);
        let mut at = 0;
        leases.iter().for_each(|lease| check(lease, &mut at));
        assert_eq!(at, 100_000);
        std::thread::spawn(move || drop(leases)).join().unwrap();
    }
}

#[test]
fn the_next_read_returns_bytes_that_were_not_taken() {
    everywhere(|| {
        const LEN: usize = 200_000;
        let (mut client, mut server) = pair();
        let writer = fiber::spawn(move || client.write_all(&bytes(0, LEN)).unwrap());
        let mut at = 0;
        let first = server.recv_each().next().unwrap().unwrap();
        check(&first, &mut at);
        fiber::sleep(Duration::from_millis(1));
        let mut peeked = [0; 10];
        let count = server.peek(&mut peeked).unwrap();
        check(&peeked[..count], &mut at.clone());
        let mut buffer = [0; 777];
        for _ in 0..20 {
            let count = server.read(&mut buffer).unwrap();
            check(&buffer[..count], &mut at);
        }
        let again = server.recv_each().next().unwrap().unwrap();
        check(&again, &mut at);
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).unwrap();
        check(&rest, &mut at);
        assert_eq!(at, LEN);
        writer.join().unwrap();
    });
}

#[test]
fn a_read_between_two_steps_gets_the_bytes_in_between() {
    everywhere(|| {
        const LEN: usize = 400_000;
        let (mut client, server) = pair();
        let writer = fiber::spawn(move || client.write_all(&bytes(0, LEN)).unwrap());
        let (mut at, mut buffer) = (0, [0; 999]);
        for received in server.recv_each() {
            check(&received.unwrap(), &mut at);
            let count = (&server).read(&mut buffer).unwrap();
            check(&buffer[..count], &mut at);
        }
        assert_eq!(at, LEN);
        writer.join().unwrap();
    });
}

#[test]
fn a_step_that_was_cancelled_loses_nothing() {
    everywhere(|| {
        let (mut client, server) = pair();
        let (mut at, mut sent) = (0, 0);
        let mut each = server.recv_each();
        for round in 0..30 {
            let limit = Duration::from_micros(round % 3 * 400);
            let waited = cancel::with_timeout(limit, || each.next().unwrap());
            match waited.unwrap_or_else(cancel::Elapsed::into_value) {
                Ok(received) => check(&received, &mut at),
                Err(error) => assert!(cancel::is_cancelled(&error), "{error}"),
            }
            client.write_all(&bytes(sent, 100)).unwrap();
            sent += 100;
        }
        drop(client);
        each.for_each(|received| check(&received.unwrap(), &mut at));
        assert_eq!(at, sent);
    });
}

#[test]
fn a_read_timeout_passes_and_the_iterator_goes_on() {
    everywhere(|| {
        let (mut client, server) = pair();
        server.set_read_timeout(Some(Duration::from_millis(3))).unwrap();
        let mut each = server.recv_each();
        assert_eq!(each.next().unwrap().unwrap_err().kind(), ErrorKind::WouldBlock);
        client.write_all(b"late").unwrap();
        server.set_read_timeout(None).unwrap();
        let mut late = Vec::new();
        while late.len() < 4 {
            late.extend_from_slice(&each.next().unwrap().unwrap());
        }
        assert_eq!(late, b"late");
        server.set_nonblocking(true).unwrap();
        assert_eq!(each.next().unwrap().unwrap_err().kind(), ErrorKind::WouldBlock);
        client.write_all(b"more").unwrap();
        wait_until(|| server.peek(&mut [0]).is_ok());
        assert!(b"more".starts_with(&each.next().unwrap().unwrap()));
    });
}

#[test]
fn a_forgotten_iterator_loses_no_bytes_and_keeps_no_file_open() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        client.write_all(&bytes(0, 50)).unwrap();
        let mut each = server.recv_each();
        let mut at = 0;
        check(&each.next().unwrap().unwrap(), &mut at);
        std::mem::forget(each);
        client.write_all(&bytes(50, 50)).unwrap();
        fiber::sleep(Duration::from_millis(1));
        let mut buffer = [0; 100];
        while at < 100 {
            let count = server.read(&mut buffer).unwrap();
            check(&buffer[..count], &mut at);
        }
        let mut each = server.recv_each();
        client.write_all(&bytes(100, 50)).unwrap();
        check(&each.next().unwrap().unwrap(), &mut at);
        std::mem::forget(each);
        drop(server);
        assert_eq!(client.read(&mut buffer).unwrap(), 0, "the connection is closed");
    });
}

/// The op is another thread's, which is asked to end it.
#[test]
fn a_stream_closed_on_another_thread_is_closed() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (mut client, server) = pair();
            client.write_all(&bytes(0, 50)).unwrap();
            let mut each = server.recv_each();
            each.next().unwrap().unwrap();
            std::mem::forget(each);
            std::thread::spawn(move || drop(server)).join().unwrap();
            client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            assert_eq!(client.read(&mut [0]).expect("the connection is closed"), 0);
        });
    });
}

#[test]
fn another_worker_takes_over_from_a_forgotten_iterator() {
    on_each(&[2], |runtime| {
        runtime.run(|| {
            let (mut client, server) = pair();
            client.write_all(&bytes(0, 50)).unwrap();
            let mut each = server.recv_each();
            let first = each.next().unwrap().unwrap();
            std::mem::forget(each);
            client.write_all(&bytes(50, 50)).unwrap();
            // A thread of its own is another worker for sure.
            let (sender, receiver) = ramie::sync::oneshot::channel();
            let rest = std::thread::spawn(move || {
                let mut server = server;
                let mut rest = vec![0; 100 - first.len()];
                server.read_exact(&mut rest).unwrap();
                let mut at = 0;
                check(&first, &mut at);
                check(&rest, &mut at);
                drop(server);
                sender.send(at).unwrap();
            });
            assert_eq!(receiver.recv().unwrap(), 100);
            assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
            rest.join().unwrap();
        });
    });
}

#[test]
fn two_strands_share_the_data() {
    everywhere(|| {
        const LEN: usize = 300_000;
        let (mut client, server) = pair();
        let taken = std::sync::atomic::AtomicUsize::new(0);
        fiber::scope(|s| {
            for way in 0..3 {
                let (server, taken) = (&server, &taken);
                s.spawn(move || {
                    let mut sum = 0;
                    if way == 0 {
                        let mut buffer = [0; 500];
                        loop {
                            match (&*server).read(&mut buffer).unwrap() {
                                0 => break,
                                count => sum += count,
                            }
                        }
                    } else {
                        sum = server.recv_each().map(|bytes| bytes.unwrap().len()).sum();
                    }
                    taken.fetch_add(sum, std::sync::atomic::Ordering::SeqCst);
                });
            }
            for part in 0..30 {
                client.write_all(&bytes(part, LEN / 30)).unwrap();
                fiber::yield_now();
            }
            client.shutdown(Shutdown::Write).unwrap();
        });
        assert_eq!(taken.into_inner(), LEN);
    });
}

/// Outside all scopes nothing but the op ends their waits. Here they stop one another's ops, on the
/// same worker and on another.
#[test]
fn strands_without_a_scope_share_the_connections() {
    everywhere(|| {
        const LEN: usize = 300_000;
        let (mut client, server) = pair();
        let server = std::sync::Arc::new(server);
        let takers = [0, 1, 2, 3].map(|way| {
            let server = std::sync::Arc::clone(&server);
            fiber::spawn(move || {
                let mut sum = 0;
                loop {
                    let mut buffer = [0; 500];
                    let count = match way {
                        0 => (&*server).read(&mut buffer).unwrap(),
                        // Each of them waits more than once.
                        _ => server.recv_each().take(3).map(|bytes| bytes.unwrap().len()).sum(),
                    };
                    if count == 0 {
                        return sum;
                    }
                    sum += count;
                }
            })
        });
        for part in 0..300 {
            client.write_all(&bytes(part, LEN / 300)).unwrap();
            fiber::yield_now();
        }
        client.shutdown(Shutdown::Write).unwrap();
        let taken: usize = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
        assert_eq!(taken, LEN);
    });
}

#[test]
fn a_reset_is_an_error_and_then_the_end() {
    everywhere(|| {
        let (client, server) = pair();
        // Bytes that were not read make the close a reset.
        (&server).write_all(b"unread").unwrap();
        wait_until(|| client.peek(&mut [0; 6]).is_ok_and(|count| count == 6));
        drop(client);
        let mut each = server.recv_each();
        assert_eq!(each.next().unwrap().unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert!(each.next().is_none());
        let not_connected = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::from(OwnedFd::from(not_connected));
        let error = stream.recv_each().next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotConnected);
    });
}

#[test]
fn unix_streams_do_the_same() {
    everywhere(|| {
        let (mut left, right) = UnixStream::pair().unwrap();
        let writer = fiber::spawn(move || left.write_all(&bytes(0, 500_000)).unwrap());
        let mut at = 0;
        right.recv_each().for_each(|received| check(&received.unwrap(), &mut at));
        assert_eq!(at, 500_000);
        writer.join().unwrap();
    });
}

/// Older kernels miss it, where one receive is done again and again.
#[test]
fn an_end_right_behind_the_bytes_of_a_unix_stream_is_seen() {
    everywhere(|| {
        for round in 0..200 {
            let (mut left, right) = std::os::unix::net::UnixStream::pair().unwrap();
            let writer = std::thread::spawn(move || left.write_all(&bytes(round, 123)).unwrap());
            let mut at = 0;
            let right = UnixStream::from(OwnedFd::from(right));
            right.recv_each().for_each(|received| at += received.unwrap().len());
            assert_eq!(at, 123);
            writer.join().unwrap();
        }
    });
}

#[test]
fn datagrams_come_whole_with_their_senders() {
    everywhere(|| {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = receiver.local_addr().unwrap();
        let senders = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut each = receiver.recv_from_each();
        for round in 0..20 {
            for (n, sender) in senders.iter().enumerate() {
                let len = [0, 1, 1400, 65_000][(round + n) % 4];
                sender.send_to(&bytes(round, len), to).unwrap();
                let (datagram, from) = each.next().unwrap().unwrap();
                assert_eq!((&*datagram, from), (&*bytes(round, len), sender.local_addr().unwrap()));
            }
        }
        // Leftover data is there for a plain receive.
        std::mem::forget(each);
        let mut buffer = [0; 8];
        for sender in &senders {
            sender.send_to(b"hello", to).unwrap();
            fiber::sleep(Duration::from_millis(1));
            let (count, from) = receiver.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..count], from), (&b"hello"[..], sender.local_addr().unwrap()));
        }
    });
}

#[test]
fn a_fiber_that_is_given_up_takes_no_buffer_along() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (mut client, server) = pair();
            fiber::spawn(move || for _ in server.recv_each() {});
            client.write_all(b"x").unwrap();
            fiber::yield_now();
            drop(client);
        });
    });
}

/// Each of these takes another way: no op that completes again and again, no buffers that the
/// kernel picks, such as it does not fill part by part.
#[test]
fn older_kernels_give_the_same_results() {
    if common::is_child() {
        bytes_come_in_order_to_the_end();
        kept_leases_keep_their_bytes();
        the_next_read_returns_bytes_that_were_not_taken();
        a_step_that_was_cancelled_loses_nothing();
        a_forgotten_iterator_loses_no_bytes_and_keeps_no_file_open();
        return datagrams_come_whole_with_their_senders();
    }
    for caps in ["-bufring_inc", "-bufring", "-multishot", "linux-6.1", "linux-5.15"] {
        let test = "older_kernels_give_the_same_results";
        common::assert_success(&common::child_with("true", test, &[("RAMIE_CAPS", caps)]));
    }
}
