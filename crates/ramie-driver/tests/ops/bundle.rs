//! Receives into the ring's own buffers, several by one op.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::support::{self, finish, submit};
use ramie_driver::{
    Choice, Config, Driver, Feature, FeatureSet, Lease, Op, OpFrame, Profile, Wait,
};

/// Runs `test` with each ring that picks buffers, with whether it picks several at a time.
fn rings(test: impl Fn(&mut Driver, bool)) {
    if !support::has_ring() {
        return;
    }
    let without = |feature| FeatureSet::EMPTY.with(feature);
    for masked in [
        FeatureSet::EMPTY,
        without(Feature::Bundle),
        without(Feature::IncrementalBuffers),
        Profile::LINUX_6_1.masked(),
    ] {
        let config = Config { masked, ..Config::default() };
        let mut driver = Driver::open(Choice::Uring, &config).unwrap();
        let features = driver.caps().features;
        if !features.has(Feature::BufferRing) {
            return support::skipped("this kernel picks no buffers");
        }
        let needed = [Feature::Bundle, Feature::IncrementalBuffers];
        test(&mut driver, needed.into_iter().all(|feature| features.has(feature)));
    }
}

/// One op: its result, and its data.
fn receive(driver: &mut Driver, stream: &UnixStream) -> (i32, Vec<Lease>) {
    let mut leases = Vec::new();
    let frame = OpFrame::new(Op::RecvBundle { fd: stream.as_raw_fd(), into: &raw mut leases });
    if submit(driver, &frame) {
        finish(driver, &frame);
    }
    (frame.result(), leases)
}

fn bytes(leases: &[Lease]) -> usize {
    leases.iter().map(|lease| lease.len()).sum()
}

/// Numbers, so that none may be lost, doubled or moved.
fn numbers(count: u32) -> Vec<u8> {
    (0..count).flat_map(u32::to_le_bytes).collect()
}

#[test]
fn one_op_fills_as_many_buffers_as_the_bytes_take() {
    rings(|driver, is_bundled| {
        let (stream, peer) = UnixStream::pair().unwrap();
        let sent = numbers(30_000);
        // More than one buffer holds, and less than the stream does.
        (&peer).write_all(&sent).unwrap();
        let (mut received, mut most) = (Vec::new(), 0);
        while received.len() < sent.len() {
            let (result, leases) = receive(driver, &stream);
            assert_eq!(result as usize, bytes(&leases));
            most = most.max(leases.len());
            received.extend(leases.iter().flat_map(|lease| lease.iter().copied()));
        }
        assert!(received == sent);
        assert!(most == 1 || is_bundled, "{most} buffers at a time");
        drop(peer);
        let (result, leases) = receive(driver, &stream);
        assert_eq!((result, leases.len()), (0, 0));
    });
}

#[test]
fn it_waits_without_a_buffer() {
    rings(|driver, _| {
        let pairs: Vec<_> = (0..100).map(|_| UnixStream::pair().unwrap()).collect();
        let mut lists: Vec<Vec<Lease>> = pairs.iter().map(|_| Vec::new()).collect();
        let ops = pairs.iter().zip(&mut lists);
        let frames: Vec<_> = ops
            .map(|((stream, _), into)| {
                OpFrame::new(Op::RecvBundle { fd: stream.as_raw_fd(), into: &raw mut *into })
            })
            .collect();
        assert!(frames.iter().all(|frame| submit(driver, frame)));
        driver.turn(Wait::Never).unwrap();
        assert!(driver.buffer_bytes() <= 16 * 32 * 1024, "{} bytes", driver.buffer_bytes());
        for (n, (_, peer)) in pairs.iter().enumerate() {
            (&mut &*peer).write_all(&[n as u8; 50]).unwrap();
        }
        for frame in &frames {
            assert_eq!(finish(driver, frame), 50);
        }
        for (n, leases) in lists.iter().enumerate() {
            assert!(leases.iter().all(|lease| lease.iter().all(|byte| *byte == n as u8)));
            assert_eq!(bytes(leases), 50);
        }
    });
}

/// The kernel runs out of buffers (ENOBUFS), and nobody sees it.
#[test]
fn kept_leases_make_the_ring_offer_more_buffers() {
    rings(|driver, _| {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let mut kept = Vec::new();
        for round in 0..300_u32 {
            peer.write_all(&[round as u8; 40_000]).unwrap();
            let mut left = 40_000;
            while left > 0 {
                let (result, leases) = receive(driver, &stream);
                assert!(result > 0, "{result}");
                left -= result as usize;
                kept.extend(leases);
            }
        }
        let mut all = kept.iter().flat_map(|lease| lease.iter());
        for round in 0..300_u32 {
            assert!(all.by_ref().take(40_000).all(|byte| *byte == round as u8), "round {round}");
        }
    });
}

#[test]
fn it_goes_on_when_an_idle_driver_has_given_its_buffers_back() {
    rings(|driver, _| {
        let (stream, mut peer) = UnixStream::pair().unwrap();
        let mut kept = Vec::new();
        for _ in 0..40 {
            peer.write_all(&[7; 32 << 10]).unwrap();
            kept.push(receive(driver, &stream).1);
        }
        while kept.iter().map(|leases| bytes(leases)).sum::<usize>() < 40 * (32 << 10) {
            kept.push(receive(driver, &stream).1);
        }
        let mut leases = Vec::new();
        let frame = OpFrame::new(Op::RecvBundle { fd: stream.as_raw_fd(), into: &raw mut leases });
        assert!(submit(driver, &frame));
        driver.turn(Wait::Never).unwrap();
        drop(kept);
        driver.turn(Wait::Never).unwrap();
        assert!(driver.has_surplus());
        driver.give_back_surplus();
        peer.write_all(b"after").unwrap();
        assert_eq!(finish(driver, &frame), 5);
        assert_eq!(
            leases.iter().flat_map(|lease| lease.iter().copied()).collect::<Vec<_>>(),
            b"after"
        );
    });
}

#[test]
fn without_buffers_it_is_refused() {
    let masked = FeatureSet::EMPTY.with(Feature::BufferRing);
    for choice in support::choices() {
        let mut driver = Driver::open(choice, &Config { masked, ..Config::small() }).unwrap();
        let (stream, mut peer) = UnixStream::pair().unwrap();
        peer.write_all(b"bytes").unwrap();
        let (result, leases) = receive(&mut driver, &stream);
        assert_eq!((result, leases.len()), (-libc::ENOBUFS, 0));
    }
}
