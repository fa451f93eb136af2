//! Requests whose time is up, or that are cancelled, while the manager connects or tests; and
//! requests that race with the end of the pool.

use std::{
    io,
    panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use ramie::{
    Runtime, cancel, fiber,
    structured::Failure,
    sync::Event,
    time::{Instant, ManualClock},
};
use ramie_pool::{ManageConnection, Pool, PoolBuilder, PoolError, TimeoutPhase};

use crate::protocol::let_others_run;

const SECOND: Duration = Duration::from_secs(1);

/// The calls of a manager that wait for an event.
#[derive(Default)]
struct Waits {
    /// How many connects wait: the next ones.
    connects: AtomicUsize,
    tests: AtomicUsize,
    /// A test that is cancelled reports success.
    swallows: AtomicUsize,
    /// A test that has waited fails.
    fails: AtomicUsize,
    /// Nobody sets it, unless the test does.
    event: Event,
}

struct Slow(Arc<Waits>);

fn take_one(count: &AtomicUsize) -> bool {
    count.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl ManageConnection for Slow {
    type Connection = u32;
    type Error = io::Error;

    fn connect(&self) -> io::Result<u32> {
        if take_one(&self.0.connects) {
            self.0.event.wait().map_err(io::Error::from)?;
        }
        Ok(7)
    }

    fn is_valid(&self, _: &mut u32) -> io::Result<()> {
        if take_one(&self.0.tests) {
            let waited = self.0.event.wait().map_err(io::Error::from);
            if !take_one(&self.0.swallows) {
                waited?;
            }
            if take_one(&self.0.fails) {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
        Ok(())
    }

    fn has_broken(&self, _: &mut u32) -> bool {
        false
    }
}

fn slow(set: impl FnOnce(PoolBuilder<Slow>) -> PoolBuilder<Slow>) -> (Pool<Slow>, Arc<Waits>) {
    let waits = Arc::<Waits>::default();
    let set = set(Pool::builder().max_size(1).connection_timeout(SECOND));
    (set.build(Slow(Arc::clone(&waits))), waits)
}

fn on_clock(f: impl FnOnce()) {
    let runtime = Runtime::builder().workers(1).clock(ManualClock::jumping());
    runtime.build().unwrap().run(f);
}

#[test]
fn a_pool_without_room_is_refused() {
    for size in [0, usize::MAX] {
        let made = catch_unwind(|| drop(Pool::<Slow>::builder().max_size(size)));
        let said = *made.unwrap_err().downcast::<String>().unwrap_or_else(|payload| {
            Box::new((*payload.downcast::<&str>().expect("a text")).to_owned())
        });
        assert!(said.starts_with("max_size is"), "{said}");
    }
}

/// So that `catch_unwind` and libraries that use it take closures with pools.
#[test]
fn pools_are_unwind_safe() {
    struct Simple;
    impl ManageConnection for Simple {
        type Connection = ();
        type Error = io::Error;

        fn connect(&self) -> io::Result<()> {
            Ok(())
        }

        fn is_valid(&self, (): &mut ()) -> io::Result<()> {
            Ok(())
        }

        fn has_broken(&self, (): &mut ()) -> bool {
            false
        }
    }

    fn check<T: UnwindSafe + RefUnwindSafe>() {}
    check::<PoolBuilder<Simple>>();
    check::<Pool<Simple>>();
}

#[test]
fn a_connect_that_takes_too_long_is_the_timeout_of_the_request() {
    on_clock(|| {
        let (pool, waits) = slow(|pool| pool);
        waits.connects.store(1, SeqCst);
        let start = Instant::now();
        let error = pool.get().unwrap_err();
        assert!(matches!(error, PoolError::Timeout(TimeoutPhase::Connect)), "{error:?}");
        assert_eq!(start.elapsed(), SECOND);
        let stats = pool.stats();
        assert_eq!((stats.open, stats.cancelled_connects, stats.failed_connects), (0, 1, 0));
        assert!(pool.get().is_ok(), "its place is free again");
    });
}

#[test]
fn a_connect_that_is_cancelled_is_a_cancelled_request() {
    on_clock(|| {
        let (pool, waits) = slow(|pool| pool);
        waits.connects.store(1, SeqCst);
        let stop = cancel::scope(|scope| scope.handle());
        fiber::scope(|s| {
            let asks = s.spawn_local(|| stop.run(|| pool.get().map(drop)));
            let_others_run();
            stop.cancel();
            assert!(asks.join().unwrap().unwrap_err().is_cancelled());
        });
        let stats = pool.stats();
        assert_eq!((stats.open, stats.cancelled_connects, stats.failed_connects), (0, 1, 0));
    });
}

#[test]
fn a_test_that_takes_too_long_is_the_timeout_of_the_request() {
    on_clock(|| {
        let (pool, waits) = slow(|pool| pool.test_after_idle(Some(Duration::ZERO)));
        drop(pool.get().unwrap());
        waits.tests.store(1, SeqCst);
        let error = pool.get().unwrap_err();
        assert!(matches!(error, PoolError::Timeout(TimeoutPhase::Test)), "{error:?}");
        let stats = pool.stats();
        assert_eq!((stats.open, stats.discarded_invalid, stats.connects), (0, 1, 1));
    });
}

/// Its exchange is unfinished, also if it reports success.
#[test]
fn a_test_that_hides_its_cancellation_fails() {
    on_clock(|| {
        let (pool, waits) = slow(|pool| pool.test_after_idle(Some(Duration::ZERO)));
        drop(pool.get().unwrap());
        waits.tests.store(1, SeqCst);
        waits.swallows.store(1, SeqCst);
        let error = pool.get().unwrap_err();
        assert!(matches!(error, PoolError::Timeout(TimeoutPhase::Test)), "{error:?}");
        assert_eq!(pool.stats().discarded_invalid, 1);
    });
}

#[test]
fn the_keeper_gives_a_connect_up_as_a_request_does() {
    on_clock(|| {
        let (pool, waits) = slow(|pool| pool.min_idle(1));
        waits.connects.store(1, SeqCst);
        let_others_run();
        assert_eq!((pool.stats().open, pool.stats().failed_connects), (1, 0));
        fiber::sleep(SECOND);
        let_others_run();
        assert_eq!((pool.stats().open, pool.stats().failed_connects), (0, 1));
        // After the pause it succeeds, and the next failure has the first pause again.
        fiber::sleep(SECOND);
        let_others_run();
        assert_eq!((pool.stats().idle, pool.stats().failed_connects), (1, 1));
        waits.connects.store(1, SeqCst);
        let mut broken = pool.get().unwrap();
        broken.mark_broken();
        drop(broken);
        let_others_run();
        fiber::sleep(SECOND);
        let_others_run();
        assert_eq!(pool.stats().failed_connects, 2);
        fiber::sleep(SECOND);
        let_others_run();
        assert_eq!((pool.stats().idle, pool.stats().failed_connects), (1, 2));
    });
}

#[test]
fn a_keeper_whose_runtime_ends_gives_its_connect_up() {
    let waits = Arc::<Waits>::default();
    waits.connects.store(1, SeqCst);
    let reports = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&reports);
    let builder = Pool::builder()
        .max_size(1)
        .min_idle(1)
        .on_connect_error(move |_| _ = counted.fetch_add(1, SeqCst));
    let pool = Runtime::builder().workers(1).build().unwrap().run(|| {
        let pool = builder.build(Slow(Arc::clone(&waits)));
        let_others_run();
        assert_eq!(pool.stats().open, 1);
        pool
    });
    let stats = pool.stats();
    assert_eq!((stats.open, stats.cancelled_connects, stats.failed_connects), (0, 1, 0));
    assert_eq!(reports.load(SeqCst), 0, "the server is not to blame");
}

/// A fiber that unwinds must not wait, and the error has that reason.
#[test]
fn a_request_in_a_destructor_during_a_panic_is_cancelled() {
    struct Asks<'a>(&'a Pool<Slow>, &'a mut Option<PoolError<io::Error>>);
    impl Drop for Asks<'_> {
        fn drop(&mut self) {
            *self.1 = self.0.get().err();
        }
    }
    on_clock(|| {
        let (pool, _waits) = slow(|pool| pool);
        let _held = pool.get().unwrap();
        let mut error = None;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _asks = Asks(&pool, &mut error);
            resume_unwind(Box::new("on purpose"));
        }));
        assert!(panicked.is_err());
        let error = error.expect("it would have to wait");
        assert!(error.is_cancelled(), "{error:?}");
        let why = io::Error::from(error).to_string();
        assert!(why.contains("unwinds"), "{why}");
    });
}

