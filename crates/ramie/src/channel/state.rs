//! The data that a channel's lock protects: its values and waiters.
#![allow(unsafe_code)]

use std::{collections::VecDeque, task::Waker};

use super::{
    error::{TryRecvError, TrySendError},
    futures::Futures,
    waiters::{ChannelWaiter, Claimed, Waiters},
};
use crate::core::strand::{StrandHeader, WakeRef};

/// A queue keeps its memory when it is empty if the memory has at most this number of places.
const KEPT_PLACES: usize = 64;

#[repr(C)]
pub(super) struct ChannelState<T> {
    pub(super) has_senders: bool,
    pub(super) has_receivers: bool,
    /// Whether the second cache line may contain waiters; if not, no access to it is needed.
    has_far_waiters: bool,
    pub(super) capacity: u32,
    pub(super) waiting_receivers: Waiters<T>,
    pub(super) values: VecDeque<T>,
    // The second cache line.
    waiting_senders: Waiters<T>,
    futures: Futures<T>,
}

pub(super) const UNBOUNDED: u32 = u32::MAX;

/// The strand to schedule after the lock is released.
pub(super) type Woken = Option<&'static StrandHeader>;

impl<T> ChannelState<T> {
    pub(super) fn new(capacity: usize) -> Self {
        ChannelState {
            has_senders: true,
            has_receivers: true,
            has_far_waiters: false,
            // A larger capacity counts as unbounded, because no memory has room for that number of
            // values.
            capacity: u32::try_from(capacity).unwrap_or(UNBOUNDED),
            waiting_receivers: Waiters::new(),
            values: VecDeque::new(),
            waiting_senders: Waiters::new(),
            futures: Futures::new(),
        }
    }

    /// Gives a value to a waiting receiver, or appends it to the queue.
    #[inline(always)]
    pub(super) fn put(&mut self, value: T) -> Result<Woken, TrySendError<T>> {
        if !self.has_receivers {
            return Err(TrySendError::Disconnected(value));
        }
        if let Some(receiver) = self.waiting_receivers.claim_first() {
            return Ok(Some(receiver.give(value)));
        }
        if self.has_room() {
            self.values.push_back(value);
            return Ok(None);
        }
        Err(TrySendError::Full(value))
    }

    /// Takes a value from the queue and lets a waiting sender fill the free place; or takes it from
    /// a waiting sender directly.
    #[inline(always)]
    pub(super) fn get(&mut self) -> Result<(T, Woken), TryRecvError> {
        let Some(value) = self.values.pop_front() else {
            return self.get_from_sender();
        };
        let mut woken = None;
        if self.has_far_waiters && self.has_room() {
            let (next, header) = self.take_from_sender();
            self.values.extend(next);
            woken = header;
        }
        self.give_memory_back();
        Ok((value, woken))
    }

    fn get_from_sender(&mut self) -> Result<(T, Woken), TryRecvError> {
        // If the channel has places, a sender waits only while all of them are taken.
        if self.capacity == 0
            && self.has_far_waiters
            && let (Some(value), woken) = self.take_from_sender()
        {
            return Ok((value, woken));
        }
        Err(if self.has_senders { TryRecvError::Empty } else { TryRecvError::Disconnected })
    }

    /// Takes the value of a sender that waits; if both strands and futures wait, they take turns.
    #[inline(always)]
    fn take_from_sender(&mut self) -> (Option<T>, Woken) {
        if let Some(value) = self.futures.take_value_in_turn() {
            return (Some(value), None);
        }
        if let Some(sender) = self.waiting_senders.claim_first() {
            let (value, header) = sender.take();
            return (value, Some(header));
        }
        self.has_far_waiters = !self.futures.is_none();
        (self.futures.take_value(), None)
    }

    /// Appends a sender's waiter to the queue of senders.
    ///
    /// # Safety
    /// As [`Waiters::push`].
    #[inline(always)]
    pub(super) unsafe fn queue_sender(&mut self, waiter: &ChannelWaiter<T>, wait: WakeRef) {
        self.has_far_waiters = true;
        // SAFETY: the caller's promise.
        unsafe { self.waiting_senders.push(waiter, wait) };
    }

    pub(super) fn unqueue_sender(&mut self, waiter: &ChannelWaiter<T>) {
        self.waiting_senders.remove(waiter);
    }

    /// Removes senders from the front until the wait of one is claimed.
    pub(super) fn claim_sender(&mut self) -> Option<Claimed<T>> {
        self.waiting_senders.claim_first()
    }

    /// Whether a change may have to wake futures.
    #[inline(always)]
    pub(super) fn has_futures(&self) -> bool {
        self.has_far_waiters && !self.futures.is_none()
    }

    /// Takes the wakers that must be called after the lock is released.
    #[cold]
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        let has_something = self.has_something();
        self.futures.take_due(has_something)
    }

    /// Returns the futures, to which the caller may add one.
    pub(super) fn futures(&mut self) -> &mut Futures<T> {
        self.has_far_waiters = true;
        &mut self.futures
    }

    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        self.values.len() < self.capacity as usize || self.capacity == UNBOUNDED
    }

    /// Whether `get` would find a value or the end, for a channel whose capacity is not 0.
    pub(super) fn has_value_or_end(&self) -> bool {
        !self.values.is_empty() || !self.has_senders
    }

    /// Whether `get` would probably find a value or the end.
    fn has_something(&self) -> bool {
        !self.values.is_empty()
            || !self.has_senders
            || !self.waiting_senders.is_empty()
            || self.futures.has_values()
    }

    /// Whether `get` would probably find a value or the end for a strand in this wait.
    pub(super) fn may_get(&self, wait: WakeRef) -> bool {
        !self.values.is_empty()
            || !self.has_senders
            || self.waiting_senders.has_other_than(wait)
            || self.futures.has_values()
    }

    /// Whether `put` would probably find a place for a strand in this wait.
    pub(super) fn may_put(&self, wait: WakeRef) -> bool {
        !self.has_receivers || self.has_room() || self.waiting_receivers.has_other_than(wait)
    }

    /// Frees the memory of an empty queue that has been long.
    #[inline]
    fn give_memory_back(&mut self) {
        let (len, places) = (self.values.len(), self.values.capacity());
        if places > KEPT_PLACES && len < places / 4 {
            self.values.shrink_to(len * 2);
        }
    }

    /// Puts back, at the front, the value of a receiver that was abandoned before it ran.
    pub(super) fn put_back(&mut self, value: T) -> Result<Woken, T> {
        if !self.has_receivers {
            return Err(value);
        }
        match self.waiting_receivers.claim_first() {
            Some(receiver) => Ok(Some(receiver.give(value))),
            None => {
                self.values.push_front(value);
                Ok(None)
            }
        }
    }
}
