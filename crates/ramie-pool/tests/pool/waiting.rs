//! Strands that wait for a connection.

use std::{cell::RefCell, io, sync::atomic::Ordering::SeqCst, time::Duration};

use ramie::{cancel, fiber, structured::Failure, time::ManualClock};
use ramie_pool::{PoolError, TimeoutPhase};

use crate::protocol::{let_others_run, pool, silent_pool};

#[test]
fn waiters_get_connections_in_the_order_of_their_requests() {
    ramie::run(|| {
        let (pool, _server) = pool(|pool| pool.max_size(1));
        let order = RefCell::new(Vec::new());
        let first = pool.get().unwrap();
        fiber::scope(|s| {
            for waiter in 0..10 {
                let (pool, order) = (&pool, &order);
                s.spawn_local(move || {
                    for round in 0..3 {
                        let _connection = pool.get().unwrap();
                        order.borrow_mut().push((round, waiter));
                        fiber::yield_now();
                    }
                });
            }
            let_others_run();
            assert_eq!(pool.stats().waiting, 10);
            drop(first);
        });
        let fair: Vec<_> = (0..3).flat_map(|round| (0..10).map(move |n| (round, n))).collect();
        assert_eq!(order.into_inner(), fair);
    });
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let clock = ManualClock::jumping();
    ramie::Runtime::builder().clock(clock.clone()).build().unwrap().run(|| {
        let (pool, _server) =
            silent_pool(|pool| pool.max_size(1).connection_timeout(Duration::from_secs(5)));
        let held = pool.get().unwrap();
        let started = clock.now();
        assert!(matches!(pool.get(), Err(PoolError::Timeout(TimeoutPhase::Wait))));
        assert_eq!(clock.now() - started, Duration::from_secs(5));
        assert!(matches!(
            pool.get_timeout(Duration::from_secs(2)),
            Err(PoolError::Timeout(TimeoutPhase::Wait))
        ));
        assert_eq!(clock.now() - started, Duration::from_secs(7));
        let stats = pool.stats();
        assert_eq!((stats.timeouts, stats.waits, stats.waiting), (2, 2, 0));
        assert_eq!(stats.wait_time, Duration::from_secs(7));
        assert_eq!(stats.wait_time_max, Duration::from_secs(5));
        drop(held);
        assert!(pool.get().is_ok());
        assert_eq!(pool.stats().connects, 1);
    });
}

#[test]
fn a_cancelled_wait_takes_nothing_and_holds_up_nobody() {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool.max_size(1));
        let held = pool.get().unwrap();
        let stop = cancel::scope(|scope| scope.handle());
        fiber::scope(|s| {
            let cancelled = s.spawn_local(|| stop.run(|| pool.get().map(drop)));
            let_others_run();
            let next = s.spawn_local(|| pool.get().map(|mut connection| connection.check(2)));
            let_others_run();
            stop.cancel_because("on purpose");
            let error = cancelled.join().unwrap().unwrap_err();
            assert!(error.is_cancelled());
            assert_eq!(io::Error::from(error).to_string(), "cancelled: on purpose");
            drop(held);
            next.join().unwrap().unwrap();
        });
        assert_eq!((pool.stats().cancelled, pool.stats().waiting), (1, 0));
        assert_eq!(server.opened.load(SeqCst), 1);
        // It is a cancel point also if a connection is idle.
        cancel::scope(|scope| {
            scope.cancel();
            assert!(matches!(pool.get(), Err(PoolError::Cancelled(_))));
        });
        assert_eq!(pool.stats().idle, 1);
    });
}

#[test]
fn a_failure_to_connect_gives_the_place_back() {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool.max_size(1));
        server.is_down.store(true, SeqCst);
        let error = pool.get().unwrap_err();
        assert!(matches!(&error, PoolError::Connect(_)), "{error:?}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::ConnectionRefused);
        let stats = pool.stats();
        assert_eq!((stats.open, stats.failed_connects, stats.connects), (0, 1, 0));
        server.is_down.store(false, SeqCst);
        pool.get().unwrap().check(1);
    });
}

#[test]
fn a_connection_is_tested_after_it_has_been_idle() {
    let clock = ManualClock::new();
    ramie::Runtime::builder().clock(clock.clone()).build().unwrap().run(|| {
        let second = Duration::from_secs(1);
        let (pool, server) = pool(|pool| pool.max_size(1).test_after_idle(Some(second)));
        pool.get().unwrap().check(1);
        pool.get().unwrap().check(2);
        assert_eq!(server.tests.load(SeqCst), 0);
        clock.advance(second);
        pool.get().unwrap().check(3);
        assert_eq!(server.tests.load(SeqCst), 1);
        // One that has died is replaced, and the request does not notice.
        clock.advance(second);
        server.has_restarted.store(true, SeqCst);
        pool.get().unwrap().check(4);
        let stats = pool.stats();
        assert_eq!((stats.open, stats.connects, stats.discarded_invalid), (1, 2, 1));
    });
}

#[test]
fn a_timeout_says_for_what_the_request_waited() {
    let text = |phase| PoolError::<io::Error>::Timeout(phase).to_string();
    assert!(text(TimeoutPhase::Wait).contains("raise max_size"));
    for phase in [TimeoutPhase::Connect, TimeoutPhase::Test] {
        assert!(text(phase).contains("check that the server answers"));
    }
    let cancelled = PoolError::<io::Error>::Cancelled(cancel::Cancelled::because("on purpose"));
    assert!(cancelled.to_string().ends_with("cancelled: on purpose"));
}