/// The pool is closed while the request has a place already.
#[test]
fn a_pool_that_is_closed_during_a_test_lends_nothing() {
    on_clock(|| {
        let (pool, waits) = slow(|pool| pool.max_size(2).test_after_idle(Some(Duration::ZERO)));
        drop((pool.get().unwrap(), pool.get().unwrap()));
        waits.tests.store(1, SeqCst);
        waits.fails.store(1, SeqCst);
        fiber::scope(|s| {
            let asks = s.spawn_local(|| pool.get().map(drop));
            let_others_run();
            pool.close();
            waits.event.set();
            assert!(matches!(asks.join().unwrap(), Err(PoolError::Closed)));
        });
        assert_eq!((pool.stats().open, pool.stats().idle), (0, 0));
        assert_eq!(pool.stats().connects, 2, "no connection is opened for a closed pool");
    });
}

/// The keeper, which waits in a connect, has no pool any more.
#[test]
fn a_connection_that_comes_when_the_pool_is_closed_is_closed() {
    on_clock(|| {
        let (pool, waits) = slow(|pool| pool.min_idle(1));
        waits.connects.store(1, SeqCst);
        let_others_run();
        pool.close();
        waits.event.set();
        let_others_run();
        assert_eq!((pool.stats().open, pool.stats().idle, pool.stats().connects), (0, 0, 1));
        fiber::sleep(SECOND * 60);
        let_others_run();
        assert_eq!((pool.stats().open, pool.stats().connects), (0, 1), "the keeper has ended");
    });
}
