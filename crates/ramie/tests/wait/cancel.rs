//! Cancel scopes, limits and shields: the calls that they reach and those that they do not.

use std::{
    io::{ErrorKind, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use ramie::{
    Runtime,
    cancel::{
        self, check_cancelled, is_cancelled, shield, try_with_deadline, try_with_timeout,
        with_deadline, with_timeout,
    },
    fiber,
    net::{TcpListener, TcpStream},
    sync::Event,
    time::{Instant, ManualClock},
};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(2);

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[test]
fn a_limit_ends_a_read_and_is_the_reason() {
    runtime(1).run(|| {
        let (mut client, _server) = connection();
        let late = with_timeout(SHORT, || client.read(&mut [0])).unwrap_err();
        let error = late.into_value().unwrap_err();
        assert!(is_cancelled(&error));
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "cancelled: the time limit has expired");
        assert!(check_cancelled().is_ok(), "the scope was left");
    });
}

#[test]
fn a_fallible_call_under_a_limit_returns_one_result() {
    runtime(1).run(|| {
        let (mut client, mut server) = connection();
        let late = try_with_timeout(SHORT, || client.read(&mut [0])).unwrap_err();
        assert!(is_cancelled(&late) && late.kind() == ErrorKind::TimedOut, "{late}");
        let late = try_with_deadline(Instant::now(), || client.read(&mut [0])).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        assert!(check_cancelled().is_ok(), "the scope was left");

        let own = try_with_timeout(LONG, || Err::<(), _>("its own error"));
        assert_eq!(own, Err("its own error"));
        // The value of a call that did not have to wait is returned, late as it is.
        let sent = try_with_timeout(Duration::ZERO, || {
            assert!(check_cancelled().is_err());
            cancel::shield(|| server.write(b"h"))
        });
        assert_eq!(sent.unwrap(), 1);
    });
}

#[test]
fn a_value_within_the_limit_is_returned() {
    runtime(1).run(|| {
        assert_eq!(with_timeout(LONG, || 1), Ok(1));
        let (mut client, mut server) = connection();
        let sent = with_timeout(LONG, || client.write(b"h").unwrap());
        assert_eq!(sent, Ok(1));
        let read = with_deadline(Instant::now() + LONG, || server.read(&mut [0; 9]).unwrap());
        assert_eq!(read, Ok(1));
    });
}

#[test]
fn the_tighter_of_two_limits_wins() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    runtime.run(|| {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let outer = with_timeout(second, || {
            assert_eq!(cancel::current_deadline(), Some(start + second));
            with_timeout(second * 2, || {
                assert_eq!(cancel::current_deadline(), Some(start + second));
                fiber::spawn_local({
                    let clock = clock.clone();
                    move || clock.advance(second)
                });
                fiber::sleep(LONG);
                assert!(check_cancelled().unwrap_err().is_deadline());
            })
        });
        assert!(outer.unwrap_err().into_value().is_ok(), "the inner limit was not over");
        let inner = with_timeout(second * 2, || {
            with_timeout(second, || {
                clock.advance(second);
                fiber::sleep(LONG);
            })
        });
        assert!(inner.unwrap().is_err());
        assert_eq!(cancel::current_deadline(), None);
    });
}

#[test]
fn a_scope_is_cancelled_from_a_fiber_and_from_a_thread() {
    runtime(1).run(|| {
        for by_thread in [false, true] {
            let (mut client, _server) = connection();
            let error = cancel::scope(|scope| {
                let handle = scope.handle();
                let cancel = move || assert!(handle.cancel_because("no longer needed"));
                match by_thread {
                    true => drop(std::thread::spawn(cancel)),
                    false => drop(fiber::spawn(cancel)),
                }
                let error = client.read(&mut [0]).unwrap_err();
                assert!(scope.is_cancelled());
                assert!(!scope.cancel(), "the second call changes nothing");
                assert!(is_cancelled(&client.read(&mut [0]).unwrap_err()), "and stays so");
                error
            });
            assert_eq!(error.kind(), ErrorKind::Other);
            assert_eq!(error.to_string(), "cancelled: no longer needed");
            assert!(check_cancelled().is_ok());
        }
    });
}

