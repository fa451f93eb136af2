//! The inbox of a socket: its multishot op, and the items that the op left.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{MultishotId, MultishotItem};
use crate::wake::Waker;

/// The requests of other threads to the driver that has an op.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The number of the driver, never used again: 64 bits do not wrap around in a process's life.
    pub(crate) driver: u64,
    pub(crate) to_stop: Mutex<Vec<MultishotId>>,
    waker: Waker,
}

impl Requests {
    pub(crate) fn new(waker: Waker) -> Arc<Self> {
        static DRIVERS: AtomicU64 = AtomicU64::new(1);
        let driver = DRIVERS.fetch_add(1, Ordering::Relaxed);
        Arc::new(Requests { driver, to_stop: Mutex::default(), waker })
    }

    fn stop(&self, id: MultishotId) {
        lock(&self.to_stop).push(id);
        self.waker.wake();
    }

    pub(crate) fn take(&self) -> Vec<MultishotId> {
        std::mem::take(&mut lock(&self.to_stop))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const ARMED: u8 = 1;
const LEFTOVER: u8 = 2;

/// The inbox of a socket: the op that a driver does for it, and the items that the op left.
#[derive(Debug, Default)]
pub struct MultishotInbox {
    /// Whether a driver has an op, and whether items are left: a copy that is read without the
    /// lock.
    state: AtomicU8,
    /// The number of strands in a one-shot receive. They wait in the kernel and do not look here,
    /// so no item may be put here meanwhile. A `usize`, because a strand that is abandoned raises
    /// it for good.
    takers: AtomicUsize,
    inner: Mutex<Inner>,
}

/// A strand in a one-shot receive; made by [`MultishotInbox::take_one_by_one`].
#[derive(Debug)]
pub struct OneByOne<'a>(&'a MultishotInbox);

impl Drop for OneByOne<'_> {
    fn drop(&mut self) {
        self.0.takers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// In the order of their arrival.
    leftover: VecDeque<MultishotItem>,
    owner: Option<(Arc<Requests>, MultishotId)>,
    /// The words of the callers that wait until the op is gone.
    waiting: Vec<u64>,
    is_closed: bool,
}

impl MultishotInbox {
    /// Returns whether there is an op or an item, by one load.
    #[inline]
    pub fn is_in_use(&self) -> bool {
        // Acquire: pairs with the store of `note`, so a caller that locks next finds the same.
        self.state.load(Ordering::Acquire) != 0
    }

    /// Returns whether an item is left, by one load.
    pub fn has_leftover(&self) -> bool {
        // Acquire: as in `is_in_use`.
        self.state.load(Ordering::Acquire) & LEFTOVER != 0
    }

    /// Announces a one-shot receive: until the guard is dropped no multishot op starts. Before the
    /// caller waits, it stops an op that has started, and takes the items that the op left.
    ///
    /// A strand that is abandoned meanwhile stays announced. Every later receive of the descriptor
    /// is then a one-shot receive, which is correct but slower.
    pub fn take_one_by_one(&self) -> OneByOne<'_> {
        self.takers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence of `adopt`: either this strand sees the op from now on, or `adopt`
        // sees this strand.
        fence(Ordering::SeqCst);
        OneByOne(self)
    }

    /// The op that a driver does now.
    pub fn op(&self) -> Option<MultishotId> {
        lock(&self.inner).owner.as_ref().map(|(_, id)| *id)
    }

    /// Takes the oldest item that an op left behind.
    pub fn take_leftover(&self) -> Option<MultishotItem> {
        if !self.has_leftover() {
            return None;
        }
        let mut inner = lock(&self.inner);
        let item = inner.leftover.pop_front();
        self.note(&inner);
        item
    }

    /// Calls `take` with the oldest item that an op left behind, and removes the item if it returns
    /// true. Returns whether there was an item.
    ///
    /// A strand that may leave a part of an item in the inbox, or all of it, looks at it here. If
    /// it took the item out and put it back, another strand would find nothing meanwhile, and wait
    /// in the kernel. `take` is called under the inbox's lock, so it must not wait.
    pub fn with_oldest(&self, take: &mut dyn FnMut(&mut MultishotItem) -> bool) -> bool {
        if !self.has_leftover() {
            return false;
        }
        let mut inner = lock(&self.inner);
        let Some(oldest) = inner.leftover.front_mut() else { return false };
        let item = if take(oldest) { inner.leftover.pop_front() } else { None };
        self.note(&inner);
        drop(inner);
        // Outside of the lock, because a descriptor may be closed, or a buffer be given back.
        drop(item);
        true
    }

    /// Asks the driver that has the op to stop it. `user` comes out of that driver's
    /// [`pop_notice`](crate::Driver::pop_notice) when the op is gone. Returns false if no driver
    /// has an op.
    pub fn request_stop(&self, user: u64) -> bool {
        let mut inner = lock(&self.inner);
        let Some((requests, id)) = inner.owner.clone() else { return false };
        if user != 0 {
            inner.waiting.push(user);
        }
        drop(inner);
        requests.stop(id);
        true
    }

    /// Drops the items that are left or still arrive: the socket is closed.
    pub fn close(&self) {
        let leftover = {
            let mut inner = lock(&self.inner);
            inner.is_closed = true;
            let leftover = std::mem::take(&mut inner.leftover);
            self.note(&inner);
            leftover
        };
        drop(leftover);
    }

    /// Registers the op that a driver is about to start. Returns false, and the driver must not
    /// start the op, if another driver has one or a one-shot receive waits.
    pub(crate) fn adopt(&self, requests: &Arc<Requests>, id: MultishotId) -> bool {
        let mut inner = lock(&self.inner);
        if inner.owner.is_some() {
            return false;
        }
        inner.owner = Some((Arc::clone(requests), id));
        self.note(&inner);
        // Pairs with the fence of `take_one_by_one`.
        fence(Ordering::SeqCst);
        let is_alone = self.takers.load(Ordering::Relaxed) == 0;
        if !is_alone {
            inner.owner = None;
            self.note(&inner);
        }
        is_alone
    }

    /// Takes the items that an op left when it ended. Returns the words of the callers that waited
    /// for that.
    pub(crate) fn leave(&self, items: impl IntoIterator<Item = MultishotItem>) -> Vec<u64> {
        let mut inner = lock(&self.inner);
        if !inner.is_closed {
            inner.leftover.extend(items);
        }
        inner.owner = None;
        self.note(&inner);
        std::mem::take(&mut inner.waiting)
    }

    fn note(&self, inner: &Inner) {
        let armed = if inner.owner.is_some() { ARMED } else { 0 };
        let leftover = if inner.leftover.is_empty() { 0 } else { LEFTOVER };
        // Release: pairs with the loads without the lock.
        self.state.store(armed | leftover, Ordering::Release);
    }
}
