//! The driver's multishot ops; their protocol is in [`crate::multishot`].

use std::sync::Arc;

use super::Driver;
use crate::backend::Backend;
use crate::buffer::Lease;
use crate::multishot::{
    MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem, NoBytes,
};

impl Driver {
    /// Begins a multishot op. The first [`next_item`](Self::next_item) arms it, and items that
    /// nobody has taken are in `inbox` once it is stopped.
    ///
    /// None: this driver has no such ops, or another driver has one for `inbox`. The caller then
    /// does one-shot ops.
    ///
    /// The descriptor must stay open until the kernel has looked it up: until an item has arrived,
    /// or [`settle_multishot`](Self::settle_multishot) has returned. After that it may be closed,
    /// and its number reused; the kernel keeps the file until the op is stopped.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn start_multishot(
        &mut self,
        op: MultishotOp,
        inbox: &Arc<MultishotInbox>,
    ) -> Option<MultishotId> {
        self.check_fork();
        self.backend.start_multishot(op, inbox)
    }

    /// As [`next_item`](Self::next_item) and, if there is no item,
    /// [`await_item`](Self::await_item), in one step: for a fiber that waits for nothing else.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn next_item_or_await(&mut self, id: MultishotId, user: u64) -> NextItem {
        match self.next_item(id) {
            NextItem::Pending if !self.await_item(id, user) => NextItem::Gone,
            next => next,
        }
    }

    /// Takes the oldest bytes of a stream; if nothing has arrived and the op is armed, records
    /// `user` as [`await_item`](Self::await_item) does. This is the usual case of
    /// [`next_item_or_await`](Self::next_item_or_await), in fewer steps.
    ///
    /// # Errors
    /// There are no bytes.
    ///
    /// # Panics
    /// In the child of a fork.
    #[inline]
    pub fn next_bytes_or_await(&mut self, id: MultishotId, user: u64) -> Result<Lease, NoBytes> {
        self.check_fork();
        self.backend.next_bytes_or_await(id, user)
    }

    /// Takes the oldest item; if there is none, makes sure that the op is armed.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn next_item(&mut self, id: MultishotId) -> NextItem {
        self.check_fork();
        self.backend.next_item(id)
    }

    /// Makes sure that the kernel has looked up the op's descriptor, so that it may be closed, and
    /// takes the oldest item, if there is one. Does not arm the op.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn settle_multishot(&mut self, id: MultishotId) -> Option<MultishotItem> {
        self.check_fork();
        self.backend.settle_multishot(id)
    }

    /// Asks that `user`, which is not 0, come out of [`pop_notice`](Self::pop_notice) when
    /// [`next_item`](Self::next_item) has a new result. False: it has one already.
    pub fn await_item(&mut self, id: MultishotId, user: u64) -> bool {
        self.backend.await_item(id, user)
    }

    /// Stops an op; its leftovers are in its inbox afterwards. False: another driver has it.
    ///
    /// # Blocking
    /// For some microseconds, until the kernel has ended the op.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn stop_multishot(&mut self, id: MultishotId) -> bool {
        self.check_fork();
        self.backend.stop_multishot(id)
    }

    /// Takes the next word that was left by [`await_item`](Self::await_item) or
    /// [`MultishotInbox::request_stop`] and whose event has come.
    #[inline]
    pub fn pop_notice(&mut self) -> Option<u64> {
        self.backend.pop_notice()
    }

    /// Lets an op end without notice, as the kernel may: for tests.
    #[doc(hidden)]
    pub fn end_multishot_silently(&mut self, id: MultishotId) {
        self.backend.end_multishot_silently(id);
    }
}
