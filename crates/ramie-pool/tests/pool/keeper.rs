//! Ages, missing connections, and the fiber that sees to both.

use std::{
    io,
    sync::{Arc, Mutex, atomic::Ordering::SeqCst},
    time::Duration,
};

use ramie::{Runtime, fiber, time::ManualClock};
use ramie_pool::PoolError;

use crate::protocol::{let_others_run, silent_pool};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Runs `f` on a clock that jumps.
fn on_clock(f: impl FnOnce()) {
    let runtime = Runtime::builder().workers(1).clock(ManualClock::jumping());
    runtime.build().unwrap().run(f);
}

/// Waits until that time, and until the fibers for which it has come have run.
fn advance(time: Duration) {
    fiber::sleep(time);
    let_others_run();
}

#[test]
fn idle_connections_are_closed_when_their_time_is_up() {
    on_clock(|| {
        let (pool, server) = silent_pool(|pool| pool.idle_timeout(Some(MINUTE)));
        let (first, second) = (pool.get().unwrap(), pool.get().unwrap());
        drop(first);
        advance(MINUTE / 2);
        drop(second);
        let open = || server.open.load(SeqCst);
        advance(MINUTE / 2 - SECOND);
        assert_eq!(open(), 2);
        advance(SECOND);
        assert_eq!(open(), 1);
        advance(MINUTE / 2 - SECOND);
        assert_eq!(open(), 1);
        advance(SECOND);
        assert_eq!((open(), pool.stats().discarded_expired), (0, 2));
        // The keeper has ended, and starts again.
        drop(pool.get().unwrap());
        advance(MINUTE);
        assert_eq!((open(), pool.stats().discarded_expired), (0, 3));
    });
}

#[test]
fn a_connection_is_closed_at_the_end_of_its_life() {
    on_clock(|| {
        let (pool, server) = silent_pool(|pool| pool.max_lifetime(Some(MINUTE)).idle_timeout(None));
        drop(pool.get().unwrap());
        advance(MINUTE);
        assert_eq!(server.open.load(SeqCst), 0);
        // In use it stays open, and is closed on its return.
        let connection = pool.get().unwrap();
        advance(MINUTE * 2);
        drop(connection);
        assert_eq!(server.open.load(SeqCst), 0);
        assert_eq!(pool.stats().discarded_expired, 2);
    });
}

#[test]
fn a_connection_that_expires_earlier_wakes_the_keeper_earlier() {
    on_clock(|| {
        let (pool, server) = silent_pool(|pool| {
            pool.max_lifetime(Some(MINUTE)).idle_timeout(Some(MINUTE * 50 / 60))
        });
        let old = pool.get().unwrap();
        advance(MINUTE / 2);
        drop(pool.get().unwrap());
        let_others_run();
        // The keeper waits for 50 seconds, and this one has 30 left.
        drop(old);
        advance(MINUTE / 2 - SECOND);
        assert_eq!(server.open.load(SeqCst), 2);
        advance(SECOND);
        assert_eq!(server.open.load(SeqCst), 1);
    });
}

#[test]
fn an_expired_connection_is_not_lent() {
    let clock = ManualClock::new();
    ramie::Runtime::builder().workers(1).clock(clock.clone()).build().unwrap().run(|| {
        let (pool, _server) =
            silent_pool(|pool| pool.idle_timeout(Some(MINUTE)).test_after_idle(None));
        let before = pool.get().unwrap().number;
        // The keeper does not run before the request.
        clock.advance(MINUTE);
        let connection = pool.get().unwrap();
        assert_ne!(connection.number, before);
        assert_eq!(pool.stats().discarded_expired, 1);
    });
}

/// The place of the connection goes to the request before the keeper runs, and the request takes
/// the connection after the keeper has run.
#[test]
fn the_keeper_lets_a_request_take_an_expired_connection() {
    on_clock(|| {
        let (pool, server) =
            silent_pool(|pool| pool.max_size(1).idle_timeout(Some(Duration::ZERO)));
        let held = pool.get().unwrap();
        fiber::scope(|s| {
            let request = s.spawn_local(|| pool.get().map(drop));
            let_others_run();
            drop(held);
            request.join().unwrap().unwrap();
        });
        advance(SECOND);
        assert_eq!((server.open.load(SeqCst), server.opened.load(SeqCst)), (0, 2));
    });
}

#[test]
fn idle_connections_are_kept_ready() {
    on_clock(|| {
        let (pool, server) = silent_pool(|pool| pool.max_size(4).min_idle(2));
        let state = || (pool.stats().open, pool.stats().idle);
        let_others_run();
        assert_eq!(state(), (2, 2));
        let mut connections = vec![pool.get().unwrap()];
        let_others_run();
        assert_eq!(state(), (3, 2));
        connections.extend((0..2).map(|_| pool.get().unwrap()));
        let_others_run();
        // As many as there is room for.
        assert_eq!(state(), (4, 1));
        for connection in &mut connections {
            connection.mark_broken();
        }
        drop(connections);
        let_others_run();
        assert_eq!(state(), (2, 2));
        assert!(server.most_open.load(SeqCst) <= 4);
    });
}

