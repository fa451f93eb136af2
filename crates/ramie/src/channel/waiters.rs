//! The waiters of a channel. Each lies in memory that does not move while its strand waits.
#![allow(unsafe_code)]

use std::ptr;

use crate::core::{
    primitive::Cell,
    strand::{StrandHeader, Wake, WakeRef},
};

/// How the operation of a waiter ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Nothing,
    /// The peer put a value into the waiter, or took the value out of it.
    Done,
    Disconnected,
    /// The waiter's own strand was cancelled, and this arm of its select reports that.
    Cancelled,
}

/// An entry in a queue of waiters. It is accessed under the channel's lock, or, while it is on no
/// queue, by its strand without the lock.
pub(super) struct ChannelWaiter<T> {
    wait: Cell<Option<WakeRef>>,
    /// The value that a receiver receives or a sender sends.
    pub(super) value: Cell<Option<T>>,
    pub(super) outcome: Cell<Outcome>,
    is_queued: Cell<bool>,
    next: Cell<*const ChannelWaiter<T>>,
    previous: Cell<*const ChannelWaiter<T>>,
}

impl<T> ChannelWaiter<T> {
    pub(super) fn new(value: Option<T>) -> Self {
        ChannelWaiter {
            wait: Cell::new(None),
            value: Cell::new(value),
            outcome: Cell::new(Outcome::Nothing),
            is_queued: Cell::new(false),
            next: Cell::new(ptr::null()),
            previous: Cell::new(ptr::null()),
        }
    }
}

/// A first in, first out queue.
pub(super) struct Waiters<T> {
    /// INVARIANT: null or a waiter that is alive, as are those it links to: see `push`.
    first: *const ChannelWaiter<T>,
    last: *const ChannelWaiter<T>,
}

/// A waiter whose wait was claimed: its strand stays suspended until `header` is scheduled.
pub(super) struct Claimed<T> {
    header: &'static StrandHeader,
    waiter: *const ChannelWaiter<T>,
}

impl<T> Waiters<T> {
    pub(super) const fn new() -> Self {
        Waiters { first: ptr::null(), last: ptr::null() }
    }

    /// Appends a waiter, unless it is on this queue already.
    ///
    /// # Safety
    /// Until the waiter is removed, it is not moved, and is accessed only under the channel's lock.
    pub(super) unsafe fn push(&mut self, waiter: &ChannelWaiter<T>, wait: WakeRef) {
        if waiter.is_queued.get() {
            return;
        }
        let this: *const ChannelWaiter<T> = waiter;
        waiter.wait.set(Some(wait));
        waiter.outcome.set(Outcome::Nothing);
        waiter.is_queued.set(true);
        waiter.next.set(ptr::null());
        waiter.previous.set(self.last);
        // SAFETY: queued waiters are alive (invariant of `first`).
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(this),
            None => self.first = this,
        }
        self.last = this;
    }

    /// Removes a waiter if it is still on this queue.
    pub(super) fn remove(&mut self, waiter: &ChannelWaiter<T>) {
        if !waiter.is_queued.replace(false) {
            return;
        }
        let (previous, next) = (waiter.previous.get(), waiter.next.get());
        // SAFETY: queued waiters are alive (invariant of `first`).
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.first = next,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.previous.set(previous),
            None => self.last = previous,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Whether the queue contains a waiter that belongs to a wait other than `wait`.
    pub(super) fn has_other_than(&self, wait: WakeRef) -> bool {
        let mut at = self.first;
        // SAFETY: queued waiters are alive (invariant of `first`).
        while let Some(waiter) = unsafe { at.as_ref() } {
            if waiter.wait.get() != Some(wait) {
                return true;
            }
            at = waiter.next.get();
        }
        false
    }

    /// Removes waiters from the front until the wait of one is claimed.
    #[inline]
    pub(super) fn claim_first(&mut self) -> Option<Claimed<T>> {
        loop {
            // SAFETY: queued waiters are alive (invariant of `first`).
            let waiter = unsafe { self.first.as_ref() }?;
            self.remove(waiter);
            if let Some(header) = waiter.wait.get().and_then(|wait| wait.claim(Wake::Woken)) {
                return Some(Claimed { header, waiter });
            }
        }
    }
}

impl<T> Claimed<T> {
    fn waiter(&self) -> &ChannelWaiter<T> {
        // SAFETY: the wait of its strand was claimed and the strand is not scheduled yet, so the
        // waiter is neither moved nor freed.
        unsafe { &*self.waiter }
    }

    /// Gives a value to a waiting receiver.
    #[inline]
    pub(super) fn give(self, value: T) -> &'static StrandHeader {
        self.waiter().value.set(Some(value));
        self.waiter().outcome.set(Outcome::Done);
        self.header
    }

    /// Takes the value of a waiting sender.
    #[inline]
    pub(super) fn take(self) -> (Option<T>, &'static StrandHeader) {
        self.waiter().outcome.set(Outcome::Done);
        (self.waiter().value.take(), self.header)
    }

    pub(super) fn disconnect(self) -> &'static StrandHeader {
        self.waiter().outcome.set(Outcome::Disconnected);
        self.header
    }
}
