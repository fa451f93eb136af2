//! The futures that wait for a channel; protected by the channel's lock.
//!
//! A receiver leaves its waker here. Each new value wakes all receivers, and each tries again, so
//! no wake-up is lost if a receiver is dropped or forgotten. A sender leaves its waker and its
//! value here, and the receiver that makes room takes the value, as it takes the value of a strand
//! from the strand's frame. If senders kept their values, two futures at the two ends of a channel
//! of capacity 0 would wait for each other.

use std::{
    collections::VecDeque,
    task::{Poll, Waker},
};

use super::{
    core::Core,
    error::{SendError, TryRecvError, TrySendError},
};

/// The waiting futures; allocated when the first one waits.
pub(super) struct Futures<T>(Option<Box<FutureWaiters<T>>>);

struct FutureWaiters<T> {
    receivers: Vec<(u64, Waker)>,
    senders: VecDeque<Offer<T>>,
    /// If both strands and futures wait to send: whether a future was served last.
    is_their_turn: bool,
    /// The wakers of senders whose wait is over, which are called after the lock is released.
    due: Vec<Waker>,
}

/// A value that a future sends.
struct Offer<T> {
    future: u64,
    value: T,
    /// `None` if no receiver will take the value any more.
    waker: Option<Waker>,
}

impl<T> Futures<T> {
    pub(super) const fn new() -> Self {
        Futures(None)
    }

    #[inline(always)]
    pub(super) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    fn waiting(&mut self) -> &mut FutureWaiters<T> {
        self.0.get_or_insert_with(|| {
            Box::new(FutureWaiters {
                receivers: Vec::new(),
                senders: VecDeque::new(),
                is_their_turn: false,
                due: Vec::new(),
            })
        })
    }

    fn replace_receiver(&mut self, future: u64, waker: Option<Waker>) -> Option<Waker> {
        if waker.is_none() && self.is_none() {
            return None;
        }
        let receivers = &mut self.waiting().receivers;
        let found = receivers.iter().position(|(other, _)| *other == future);
        let old = found.map(|index| receivers.swap_remove(index).1);
        receivers.extend(waker.map(|waker| (future, waker)));
        old
    }

    fn offer(&mut self, future: u64) -> Option<&mut Offer<T>> {
        self.0.as_mut()?.senders.iter_mut().find(|offer| offer.future == future)
    }

    fn withdraw(&mut self, future: u64) -> Option<Offer<T>> {
        let senders = &mut self.0.as_mut()?.senders;
        let index = senders.iter().position(|offer| offer.future == future)?;
        senders.remove(index)
    }

    /// Whether a future has a value to send.
    pub(super) fn has_values(&self) -> bool {
        self.0.as_ref().is_some_and(|waiting| !waiting.senders.is_empty())
    }

    /// Takes the value of the future that has waited longest to send.
    #[inline]
    pub(super) fn take_value(&mut self) -> Option<T> {
        if self.is_none() { None } else { self.take_first() }
    }

    /// As `take_value`, but `None` if it is the turn of a strand.
    #[inline]
    pub(super) fn take_value_in_turn(&mut self) -> Option<T> {
        let waiting = self.0.as_mut()?;
        waiting.is_their_turn = !waiting.is_their_turn;
        if waiting.is_their_turn { self.take_first() } else { None }
    }

    #[cold]
    fn take_first(&mut self) -> Option<T> {
        let waiting = self.0.as_mut()?;
        let offer = waiting.senders.pop_front()?;
        waiting.due.extend(offer.waker);
        Some(offer.value)
    }

    /// Makes the wakers of all senders due, because the receivers are gone; the senders then take
    /// their values back.
    pub(super) fn hang_up(&mut self) {
        if let Some(waiting) = &mut self.0 {
            let wakers = waiting.senders.iter_mut().filter_map(|offer| offer.waker.take());
            waiting.due.extend(wakers);
        }
    }

    /// Takes the wakers that are due; those of receivers only if there is a value or the end for
    /// them.
    pub(super) fn take_due(&mut self, has_something: bool) -> Vec<Waker> {
        let Some(waiting) = &mut self.0 else { return Vec::new() };
        if has_something {
            waiting.due.extend(waiting.receivers.drain(..).map(|(_, waker)| waker));
        }
        std::mem::take(&mut waiting.due)
    }
}

impl<T> Core<T> {
    /// Takes a value, or leaves a waker that is called when there is one.
    pub(super) fn poll_recv(&self, future: u64, waker: &Waker) -> Result<T, TryRecvError> {
        // Before the lock is taken, because a waker's `clone` is foreign code.
        let waker = waker.clone();
        let mut locked = self.lock();
        let got = locked.get();
        let is_empty = matches!(got, Err(TryRecvError::Empty));
        let (waker, unused) = if is_empty { (Some(waker), None) } else { (None, Some(waker)) };
        let old = locked.futures().replace_receiver(future, waker);
        drop(locked);
        // Wakes the sender before wakers are dropped, because their destructors may panic.
        let got = got.map(|(value, woken)| {
            self.wake(woken);
            value
        });
        drop((old, unused));
        got
    }

    /// Drops the waker of a future that no longer waits.
    pub(super) fn forget_receiver(&self, future: u64) {
        let old = self.lock().futures().replace_receiver(future, None);
        drop(old);
    }

    /// Sends the value if there is room, or leaves it here with a waker. Called without a value, it
    /// returns whether the value that was left has been taken.
    pub(super) fn poll_send(
        &self,
        future: u64,
        value: Option<T>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError<T>>> {
        let Some(value) = value else { return self.poll_sent(future, waker) };
        // Before the lock is taken, because a waker's `clone` is foreign code.
        let waker = waker.clone();
        let mut locked = self.lock();
        match locked.put(value) {
            Ok(woken) => {
                drop(locked);
                self.wake(woken);
                Poll::Ready(Ok(()))
            }
            Err(TrySendError::Disconnected(value)) => {
                Poll::Ready(Err(SendError::Disconnected(value)))
            }
            Err(TrySendError::Full(value)) => {
                let offer = Offer { future, value, waker: Some(waker) };
                locked.futures().waiting().senders.push_back(offer);
                Poll::Pending
            }
        }
    }

    fn poll_sent(&self, future: u64, waker: &Waker) -> Poll<Result<(), SendError<T>>> {
        let mut new = Some(waker.clone());
        let mut locked = self.lock();
        if !locked.has_receivers {
            let offer = locked.futures().withdraw(future);
            drop(locked);
            return Poll::Ready(match offer {
                Some(offer) => Err(SendError::Disconnected(offer.value)),
                None => Ok(()),
            });
        }
        let polled = match locked.futures().offer(future) {
            Some(offer) => {
                std::mem::swap(&mut offer.waker, &mut new);
                Poll::Pending
            }
            None => Poll::Ready(Ok(())),
        };
        drop(locked);
        drop(new);
        polled
    }

    /// Takes back the value of a future that no longer waits, if no receiver has taken it.
    pub(super) fn forget_sender(&self, future: u64) {
        let offer = self.lock().futures().withdraw(future);
        drop(offer);
    }
}