#[test]
fn the_keeper_tries_again_after_growing_pauses() {
    on_clock(|| {
        let (pool, server) = silent_pool(|pool| pool.min_idle(1));
        server.is_down.store(true, SeqCst);
        let_others_run();
        let failed = || pool.stats().failed_connects;
        assert_eq!(failed(), 1);
        advance(SECOND);
        assert_eq!(failed(), 2);
        advance(SECOND);
        assert_eq!(failed(), 2);
        advance(SECOND);
        assert_eq!(failed(), 3);
        // A request tries by itself, and does not disturb the pause.
        assert!(matches!(pool.get(), Err(PoolError::Connect(_))));
        let_others_run();
        assert_eq!(failed(), 4);
        server.is_down.store(false, SeqCst);
        advance(SECOND * 4);
        assert_eq!((pool.stats().idle, failed()), (1, 4));
    });
}

#[test]
fn the_pauses_grow_to_half_a_minute() {
    on_clock(|| {
        let (pool, server) = silent_pool(|pool| pool.min_idle(1));
        server.is_down.store(true, SeqCst);
        let_others_run();
        for (attempt, pause) in (2..).zip([1, 2, 4, 8, 16, 32, 32, 32]) {
            advance(SECOND * pause - SECOND / 2);
            assert_eq!(pool.stats().failed_connects, attempt - 1);
            advance(SECOND / 2);
            assert_eq!(pool.stats().failed_connects, attempt);
        }
    });
}

#[test]
fn the_keeper_reports_its_failures_and_no_others() {
    on_clock(|| {
        let kinds = Arc::<Mutex<Vec<io::ErrorKind>>>::default();
        let seen = Arc::clone(&kinds);
        let (pool, server) = silent_pool(|pool| {
            pool.min_idle(1).on_connect_error(move |error| seen.lock().unwrap().push(error.kind()))
        });
        let reports = || kinds.lock().unwrap().len();
        server.is_down.store(true, SeqCst);
        let_others_run();
        assert_eq!(*kinds.lock().unwrap(), [io::ErrorKind::ConnectionRefused]);
        // The request itself returns this one.
        assert!(matches!(pool.get(), Err(PoolError::Connect(_))));
        let_others_run();
        assert_eq!((reports(), pool.stats().failed_connects), (1, 2));
        advance(SECOND);
        assert_eq!(reports(), 2);
        server.is_down.store(false, SeqCst);
        advance(SECOND * 2);
        assert_eq!((reports(), pool.stats().idle), (2, 1));
    });
}

/// The function that gets the error may take its time.
#[test]
fn a_report_of_the_keeper_holds_no_place() {
    on_clock(|| {
        let (pool, server) = silent_pool(|pool| {
            pool.max_size(1).min_idle(1).on_connect_error(|_| fiber::sleep(MINUTE))
        });
        server.is_down.store(true, SeqCst);
        let_others_run();
        assert_eq!((pool.stats().open, pool.stats().failed_connects), (0, 1));
        server.is_down.store(false, SeqCst);
        assert!(pool.get_timeout(SECOND).is_ok());
    });
}

/// Its place, and its share of the bound, are free when the keeper is called.
#[test]
fn a_connection_that_is_discarded_is_replaced() {
    on_clock(|| {
        let (pool, _server) = silent_pool(|pool| pool.max_size(1).min_idle(1));
        let mut only = pool.get().unwrap();
        only.mark_broken();
        let_others_run();
        drop(only);
        let_others_run();
        assert_eq!((pool.stats().idle, pool.stats().connects), (1, 2));
    });
}

#[test]
fn several_calls_make_one_keeper() {
    on_clock(|| {
        let spawned = || ramie::metrics::metrics().spawned;
        let before = spawned();
        let (pool, _server) = silent_pool(|pool| pool.max_size(2).min_idle(1));
        drop((pool.get().unwrap(), pool.get().unwrap()));
        assert_eq!(spawned(), before + 1);
    });
}

#[test]
fn an_idle_pool_holds_up_neither_the_clock_nor_the_runtime() {
    // Leaked, as one in a static.
    let pool: &_ = Runtime::builder().workers(1).build().unwrap().run(|| {
        let (pool, _server) = silent_pool(|pool| pool.max_size(2).min_idle(1));
        drop(pool.get().unwrap());
        let_others_run();
        Box::leak(Box::new(pool))
    });
    // The next runtime gets a keeper of its own.
    on_clock(|| {
        let stats = pool.stats();
        let mut connection = pool.get().unwrap();
        connection.mark_broken();
        drop(connection);
        let_others_run();
        assert!(pool.stats().connects > stats.connects);
        advance(SECOND);
    });
}

#[test]
fn a_keeper_that_was_abandoned_is_replaced() {
    let runtime = Runtime::builder().workers(1).grace(Duration::ZERO).build().unwrap();
    // Leaked, as one in a static.
    let pool: &_ = runtime.run(|| {
        let (pool, _server) = silent_pool(|pool| pool.max_size(2).min_idle(1));
        Box::leak(Box::new(pool))
    });
    on_clock(|| {
        let _connection = pool.get().unwrap();
        let_others_run();
        assert_eq!(pool.stats().idle, 1);
    });
}
