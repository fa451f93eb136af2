//! Faults of each kind: hidden where they must be, reported where they must be, and no op is lost.
//!
//! A program of its own, because `.ci/faults` runs it without a seed.
mod support;

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ramie_driver::{
    Choice, Config, Driver, Fault, Faults, MultishotInbox, MultishotItem, MultishotOp, NextItem,
    Op, OpFrame, Wait, sys,
};
use support::{cancel, finish, run, submit};

/// Runs `test` with the first op at fault, on a driver of each kind.
fn with(fault: Fault, test: impl Fn(&mut Driver, &UnixStream, UnixStream)) {
    for choice in support::choices() {
        let driver = Driver::open(choice, &Config::small()).unwrap();
        let mut driver = driver.with_faults(Faults::at(0, fault));
        let (ours, theirs) = UnixStream::pair().unwrap();
        test(&mut driver, &ours, theirs);
        assert_eq!(driver.in_flight(), 0, "{choice:?}: nothing stays behind");
    }
}

fn receive(from: &UnixStream, buf: &mut [u8; 8]) -> Op {
    Op::Recv { fd: from.as_raw_fd(), buf: buf.as_mut_ptr(), len: 8, flags: 0 }
}

#[test]
fn a_short_receive_leaves_the_rest_where_it_was() {
    with(Fault::Short, |driver, ours, mut theirs| {
        theirs.write_all(b"whole").unwrap();
        theirs.write_all(b"sum").unwrap();
        let (mut first, mut rest) = ([0; 8], [0; 8]);
        let count = run(driver, receive(ours, &mut first)) as usize;
        assert!((1..8).contains(&count));
        assert_eq!(run(driver, receive(ours, &mut rest)) as usize, 8 - count);
        assert_eq!([&first[..count], &rest[..8 - count]].concat(), b"wholesum");
    });
}

#[test]
fn the_errno_reaches_the_caller_and_nothing_was_done() {
    for errno in [libc::ENOMEM, libc::EIO, libc::ENOBUFS] {
        with(Fault::Fails(errno), |driver, ours, mut theirs| {
            theirs.write_all(b"data").unwrap();
            let mut buf = [0; 8];
            assert_eq!(run(driver, receive(ours, &mut buf)), -errno);
            assert_eq!(run(driver, receive(ours, &mut buf)), 4);
        });
    }
}

#[test]
fn a_close_that_fails_has_closed() {
    with(Fault::Fails(libc::EIO), |driver, ours, mut theirs| {
        // A number so high that no other test of the process gets it between the two calls.
        let fd = rustix::io::fcntl_dupfd_cloexec(ours, 900).unwrap().into_raw_fd();
        assert_eq!(run(driver, Op::Close { fd }), -libc::EIO);
        assert_eq!(run(driver, Op::Close { fd }), -libc::EBADF);
        theirs.write_all(b"data").unwrap();
        assert_eq!(run(driver, receive(ours, &mut [0; 8])), 4);
    });
}

