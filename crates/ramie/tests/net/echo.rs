//! TCP on both drivers, on fibers and on plain threads.

use std::io::{self, BufWriter, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::time::Duration;

use crate::common;
use ramie::net::{Shutdown, TcpListener, TcpStream};
use ramie::{Runtime, fiber};

/// Runs `f` on each driver, with one worker and with two, and on a plain thread.
fn everywhere(f: impl Fn() + Send + Sync) {
    for driver in common::drivers() {
        for workers in [1, 2] {
            let runtime = Runtime::builder().driver(driver).workers(workers).build();
            runtime.expect("this machine has the driver").run(&f);
        }
    }
    std::thread::scope(|s| s.spawn(&f).join().expect("the plain thread's run"));
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = fiber::spawn(move || TcpStream::connect(address).unwrap());
    let (server, _) = listener.accept().unwrap();
    (client.join().unwrap(), server)
}

#[test]
fn bytes_come_back() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let echo = fiber::spawn(move || {
            let mut buffer = [0; 1000];
            loop {
                match server.read(&mut buffer).unwrap() {
                    0 => return,
                    count => server.write_all(&buffer[..count]).unwrap(),
                }
            }
        });
        for round in 0..20_u8 {
            client.write_all(&[round; 64]).unwrap();
            let mut back = [0; 64];
            client.read_exact(&mut back).unwrap();
            assert_eq!(back, [round; 64]);
        }
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        echo.join().unwrap();
    });
}

#[test]
fn a_large_write_waits_for_its_slow_reader() {
    everywhere(|| {
        const BYTES: usize = 4 << 20;
        let (mut client, mut server) = pair();
        let writer = fiber::spawn(move || {
            let data: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
            client.write_all(&data).unwrap();
        });
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        writer.join().unwrap();
        assert_eq!(received.len(), BYTES);
        assert!(received.iter().enumerate().all(|(n, byte)| *byte == (n % 251) as u8));
    });
}

#[test]
fn a_read_timeout_says_would_block_and_loses_nothing() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        server.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let clone = server.try_clone().unwrap();
        assert_eq!(clone.read_timeout().unwrap(), Some(Duration::from_millis(5)));
        let mut buffer = [0; 4];
        assert_eq!(server.read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        server.set_read_timeout(None).unwrap();
        assert_eq!(clone.read_timeout().unwrap(), None);
        client.write_all(b"late").unwrap();
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"late");
        let zero = server.set_read_timeout(Some(Duration::ZERO)).unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_write_timeout_ends_a_write_that_nobody_reads() {
    everywhere(|| {
        let (mut client, _server) = pair();
        client.set_write_timeout(Some(Duration::from_millis(5))).unwrap();
        let data = vec![7; 1 << 20];
        let error = loop {
            if let Err(error) = client.write(&data) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn peek_takes_nothing() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        client.write_all(b"see").unwrap();
        let mut buffer = [0; 3];
        assert_eq!(server.peek(&mut buffer).unwrap(), 3);
        buffer.fill(0);
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"see");
    });
}

#[test]
fn vectored_calls_gather_and_scatter() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let parts = [IoSlice::new(b"one"), IoSlice::new(b""), IoSlice::new(b"two")];
        assert_eq!(client.write_vectored(&parts).unwrap(), 6);
        let (mut left, mut right) = ([0; 4], [0; 2]);
        let mut buffers = [IoSliceMut::new(&mut left), IoSliceMut::new(&mut right)];
        assert_eq!(server.read_vectored(&mut buffers).unwrap(), 6);
        assert_eq!((&left, &right), (b"onet", b"wo"));
    });
}

#[test]
fn two_fibers_share_one_stream_by_reference() {
    everywhere(|| {
        let (client, mut server) = pair();
        fiber::scope(|s| {
            s.spawn(|| (&client).write_all(b"ping").unwrap());
            s.spawn(|| {
                let mut buffer = [0; 4];
                (&client).read_exact(&mut buffer).unwrap();
                assert_eq!(&buffer, b"pong");
            });
            let mut buffer = [0; 4];
            server.read_exact(&mut buffer).unwrap();
            server.write_all(b"pong").unwrap();
        });
    });
}

#[test]
fn shutting_down_ends_a_read_that_waits() {
    everywhere(|| {
        let (_client, server) = pair();
        let other = server.try_clone().unwrap();
        let reader = fiber::spawn(move || (&server).read(&mut [0; 1]).unwrap());
        fiber::yield_now();
        other.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn the_port_is_free_again_at_once() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _connection = TcpStream::connect(address).unwrap();
        let in_use = TcpListener::bind(address).unwrap_err();
        assert_eq!(in_use.kind(), ErrorKind::AddrInUse);
        drop(listener);
        TcpListener::bind(address).unwrap();
    });
}

