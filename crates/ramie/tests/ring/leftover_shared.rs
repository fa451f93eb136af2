//! Two strands take what an iterator over a socket has left: neither sees the other one's item go.

use std::{
    fs::File,
    io::{Read, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use ramie::{
    Runtime,
    ring::{self, SpliceFlags},
};

use crate::leftover::{left_datagrams, left_stream, received};

/// Two threads read the same stream: neither may see the other one's item go as an end.
#[test]
fn two_threads_that_read_what_is_left_see_no_end() {
    for _ in 0..200 {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (_to, from) = runtime.run(|| left_stream(true));
        std::thread::scope(|s| {
            let read = || {
                let mut buf = [0; 3];
                ring::read(&from, &mut buf, None).unwrap()
            };
            let (first, second) = (s.spawn(read), s.spawn(read));
            // Not all of its room, because a driver with faults makes reads short.
            assert!(first.join().unwrap() > 0 && second.join().unwrap() > 0);
        });
    }
}

/// While one thread splices leftover bytes, another one must not get later bytes from the kernel.
#[test]
fn a_splice_keeps_what_is_left_in_order_for_others() {
    for round in 0..200 {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (mut to, from) = runtime.run(|| left_stream(true));
        to.write_all(b"ijk").unwrap();
        let (out, into) = ring::pipe().unwrap();
        let has_begun = AtomicBool::new(false);
        let mut bytes = Vec::new();
        std::thread::scope(|s| {
            s.spawn(|| {
                has_begun.store(true, Ordering::Release);
                let flags = SpliceFlags::empty();
                for _ in 0..3 {
                    assert_eq!(ring::splice(&from, None, &into, None, 1, flags).unwrap(), 1);
                }
            });
            while !has_begun.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            // Each round looks at another moment of the other thread's calls.
            (0..round * 50).for_each(|_| std::hint::spin_loop());
            for _ in 0..6 {
                bytes.extend(received(&from, 1));
            }
        });
        assert!(bytes.is_sorted(), "{}", String::from_utf8_lossy(&bytes));
        drop(into);
        File::from(out).read_to_end(&mut bytes).unwrap();
        bytes.sort_unstable();
        assert_eq!(bytes, b"cdefghijk");
    }
}

/// One thread looks at the oldest datagram again and again, the other one takes all.
#[test]
fn a_look_at_what_is_left_hides_it_from_nobody() {
    for _ in 0..100 {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let socket = runtime.run(|| left_datagrams(true));
        let mut received = Vec::new();
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut bytes = [0; 9];
                while socket.peek_from(&mut bytes).unwrap().0 != b"the end".len() {}
            });
            for _ in 0..3 {
                let mut bytes = [0; 9];
                let count = socket.recv_from(&mut bytes).unwrap().0;
                received.push(String::from_utf8_lossy(&bytes[..count]).into_owned());
            }
            // Also if the order was wrong, because the other thread waits for it.
            socket.send_to(b"the end", socket.local_addr().unwrap()).unwrap();
        });
        assert_eq!(received, ["second", "third", "fourth"]);
    }
}
