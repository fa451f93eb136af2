//! The time that handlers have: [`Limits::request_timeout`](crate::Limits::request_timeout), from
//! the begin of a request to the return of its handler.
//!
//! A fiber of the connection, the timekeeper, cancels the scopes of the handlers whose time is up,
//! with the reason [`TIME_IS_UP`], as the overseer of the server does over HTTP/1.1. A limit around
//! the handler would need no fiber, but calls in the handler would see it as one of the program.
//!
//! | the timekeeper | left when | for |
//! |---|---|---|
//! | absent | a request begins | waits |
//! | waits until the time of the handler that has least of it left is up | this time has come, or the connection has ended | cancels |
//! | cancels the scopes of the handlers whose time is up | no handler is left, or the connection has ended | absent |
//! | | handlers are left | waits |
//!
//! The end of a handler does not wake the timekeeper, so that it usually wakes once for each
//! `request_timeout`, however many requests there are.
//!
//! *The race to fear*: the client resets a stream, or the handler returns, when its time is up. All
//! of it happens on the worker of the connection. The first of the two reasons for which a scope is
//! cancelled counts, and the response to a stream that was reset goes nowhere. A handler whose
//! scope the timekeeper has cancelled is no longer among those that have time, so
//! [`HandlerTime::end`] and the scope always agree.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::Duration,
};

use ramie::{cancel::CancelHandle, sync::Event, time::Instant};

use super::fibers::ScopedFibers;
use crate::connection::TIME_IS_UP;

/// The handlers of a connection whose time is not up.
pub(super) struct HandlerTimes {
    limit: Duration,
    /// In the order in which they began.
    running: RefCell<BTreeMap<u64, Timed>>,
    next_key: Cell<u64>,
    has_keeper: Cell<bool>,
    has_ended: Event,
}

/// A handler that runs.
struct Timed {
    begin: Instant,
    scope: CancelHandle,
}

/// The time of one handler, which ends when this is dropped.
pub(super) struct HandlerTime {
    times: Rc<HandlerTimes>,
    key: u64,
}

/// Notes the end of the timekeeper, also if there is no fiber for it.
struct KeepTime(Rc<HandlerTimes>);

impl HandlerTimes {
    pub(super) fn new(limit: Duration) -> Rc<Self> {
        Rc::new(HandlerTimes {
            limit,
            running: RefCell::default(),
            next_key: Cell::new(0),
            has_keeper: Cell::new(false),
            has_ended: Event::new(),
        })
    }

    /// The time of a handler begins, which is to run in `scope`.
    pub(super) fn begin<'scope>(
        self: &Rc<Self>,
        fibers: ScopedFibers<'scope, '_>,
        scope: CancelHandle,
    ) -> HandlerTime {
        let key = self.next_key.get();
        self.next_key.set(key + 1);
        self.running.borrow_mut().insert(key, Timed { begin: Instant::now(), scope });
        if !self.has_keeper.replace(true) {
            let keeper = KeepTime(Rc::clone(self));
            // If the spawn fails, the next request tries again.
            fibers.spawn(move || keeper.0.keep());
        }
        HandlerTime { times: Rc::clone(self), key }
    }

    /// The connection has ended, and all of its handlers are cancelled.
    pub(super) fn end(&self) {
        self.has_ended.set();
    }

    fn keep(&self) {
        while let Some(left) = self.cancel_late() {
            // An error means that a scope around the server was cancelled, and so the handlers are.
            if self.has_ended.wait_timeout(left) != Ok(false) {
                return;
            }
        }
    }

    /// Cancels the handlers whose time is up. Returns the least time that others have left.
    fn cancel_late(&self) -> Option<Duration> {
        let now = Instant::now();
        let left = |running: &Timed| {
            self.limit.saturating_sub(now.saturating_duration_since(running.begin))
        };
        loop {
            let mut running = self.running.borrow_mut();
            let first = running.first_entry()?;
            let left = left(first.get());
            if !left.is_zero() {
                return Some(left);
            }
            let late = first.remove();
            drop(running);
            late.scope.cancel_because(TIME_IS_UP);
        }
    }
}

impl HandlerTime {
    /// The handler has returned. Returns whether it had time until then.
    pub(super) fn end(self) -> bool {
        self.times.running.borrow_mut().remove(&self.key).is_some()
    }
}

impl Drop for HandlerTime {
    fn drop(&mut self) {
        self.times.running.borrow_mut().remove(&self.key);
    }
}

impl Drop for KeepTime {
    fn drop(&mut self) {
        self.0.has_keeper.set(false);
    }
}