/// Receives until the op fails or delivers something; returns the data, and the leftovers.
fn receive_again_and_again(
    driver: &mut Driver,
    from: &UnixStream,
) -> Option<(MultishotItem, Option<MultishotItem>)> {
    let inbox: Arc<MultishotInbox> = Arc::default();
    let op = MultishotOp::Receive { fd: from.as_raw_fd() };
    let id = driver.start_multishot(op, &inbox)?;
    let item = loop {
        match driver.next_item(id) {
            NextItem::Item(item) => break item,
            NextItem::Pending => driver.turn(Wait::Until(Some(Duration::from_millis(1)))).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert!(driver.stop_multishot(id));
    Some((item, inbox.take_leftover()))
}

#[test]
fn an_op_that_completes_again_and_again_fails_and_loses_nothing() {
    let driver = Driver::open(Choice::Auto, &Config::small()).unwrap();
    let failing = Some((1, libc::EIO));
    let faults = Faults { failing, at: None, ..Faults::at(0, Fault::Short) };
    let mut driver = driver.with_faults(faults);
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    match receive_again_and_again(&mut driver, &ours) {
        None => return support::skipped("this driver has no such ops"),
        Some((item, left)) => {
            assert!(matches!((item, left), (MultishotItem::Failed(libc::EIO), None)))
        }
    }
    theirs.write_all(b"data").unwrap();
    match receive_again_and_again(&mut driver, &ours) {
        Some(
            (MultishotItem::Bytes(bytes), None)
            | (MultishotItem::Failed(_), Some(MultishotItem::Bytes(bytes))),
        ) => {
            assert_eq!(&*bytes, b"data");
        }
        Some((MultishotItem::Failed(_), None)) => (&ours).read_exact(&mut [0; 4]).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_storm_of_answers_that_mean_nothing_is_hidden() {
    for errno in [libc::EINTR, libc::ECANCELED, libc::EAGAIN] {
        with(Fault::Hidden(errno, 200), |driver, ours, mut theirs| {
            let mut buf = [0; 8];
            let frame = OpFrame::new(receive(ours, &mut buf));
            theirs.write_all(b"data").unwrap();
            if submit(driver, &frame) {
                finish(driver, &frame);
            }
            assert_eq!(frame.result(), 4);
        });
        // The first of them may find it waiting, the request between two of them.
        with(Fault::Hidden(errno, 200), |driver, ours, _theirs| {
            let mut buf = [0; 8];
            let frame = OpFrame::new(receive(ours, &mut buf));
            assert!(submit(driver, &frame));
            cancel(driver, &frame);
            assert_eq!(finish(driver, &frame), -libc::ECANCELED);
        });
    }
}

/// A Unix stream has room, and poll(2) reports none, while more than a quarter of it is taken.
#[test]
fn a_write_that_has_room_does_not_wait_for_the_peer() {
    with(Fault::Hidden(libc::EAGAIN, 1), |driver, mut ours, _theirs| {
        while sys::poll_now(ours, sys::POLL_OUT).unwrap() != 0 {
            ours.write_all(&[0]).unwrap();
        }
        let send = Op::Send { fd: ours.as_raw_fd(), buf: b"x".as_ptr(), len: 1, flags: 0 };
        assert_eq!(run(driver, send), 1);
    });
}

#[test]
fn a_late_op_is_done_or_cancelled() {
    with(Fault::Late(5), |driver, ours, mut theirs| {
        theirs.write_all(b"data").unwrap();
        assert_eq!(run(driver, receive(ours, &mut [0; 8])), 4);
    });
    with(Fault::Late(5), |driver, ours, mut theirs| {
        theirs.write_all(b"data").unwrap();
        let (mut buf, mut again) = ([0; 8], [0; 8]);
        let frame = OpFrame::new(receive(ours, &mut buf));
        assert!(submit(driver, &frame));
        cancel(driver, &frame);
        if finish(driver, &frame) != 4 {
            assert_eq!(frame.result(), -libc::ECANCELED);
            assert_eq!(run(driver, receive(ours, &mut again)), 4, "nothing is lost");
        }
    });
    for drains in [true, false] {
        with(Fault::Late(5), |driver, ours, _theirs| {
            let mut buf = [0; 8];
            let frame = OpFrame::new(receive(ours, &mut buf));
            assert!(submit(driver, &frame));
            if drains {
                driver.drain();
            } else {
                cancel(driver, &frame);
            }
            assert_eq!(finish(driver, &frame), -libc::ECANCELED);
        });
    }
}

#[test]
fn the_variable_is_a_seed() {
    let with_faults = |value| [("RAMIE_FAULTS", Some(value)), ("RAMIE_DRIVER", None)];
    support::in_child_with("child_seeded", &with_faults("7,12"));
    support::in_child_with("child_seeded", &with_faults("7,12,4"));
    for nonsense in ["seven", "7,", "7,12,4,1"] {
        support::in_child_with("child_seed_of_nonsense", &with_faults(nonsense));
    }
}

#[test]
#[ignore = "run in a child by the_variable_is_a_seed"]
fn child_seeded() {
    let mut driver = Driver::open(Choice::Auto, &Config::small()).unwrap();
    let failed = (0..400).filter(|_| run(&mut driver, Op::Nop) == -libc::ENOMEM).count();
    assert!((50..150).contains(&failed), "{failed} of 400");
}

#[test]
#[ignore = "run in a child by the_variable_is_a_seed"]
fn child_seed_of_nonsense() {
    let error = Driver::open(Choice::Auto, &Config::small()).unwrap_err();
    assert!(error.to_string().contains("expected numbers: SEED, SEED,ERRNO"), "{error}");
}
