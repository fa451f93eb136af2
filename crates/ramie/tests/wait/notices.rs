//! Which events change `cancel::notices`, and which do not.

use std::{panic::catch_unwind, time::Duration};

use ramie::{
    cancel::{self, check_cancelled, notices, with_timeout},
    fiber,
    io::{Read, Write, pipe},
    structured::race,
    sync::{Event, Semaphore},
};

const SHORT: Duration = Duration::from_millis(1);

/// Whether `f` changes the notices of its strand.
fn changes(f: impl FnOnce()) -> bool {
    let before = notices();
    f();
    notices() != before
}

fn in_cancelled_scope(f: impl FnOnce()) {
    cancel::scope(|scope| {
        scope.cancel();
        f();
    });
}

#[test]
fn a_cancel_point_that_fails_is_noticed() {
    ramie::run(|| {
        let (mut reader, _writer) = pipe().unwrap();
        assert!(changes(|| {
            let late = with_timeout(SHORT, || reader.read(&mut [0]));
            assert!(late.unwrap_err().into_value().is_err());
        }));
        assert!(changes(|| in_cancelled_scope(|| assert!(reader.read(&mut [0]).is_err()))));
        assert!(changes(|| in_cancelled_scope(|| assert!(check_cancelled().is_err()))));
        assert!(changes(|| {
            cancel::scope(|scope| {
                let handle = scope.handle();
                fiber::spawn(move || handle.cancel());
                assert!(Event::new().wait().is_err());
            });
        }));
    });
}

#[test]
fn a_call_that_returns_early_is_noticed() {
    ramie::run(|| {
        assert!(changes(|| in_cancelled_scope(fiber::park)));
        assert!(changes(|| in_cancelled_scope(|| fiber::sleep(SHORT))));
    });
}

#[test]
fn what_interrupts_nothing_is_not_noticed() {
    ramie::run(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        assert!(!changes(|| {
            writer.write_all(b"x").unwrap();
            reader.read_exact(&mut [0]).unwrap();
            with_timeout(Duration::from_secs(60), || fiber::sleep(SHORT)).unwrap();
            in_cancelled_scope(|| cancel::shield(|| fiber::sleep(SHORT)));
            in_cancelled_scope(|| drop(fiber::spawn(|| {}).join()));
        }));
        // A timeout of the call's own is no cancellation.
        let semaphore = Semaphore::new(0);
        assert!(!changes(|| assert!(semaphore.acquire_timeout(1, SHORT).is_err())));
        // A strand that is not in a scope of this one.
        let detached = || in_cancelled_scope(|| assert!(check_cancelled().is_err()));
        assert!(!changes(|| fiber::spawn(detached).join().unwrap()));
    });
}

#[test]
fn the_notices_of_the_strands_of_a_scope_count_for_its_opener() {
    ramie::run(|| {
        assert!(changes(|| {
            let first = race(|racers| {
                racers.spawn(|| Event::new().wait().is_ok());
                racers.spawn(|| true);
            });
            assert_eq!(first, Some(true));
        }));
        let nested = || {
            fiber::scope(|outer| {
                outer.spawn(|| {
                    fiber::scope(|inner| {
                        inner.spawn(|| in_cancelled_scope(|| assert!(check_cancelled().is_err())));
                    })
                });
            });
        };
        assert!(changes(nested));
        let idle = || fiber::scope(|s| drop(s.spawn(fiber::yield_now)));
        assert!(!changes(idle));
    });
}

#[test]
fn a_panic_that_a_join_takes_counts_for_the_opener_of_its_scope() {
    ramie::run(|| {
        assert!(changes(|| fiber::scope(|s| {
            let panicking = s.spawn(|| std::panic::resume_unwind(Box::new("on purpose")));
            assert!(panicking.join().is_err());
        })));
        let caught_inside = || {
            fiber::scope(|s| {
                let caught = s.spawn(|| catch_unwind(|| std::panic::resume_unwind(Box::new(1))));
                assert!(caught.join().unwrap().is_err());
            });
        };
        assert!(!changes(caught_inside));
    });
}

#[test]
fn strands_have_notices_of_their_own() {
    ramie::run(|| {
        let mine = notices();
        assert!(fiber::spawn(notices).join().unwrap() != mine);
        // The next fiber gets the stack of the last one.
        assert!(fiber::spawn(notices).join().unwrap() != fiber::spawn(notices).join().unwrap());
        assert_eq!(notices(), mine);
    });
    let outside = notices();
    assert!(changes(|| in_cancelled_scope(|| assert!(check_cancelled().is_err()))));
    assert!(notices() != outside);
}
