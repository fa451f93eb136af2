//! The time that handlers have: [`Limits::request_timeout`](crate::Limits::request_timeout), or the
//! request's own, from the begin of a request to the return of its handler.
//!
//! A fiber of the connection, the timekeeper, cancels the scopes of the handlers whose time is up,
//! with the reason [`TIME_IS_UP`], as the overseer of the server does over HTTP/1.1. A limit around
//! the handler would need no fiber, but calls in the handler would see it as one of the program.
//!
//! | the timekeeper | left when | for |
//! |---|---|---|
//! | absent | a request begins | cancels |
//! | cancels the scopes of the handlers whose time is up | no handler is left, or the connection has ended | absent |
//! | | handlers are left | waits |
//! | waits | the time of the handler that has least of it left is up | cancels |
//! | | a request gets a time of its own | cancels |
//! | | a request begins that has less time left than all others, which have longer times of their own | cancels |
//! | | the connection has ended | cancels |
//!
//! The end of a handler does not wake the timekeeper, so that it usually wakes once for each
//! `request_timeout`, however many requests there are.
//!
//! *The race to fear*: the client resets a stream, or the handler returns, when its time is up. All
//! of it happens on the worker of the connection. The first of the two reasons for which a scope is
//! cancelled counts, and the response to a stream that was reset goes nowhere. A handler whose
//! scope the timekeeper has cancelled is no longer among those that have time, so
//! [`HandlerTime::end`] and the scope always agree.
//!
//! # Requests with a time of their own
//! Such a time may be set on any thread. A request knows the numbers of its connection and of
//! itself only, so [`set_request_time`] looks the connection up, leaves the time there and sets an
//! event. The timekeeper resets the event before it takes the times that were left, so it misses
//! none. A time for a request whose handler has ended is dropped, because no other request of the
//! connection has its number.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    mem,
    rc::Rc,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ramie::{cancel::CancelHandle, sync::Event, time::Instant};

use super::fibers::ScopedFibers;
use crate::connection::TIME_IS_UP;

/// The open connections, by their keys. Held for some instructions and never across a wait, as the
/// other lock here.
static CONNECTIONS: LazyLock<Mutex<HashMap<u64, Arc<OwnTimes>>>> = LazyLock::new(Mutex::default);

/// The handlers of a connection whose time is not up.
pub(super) struct HandlerTimes {
    /// The key of the connection.
    connection: u64,
    limit: Duration,
    running: RefCell<BTreeMap<u64, Timed>>,
    /// The number of the latest request.
    latest: Cell<u64>,
    has_keeper: Cell<bool>,
    has_ended: Cell<bool>,
    /// When the timekeeper has begun to wait, and for how long.
    wait: Cell<(Instant, Duration)>,
    own: Arc<OwnTimes>,
}

/// A handler that runs.
struct Timed {
    begin: Instant,
    limit: Duration,
    scope: CancelHandle,
}

/// The times of their own that requests have got, until the timekeeper takes them.
#[derive(Default)]
struct OwnTimes {
    /// By the numbers of the requests.
    set: Mutex<Vec<(u64, Duration)>>,
    /// Wakes the timekeeper.
    changed: Event,
}

/// The time of one handler, which ends when this is dropped.
pub(super) struct HandlerTime {
    times: Rc<HandlerTimes>,
    number: u64,
}

/// Notes the end of the timekeeper, also if there is no fiber for it.
struct KeepTime(Rc<HandlerTimes>);

/// Sets the time of a request, from its begin, instead of the server's limit.
pub(crate) fn set_request_time(connection: u64, number: u64, limit: Duration) {
    let own = lock(&CONNECTIONS).get(&connection).cloned();
    if let Some(own) = own {
        lock(&own.set).push((number, limit));
        own.changed.set();
    }
}

/// Returns how much of a time, given by its begin and its length, is left at `now`.
fn left((begin, length): (Instant, Duration), now: Instant) -> Duration {
    length.saturating_sub(now.saturating_duration_since(begin))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HandlerTimes {
    /// Those of a connection.
    pub(super) fn new(connection: u64, limit: Duration) -> Rc<Self> {
        let own = Arc::<OwnTimes>::default();
        lock(&CONNECTIONS).insert(connection, Arc::clone(&own));
        Rc::new(HandlerTimes {
            connection,
            limit,
            running: RefCell::default(),
            latest: Cell::new(0),
            has_keeper: Cell::new(false),
            has_ended: Cell::new(false),
            wait: Cell::new((Instant::now(), Duration::ZERO)),
            own,
        })
    }

    /// The time of a handler begins, which is to run in `scope`.
    pub(super) fn begin<'scope>(
        self: &Rc<Self>,
        fibers: ScopedFibers<'scope, '_>,
        scope: CancelHandle,
    ) -> HandlerTime {
        let number = self.latest.get() + 1;
        self.latest.set(number);
        let begin = Instant::now();
        let timed = Timed { begin, limit: self.limit, scope };
        self.running.borrow_mut().insert(number, timed);
        if !self.has_keeper.replace(true) {
            let keeper = KeepTime(Rc::clone(self));
            // If the spawn fails, the next request tries again.
            fibers.spawn(move || keeper.0.keep());
        } else if left(self.wait.get(), begin) > self.limit {
            self.own.changed.set();
        }
        HandlerTime { times: Rc::clone(self), number }
    }

    /// The connection has ended, and all of its handlers are cancelled.
    pub(super) fn end(&self) {
        self.has_ended.set(true);
        self.own.changed.set();
    }

    fn keep(&self) {
        loop {
            self.own.changed.reset();
            self.take_own();
            let Some(left) = self.cancel_late().filter(|_| !self.has_ended.get()) else { return };
            self.wait.set((Instant::now(), left));
            // An error means that a scope around the server was cancelled, and so the handlers are.
            if self.own.changed.wait_timeout(left).is_err() {
                return;
            }
        }
    }

    fn take_own(&self) {
        let mut running = self.running.borrow_mut();
        for (number, limit) in mem::take(&mut *lock(&self.own.set)) {
            if let Some(timed) = running.get_mut(&number) {
                timed.limit = limit;
            }
        }
    }

    /// Cancels the handlers whose time is up. Returns the least time that others have left.
    fn cancel_late(&self) -> Option<Duration> {
        let now = Instant::now();
        let left = |timed: &Timed| left((timed.begin, timed.limit), now);
        let mut running = self.running.borrow_mut();
        let late: Vec<_> = running.extract_if(.., |_, timed| left(timed).is_zero()).collect();
        let least = running.values().map(left).min();
        drop(running);
        for (_, timed) in late {
            timed.scope.cancel_because(TIME_IS_UP);
        }
        least
    }
}

impl Drop for HandlerTimes {
    fn drop(&mut self) {
        lock(&CONNECTIONS).remove(&self.connection);
    }
}

impl HandlerTime {
    /// The number of the request on its connection, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The handler has returned. Returns whether it had time until then.
    pub(super) fn end(self) -> bool {
        self.times.running.borrow_mut().remove(&self.number).is_some()
    }
}

impl Drop for HandlerTime {
    fn drop(&mut self) {
        self.times.running.borrow_mut().remove(&self.number);
    }
}

impl Drop for KeepTime {
    fn drop(&mut self) {
        self.0.has_keeper.set(false);
    }
}
