//! The channel itself: values, waiters, the lock over both.
#![allow(unsafe_code)]

use std::{
    mem::ManuallyDrop,
    ops::{Deref, DerefMut},
    panic::{RefUnwindSafe, UnwindSafe},
};

use super::{
    error::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError},
    remote_hint::RemoteHint,
    state::{ChannelState, UNBOUNDED, Woken},
    waiters::{ChannelWaiter, Outcome},
};
use crate::core::{
    cancel,
    primitive::{Arc, AtomicUsize, Ordering, UnsafeCell},
    spin_lock::RawSpinLock,
    strand::Wake,
    time::Deadline,
    wait::park::{self, Refused, WaitKind, WaitRecord},
    worker,
};

static SEND: WaitKind = WaitKind::new("room in a channel");
static RECEIVE: WaitKind = WaitKind::new("a channel's value");

/// Laid out so that a value's way through the channel touches one cache line if neither senders nor
/// futures wait: the lock and the head of the state.
#[repr(C, align(64))]
pub(super) struct Core<T> {
    lock: RawSpinLock,
    pub(super) remote_hint: RemoteHint,
    /// INVARIANT: touched only while the lock is held.
    state: UnsafeCell<ChannelState<T>>,
    /// Handles alive.
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
}

// SAFETY: all but the atomics is touched only under the lock; values move between threads.
unsafe impl<T: Send> Send for Core<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Core<T> {}
// As for std's channels, because no panic leaves the queues half changed.
impl<T> UnwindSafe for Core<T> {}
impl<T> RefUnwindSafe for Core<T> {}

/// The lock's holder.
pub(super) struct LockedCore<'a, T>(&'a Core<T>);

impl<T> Deref for LockedCore<'_, T> {
    type Target = ChannelState<T>;

    #[inline(always)]
    fn deref(&self) -> &ChannelState<T> {
        // SAFETY: the lock is held (invariant of `state`).
        unsafe { &*self.0.state.get() }
    }
}

impl<T> DerefMut for LockedCore<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut ChannelState<T> {
        // SAFETY: the lock is held (invariant of `state`).
        unsafe { &mut *self.0.state.get() }
    }
}

impl<T> Drop for LockedCore<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.release();
    }
}

impl<T> LockedCore<'_, T> {
    /// Does the same as dropping it, but inlined, because the compiler makes the drop a call, which
    /// touches one more cache line of each strand's stack.
    #[inline(always)]
    fn unlock(self) {
        ManuallyDrop::new(self).release();
    }

    #[inline(always)]
    fn release(&mut self) {
        // Every change of the channel ends here, so futures are woken here.
        let mut wakers = None;
        if self.has_futures() {
            wakers = Some(self.take_wakers());
        }
        self.0.lock.unlock();
        if let Some(wakers) = wakers {
            wakers.into_iter().for_each(crate::core::wait::wake);
        }
    }
}

/// A waiter with the channel that it waits for, for the hook of a strand that is abandoned.
struct Stay<'a, T> {
    core: &'a Core<T>,
    waiter: ChannelWaiter<T>,
}

impl<T> Core<T> {
    pub(super) fn new(capacity: usize) -> Self {
        Core {
            lock: RawSpinLock::new(),
            remote_hint: RemoteHint::new(capacity),
            state: UnsafeCell::new(ChannelState::new(capacity)),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
        }
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> LockedCore<'_, T> {
        self.lock.lock();
        LockedCore(self)
    }

    /// Schedules a strand whose wait has ended, now that the lock is free.
    #[inline(always)]
    pub(super) fn wake(&self, woken: Woken) {
        if let Some(header) = woken
            && worker::schedule_elsewhere(header)
        {
            self.remote_hint.note();
        }
    }