#[test]
fn a_thread_outside_run_can_be_cancelled() {
    let (mut client, _server) = connection();
    let late = with_timeout(SHORT, || client.read(&mut [0]).unwrap_err());
    assert!(is_cancelled(&late.unwrap_err().into_value()));
    cancel::scope(|scope| {
        let handle = scope.handle();
        let canceller = std::thread::spawn(move || handle.cancel());
        assert!(is_cancelled(&client.read(&mut [0]).unwrap_err()));
        assert!(canceller.join().unwrap());
    });
}

#[test]
fn strands_of_a_scope_inherit_and_theirs_do() {
    for workers in [1, 2] {
        runtime(workers).run(|| {
            let ended = AtomicUsize::new(0);
            let wait = || {
                let (mut client, _server) = shield(connection);
                assert!(is_cancelled(&client.read(&mut [0]).unwrap_err()));
                ended.fetch_add(1, SeqCst);
            };
            cancel::scope(|scope| {
                let handle = scope.handle();
                fiber::scope(|strands| {
                    for _ in 0..10 {
                        strands.spawn(|| {
                            fiber::scope(|inner| {
                                inner.spawn(wait);
                                inner.spawn(wait);
                            })
                        });
                    }
                    fiber::sleep(SHORT);
                    handle.cancel();
                });
            });
            let late = with_timeout(SHORT, || fiber::scope(|strands| drop(strands.spawn(wait))));
            assert!(late.is_err());
            assert_eq!(ended.load(SeqCst), 21);
        });
    }
}

