//! A channel's waiters, in the frames of the strands that wait.
#![allow(unsafe_code)]

use std::ptr;

use crate::core::{
    primitive::Cell,
    strand::{StrandHeader, Wake, WakeRef},
};

/// The action of a peer for a waiter whose wait it claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Nothing,
    /// The value was put there, or taken from there.
    Done,
    Disconnected,
    /// Its own strand was cancelled, and this arm of its select reports that.
    Cancelled,
}

/// A place in a queue of waiters. Touched under the channel's lock, and without it by its strand
/// while it is on no queue.
pub(super) struct ChannelWaiter<T> {
    wait: Cell<Option<WakeRef>>,
    /// The value that a receiver is given or a sender gives.
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

    /// Puts a waiter at the end, unless it waits here already.
    ///
    /// # Safety
    /// It stays where it is, and is touched only under the channel's lock, until it was taken off.
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

    /// Takes a waiter off, if it is still on this queue.
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

    /// Whether somebody waits in another wait than this one.
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

    /// Takes waiters off the front until one's wait is claimed.
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
        // SAFETY: its strand was claimed by us and not scheduled yet: it stays in its frame.
        unsafe { &*self.waiter }
    }

    /// Gives a waiting receiver its value.
    #[inline]
    pub(super) fn give(self, value: T) -> &'static StrandHeader {
        self.waiter().value.set(Some(value));
        self.waiter().outcome.set(Outcome::Done);
        self.header
    }

    /// Takes a waiting sender's value.
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