    #[inline]
    pub(super) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let put = self.lock().put(value);
        put.map(|woken| self.wake(woken))
    }

    #[inline]
    pub(super) fn try_recv(&self) -> Result<T, TryRecvError> {
        let (value, woken) = self.lock().get()?;
        self.wake(woken);
        Ok(value)
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn send(
        &self,
        value: T,
        deadline: Deadline,
        is_cancel_point: bool,
    ) -> Result<(), SendTimeoutError<T>> {
        let mut value = value;
        let mut may_look = true;
        let worker = worker::current();
        // If nothing is set for the strand, this is the only check of the whole call.
        let is_cancel_point = is_cancel_point && !worker.running.has_no_context();
        loop {
            if is_cancel_point && cancel::is_cancelled_here() {
                return Err(SendTimeoutError::Cancelled(value));
            }
            // Holds the value, and outlives the lock: the value's destructor may use the channel.
            let stay;
            let mut locked = self.lock();
            value = match locked.put(value) {
                Ok(woken) => {
                    locked.unlock();
                    self.wake(woken);
                    return Ok(());
                }
                Err(TrySendError::Disconnected(value)) => {
                    return Err(SendTimeoutError::Disconnected(value));
                }
                Err(TrySendError::Full(value)) => value,
            };
            if deadline.has_passed() {
                return Err(SendTimeoutError::Timeout(value));
            }
            if self.remote_hint.is_set() && std::mem::take(&mut may_look) {
                let capacity = locked.capacity;
                locked.unlock();
                self.look_again(&worker, capacity, |state| {
                    !state.has_receivers || state.has_room()
                });
                continue;
            }
            stay = Stay { core: self, waiter: ChannelWaiter::new(Some(value)) };
            let record = WaitRecord::new(&SEND)
                .until(deadline)
                .cancellable_if(is_cancel_point)
                .with_unlink(leave_as_sender::<T>, (&raw const stay).cast());
            let prepared = match park::prepare(&worker, &record) {
                Ok(prepared) => prepared,
                Err(refused) => {
                    drop(locked);
                    let value = stay.waiter.value.take().expect(KEPT);
                    return Err(match refused {
                        Refused::Unwinding => SendTimeoutError::Disconnected(value),
                        Refused::Cancelled => SendTimeoutError::Cancelled(value),
                    });
                }
            };
            // SAFETY: it lies in this frame, which is left below only when it was taken off.
            unsafe { locked.queue_sender(&stay.waiter, prepared.wake_ref()) };
            locked.unlock();
            let reason = prepared.suspend();
            if reason != Wake::Woken || stay.waiter.outcome.get() == Outcome::Nothing {
                self.lock().unqueue_sender(&stay.waiter);
            }
            let outcome = stay.waiter.outcome.get();
            if outcome == Outcome::Done {
                return Ok(());
            }
            value = stay.waiter.value.take().expect(KEPT);
            if outcome == Outcome::Disconnected {
                return Err(SendTimeoutError::Disconnected(value));
            }
        }
    }

    #[inline(always)]
    #[track_caller]
    pub(super) fn recv(
        &self,
        deadline: Deadline,
        is_cancel_point: bool,
    ) -> Result<T, RecvTimeoutError> {
        let mut may_look = true;
        let worker = worker::current();
        // If nothing is set for the strand, this is the only check of the whole call.
        let is_cancel_point = is_cancel_point && !worker.running.has_no_context();
        loop {
            if is_cancel_point && cancel::is_cancelled_here() {
                return Err(RecvTimeoutError::Cancelled);
            }
            let mut locked = self.lock();
            match locked.get() {
                Ok((value, woken)) => {
                    locked.unlock();
                    self.wake(woken);
                    return Ok(value);
                }
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) => {}
            }
            if deadline.has_passed() {
                return Err(RecvTimeoutError::Timeout);
            }
            if self.remote_hint.is_set() && std::mem::take(&mut may_look) {
                let capacity = locked.capacity;
                locked.unlock();
                self.look_again(&worker, capacity, ChannelState::has_value_or_end);
                continue;
            }
            let stay = Stay { core: self, waiter: ChannelWaiter::new(None) };
            let record = WaitRecord::new(&RECEIVE)
                .until(deadline)
                .cancellable_if(is_cancel_point)
                .with_unlink(leave_as_receiver::<T>, (&raw const stay).cast());
            let prepared = match park::prepare(&worker, &record) {
                Ok(prepared) => prepared,
                Err(Refused::Unwinding) => return Err(RecvTimeoutError::Disconnected),
                Err(Refused::Cancelled) => return Err(RecvTimeoutError::Cancelled),
            };
            // SAFETY: it lies in this frame, which is left below only when it was taken off.
            unsafe { locked.waiting_receivers.push(&stay.waiter, prepared.wake_ref()) };
            locked.unlock();
            let reason = prepared.suspend();
            if reason != Wake::Woken || stay.waiter.outcome.get() == Outcome::Nothing {
                self.lock().waiting_receivers.remove(&stay.waiter);
            }
            match stay.waiter.outcome.get() {
                Outcome::Done => return Ok(stay.waiter.value.take().expect(KEPT)),
                Outcome::Disconnected => return Err(RecvTimeoutError::Disconnected),
                // `Cancelled` is set for an arm of a select only.
                Outcome::Nothing | Outcome::Cancelled => {}
            }
        }
    }

    /// The last sender is gone, so all that wait for a value are woken.
    pub(super) fn close_senders(&self) {
        self.lock().has_senders = false;
        loop {
            let receiver = self.lock().waiting_receivers.claim_first();
            let Some(receiver) = receiver else { return };
            worker::schedule(receiver.disconnect());
        }
    }

    /// The last receiver is gone, so the values are dropped, and the strands that wait to send get
    /// theirs back.
    pub(super) fn close_receivers(&self) {
        let mut locked = self.lock();
        locked.has_receivers = false;
        let values = std::mem::take(&mut locked.values);
        locked.futures().hang_up();
        drop(locked);
        loop {
            let sender = self.lock().claim_sender();
            let Some(sender) = sender else { break };
            worker::schedule(sender.disconnect());
        }
        drop(values);
    }

    pub(super) fn len(&self) -> usize {
        self.lock().values.len()
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        let capacity = self.lock().capacity;
        (capacity != UNBOUNDED).then_some(capacity as usize)
    }

    pub(super) fn is_full(&self) -> bool {
        let locked = self.lock();
        !locked.has_room()
    }

    /// Removes the waiter of a receiver that is abandoned, and gives its value to the next.
    pub(super) fn give_up_receiver(&self, waiter: &ChannelWaiter<T>) {
        let mut locked = self.lock();
        locked.waiting_receivers.remove(waiter);
        let Some(value) = waiter.value.take() else { return };
        let passed_on = locked.put_back(value);
        drop(locked);
        if let Ok(woken) = passed_on {
            self.wake(woken);
        }
    }

    pub(super) fn give_up_sender(&self, waiter: &ChannelWaiter<T>) {
        self.lock().unqueue_sender(waiter);
    }
}

