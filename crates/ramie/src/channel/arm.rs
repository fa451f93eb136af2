//! The arms of a select. Each is one operation. The strand attempts the operation, then enlists the
//! arm: it carries the operation out now if that has become possible, otherwise it puts the arm's
//! waiter on the channel's queue. Then a peer carries the operation out, or the strand removes the
//! waiter.
//!
//! An arm's waiter is in the channel's queue while its strand waits, so two strands must not wait
//! with the same arm. The types ensure this, because macros make arms in the program's own code: an
//! [`ArmRef`] borrows its arm mutably, a select borrows all its [`ArmRef`]s mutably, and neither
//! can be copied.
#![allow(unsafe_code)]

use std::cell::Cell;

use super::{
    error::{RecvError, SendError, TryRecvError, TrySendError},
    receiver::{Flavor, Receiver},
    sender::Sender,
    waiters::{ChannelWaiter, Outcome},
};
use crate::core::{
    strand::{Wake, WakeRef},
    time::Deadline,
};

/// The result of an attempt to enlist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Enlisted {
    Waiting,
    /// The operation was carried out at once.
    Done,
    /// This strand has claimed its wait in order to carry out the operation, but the peer has left.
    /// The select begins again.
    Again,
    /// The wait is over: a peer carried out another arm.
    Over,
}

/// One operation of a select.
pub(super) trait Arm {
    /// Whether the arm can ever be chosen.
    fn can_be_chosen(&self) -> bool {
        true
    }

    /// Makes this arm report that the select was cancelled.
    fn cancel(&self);

    /// Prepares for a select.
    fn begin(&self) {}

    /// Carries out the operation if that is possible without waiting.
    fn attempt(&self) -> bool;

    /// Carries out the operation now if that is possible and the wait can be claimed; otherwise
    /// puts the waiter on the channel's queue.
    ///
    /// # Safety
    /// The arm does not move until `unlist`.
    unsafe fn enlist(&self, wait: WakeRef) -> Enlisted;

    /// Removes the waiter from the channel's queue.
    fn unlist(&self);

    /// Returns an unsent value to its slot.
    fn end(&self) {}

    /// Removes the waiter of an abandoned strand; a received value goes to another receiver.
    fn give_up(&self);

    /// Returns when the clock makes the arm ready.
    fn deadline(&self) -> Deadline {
        Deadline::NEVER
    }

    fn has_outcome(&self) -> bool;
}

/// An arm without the types of its operation.
///
/// Two strands cannot share an arm, and a select cannot contain it twice:
/// ```compile_fail,E0499
/// use ramie::channel::{self, __private::{RecvArm, select_by}};
/// let (_sender, receiver) = channel::bounded::<u32>(0);
/// let mut arm = RecvArm::new(&receiver);
/// select_by(&mut [arm.arm(), arm.arm()]);
/// ```
/// Two strands cannot share the list of arms:
/// ```compile_fail,E0596
/// use ramie::channel::{self, __private::{RecvArm, select_by}};
/// let (_sender, receiver) = channel::bounded::<u32>(0);
/// let mut arm = RecvArm::new(&receiver);
/// let shared = std::rc::Rc::new([arm.arm()]);
/// select_by(&mut shared[..]);
/// ```
/// An arm cannot be used on another thread:
/// ```compile_fail,E0277
/// use ramie::channel::{self, __private::{RecvArm, select_by}};
/// let (_sender, receiver) = channel::bounded::<u32>(0);
/// let mut arm = RecvArm::new(&receiver);
/// std::thread::scope(|s| {
///     s.spawn(|| select_by(&mut [arm.arm()]));
/// });
/// ```
#[doc(hidden)]
pub struct ArmRef<'a>(pub(super) &'a dyn Arm);

impl std::fmt::Debug for ArmRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ArmRef")
    }
}

#[doc(hidden)]
pub struct RecvArm<'a, T> {
    receiver: &'a Receiver<T>,
    waiter: ChannelWaiter<T>,
}

impl<'a, T> RecvArm<'a, T> {
    pub fn new(receiver: &'a Receiver<T>) -> Self {
        RecvArm { receiver, waiter: ChannelWaiter::new(None) }
    }

    pub fn arm(&mut self) -> ArmRef<'_> {
        ArmRef(self)
    }

    pub fn is_chosen(&self) -> bool {
        self.has_outcome()
    }

    pub fn result(&self) -> Result<T, RecvError> {
        self.waiter.value.take().ok_or(match self.waiter.outcome.get() {
            Outcome::Cancelled => RecvError::Cancelled,
            _ => RecvError::Disconnected,
        })
    }

    fn finish(&self, result: Option<T>) {
        let done = result.is_some();
        self.waiter.value.set(result);
        self.waiter.outcome.set(if done { Outcome::Done } else { Outcome::Disconnected });
    }
}