#[test]
fn nonblocking_is_emulated_and_shared() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let mut clone = server.try_clone().unwrap();
        assert_eq!(clone.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
        clone.set_nonblocking(false).unwrap();
        client.write_all(b"x").unwrap();
        assert_eq!(server.read(&mut [0; 1]).unwrap(), 1);
    });
}

#[test]
fn names_and_lists_resolve() {
    everywhere(|| {
        let listener = TcpListener::bind("localhost:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect(("localhost", port)).unwrap();
        let none: &[std::net::SocketAddr] = &[];
        assert_eq!(TcpStream::connect(none).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn streams_go_to_std_and_back() {
    everywhere(|| {
        let (client, server) = pair();
        client.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let mut client = std::net::TcpStream::from(client);
        assert_eq!(client.read_timeout().unwrap(), Some(Duration::from_secs(3)));
        client.write_all(b"std").unwrap();
        let mut buffer = [0; 3];
        TcpStream::from(std::net::TcpStream::from(server)).read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"std");
        let back = TcpStream::from(client);
        assert_eq!(back.read_timeout().unwrap(), Some(Duration::from_secs(3)));
    });
}

/// The same mistake through std and through the twin has the same kind and errno.
#[test]
fn mistakes_are_reported_as_by_std() {
    fn same<A, B>(theirs: io::Result<A>, ours: io::Result<B>) {
        let theirs = theirs.err().expect("std refuses it, too");
        let ours = ours.err().expect("what std refuses");
        assert_eq!(ours.kind(), theirs.kind(), "{ours} / {theirs}");
        assert_eq!(ours.raw_os_error(), theirs.raw_os_error());
    }
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    everywhere(|| {
        same(std::net::TcpStream::connect(closed), TcpStream::connect(closed));
        same(std::net::TcpListener::bind("192.0.2.1:1"), TcpListener::bind("192.0.2.1:1"));
        for text in ["no port", "127.0.0.1", "127.0.0.1:99999"] {
            same(std::net::TcpStream::connect(text), TcpStream::connect(text));
        }
        let zero = Duration::ZERO;
        same(
            std::net::TcpStream::connect_timeout(&closed, zero),
            TcpStream::connect_timeout(&closed, zero),
        );
    });
}

#[test]
fn a_buffered_writer_flushes_while_its_fiber_unwinds() {
    for driver in common::drivers() {
        let runtime = Runtime::builder().driver(driver).workers(1).build().unwrap();
        runtime.run(|| {
            let (client, mut server) = pair();
            let failing = fiber::spawn(move || {
                let mut writer = BufWriter::new(client);
                writer.write_all(b"last words").unwrap();
                panic!("on purpose");
            });
            assert!(failing.join().is_err());
            let mut text = String::new();
            server.read_to_string(&mut text).unwrap();
            assert_eq!(text, "last words");
        });
    }
}

#[test]
fn an_accept_abandoned_at_the_end_gives_its_port_back() {
    for driver in common::drivers() {
        let builder = Runtime::builder().driver(driver).workers(1);
        let runtime = builder.grace(Duration::from_millis(1)).build().unwrap();
        runtime.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            fiber::spawn(move || listener.accept().map(drop));
            fiber::yield_now();
        });
    }
}

#[test]
fn two_nonblocking_accepts_of_one_connection_both_return() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let clone = listener.try_clone().unwrap();
        let accept = |listener: TcpListener| move || listener.accept().map(drop);
        let both = [fiber::spawn(accept(listener)), fiber::spawn(accept(clone))];
        let mut results = both.map(|accept| accept.join().unwrap().map_err(|e| e.kind()));
        results.sort_by_key(Result::is_err);
        assert_eq!(results, [Ok(()), Err(ErrorKind::WouldBlock)]);
    });
}

#[test]
fn incoming_yields_one_connection_after_another() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients = fiber::spawn(move || {
            for number in 0..10_u8 {
                TcpStream::connect(address).unwrap().write_all(&[number]).unwrap();
            }
        });
        for (number, stream) in (0..10_u8).zip(listener.incoming()) {
            let mut byte = [0];
            stream.unwrap().read_exact(&mut byte).unwrap();
            assert_eq!(byte, [number]);
        }
        clients.join().unwrap();
    });
}

