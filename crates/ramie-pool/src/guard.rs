//! A connection that is lent to a strand.

use std::{
    cell::Cell,
    fmt,
    ops::{Deref, DerefMut},
    thread,
};

use ramie::cancel::{self, Notices};

use crate::{ManageConnection, idle::Open, shared::Place, stats::Discard};

/// A connection of a [`Pool`](crate::Pool), lent until this is dropped.
///
/// The drop returns the connection to the pool or, if its last exchange may be unfinished, closes
/// it: [the module's documentation](crate#which-connections-are-used-again) has the rules.
///
/// It may be sent to another strand before its first use. It is not `Sync`; strands of a scope may
/// share a reference to the connection itself:
/// ```compile_fail,E0277
/// fn share<T: Sync>() {}
/// fn guards<M: ramie_pool::ManageConnection>() {
///     share::<ramie_pool::PooledConnection<M>>();
/// }
/// ```
#[must_use = "dropping it returns the connection"]
pub struct PooledConnection<M: ManageConnection> {
    /// `None` only while this is dropped.
    open: Option<Open<M::Connection>>,
    /// The notices of the strand when it first used the connection.
    first_use: Cell<Option<Notices>>,
    /// The strand noticed a cancellation and used the connection again, or another strand uses it.
    was_interrupted: Cell<bool>,
    is_broken: bool,
    /// Dropped last: it is given back when the connection is idle or gone.
    place: Place<M>,
}

impl<M: ManageConnection> PooledConnection<M> {
    pub(crate) fn new(open: Open<M::Connection>, place: Place<M>) -> Self {
        PooledConnection {
            open: Some(open),
            first_use: Cell::new(None),
            was_interrupted: Cell::new(false),
            is_broken: false,
            place,
        }
    }

    /// Lets the pool close the connection when it is returned, because its exchange is unfinished
    /// or its state is not that of a new connection.
    pub fn mark_broken(&mut self) {
        self.is_broken = true;
    }

    /// Compares the notices of the strand with those of the first use.
    fn observe(&self) {
        let now = cancel::notices();
        match self.first_use.get() {
            None => self.first_use.set(Some(now)),
            Some(first) if first == now => {}
            Some(_) => self.was_interrupted.set(true),
        }
    }

    fn open(&self) -> &Open<M::Connection> {
        self.open.as_ref().expect("there until the drop")
    }

    /// The reason why the connection may not be used again, as far as the guard knows it.
    fn discard_reason(&self) -> Option<Discard> {
        if thread::panicking() {
            return Some(Discard::Panicked);
        }
        // Before `is_broken`, because a cancelled call also makes the closure of `with` fail.
        let has_changed = |first| first != cancel::notices();
        if self.was_interrupted.get() || self.first_use.get().is_some_and(has_changed) {
            return Some(Discard::Cancelled);
        }
        self.is_broken.then_some(Discard::Broken)
    }
}

impl<M: ManageConnection> Deref for PooledConnection<M> {
    type Target = M::Connection;

    fn deref(&self) -> &M::Connection {
        self.observe();
        &self.open().connection
    }
}

impl<M: ManageConnection> DerefMut for PooledConnection<M> {
    fn deref_mut(&mut self) -> &mut M::Connection {
        self.observe();
        &mut self.open.as_mut().expect("there until the drop").connection
    }
}

impl<M: ManageConnection> Drop for PooledConnection<M> {
    fn drop(&mut self) {
        let Some(mut open) = self.open.take() else { return };
        let shared = &self.place.shared;
        match self.discard_reason() {
            Some(reason) => shared.discard(open, reason),
            None if shared.manager.has_broken(&mut open.connection) => {
                shared.discard(open, Discard::Broken);
            }
            None => shared.give_back(open),
        }
    }
}

impl<M: ManageConnection> fmt::Debug for PooledConnection<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledConnection")
            .field("is_broken", &self.is_broken)
            .finish_non_exhaustive()
    }
}
