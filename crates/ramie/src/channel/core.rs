//! The channel that its senders and receivers share: the values, the waiters and their lock.
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
    wait::park::{self, Refused, Subject, WaitKind, WaitRecord},
    worker,
};

static SEND: WaitKind = WaitKind::about("room in a channel", Subject::Channel);
static RECEIVE: WaitKind = WaitKind::about("a channel's value", Subject::Channel);

/// The layout puts the lock and the head of the state on one cache line, because a send and a
/// receive access only these if neither senders nor futures wait.
#[repr(C, align(64))]
pub(super) struct Core<T> {
    lock: RawSpinLock,
    pub(super) remote_hint: RemoteHint,
    /// INVARIANT: accessed only while the lock is held.
    state: UnsafeCell<ChannelState<T>>,
    /// The number of senders that exist.
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
}

// SAFETY: all fields except the atomics are accessed only under the lock; values move between
// threads, so they are `Send`.
unsafe impl<T: Send> Send for Core<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Core<T> {}
// As std's channels are, because no panic leaves the queues half changed.
impl<T> UnwindSafe for Core<T> {}
impl<T> RefUnwindSafe for Core<T> {}

/// Access to the state for the holder of the lock.
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
    /// Does the same as `drop`, but inlined, because the compiler would make the drop a call, which
    /// accesses one more cache line of each strand's stack.
    #[inline(always)]
    fn unlock(self) {
        ManuallyDrop::new(self).release();
    }

    #[inline(always)]
    fn release(&mut self) {
        // Futures are woken here, because every change of the channel ends here.
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

/// A waiter and its channel; the argument of the hook that runs if the strand is abandoned.
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

    /// Schedules a strand whose wait was claimed. Called after the lock is released.
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
        // For a strand without cancel scope and deadline this is the only check in the call.
        let is_cancel_point = is_cancel_point && !worker.running.has_no_context();
        loop {
            if is_cancel_point && cancel::is_cancelled_here() {
                return Err(SendTimeoutError::Cancelled(value));
            }
            // Declared before the lock, so that the value in it is dropped after the unlock; its
            // destructor may use the channel.
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
                .with_detail(std::ptr::from_ref(self).addr() as u64, 0)
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
            // SAFETY: the waiter lies in this frame, and is off the queue when the frame is left
            // below.
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
        // For a strand without cancel scope and deadline this is the only check in the call.
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
                .with_detail(std::ptr::from_ref(self).addr() as u64, 0)
                .until(deadline)
                .cancellable_if(is_cancel_point)
                .with_unlink(leave_as_receiver::<T>, (&raw const stay).cast());
            let prepared = match park::prepare(&worker, &record) {
                Ok(prepared) => prepared,
                Err(Refused::Unwinding) => return Err(RecvTimeoutError::Disconnected),
                Err(Refused::Cancelled) => return Err(RecvTimeoutError::Cancelled),
            };
            // SAFETY: the waiter lies in this frame, and is off the queue when the frame is left
            // below.
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

    /// Called when the last sender is gone: wakes all that wait for a value.
    pub(super) fn close_senders(&self) {
        self.lock().has_senders = false;
        loop {
            let receiver = self.lock().waiting_receivers.claim_first();
            let Some(receiver) = receiver else { return };
            worker::schedule(receiver.disconnect());
        }
    }

    /// Called when the last receiver is gone: drops the values in the channel, and gives waiting
    /// senders their values back.
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

    /// Removes the waiter of a receiver that is abandoned, and gives its value to the next
    /// receiver.
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

/// Adds a handle. A program can forget any number of handles, but cannot make the count overflow:
/// the `Arc` counts both kinds of handles, and aborts the process earlier.
pub(super) fn add_handle<T>(core: &Arc<Core<T>>, count: &AtomicUsize) -> Arc<Core<T>> {
    let added = Arc::clone(core);
    count.fetch_add(1, Ordering::Relaxed);
    added
}

/// Removes a handle; returns whether it was the last.
pub(super) fn remove_handle(count: &AtomicUsize) -> bool {
    // AcqRel: the uses of the other handles happen before the drop of the last one.
    count.fetch_sub(1, Ordering::AcqRel) == 1
}
