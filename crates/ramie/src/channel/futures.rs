//! The futures that wait at a channel, under its lock.
//!
//! A receiver leaves its waker. Each new value wakes all receivers, and each tries again, so a
//! receiver that is dropped or forgotten takes no wake-up with it. A sender also leaves its value
//! here, and the receiver that makes room takes it, as it takes the value of a strand from the
//! strand's frame. Otherwise two futures at the two ends of a channel of capacity 0 would wait for
//! each other.

use std::{
    collections::VecDeque,
    task::{Poll, Waker},
};

use super::{
    core::Core,
    error::{SendError, TryRecvError, TrySendError},
};

/// The futures that wait; allocated when the first one waits.
pub(super) struct Futures<T>(Option<Box<FutureWaiters<T>>>);

struct FutureWaiters<T> {
    receivers: Vec<(u64, Waker)>,
    senders: VecDeque<Offer<T>>,
    /// Whether a future was the last to be preferred, if both strands and futures wait to send.
    is_their_turn: bool,
    /// The wakers of senders that need not wait any longer, to be called without the lock.
    due: Vec<Waker>,
}

/// The value that a future sends.
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

    /// Whether a future has something to send.
    pub(super) fn has_values(&self) -> bool {
        self.0.as_ref().is_some_and(|waiting| !waiting.senders.is_empty())
    }

    /// Takes the first value that a future has to send.
    #[inline]
    pub(super) fn take_value(&mut self) -> Option<T> {
        if self.is_none() { None } else { self.take_first() }
    }

    /// As `take_value`, unless it is the turn of a strand.
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

    /// Makes the wakers of all senders due; the senders then take their values back.
    pub(super) fn hang_up(&mut self) {
        if let Some(waiting) = &mut self.0 {
            let wakers = waiting.senders.iter_mut().filter_map(|offer| offer.waker.take());
            waiting.due.extend(wakers);
        }
    }

    /// The wakers to be called; those of receivers only if there is something for them.
    pub(super) fn take_due(&mut self, has_something: bool) -> Vec<Waker> {
        let Some(waiting) = &mut self.0 else { return Vec::new() };
        if has_something {
            waiting.due.extend(waiting.receivers.drain(..).map(|(_, waker)| waker));
        }
        std::mem::take(&mut waiting.due)
    }
}

impl<T> Core<T> {
    /// Takes a value, or leaves a waker for when there is one.
    pub(super) fn poll_recv(&self, future: u64, waker: &Waker) -> Result<T, TryRecvError> {
        // `clone` is code of others, which must not run under the lock.
        let waker = waker.clone();
        let mut locked = self.lock();
        let got = locked.get();
        let is_empty = matches!(got, Err(TryRecvError::Empty));
        let (waker, unused) = if is_empty { (Some(waker), None) } else { (None, Some(waker)) };
        let old = locked.futures().replace_receiver(future, waker);
        drop(locked);
        // The sender is woken before the wakers' destructors run, because they may panic.
        let got = got.map(|(value, woken)| {
            self.wake(woken);
            value
        });
        drop((old, unused));
        got
    }

    /// Drops the waker of a future that waits no more.
    pub(super) fn forget_receiver(&self, future: u64) {
        let old = self.lock().futures().replace_receiver(future, None);
        drop(old);
    }

    /// Sends the value if there is room, or leaves it with a waker for when there is. Without a
    /// value it asks for the fate of the value that was left.
    pub(super) fn poll_send(
        &self,
        future: u64,
        value: Option<T>,
        waker: &Waker,
    ) -> Poll<Result<(), SendError<T>>> {
        let Some(value) = value else { return self.poll_sent(future, waker) };
        // `clone` is code of others, which must not run under the lock.
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

    /// Takes back the value of a future that no longer waits, if nobody has taken it.
    pub(super) fn forget_sender(&self, future: u64) {
        let offer = self.lock().futures().withdraw(future);
        drop(offer);
    }
}