#[test]
fn data_that_comes_in_time_beats_the_timeout() {
    everywhere(|| {
        let (mut client, server) = pair();
        server.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let reader = fiber::spawn(move || {
            let mut buffer = [0; 2];
            assert_eq!(server.peek(&mut buffer[..1]).unwrap(), 1);
            (&server).read_exact(&mut buffer).unwrap();
            buffer
        });
        fiber::yield_now();
        client.write_all(b"in").unwrap();
        assert_eq!(&reader.join().unwrap(), b"in");
    });
}

/// Each read either times out or takes a byte: however the two race, none is lost or doubled.
#[test]
fn timeouts_that_race_with_data_lose_nothing() {
    everywhere(|| {
        const BYTES: u8 = 100;
        let (client, mut server) = pair();
        server.set_read_timeout(Some(Duration::from_micros(50))).unwrap();
        let writer = fiber::spawn(move || {
            for byte in 0..BYTES {
                // A wait as long as the reader's, so that byte and timeout meet.
                client.set_read_timeout(Some(Duration::from_micros(50))).unwrap();
                assert!((&client).read(&mut [0; 1]).is_err());
                (&client).write_all(&[byte]).unwrap();
            }
            client
        });
        let mut received: Vec<u8> = Vec::new();
        while received.len() < usize::from(BYTES) {
            let mut byte = [0];
            match server.read(&mut byte) {
                Ok(count) => received.extend(&byte[..count]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        assert_eq!(received, (0..BYTES).collect::<Vec<_>>());
        writer.join().unwrap();
    });
}

/// A clone keeps the connection open while its number goes to another connection.
#[test]
fn a_descriptors_number_used_again_is_another_connection() {
    everywhere(|| {
        for _ in 0..20 {
            let (mut first_peer, first) = pair();
            let clone = first.try_clone().unwrap();
            let reader = fiber::spawn(move || {
                (&first).read_exact(&mut [0; 1]).unwrap();
                // Closed here, by the strand that waited on it.
                drop(first);
            });
            fiber::yield_now();
            first_peer.write_all(b"1").unwrap();
            reader.join().unwrap();

            let (mut second_peer, second) = pair();
            let reader = fiber::spawn(move || {
                let mut byte = [0];
                (&second).read_exact(&mut byte).unwrap();
                byte
            });
            first_peer.write_all(b"x").unwrap();
            second_peer.write_all(b"2").unwrap();
            assert_eq!(&reader.join().unwrap(), b"2");
            let mut byte = [0];
            (&clone).read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"x");
        }
    });
}

#[test]
fn hundreds_of_connections_are_served_at_once() {
    for driver in common::drivers() {
        for workers in [1, 2] {
            let runtime = Runtime::builder().driver(driver).workers(workers).build().unwrap();
            runtime.run(|| serve_at_once(300));
        }
    }
}

/// Every client is connected before the first one is answered.
fn serve_at_once(count: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    fiber::scope(|s| {
        let clients: Vec<_> = (0..count)
            .map(|number| {
                s.spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.write_all(&number.to_le_bytes()).unwrap();
                    let mut back = [0; size_of::<usize>()];
                    stream.read_exact(&mut back).unwrap();
                    assert_eq!(usize::from_le_bytes(back), number);
                })
            })
            .collect();
        let streams: Vec<_> = listener.incoming().take(count).map(Result::unwrap).collect();
        for mut stream in streams {
            s.spawn(move || {
                let mut number = [0; size_of::<usize>()];
                stream.read_exact(&mut number).unwrap();
                stream.write_all(&number).unwrap();
            });
        }
        for client in clients {
            client.join().unwrap();
        }
    });
}

/// While another fiber yields without end, a socket that is ready is seen within 64 switches.
#[test]
fn a_ready_socket_is_seen_within_64_switches() {
    for driver in common::drivers() {
        let runtime = Runtime::builder().driver(driver).workers(1).build().unwrap();
        runtime.run(|| {
            let (client, mut server) = pair();
            let mut client = std::net::TcpStream::from(client);
            for round in 0..20_u8 {
                let (mine, seen) = (std::rc::Rc::new(std::cell::Cell::new(false)), round);
                let theirs = std::rc::Rc::clone(&mine);
                let mut stream = server.try_clone().unwrap();
                let reader = fiber::spawn_local(move || {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    theirs.set(true);
                    byte[0]
                });
                // The reader is parked, and its op in the kernel, after as many switches.
                (0..64).for_each(|_| fiber::yield_now());
                client.write_all(&[seen]).unwrap();
                let mut switches = 0;
                while !mine.get() {
                    fiber::yield_now();
                    switches += 1;
                    assert!(switches <= 64, "{driver:?}: not seen after {switches} switches");
                }
                assert_eq!(reader.join().unwrap(), seen);
            }
            server.write_all(b"!").unwrap();
        });
    }
}