#[test]
fn detached_strands_are_not_reached() {
    runtime(1).run(|| {
        let strand = cancel::scope(|scope| {
            scope.cancel();
            fiber::spawn(check_cancelled)
        });
        assert_eq!(strand.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_scope_inside_a_cancelled_one_is_cancelled() {
    runtime(1).run(|| {
        cancel::scope(|outer| {
            cancel::scope(|inner| {
                outer.cancel_because("from above");
                assert!(inner.is_cancelled());
                assert_eq!(check_cancelled().unwrap_err().reason(), "from above");
            });
            cancel::scope(|late| assert!(late.is_cancelled()));
            cancel::scope(|inner| {
                shield(|| cancel::scope(|shielded| assert!(!shielded.is_cancelled())));
                assert!(inner.is_cancelled());
            });
        });
        cancel::scope(|outer| {
            cancel::scope(|inner| {
                inner.cancel();
                assert!(check_cancelled().is_err());
            });
            assert!(check_cancelled().is_ok() && !outer.is_cancelled());
        });
    });
}

#[test]
fn a_shield_defers_only_cancellations_from_outside() {
    runtime(1).run(|| {
        let (mut client, mut server) = connection();
        cancel::scope(|scope| {
            let handle = scope.handle();
            shield(|| {
                let sender = fiber::spawn(move || {
                    handle.cancel();
                    fiber::yield_now();
                    server.write_all(b"late").unwrap();
                    server
                });
                let mut bytes = [0; 4];
                client.read_exact(&mut bytes).unwrap();
                assert_eq!(&bytes, b"late");
                assert!(with_timeout(SHORT, || fiber::sleep(LONG)).is_err());
                cancel::scope(|own| {
                    own.cancel();
                    assert!(check_cancelled().is_err());
                });
                drop(sender.join().unwrap());
            });
            assert!(check_cancelled().is_err());
            let bounded = cancel::shield_for(SHORT, || fiber::sleep(LONG));
            assert!(bounded.is_err());
        });
    });
}

#[test]
fn calls_that_cannot_report_a_cancellation_return_early_and_let_others_run() {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    runtime.run(|| {
        let turns = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&turns);
        let other = fiber::spawn(move || {
            for _ in 0..5 {
                count.fetch_add(1, SeqCst);
                fiber::yield_now();
            }
        });
        cancel::scope(|scope| {
            scope.cancel();
            for _ in 0..4 {
                fiber::sleep(LONG);
                fiber::park();
            }
            assert_eq!(turns.load(SeqCst), 5);
            // From here on each return takes longer.
            let start = Instant::now();
            for ms in [1, 2, 4, 8, 16, 32, 50, 50] {
                let advance = clock.clone();
                fiber::spawn_local(move || advance.advance(Duration::from_millis(ms)));
                fiber::sleep(LONG);
            }
            assert_eq!(start.elapsed(), Duration::from_millis(163));
        });
        other.join().unwrap();
    });
}

#[test]
fn no_cancellation_is_lost_however_it_races_with_a_wait() {
    for round in 0..300 {
        runtime(2).run(|| {
            cancel::scope(|scope| {
                let handle = scope.handle();
                let canceller = fiber::spawn(move || {
                    (0..round % 30).for_each(|_| fiber::yield_now());
                    handle.cancel();
                });
                fiber::scope(|strands| {
                    for _ in 0..4 {
                        strands.spawn(|| {
                            while check_cancelled().is_ok() {
                                fiber::park();
                            }
                        });
                    }
                });
                canceller.join().unwrap();
            });
        });
    }
}

fn are_faults_on() -> bool {
    std::env::var("RAMIE_FAULTS").is_ok_and(|seed| !seed.is_empty())
}

#[test]
fn bytes_that_arrived_are_returned_although_the_scope_was_cancelled() {
    runtime(1).run(|| {
        let (mut client, mut server) = connection();
        let mut received = Vec::new();
        cancel::scope(|scope| {
            let handle = scope.handle();
            let sender = fiber::spawn(move || {
                server.write_all(b"in time").unwrap();
                handle.cancel();
                server
            });
            let mut part = [0; 16];
            match client.read(&mut part) {
                // It may be short: the rest is there after the scope.
                Ok(count) => received.extend_from_slice(&part[..count]),
                // A fault interrupted the read at the moment of the cancellation: it took nothing.
                Err(error) => assert!(is_cancelled(&error) && are_faults_on(), "{error}"),
            }
            drop(sender.join().unwrap());
            assert!(is_cancelled(&client.read(&mut part).unwrap_err()));
        });
        client.read_to_end(&mut received).expect("the connection is as it was");
        assert_eq!(received, b"in time");
    });
}

#[test]
fn a_deferred_cancellation_ends_no_wait_in_a_scope_inside() {
    runtime(1).run(|| {
        let event = Event::new();
        cancel::scope(|outer| {
            let handle = outer.handle();
            fiber::scope(|strands| {
                let waiter = strands.spawn(|| {
                    shield(|| cancel::scope(|_inner| event.wait())).map(|()| event.is_set())
                });
                fiber::yield_now();
                handle.cancel();
                (0..3).for_each(|_| fiber::yield_now());
                assert!(!waiter.is_finished());
                event.set();
                assert_eq!(waiter.join().unwrap(), Ok(true));
            });
        });
    });
}

/// The error of a reader of the program, whose source is a cancellation.
#[derive(Debug)]
struct OfReader(cancel::Cancelled);

impl std::fmt::Display for OfReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reader of the program")
    }
}

impl std::error::Error for OfReader {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl Read for OfReader {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other(OfReader(self.0.clone())))
    }
}

#[test]
fn copy_keeps_an_error_of_the_program_with_a_cancellation_inside() {
    runtime(1).run(|| {
        let mut reader = OfReader(cancel::Cancelled::because("of a test"));
        let error = ramie::io::copy(&mut reader, &mut Vec::new()).unwrap_err();
        assert!(error.get_ref().is_some_and(|inner| inner.is::<OfReader>()), "{error:?}");
        assert_eq!(cancel::Cancelled::of(&error).unwrap().reason(), "of a test");
    });
}
