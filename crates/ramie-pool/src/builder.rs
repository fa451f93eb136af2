//! The options of a pool.

use std::{fmt, panic::AssertUnwindSafe, time::Duration};

use crate::{ManageConnection, Pool};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) max_size: usize,
    pub(crate) min_idle: usize,
    pub(crate) connection_timeout: Duration,
    pub(crate) max_lifetime: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) test_after_idle: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_size: 10,
            min_idle: 0,
            connection_timeout: Duration::from_secs(30),
            max_lifetime: Some(Duration::from_secs(30 * 60)),
            idle_timeout: Some(Duration::from_secs(10 * 60)),
            test_after_idle: Some(Duration::from_secs(1)),
        }
    }
}

/// A function of the program that gets the errors of the keeper. Unwind safe, so that pools are:
/// after a panic of the function, the pool relies on nothing that the function has changed.
pub(crate) type OnConnectError<E> = AssertUnwindSafe<Box<dyn Fn(&E) + Send + Sync>>;

/// Sets the options of a [`Pool`]; made by [`Pool::builder`].
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ramie_pool::{ManageConnection, Pool};
///
/// fn pool<M: ManageConnection>(manager: M) -> Pool<M> {
///     Pool::builder()
///         .max_size(20)
///         .connection_timeout(Duration::from_secs(5)) // for one request: `get_timeout`
///         .max_lifetime(Some(Duration::from_secs(60 * 60)))
///         .idle_timeout(None) // an idle connection stays open
///         .test_after_idle(Some(Duration::from_secs(10)))
///         .build(manager)
/// }
/// ```
#[must_use = "a pool is made by `build`"]
pub struct PoolBuilder<M: ManageConnection> {
    options: Options,
    on_connect_error: Option<OnConnectError<M::Error>>,
}

impl<M: ManageConnection> PoolBuilder<M> {
    pub(crate) fn new() -> Self {
        PoolBuilder { options: Options::default(), on_connect_error: None }
    }

    /// The largest number of connections, by default 10.
    ///
    /// # Panics
    /// If it is 0, or more than [`Semaphore::MAX_PERMITS`](ramie::sync::Semaphore::MAX_PERMITS).
    #[track_caller]
    pub fn max_size(mut self, connections: usize) -> Self {
        assert!(
            connections > 0,
            "max_size is 0, but a pool needs room for a connection; pass at least 1"
        );
        let limit = ramie::sync::Semaphore::MAX_PERMITS;
        assert!(
            connections <= limit,
            "max_size is {connections}, but must be at most {limit}; pass the number of \
             connections that the server accepts"
        );
        self.options.max_size = connections;
        self
    }

    /// The number of idle connections that the keeper tries to have ready, by default 0. The pool
    /// never has more than [`max_size`](Self::max_size) connections.
    ///
    /// If a connection cannot be opened, the keeper tries again after a second, and then after
    /// pauses that double up to 32 seconds. [`on_connect_error`](Self::on_connect_error) gets the
    /// errors; by default they are logged.
    pub fn min_idle(mut self, connections: usize) -> Self {
        self.options.min_idle = connections;
        self
    }

    /// How long [`Pool::get`] waits for a connection at most, opening and testing included; by
    /// default 30 seconds.
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.options.connection_timeout = timeout;
        self
    }

    /// How old a connection may become, by default 30 minutes; `None`: without a limit. One that
    /// is in use is closed when it is returned.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn max_lifetime(mut self, lifetime: Option<Duration>) -> Self {
        assert!(
            lifetime != Some(Duration::ZERO),
            "max_lifetime is 0, so each connection would be closed at once; use None for no limit"
        );
        self.options.max_lifetime = lifetime;
        self
    }

    /// How long a connection may be idle before it is closed, by default 10 minutes; `None`: for
    /// ever.
    pub fn idle_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.options.idle_timeout = timeout;
        self
    }

    /// Tests a connection before it is lent if it has been idle for at least this time, by default
    /// one second. With `Duration::ZERO` every idle connection is tested, with `None` none is.
    ///
    /// A test costs an exchange with the server; without one, a request can get a connection that
    /// the server has closed meanwhile. By default, r2d2 and bb8 test each connection that they
    /// lend. `test_after_idle(Some(Duration::ZERO))` does so here, which adds a round trip to the
    /// server to each request that gets an idle connection.
    #[doc(alias = "test_on_check_out")]
    pub fn test_after_idle(mut self, time: Option<Duration>) -> Self {
        self.options.test_after_idle = time;
        self
    }

    /// Calls `f` with the error of each attempt of the keeper to open a connection for
    /// [`min_idle`](Self::min_idle) that fails, instead of writing it to the log. The error of a
    /// request is not among them, because the request returns it.
    ///
    /// By default, the first failure is logged by the crate `log` at the level warn, as is one
    /// failure in 10 minutes while no attempt succeeds, and then the first success.
    ///
    /// The keeper calls `f`, and may wait in it; until `f` returns, the keeper neither opens nor
    /// closes connections. If `f` panics, the keeper ends, and the next use of the pool starts
    /// another one. A pool whose `f` owns a handle of it never ends.
    ///
    /// # Examples
    /// ```
    /// # use ramie_pool::{ManageConnection, Pool};
    /// fn pool<M: ManageConnection>(manager: M) -> Pool<M> {
    ///     let complain = |error: &M::Error| eprintln!("the database refuses: {error}");
    ///     Pool::builder().min_idle(2).on_connect_error(complain).build(manager)
    /// }
    /// ```
    #[doc(alias = "error_handler")]
    #[doc(alias = "error_sink")]
    pub fn on_connect_error(mut self, f: impl Fn(&M::Error) + Send + Sync + 'static) -> Self {
        self.on_connect_error = Some(AssertUnwindSafe(Box::new(f)));
        self
    }

    /// Makes the pool. If it is to have idle connections, the keeper begins to open them.
    ///
    /// # Blocking
    /// Never.
    #[must_use]
    pub fn build(self, manager: M) -> Pool<M> {
        Pool::new(manager, self.options, self.on_connect_error)
    }
}

impl<M: ManageConnection> fmt::Debug for PoolBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
