//! Cancelling: the target's own completion decides, and no request is lost.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use crate::support::{PATIENCE, both, both_sized, cancel, finish, submit};
use ramie_driver::{Choice, Config, Driver, Feature, FeatureSet, Op, OpFrame, Wait};

struct Receive {
    ours: UnixStream,
    theirs: UnixStream,
    buf: Box<[u8; 8]>,
}

impl Receive {
    fn new() -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        Receive { ours, theirs, buf: Box::new([0; 8]) }
    }

    fn frame(&mut self) -> OpFrame {
        let (fd, buf) = (self.ours.as_raw_fd(), self.buf.as_mut_ptr());
        OpFrame::new(Op::Recv { fd, buf, len: 8, flags: 0 })
    }
}

#[test]
fn an_op_that_waits_ends_cancelled() {
    both(|driver| {
        let mut receive = Receive::new();
        let frame = receive.frame();
        assert!(submit(driver, &frame));
        driver.turn(Wait::Never).unwrap();
        cancel(driver, &frame);
        assert_eq!(finish(driver, &frame), -libc::ECANCELED);
    });
}

#[test]
fn an_op_not_yet_handed_over_ends_cancelled() {
    both(|driver| {
        let mut receive = Receive::new();
        let frame = receive.frame();
        assert!(submit(driver, &frame));
        cancel(driver, &frame);
        cancel(driver, &frame);
        assert_eq!(finish(driver, &frame), -libc::ECANCELED);
    });
}

#[test]
fn cancel_race_with_data_that_arrives() {
    both(|driver| {
        let mut receive = Receive::new();
        let frame = receive.frame();
        assert!(submit(driver, &frame));
        driver.turn(Wait::Never).unwrap();
        receive.theirs.write_all(b"data").unwrap();
        cancel(driver, &frame);
        let result = finish(driver, &frame);
        // Either way nothing is lost: the data is in the buffer, or still in the socket.
        let mut again = Receive::new();
        let left = if result == 4 {
            assert_eq!(&receive.buf[..4], b"data");
            0
        } else {
            assert_eq!(result, -libc::ECANCELED);
            let frame = receive.frame();
            if submit(driver, &frame) { finish(driver, &frame) } else { frame.result() }
        };
        assert!(left == 0 || left == 4);
        // The driver is as good as new.
        let frame = again.frame();
        assert!(submit(driver, &frame));
        again.theirs.write_all(b"more!").unwrap();
        assert_eq!(finish(driver, &frame), 5);
    });
}

#[test]
fn cancelling_a_complete_op_does_nothing() {
    both(|driver| {
        let mut receive = Receive::new();
        let frame = receive.frame();
        assert!(submit(driver, &frame));
        receive.theirs.write_all(b"data").unwrap();
        while !frame.is_complete() {
            driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
        }
        cancel(driver, &frame);
        assert_eq!(finish(driver, &frame), 4);
        driver.turn(Wait::Never).unwrap();
        assert!(driver.pop_complete().is_none());
    });
}

/// Some drivers complete an op as soon as it is cancelled.
#[test]
fn a_turn_after_a_cancel_does_not_wait() {
    both(|driver| {
        let mut receive = Receive::new();
        let frame = receive.frame();
        assert!(submit(driver, &frame));
        driver.turn(Wait::Never).unwrap();
        cancel(driver, &frame);
        let started = Instant::now();
        driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
        assert!(started.elapsed() < PATIENCE / 2, "a completion was there, or was to come");
        assert_eq!(finish(driver, &frame), -libc::ECANCELED);
    });
}

#[test]
fn a_frame_may_be_reused_before_the_request_is_answered() {
    both(|driver| {
        for _ in 0..200 {
            let mut receive = Receive::new();
            let frame = receive.frame();
            assert!(submit(driver, &frame));
            cancel(driver, &frame);
            assert_eq!(finish(driver, &frame), -libc::ECANCELED);
        }
    });
}

#[test]
fn one_of_many_waiters_is_cancelled() {
    both(|driver| {
        let mut receive = Receive::new();
        let frames: Vec<_> = (0..5).map(|_| receive.frame()).collect();
        for frame in &frames {
            assert!(submit(driver, frame));
        }
        driver.turn(Wait::Never).unwrap();
        for at in [4, 0, 2] {
            cancel(driver, &frames[at]);
            assert_eq!(finish(driver, &frames[at]), -libc::ECANCELED);
        }
        // Which of the two that are left comes first is the kernel's choice.
        receive.theirs.write_all(b"d").unwrap();
        while driver.in_flight() == 2 {
            driver.turn(Wait::Until(Some(PATIENCE))).unwrap();
        }
        receive.theirs.write_all(b"dd").unwrap();
        let mut results = [finish(driver, &frames[1]), finish(driver, &frames[3])];
        results.sort();
        assert_eq!(results, [1, 2]);
    });
}

