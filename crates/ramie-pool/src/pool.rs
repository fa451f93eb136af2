//! The handle of a pool, and requests for connections.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use ramie::{
    cancel::{self, Cancelled, check_cancelled},
    sync::{AcquireTimeoutError, TryAcquireError},
    time::Instant,
};

use crate::{
    ManageConnection, PoolBuilder, PoolError, PoolStats, PooledConnection, TimeoutPhase,
    builder::{OnConnectError, Options},
    idle::{Idle, Open},
    shared::{CountedWaiter, Place, Shared, Taken},
    stats::{CountedOpen, Discard},
};

/// The outcome of a request.
type Lent<M> = Result<PooledConnection<M>, PoolError<<M as ManageConnection>::Error>>;

/// A pool of connections; a handle, which may be cloned and sent anywhere.
///
/// When the last handle and the last guard are gone, the idle connections are closed.
pub struct Pool<M: ManageConnection> {
    shared: Arc<Shared<M>>,
}

impl<M: ManageConnection> Pool<M> {
    /// Returns the default options.
    pub fn builder() -> PoolBuilder<M> {
        PoolBuilder::new()
    }

    pub(crate) fn new(
        manager: M,
        options: Options,
        on_connect_error: Option<OnConnectError<M::Error>>,
    ) -> Self {
        let shared = Shared::new(manager, options, on_connect_error);
        let mut idle = shared.idle();
        let is_missing = shared.is_missing(&idle);
        let call = idle.call_keeper(None, is_missing);
        drop(idle);
        shared.make(call);
        Pool { shared }
    }

    /// Waits for a connection, for at most [`PoolBuilder::connection_timeout`].
    ///
    /// If none is idle and fewer than [`PoolBuilder::max_size`] are open, the call opens one.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while all connections are in use or earlier
    /// requests wait, and while a connection is tested or opened.
    ///
    /// # Cancellation
    /// A cancel point, even if a connection is idle.
    ///
    /// # Errors
    /// All kinds of [`PoolError`]. A connection that cannot be opened fails the request at once.
    ///
    /// # Panics
    /// If the manager panics. Inside [`no_switch`](ramie::no_switch()), if the call would have to
    /// wait.
    #[track_caller]
    pub fn get(&self) -> Lent<M> {
        self.get_timeout(self.shared.options.connection_timeout)
    }

    /// Waits for a connection, for at most `timeout`. Otherwise like [`get`](Self::get).
    ///
    /// # Blocking
    /// As [`get`](Self::get).
    ///
    /// # Cancellation
    /// A cancel point, even if a connection is idle.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Panics
    /// As [`get`](Self::get).
    #[track_caller]
    pub fn get_timeout(&self, timeout: Duration) -> Lent<M> {
        let lent = self.lend(timeout);
        let counts = &self.shared.counts;
        match &lent {
            Ok(_) => counts.lent.fetch_add(1, Relaxed),
            Err(PoolError::Timeout(_)) => counts.timeouts.fetch_add(1, Relaxed),
            Err(PoolError::Cancelled(_)) => counts.cancelled.fetch_add(1, Relaxed),
            Err(PoolError::Closed | PoolError::Connect(_)) => 0,
        };
        lent
    }

    /// Waits for a connection and calls `f` with it. If `f` fails or panics, or is cancelled in a
    /// call, the connection is closed.
    ///
    /// Not every error of a protocol leaves an exchange unfinished. To keep the connection after
    /// such an error, return it as a value:
    /// `pool.with(|connection| Ok::<_, PoolError<_>>(connection.query()))`.
    ///
    /// # Blocking
    /// As [`get`](Self::get), and while `f` does.
    ///
    /// # Cancellation
    /// A cancel point, even if a connection is idle.
    ///
    /// # Errors
    /// Those of [`get`](Self::get) and of `f`. If the error of a client cannot be made of a
    /// [`PoolError`], such as that of redis, let `f` return `Box<dyn Error + Send + Sync>`.
    ///
    /// # Panics
    /// As [`get`](Self::get).
    #[track_caller]
    pub fn with<T, E>(&self, f: impl FnOnce(&mut M::Connection) -> Result<T, E>) -> Result<T, E>
    where
        E: From<PoolError<M::Error>>,
    {
        let mut connection = self.get()?;
        let result = f(&mut connection);
        if result.is_err() {
            connection.mark_broken();
        }
        result
    }

