//! What the fibers of a connection share: its settings, and the counts by which the connection
//! knows whether it is busy.
//!
//! | count | of | ends with |
//! |---|---|---|
//! | `running` | handlers, those of streams that were reset included | the fiber of the handler |
//! | `unsent` | responses that the client has not taken, from the beginning of their requests | the last byte that hyper hands to the transport, or a reset |
//!
//! A response is held by what is left of it: the future of the response, then its body, then the
//! pieces of the body that wait in hyper for the window of the stream. hyper drops a piece when it
//! has written the last byte of it.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    task::Waker,
};

use ramie::cancel::CancelHandle;

use super::handler_time::HandlerTimes;
use crate::{
    connection::{Client, Presence, Service},
    limits::Limits,
};

pub(super) struct Shared {
    pub(super) service: Arc<Service>,
    pub(super) client: Client,
    /// Cancelled when the connection ends.
    pub(super) until_end: CancelHandle,
    /// Cancelled when the server begins to stop.
    pub(super) until_stop: CancelHandle,
    pub(super) handler_times: Rc<HandlerTimes>,
    running: Cell<usize>,
    unsent: Cell<usize>,
    /// How many requests have begun.
    requests: Cell<u64>,
    /// The client has taken a part of a body since the connection has looked.
    has_progressed: Cell<bool>,
    /// No more input will arrive.
    has_ended: Rc<Cell<bool>>,
    /// Wakes the fiber of the connection when a count has changed.
    waker: RefCell<Waker>,
}

/// Counts a handler as long as it runs.
pub(super) struct Running(Rc<Shared>);

/// Counts a response as long as a part of it is not sent.
pub(super) struct Unsent(Rc<Shared>);

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    Idle,
    /// Handlers run.
    Handling,
    /// It waits for the client to take the rest of responses.
    Sending,
}

impl Shared {
    pub(super) fn new(
        service: &Arc<Service>,
        client: &Client,
        presence: &impl Presence,
    ) -> Rc<Self> {
        Rc::new(Shared {
            service: Arc::clone(service),
            client: client.clone(),
            until_end: presence.scope().clone(),
            until_stop: presence.until_stop().clone(),
            handler_times: HandlerTimes::new(client.connection, service.limits.request_timeout),
            running: Cell::new(0),
            unsent: Cell::new(0),
            requests: Cell::new(0),
            has_progressed: Cell::new(false),
            has_ended: Rc::default(),
            waker: RefCell::new(Waker::noop().clone()),
        })
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.service.limits
    }

    /// A request begins, whose response is to be sent.
    pub(super) fn begin(self: &Rc<Self>) -> Rc<Unsent> {
        self.requests.set(self.requests.get() + 1);
        self.unsent.set(self.unsent.get() + 1);
        Rc::new(Unsent(Rc::clone(self)))
    }

    /// A handler begins. None: too many run already, because the client has reset their streams
    /// faster than they noticed it.
    pub(super) fn run(self: &Rc<Self>) -> Option<Running> {
        let most = (self.limits().concurrent_streams as usize).saturating_mul(2);
        if self.running.get() >= most {
            return None;
        }
        self.running.set(self.running.get() + 1);
        Some(Running(Rc::clone(self)))
    }

    pub(super) fn activity(&self) -> Activity {
        match (self.running.get(), self.unsent.get()) {
            (0, 0) => Activity::Idle,
            (0, _) => Activity::Sending,
            _ => Activity::Handling,
        }
    }

    /// Whether no further request is wanted, because the client is gone or has sent as many as it
    /// may.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended.get() || self.requests.get() >= self.limits().requests_per_connection
    }

    pub(super) fn end_of_input(&self) -> &Rc<Cell<bool>> {
        &self.has_ended
    }

    pub(super) fn take_progress(&self) -> bool {
        self.has_progressed.take()
    }

    pub(super) fn wake_with(&self, waker: &Waker) {
        self.waker.borrow_mut().clone_from(waker);
    }

    fn wake(&self) {
        let waker = self.waker.replace(Waker::noop().clone());
        waker.wake();
    }
}

impl Unsent {
    /// The client has room for a part of the response.
    pub(super) fn note_progress(&self) {
        self.0.has_progressed.set(true);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
        self.0.wake();
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.0.unsent.set(self.0.unsent.get() - 1);
        self.0.wake();
    }
}