#[test]
fn a_cancelled_poll_leaves_nothing_armed() {
    both(|driver| {
        let mut receive = Receive::new();
        let frame = OpFrame::new(Op::Poll { fd: receive.ours.as_raw_fd(), events: 1 });
        assert!(submit(driver, &frame));
        driver.turn(Wait::Never).unwrap();
        cancel(driver, &frame);
        assert_eq!(finish(driver, &frame), -libc::ECANCELED);
        receive.theirs.write_all(b"x").unwrap();
        driver.turn(Wait::Never).unwrap();
        assert!(driver.pop_complete().is_none());
        let frame = OpFrame::new(Op::Poll { fd: receive.ours.as_raw_fd(), events: 1 });
        submit(driver, &frame);
        assert_eq!(finish(driver, &frame), 1);
    });
}

#[test]
fn fd_reuse_after_a_cancel() {
    both(|driver| {
        for _ in 0..50 {
            let mut receive = Receive::new();
            let frame = receive.frame();
            assert!(submit(driver, &frame));
            driver.turn(Wait::Never).unwrap();
            cancel(driver, &frame);
            assert_eq!(finish(driver, &frame), -libc::ECANCELED);
            let number = receive.ours.as_raw_fd();
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            // SAFETY: both numbers are open, and owned by streams that are dropped once each.
            assert_eq!(unsafe { libc::dup2(ours.as_raw_fd(), number) }, number);
            theirs.write_all(b"new").unwrap();
            driver.turn(Wait::Never).unwrap();
            assert_eq!(*receive.buf, [0; 8], "the op that was cancelled took what is not its own");
            let frame = receive.frame();
            let count =
                if submit(driver, &frame) { finish(driver, &frame) } else { frame.result() };
            assert_eq!((count, &receive.buf[..3]), (3, &b"new"[..]));
        }
    });
}

#[test]
fn sq_full_while_cancelling() {
    for config in [Config { entries: 4, ..Config::small() }, Config::default()] {
        both_sized(&config, |driver| {
            let mut receives: Vec<_> = (0..300).map(|_| Receive::new()).collect();
            let frames: Vec<_> = receives.iter_mut().map(Receive::frame).collect();
            for frame in &frames {
                assert!(submit(driver, frame));
            }
            for frame in &frames {
                cancel(driver, frame);
            }
            for frame in &frames {
                assert_eq!(finish(driver, frame), -libc::ECANCELED);
            }
        });
    }
}

#[test]
fn draining_ends_everything_and_the_driver_goes_on() {
    for masked in [FeatureSet::EMPTY, FeatureSet::EMPTY.with(Feature::DeferTaskrun)] {
        both_sized(&Config { masked, ..Config::default() }, |driver| {
            for _ in 0..3 {
                let mut receives: Vec<_> = (0..100).map(|_| Receive::new()).collect();
                let frames: Vec<_> = receives.iter_mut().map(Receive::frame).collect();
                for frame in &frames {
                    assert!(submit(driver, frame));
                }
                driver.turn(Wait::Never).unwrap();
                assert_eq!(driver.in_flight(), 100);
                driver.drain();
                assert_eq!(driver.in_flight(), 0);
                let mut popped = 0;
                while driver.pop_complete().is_some() {
                    popped += 1;
                }
                assert_eq!(popped, 100);
                assert!(frames.iter().all(|frame| frame.result() == -libc::ECANCELED));
            }
        });
    }
}

fn receive_one(from: &UnixStream, byte: &mut u8) -> OpFrame {
    OpFrame::new(Op::Recv { fd: from.as_raw_fd(), buf: byte, len: 1, flags: 0 })
}

/// Data that has arrived by then is the op's, although no turn has seen it.
#[test]
fn a_cancel_returns_data_that_arrived_before_the_next_turn() {
    let mut driver = Driver::open(Choice::Poll, &Config::small()).unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut byte = 0;
    let frame = receive_one(&ours, &mut byte);
    assert!(submit(&mut driver, &frame));
    theirs.write_all(&[7]).unwrap();
    cancel(&mut driver, &frame);
    assert_eq!((finish(&mut driver, &frame), byte), (1, 7));
}

#[test]
fn the_longest_waiter_receives_first() {
    let mut driver = Driver::open(Choice::Poll, &Config::small()).unwrap();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut bytes = [0; 2];
    let [first, second] = &mut bytes;
    let frames = [receive_one(&ours, first), receive_one(&ours, second)];
    assert!(submit(&mut driver, &frames[0]));
    theirs.write_all(&[1]).unwrap();
    assert!(submit(&mut driver, &frames[1]), "it takes what the first has waited for");
    assert_eq!(finish(&mut driver, &frames[0]), 1);
    theirs.write_all(&[2]).unwrap();
    assert_eq!(finish(&mut driver, &frames[1]), 1);
    assert_eq!(bytes, [1, 2]);
}