const KEPT: &str = "a waiter keeps its value until it is taken under the lock";

/// The hook of a wait in `send`.
unsafe fn leave_as_sender<T>(stay: *const ()) {
    // SAFETY: `send` set this hook with the address of its stay, and the strand is suspended.
    let stay = unsafe { &*stay.cast::<Stay<'_, T>>() };
    stay.core.give_up_sender(&stay.waiter);
}

/// The hook of a wait in `recv`.
unsafe fn leave_as_receiver<T>(stay: *const ()) {
    // SAFETY: `recv` set this hook with the address of its stay, and the strand is suspended.
    let stay = unsafe { &*stay.cast::<Stay<'_, T>>() };
    stay.core.give_up_receiver(&stay.waiter);
}

/// Adds a handle. Handles can be forgotten without an end; the `Arc`, whose count is the sum of
/// both, ends the process before either count overflows.
pub(super) fn add_handle<T>(core: &Arc<Core<T>>, count: &AtomicUsize) -> Arc<Core<T>> {
    let added = Arc::clone(core);
    count.fetch_add(1, Ordering::Relaxed);
    added
}

/// Removes a handle; returns whether it was the last.
pub(super) fn remove_handle(count: &AtomicUsize) -> bool {
    // AcqRel: the actions of the other handles come before the drop of the last one.
    count.fetch_sub(1, Ordering::AcqRel) == 1
}