impl<T> Arm for RecvArm<'_, T> {
    fn cancel(&self) {
        self.waiter.outcome.set(Outcome::Cancelled);
    }

    fn attempt(&self) -> bool {
        match self.receiver.try_recv() {
            Ok(value) => self.finish(Some(value)),
            Err(TryRecvError::Disconnected) => self.finish(None),
            Err(TryRecvError::Empty) => return false,
        }
        true
    }

    unsafe fn enlist(&self, wait: WakeRef) -> Enlisted {
        let Flavor::Queue(core) = &self.receiver.flavor else { return Enlisted::Waiting };
        let mut locked = core.lock();
        if !locked.may_get(wait) {
            // SAFETY: the caller's promise.
            unsafe { locked.waiting_receivers.push(&self.waiter, wait) };
            return Enlisted::Waiting;
        }
        if wait.claim(Wake::Woken).is_none() {
            return Enlisted::Over;
        }
        let got = locked.get();
        drop(locked);
        match got {
            Ok((value, woken)) => {
                core.wake(woken);
                self.finish(Some(value));
            }
            Err(TryRecvError::Disconnected) => self.finish(None),
            Err(TryRecvError::Empty) => return Enlisted::Again,
        }
        Enlisted::Done
    }

    fn unlist(&self) {
        if let Flavor::Queue(core) = &self.receiver.flavor {
            core.lock().waiting_receivers.remove(&self.waiter);
        }
    }

    fn give_up(&self) {
        if let Flavor::Queue(core) = &self.receiver.flavor {
            core.give_up_receiver(&self.waiter);
        }
    }

    fn deadline(&self) -> Deadline {
        match &self.receiver.flavor {
            Flavor::Timed(timed, _) => timed.deadline(),
            _ => Deadline::NEVER,
        }
    }

    fn has_outcome(&self) -> bool {
        self.waiter.outcome.get() != Outcome::Nothing
    }
}

#[doc(hidden)]
pub struct SendArm<'a, T> {
    sender: &'a Sender<T>,
    waiter: ChannelWaiter<T>,
    /// The slot to which the value returns if it is not sent.
    slot: Cell<Option<&'a mut Option<T>>>,
    /// An arm whose slot was empty is never chosen.
    is_empty: bool,
}

impl<'a, T> SendArm<'a, T> {
    pub fn new(sender: &'a Sender<T>, value: T) -> Self {
        let waiter = ChannelWaiter::new(Some(value));
        SendArm { sender, waiter, slot: Cell::new(None), is_empty: false }
    }

    pub fn from_slot(sender: &'a Sender<T>, slot: &'a mut Option<T>) -> Self {
        let is_empty = slot.is_none();
        SendArm { sender, waiter: ChannelWaiter::new(None), slot: Cell::new(Some(slot)), is_empty }
    }

    pub fn arm(&mut self) -> ArmRef<'_> {
        ArmRef(self)
    }

    pub fn is_chosen(&self) -> bool {
        self.has_outcome()
    }

    pub fn result(&self) -> Result<(), SendError<T>> {
        let Some(value) = self.waiter.value.take() else { return Ok(()) };
        Err(match self.waiter.outcome.get() {
            Outcome::Cancelled => SendError::Cancelled(value),
            _ => SendError::Disconnected(value),
        })
    }

    /// Records the outcome of a send that this strand tried itself.
    fn finish(&self, put: Result<(), TrySendError<T>>) -> bool {
        let (outcome, value) = match put {
            Ok(()) => (Outcome::Done, None),
            Err(TrySendError::Disconnected(value)) => (Outcome::Disconnected, Some(value)),
            Err(TrySendError::Full(value)) => (Outcome::Nothing, Some(value)),
        };
        self.waiter.value.set(value);
        self.waiter.outcome.set(outcome);
        outcome != Outcome::Nothing
    }
}

impl<T> Arm for SendArm<'_, T> {
    fn can_be_chosen(&self) -> bool {
        !self.is_empty
    }

    fn cancel(&self) {
        self.waiter.outcome.set(Outcome::Cancelled);
    }

    fn begin(&self) {
        if let Some(slot) = self.slot.take() {
            self.waiter.value.set(slot.take());
            self.slot.set(Some(slot));
        }
    }

    fn attempt(&self) -> bool {
        let value = self.waiter.value.take();
        value.is_some_and(|value| self.finish(self.sender.try_send(value)))
    }

    unsafe fn enlist(&self, wait: WakeRef) -> Enlisted {
        if self.is_empty {
            return Enlisted::Waiting;
        }
        let mut locked = self.sender.core.lock();
        if !locked.may_put(wait) {
            // SAFETY: the caller's promise.
            unsafe { locked.queue_sender(&self.waiter, wait) };
            return Enlisted::Waiting;
        }
        if wait.claim(Wake::Woken).is_none() {
            return Enlisted::Over;
        }
        let Some(value) = self.waiter.value.take() else { return Enlisted::Again };
        let put = locked.put(value);
        drop(locked);
        let put = put.map(|woken| self.sender.core.wake(woken));
        if self.finish(put) { Enlisted::Done } else { Enlisted::Again }
    }

    fn unlist(&self) {
        self.sender.core.give_up_sender(&self.waiter);
    }

    fn end(&self) {
        if !self.has_outcome()
            && let Some(slot) = self.slot.take()
        {
            *slot = self.waiter.value.take();
        }
    }

    fn give_up(&self) {
        self.sender.core.give_up_sender(&self.waiter);
    }

    fn has_outcome(&self) -> bool {
        self.waiter.outcome.get() != Outcome::Nothing
    }
}

impl<T> std::fmt::Debug for RecvArm<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecvArm")
    }
}

impl<T> std::fmt::Debug for SendArm<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SendArm")
    }
}
