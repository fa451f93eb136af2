//! The number of connections.

use std::{
    mem,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use ramie::fiber;
use ramie_pool::{Pool, PoolError, PooledConnection, TimeoutPhase};

use crate::protocol::{Manager, pool};

#[test]
fn a_pool_opens_no_more_connections_than_its_size() {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool.max_size(3));
        fiber::scope(|s| {
            for request in 0..50 {
                let pool = &pool;
                s.spawn_local(move || {
                    let mut connection = pool.get().unwrap();
                    let answer = connection.exchange(request, Duration::from_micros(100));
                    assert_eq!(answer.unwrap(), request);
                });
            }
        });
        assert_eq!(server.opened.load(SeqCst), 3);
        let stats = pool.stats();
        assert_eq!((stats.open, stats.idle, stats.waiting), (3, 3, 0));
        assert_eq!((stats.lent, stats.connects, stats.waits), (50, 3, 47));
        assert!(stats.wait_time >= stats.wait_time_max && stats.wait_time_max > Duration::ZERO);
    });
}

#[test]
fn an_idle_connection_is_used_before_one_is_opened() {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool.max_size(3));
        for request in 0..10 {
            pool.get().unwrap().check(request);
        }
        assert_eq!(server.opened.load(SeqCst), 1);
        // The one that was returned last is lent first.
        let (first, second) = (pool.get().unwrap(), pool.get().unwrap());
        let numbers = [first.number, second.number];
        drop(first);
        drop(second);
        assert_eq!(pool.get().unwrap().number, numbers[1]);
    });
}

#[test]
fn a_forgotten_guard_keeps_its_place() {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool.max_size(2));
        mem::forget(pool.get().unwrap());
        let other = pool.get().unwrap();
        assert!(matches!(
            pool.get_timeout(Duration::ZERO),
            Err(PoolError::Timeout(TimeoutPhase::Wait))
        ));
        drop(other);
        assert!(pool.get().is_ok());
        assert_eq!(server.most_open.load(SeqCst), 2);
    });
}

#[test]
fn connections_move_between_workers_and_threads() {
    fn is_send<T: Send>() {}
    is_send::<PooledConnection<Manager>>();
    is_send::<Pool<Manager>>();

    let done = AtomicUsize::new(0);
    let runtime = ramie::Runtime::builder().workers(2);
    runtime.build().unwrap().run(|| {
        let (pool, server) = pool(|pool| pool.max_size(4));
        let (pool, done) = (&pool, &done);
        let work = |from: u64| {
            for request in from..from + 50 {
                pool.get().unwrap().check(request);
                done.fetch_add(1, SeqCst);
            }
        };
        fiber::scope(|s| {
            for fiber in 0..20 {
                s.spawn(move || work(fiber * 1000));
            }
            ramie::blocking(|| {
                std::thread::scope(|threads| {
                    for thread in 20..24 {
                        threads.spawn(move || work(thread * 1000));
                    }
                });
            });
        });
        assert!(server.most_open.load(SeqCst) <= 4);
        assert_eq!(pool.stats().idle, pool.stats().open);
    });
    assert_eq!(done.into_inner(), 24 * 50);
}

#[test]
fn a_pool_works_without_a_runtime() {
    let (pool, server) = pool(|pool| pool.max_size(2));
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let pool = &pool;
            threads
                .spawn(move || (0..20).for_each(|n| pool.get().unwrap().check(thread * 100 + n)));
        }
    });
    assert!(server.most_open.load(SeqCst) <= 2);
}

#[test]
#[should_panic(expected = "max_lifetime is 0")]
fn a_lifetime_of_nothing_is_refused() {
    let _ = pool(|pool| pool.max_lifetime(Some(Duration::ZERO)));
}
