//! Receives into the runtime's own buffers: on each driver, on a plain thread, and as on older
//! kernels.

use std::{
    io::{ErrorKind, Write},
    os::unix::net::UnixStream as Plain,
    time::Duration,
};

use crate::common::{Random, assert_success, child_with, everywhere, is_child, tcp_pair};
use ramie::{
    cancel::{Elapsed, is_cancelled, with_timeout},
    fiber,
    io::Lease,
    os::unix::net::UnixStream,
    ring,
};

/// The byte at a position of every stream here, so that lost, duplicated and moved bytes are found.
fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// Checks and counts the received bytes; returns whether this was the end.
#[track_caller]
fn take(leases: &[Lease], received: &mut usize) -> bool {
    for lease in leases {
        let wrong = lease.iter().zip(*received..).find(|(found, at)| **found != byte(*at));
        assert_eq!(wrong, None, "in a lease of {} bytes", lease.len());
        *received += lease.len();
    }
    leases.is_empty()
}

/// Writes a stream in pieces of any size, up to 100 KB.
fn write_in_pieces(to: &mut impl Write, bytes: usize, random: &mut Random) {
    let all: Vec<u8> = (0..bytes).map(byte).collect();
    let mut left = &all[..];
    while !left.is_empty() {
        let most = if random.below(3) == 0 { 100_000 } else { 3_000 };
        let (piece, rest) = left.split_at(1 + random.below(most.min(left.len() as u64)) as usize);
        to.write_all(piece).unwrap();
        fiber::yield_now();
        left = rest;
    }
}

#[test]
fn bytes_come_in_order_to_the_end() {
    let seed = Random::new("bundles").below(u64::MAX);
    everywhere(|| {
        let (from, mut to) = UnixStream::pair().unwrap();
        fiber::scope(|s| {
            s.spawn(move || write_in_pieces(&mut to, 600_000, &mut Random::from_seed(seed)));
            let mut received = 0;
            while !take(&ring::recv_bundle(&from).unwrap(), &mut received) {}
            assert_eq!(received, 600_000);
            assert!(ring::recv_bundle(&from).unwrap().is_empty(), "the end stays");
        });
    });
}

#[test]
fn available_data_comes_in_few_calls() {
    everywhere(|| {
        let (from, mut to) = Plain::pair().unwrap();
        to.write_all(&(0..100_000).map(byte).collect::<Vec<u8>>()).unwrap();
        let (mut received, mut calls) = (0, 0);
        while received < 100_000 {
            assert!(!take(&ring::recv_bundle(&from).unwrap(), &mut received));
            calls += 1;
        }
        assert!(calls <= 8, "{calls} calls");
    });
}

/// A peer that closes the connection before it has read all bytes resets it, after the bytes that
/// it has sent.
#[test]
fn an_error_behind_the_bytes_is_no_end() {
    everywhere(|| {
        let (from, mut to) = Plain::pair().unwrap();
        (&from).write_all(b"never read").unwrap();
        to.write_all(&[byte(0), byte(1)]).unwrap();
        drop(to);
        let mut received = 0;
        assert!(!take(&ring::recv_bundle(&from).unwrap(), &mut received));
        let error = ring::recv_bundle(&from).unwrap_err();
        assert_eq!((received, error.kind()), (2, ErrorKind::ConnectionReset));
    });
}

/// Every byte is received, whenever the call is cancelled.
#[test]
fn cancelled_between_two_chunks_of_a_bundle() {
    let seed = Random::new("bundles").below(u64::MAX);
    everywhere(|| {
        let (from, mut to) = UnixStream::pair().unwrap();
        fiber::scope(|s| {
            s.spawn(move || {
                let mut random = Random::from_seed(seed);
                let all: Vec<u8> = (0..500_000).map(byte).collect();
                for piece in all.chunks(40_000) {
                    to.write_all(piece).unwrap();
                    fiber::sleep(Duration::from_micros(random.below(600)));
                }
            });
            let (mut received, mut cancelled) = (0, 0);
            loop {
                let limit = Duration::from_micros(300);
                let taken = with_timeout(limit, || ring::recv_bundle(&from));
                match taken.unwrap_or_else(Elapsed::into_value) {
                    Ok(leases) if take(&leases, &mut received) => break,
                    Ok(_) => {}
                    Err(error) => {
                        assert!(is_cancelled(&error), "{error}");
                        cancelled += 1;
                    }
                }
            }
            assert_eq!(received, 500_000, "{cancelled} calls were cancelled");
        });
    });
}

#[test]
fn kept_leases_keep_their_bytes() {
    everywhere(|| {
        let (from, mut to) = UnixStream::pair().unwrap();
        fiber::scope(|s| {
            s.spawn(move || {
                write_in_pieces(&mut to, 1_000_000, &mut Random::from_seed(7));
            });
            let mut kept = Vec::new();
            loop {
                let leases = ring::recv_bundle(&from).unwrap();
                if leases.is_empty() {
                    break;
                }
                kept.extend(leases);
            }
            let mut received = 0;
            take(&kept, &mut received);
            assert_eq!(received, 1_000_000);
        });
    });
}

#[test]
fn older_kernels_give_the_same_results() {
    if is_child() {
        bytes_come_in_order_to_the_end();
        available_data_comes_in_few_calls();
        cancelled_between_two_chunks_of_a_bundle();
        return kept_leases_keep_their_bytes();
    }
    for caps in ["-bundle", "-bufring_inc", "-bufring", "linux-6.1", "linux-5.15"] {
        assert_success(&child_with(
            "true",
            "older_kernels_give_the_same_results",
            &[("RAMIE_CAPS", caps)],
        ));
    }
}

/// A forgotten iterator leaves its op behind, and a dropped one its received bytes. A bundle
/// continues there, by any descriptor of the socket and on any worker.
#[test]
fn leftover_bytes_of_an_iterator_come_first() {
    const LIMIT: Duration = Duration::from_secs(20);
    everywhere(|| {
        for is_forgotten in [true, false] {
            for is_elsewhere in [false, true] {
                let (mut to, from) = tcp_pair();
                let all: Vec<u8> = (0..3_000).map(byte).collect();
                to.write_all(&all[..1_000]).unwrap();
                let mut received = 0;
                let mut iterator = from.recv_each();
                take(&[iterator.next().unwrap().unwrap()], &mut received);
                // The op, if there is one, has these.
                to.write_all(&all[1_000..2_000]).unwrap();
                fiber::sleep(Duration::from_millis(2));
                match is_forgotten {
                    true => std::mem::forget(iterator),
                    false => drop(iterator),
                }
                to.write_all(&all[2_000..]).unwrap();
                drop(to);
                let duplicate = from.try_clone().unwrap();
                let mut rest = move || {
                    with_timeout(LIMIT, || {
                        while !take(&ring::recv_bundle(&duplicate).unwrap(), &mut received) {}
                        received
                    })
                };
                let received = match is_elsewhere {
                    true => fiber::spawn(rest).join().unwrap(),
                    false => rest(),
                };
                assert_eq!(received.expect("it waits for bytes that came early"), 3_000);
            }
        }
    });
}
