//! The end of a pool.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use ramie::fiber;
use ramie_pool::{PoolError, TimeoutPhase};

use crate::protocol::{let_others_run, pool};

#[test]
fn a_closed_pool_refuses_requests_and_closes_connections() {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool.max_size(2));
        let mut held = pool.get().unwrap();
        let also_held = pool.get().unwrap();
        fiber::scope(|s| {
            let waiting = s.spawn_local(|| pool.get().map(drop));
            let_others_run();
            drop(also_held);
            let waiting = waiting.join().unwrap();
            assert!(waiting.is_ok());
            let also_held = pool.get().unwrap();
            let waiting = s.spawn_local(|| pool.get().map(drop));
            let_others_run();
            pool.close();
            assert!(matches!(waiting.join().unwrap(), Err(PoolError::Closed)));
            drop(also_held);
        });
        assert!(pool.is_closed());
        assert!(matches!(pool.get(), Err(PoolError::Closed)));
        // A connection in use works on, and is closed on its return.
        held.check(1);
        assert_eq!(server.open.load(SeqCst), 1);
        drop(held);
        assert_eq!((server.open.load(SeqCst), pool.stats().open), (0, 0));
        let stats = pool.stats();
        assert_eq!((stats.connects, stats.closed), (2, 2), "{stats:?}");
    });
}

#[test]
fn close_drops_idle_connections_at_once() {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool);
        drop((pool.get().unwrap(), pool.get().unwrap()));
        assert_eq!(server.open.load(SeqCst), 2);
        pool.close();
        assert_eq!((server.open.load(SeqCst), pool.stats().idle), (0, 0));
    });
}

/// The keeper has been spawned, and has not run yet.
#[test]
fn a_pool_that_is_closed_opens_no_missing_connections() {
    let runtime = ramie::Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let (pool, server) = pool(|pool| pool.min_idle(2));
        pool.close();
        let_others_run();
        assert_eq!((server.opened.load(SeqCst), pool.stats().connects), (0, 0));
    });
}

/// A keeper that waits does not keep the pool.
#[test]
fn connections_are_closed_with_the_last_handle() {
    let runtime = ramie::Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let (pool, server) = pool(|pool| pool.min_idle(2));
        let_others_run();
        drop(pool.get().unwrap());
        let_others_run();
        drop(pool);
        let_others_run();
        assert_eq!(server.open.load(SeqCst), 0);
    });
}

#[test]
fn a_guard_may_outlive_the_pool() {
    ramie::run(|| {
        let (pool, server) = pool(|pool| pool);
        let mut held = pool.get().unwrap();
        drop(pool.get().unwrap());
        let clone = pool.clone();
        drop(pool);
        drop(clone.get().unwrap());
        drop(clone);
        held.check(1);
        drop(held);
        assert_eq!(server.open.load(SeqCst), 0);
    });
}

#[test]
fn a_runtime_with_a_grace_period_ends_with_guards_in_use() {
    let (pool, _server) = pool(|pool| pool.max_size(1));
    let theirs = pool.clone();
    let runtime = ramie::Runtime::builder().grace(Duration::ZERO);
    runtime.build().unwrap().run(move || {
        fiber::spawn(move || {
            let mut connection = theirs.get().unwrap();
            let _ = connection.exchange(1, Duration::from_secs(3600));
        });
        let_others_run();
    });
    // The place of the abandoned fiber stays taken.
    assert!(matches!(
        pool.get_timeout(Duration::ZERO),
        Err(PoolError::Timeout(TimeoutPhase::Wait))
    ));
}