    /// Closes the pool: present and later requests fail, and the idle connections are closed. Those
    /// in use are closed when they are returned.
    ///
    /// # Blocking
    /// Never, unless the destructor of a connection does.
    ///
    /// # Cancellation
    /// Not a cancel point.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Returns whether the pool is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.places.is_closed()
    }

    /// Returns the state of the pool and its counts.
    ///
    /// # Blocking
    /// Never.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.shared.stats()
    }

    #[track_caller]
    fn lend(&self, timeout: Duration) -> Lent<M> {
        let started = Instant::now();
        let place = self.wait_for_place(started, timeout)?;
        // Without a deadline if it lies beyond the end of the clock.
        let deadline = started.checked_add(timeout);
        loop {
            match self.shared.take_idle() {
                Taken::Closed => return Err(PoolError::Closed),
                Taken::Idle(idle) => {
                    if let Some(open) = self.check_idle(idle, deadline)? {
                        return Ok(PooledConnection::new(open, place));
                    }
                }
                Taken::MayOpen(counted) => {
                    let open = self.open(counted, deadline)?;
                    return Ok(PooledConnection::new(open, place));
                }
            }
        }
    }

    #[track_caller]
    fn wait_for_place(
        &self,
        started: Instant,
        timeout: Duration,
    ) -> Result<Place<M>, PoolError<M::Error>> {
        check_cancelled().map_err(PoolError::Cancelled)?;
        match self.shared.try_place() {
            Ok(place) => return Ok(place),
            Err(TryAcquireError::Closed) => return Err(PoolError::Closed),
            Err(TryAcquireError::NoPermits) => {}
        }
        let Shared { counts, places, .. } = &*self.shared;
        let waiter = CountedWaiter::new(&counts.waiting);
        let outcome = places.acquire_timeout(1, timeout);
        drop(waiter);
        counts.add_wait(started.elapsed());
        match outcome {
            Ok(permit) => permit.forget(),
            Err(AcquireTimeoutError::Timeout) => {
                return Err(PoolError::Timeout(TimeoutPhase::Wait));
            }
            Err(AcquireTimeoutError::Closed) => return Err(PoolError::Closed),
            Err(AcquireTimeoutError::Cancelled) => {
                // A fiber that unwinds is refused the wait without a cancellation.
                let why = || Cancelled::because("the strand unwinds from a panic");
                return Err(PoolError::Cancelled(check_cancelled().err().unwrap_or_else(why)));
            }
        }
        Ok(self.shared.place())
    }

    /// Tests an idle connection if necessary; `None`: it was closed.
    fn check_idle(
        &self,
        mut idle: Idle<M::Connection>,
        deadline: Option<Instant>,
    ) -> Result<Option<Open<M::Connection>>, PoolError<M::Error>> {
        let Shared { manager, options, counts, .. } = &*self.shared;
        let now = Instant::now();
        if idle.has_expired(options, now) {
            counts.add_discard(Discard::Expired);
            return Ok(None);
        }
        if !idle.needs_test(options, now) {
            return Ok(Some(idle.open));
        }
        let before = cancel::notices();
        let test = limited(deadline, || manager.is_valid(&mut idle.open.connection));
        // A test that swallows its cancellation leaves the exchange unfinished.
        if test.is_ok() && before == cancel::notices() {
            return Ok(Some(idle.open));
        }
        counts.add_discard(Discard::Invalid);
        drop(idle);
        interruption(deadline, TimeoutPhase::Test).map_or(Ok(None), Err)
    }

    fn open(
        &self,
        counted: CountedOpen,
        deadline: Option<Instant>,
    ) -> Result<Open<M::Connection>, PoolError<M::Error>> {
        match limited(deadline, || self.shared.manager.connect()) {
            Ok(connection) => Ok(Open::new(connection, counted)),
            Err(error) => match interruption(deadline, TimeoutPhase::Connect) {
                Some(interruption) => {
                    counted.cancelled();
                    Err(interruption)
                }
                None => Err(PoolError::Connect(error)),
            },
        }
    }
}

/// Calls a method of the manager under the time limit of a request.
fn limited<T, E>(deadline: Option<Instant>, f: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    match deadline {
        Some(deadline) => cancel::try_with_deadline(deadline, f),
        None => f(),
    }
}

/// The reason why a request cannot go on after a failure.
fn interruption<E>(deadline: Option<Instant>, phase: TimeoutPhase) -> Option<PoolError<E>> {
    match check_cancelled() {
        Err(cancelled) => Some(PoolError::Cancelled(cancelled)),
        Ok(()) => {
            let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
            is_late.then_some(PoolError::Timeout(phase))
        }
    }
}

impl<M: ManageConnection> Clone for Pool<M> {
    fn clone(&self) -> Self {
        Pool { shared: Arc::clone(&self.shared) }
    }
}

impl<M: ManageConnection> fmt::Debug for Pool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
