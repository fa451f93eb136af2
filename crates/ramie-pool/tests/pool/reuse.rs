//! Which connections are used again.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::Ordering::SeqCst,
    time::Duration,
};

use ramie::{cancel, fiber, structured::race, sync::Event};
use ramie_pool::Pool;

use crate::protocol::{Connection, Manager, pool};

const SHORT: Duration = Duration::from_millis(1);
/// Longer than a request takes that finds a connection idle.
const SOON: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(3600);

/// Runs `f` with a pool of one connection, which is open and idle. Afterwards the pool lends one
/// that gives right answers; returns whether it is the same.
fn is_used_again(f: impl FnOnce(&Pool<Manager>)) -> bool {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool.max_size(1));
        let before = pool.get().unwrap().number;
        f(&pool);
        let mut after = pool.get_timeout(Duration::from_secs(20)).expect("its place is free again");
        after.check(1);
        assert_eq!(server.most_open.load(SeqCst), 1);
        after.number == before
    })
}

fn interrupted(connection: &mut Connection) {
    let late = cancel::with_timeout(SHORT, || connection.exchange(7, LONG));
    assert!(late.unwrap_err().into_value().is_err());
}

/// A canary: without the pool, an exchange that was cancelled gives the next one a wrong answer.
#[test]
fn an_interrupted_exchange_on_one_connection_ends_in_a_wrong_answer() {
    ramie::run(|| {
        let (pool, _server) = pool(|pool| pool);
        let mut connection = pool.get().unwrap();
        let delay = Duration::from_millis(100);
        let late = cancel::with_timeout(SHORT, || connection.exchange(7, delay));
        assert!(late.unwrap_err().into_value().is_err());
        assert_eq!(connection.exchange(8, Duration::ZERO).unwrap(), 7);
    });
}

#[test]
fn a_connection_at_rest_is_used_again() {
    assert!(is_used_again(|pool| pool.get().unwrap().check(1)));
    assert!(is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        (1..4).for_each(|n| connection.check(n));
    }));
    assert!(is_used_again(|pool| {
        let connection = cancel::scope(|scope| {
            let mut connection = pool.get().unwrap();
            connection.check(1);
            scope.cancel();
            connection
        });
        drop(connection);
    }));
    assert!(is_used_again(|pool| {
        let result = pool.with(|connection| connection.exchange(1, SHORT));
        assert_eq!(result.unwrap(), 1);
    }));
}

#[test]
fn a_connection_whose_exchange_was_cancelled_is_closed() {
    assert!(!is_used_again(|pool| interrupted(&mut pool.get().unwrap())));
    assert!(!is_used_again(|pool| {
        cancel::scope(|scope| {
            let handle = scope.handle();
            let mut connection = pool.get().unwrap();
            fiber::spawn(move || handle.cancel());
            assert!(connection.exchange(7, LONG).is_err());
        });
    }));
    assert!(!is_used_again(|pool| {
        let cancelled =
            cancel::try_with_timeout(SOON, || pool.with(|connection| connection.exchange(7, LONG)));
        assert!(cancelled.is_err());
    }));
}

#[test]
fn a_connection_that_was_used_after_a_cancellation_is_closed() {
    // The notices change while nobody uses the connection; the next use finds it.
    assert!(!is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        connection.check(1);
        assert!(cancel::with_timeout(SHORT, || Event::new().wait()).is_err());
        connection.check(2);
    }));
}

#[test]
fn a_connection_that_a_cancelled_strand_of_a_scope_used_is_closed() {
    assert!(!is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        let first = race(|racers| {
            racers.spawn(|| connection.exchange(7, LONG).is_ok());
            racers.spawn(|| true);
        });
        assert_eq!(first, Some(true));
    }));
    assert!(!is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        fiber::scope(|s| drop(s.spawn(|| interrupted(&mut connection))));
    }));
    assert!(!is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        let connection = &mut *connection;
        fiber::scope(|s| {
            let panicking = s.spawn(move || {
                connection.is_busy = true;
                resume_unwind(Box::new("on purpose"))
            });
            assert!(panicking.join().is_err());
        });
    }));
}

#[test]
fn a_connection_of_a_panic_is_closed() {
    assert!(!is_used_again(|pool| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _connection = pool.get().unwrap();
            resume_unwind(Box::new("on purpose"));
        }));
        assert!(panicked.is_err());
        assert_eq!(pool.stats().discarded_panicked, 1);
    }));
    assert!(!is_used_again(|pool| {
        let pool = pool.clone();
        let panicking = move || pool.with(|_| -> io::Result<()> { resume_unwind(Box::new(1)) });
        assert!(fiber::spawn(panicking).join().is_err());
    }));
}

/// The error of the closure and the state of the connection only follow from the cancellation.
#[test]
fn a_cancelled_exchange_is_counted_as_cancelled_however_it_was_begun() {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool);
        *server.judge.lock().unwrap() = Some(|connection| connection.is_busy);
        let cut_off = || pool.with(|connection| connection.exchange(7, LONG));
        assert!(cancel::try_with_timeout(SOON, cut_off).is_err());
        interrupted(&mut pool.get().unwrap());
        let stats = pool.stats();
        assert_eq!((stats.discarded_cancelled, stats.discarded_broken), (2, 0));
    });
}

#[test]
fn a_connection_that_is_marked_or_found_broken_is_closed() {
    assert!(!is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        connection.mark_broken();
        drop(connection);
        assert_eq!(pool.stats().discarded_broken, 1);
    }));
    assert!(!is_used_again(|pool| {
        assert!(pool.with(|_| Err::<(), _>(io::Error::other("a protocol error"))).is_err());
    }));
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool);
        *server.judge.lock().unwrap() = Some(|connection| connection.is_busy);
        let mut connection = pool.get().unwrap();
        connection.is_busy = true;
        drop(connection);
        assert_eq!((pool.stats().open, pool.stats().discarded_broken), (0, 1));
    });
}

#[test]
fn a_guard_may_move_to_another_strand_before_its_first_use() {
    assert!(is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        fiber::spawn(move || connection.check(1)).join().unwrap();
    }));
    assert!(!is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        connection.check(1);
        fiber::spawn(move || connection.check(2)).join().unwrap();
    }));
    // Not even if it comes back, and whatever the other strand has done with it.
    assert!(!is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        connection.check(1);
        let lends = move || {
            connection.check(2);
            connection
        };
        drop(fiber::spawn(lends).join().unwrap());
    }));
    assert!(!is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        connection.check(1);
        let reads = move || (connection.number, connection);
        drop(fiber::spawn(reads).join().unwrap());
    }));
    assert!(!is_used_again(|pool| {
        let mut connection = pool.get().unwrap();
        interrupted(&mut connection);
        fiber::spawn(move || drop(connection)).join().unwrap();
    }));
}

#[test]
fn a_manager_that_panics_costs_the_connection_and_no_place() {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool.max_size(1));
        let held = pool.get().unwrap();
        *server.judge.lock().unwrap() = Some(|_| resume_unwind(Box::new(1)));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(held))).is_err());
        server.judge.clear_poison();
        *server.judge.lock().unwrap() = None;
        pool.get().unwrap().check(1);
        let stats = pool.stats();
        assert_eq!((stats.connects, stats.closed, stats.open), (2, 1, 1), "{stats:?}");
    });
}
