//! Waiting until one of several operations can be carried out.
#![allow(unsafe_code)]

use std::{fmt, time::Duration};

use super::{
    arm::{ArmRef, Enlisted, RecvArm, SendArm},
    error::{RecvError, SendError},
    random::random_below,
    receiver::Receiver,
    sender::Sender,
};
use crate::core::{
    cancel,
    time::Deadline,
    wait::park::{self, Refused, Subject, WaitKind, WaitRecord},
    worker,
};

static SELECT: WaitKind = WaitKind::about("one of several channels", Subject::Select);

/// Iterates over the arms, from a random one on.
fn from_random<'a>(arms: &'a [ArmRef<'a>]) -> impl Iterator<Item = &'a ArmRef<'a>> {
    let (head, tail) = arms.split_at(random_below(arms.len()));
    tail.iter().chain(head)
}

fn attempt(arms: &[ArmRef<'_>]) -> bool {
    from_random(arms).any(|arm| arm.0.attempt())
}

/// Carries out one arm if that is possible without waiting.
#[doc(hidden)]
pub fn select_now(arms: &mut [ArmRef<'_>]) -> bool {
    let _begun = Begun::begin(arms);
    attempt(arms)
}

/// Carries out one arm, within `timeout`.
#[doc(hidden)]
#[track_caller]
pub fn select_within(arms: &mut [ArmRef<'_>], timeout: Duration) -> bool {
    wait(arms, Deadline::after(timeout))
}

/// Carries out one arm.
#[doc(hidden)]
#[track_caller]
pub fn select_by(arms: &mut [ArmRef<'_>]) -> bool {
    wait(arms, Deadline::NEVER)
}

/// Arms that have begun, which also end if a wait panics: a value that was not sent returns to its
/// slot.
struct Begun<'a>(&'a [ArmRef<'a>]);

impl<'a> Begun<'a> {
    fn begin(arms: &'a [ArmRef<'a>]) -> Self {
        arms.iter().for_each(|arm| arm.0.begin());
        Begun(arms)
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|arm| arm.0.end());
    }
}

#[track_caller]
fn wait(arms: &[ArmRef<'_>], deadline: Deadline) -> bool {
    let _begun = Begun::begin(arms);
    let teller = arms.iter().find(|arm| arm.0.can_be_chosen());
    assert!(
        teller.is_some() || deadline != Deadline::NEVER,
        "the select would wait for ever, because the slots of all its sends are empty; fill a \
         slot, or add an arm that receives or a default arm"
    );
    loop {
        if let Some(teller) = teller
            && cancel::is_cancelled_here()
        {
            teller.0.cancel();
            return true;
        }
        if attempt(arms) {
            return true;
        }
        if deadline.has_passed() {
            return false;
        }
        wait_once(arms, deadline, teller.is_some());
        if arms.iter().any(|arm| arm.0.has_outcome()) {
            return true;
        }
    }
}

/// Waits until a peer has carried out an arm, or until another attempt may succeed.
#[track_caller]
fn wait_once(arms: &[ArmRef<'_>], deadline: Deadline, is_cancel_point: bool) {
    let worker = worker::current();
    let earliest = arms.iter().map(|arm| arm.0.deadline()).fold(deadline, Deadline::min);
    let record = WaitRecord::new(&SELECT)
        .with_detail(arms.len() as u64, 0)
        .until(earliest)
        .cancellable_if(is_cancel_point)
        .with_unlink(give_up, (&raw const arms).cast());
    let prepared = match park::prepare(&worker, &record) {
        Ok(prepared) => prepared,
        Err(Refused::Unwinding) => park::abort_wait_while_unwinding("a select"),
        // The caller checks for the cancellation itself.
        Err(Refused::Cancelled) => return,
    };
    let mut prepared = Some(prepared);
    for arm in from_random(arms) {
        let Some(wait) = prepared.as_ref().map(|prepared| prepared.wake_ref()) else { break };
        // SAFETY: the select borrows the arms mutably, so they do not move and no other strand uses
        // them until this returns; they are removed from their queues below.
        match unsafe { arm.0.enlist(wait) } {
            Enlisted::Waiting => {}
            // This strand has claimed the wait, so no peer can end it.
            Enlisted::Done | Enlisted::Again => {
                if let Some(prepared) = prepared.take() {
                    prepared.ended();
                }
            }
            Enlisted::Over => break,
        }
    }
    if let Some(prepared) = prepared {
        prepared.suspend();
    }
    arms.iter().for_each(|arm| arm.0.unlist());
}

/// The hook that runs if the strand is abandoned in a select.
unsafe fn give_up(arms: *const ()) {
    // SAFETY: `wait_once` set this hook with the address of its arms, and the strand is suspended.
    let arms = unsafe { *arms.cast::<&[ArmRef<'_>]>() };
    arms.iter().for_each(|arm| arm.0.give_up());
}

type RecvHandler<'a, T, R> = Box<dyn FnOnce(Result<T, RecvError>) -> R + 'a>;
type SendHandler<'a, T, R> = Box<dyn FnOnce(Result<(), SendError<T>>) -> R + 'a>;

/// An arm with the handler that runs when it is chosen.
trait Branch<R> {
    fn arm(&mut self) -> ArmRef<'_>;
    fn run(self: Box<Self>) -> R;
}

struct RecvBranch<'a, T, R> {
    arm: RecvArm<'a, T>,
    handler: RecvHandler<'a, T, R>,
}

struct SendBranch<'a, T, R> {
    arm: SendArm<'a, T>,
    handler: SendHandler<'a, T, R>,
}

impl<T, R> Branch<R> for RecvBranch<'_, T, R> {
    fn arm(&mut self) -> ArmRef<'_> {
        self.arm.arm()
    }

    fn run(self: Box<Self>) -> R {
        (self.handler)(self.arm.result())
    }
}

impl<T, R> Branch<R> for SendBranch<'_, T, R> {
    fn arm(&mut self) -> ArmRef<'_> {
        self.arm.arm()
    }

    fn run(self: Box<Self>) -> R {
        (self.handler)(self.arm.result())
    }
}

/// Waits until one of several operations can be carried out, and carries it out. Use it if their
/// number is known only at run time, otherwise [`select!`](crate::select!).
///
/// # Examples
/// ```
/// use ramie::channel::{self, Select};
/// let channels: Vec<_> = (0..3).map(|_| channel::unbounded()).collect();
/// channels[1].0.send("one").unwrap();
/// let mut select = Select::new();
/// for (number, (_, receiver)) in channels.iter().enumerate() {
///     select = select.recv(receiver, move |value| (number, value.unwrap()));
/// }
/// assert_eq!(select.wait(), (1, "one"));
/// ```
pub struct Select<'a, R> {
    branches: Vec<Box<dyn Branch<R> + 'a>>,
}

impl<'a, R: 'a> Select<'a, R> {
    /// Makes a select without operations.
    #[must_use]
    pub fn new() -> Self {
        Select { branches: Vec::new() }
    }

    /// Adds a receive from `receiver`; if the receive is chosen, `handler` is called with the
    /// result.
    #[must_use]
    pub fn recv<T: 'a>(
        mut self,
        receiver: &'a Receiver<T>,
        handler: impl FnOnce(Result<T, RecvError>) -> R + 'a,
    ) -> Self {
        let arm = RecvArm::new(receiver);
        self.branches.push(Box::new(RecvBranch { arm, handler: Box::new(handler) }));
        self
    }

    /// Adds a send of the value in `slot`, which is taken out only if the send is chosen. A send
    /// with an empty slot is never chosen.
    #[must_use]
    pub fn send<T: 'a>(
        mut self,
        sender: &'a Sender<T>,
        slot: &'a mut Option<T>,
        handler: impl FnOnce(Result<(), SendError<T>>) -> R + 'a,
    ) -> Self {
        let arm = SendArm::from_slot(sender, slot);
        self.branches.push(Box::new(SendBranch { arm, handler: Box::new(handler) }));
        self
    }

    /// Carries out one operation and returns the result of its handler.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, until one of the operations can be carried out;
    /// without operations, forever.
    ///
    /// # Cancellation
    /// A cancel point. In a cancelled scope the first operation that was added (but not a send with
    /// an empty slot) is chosen: its handler is called with `Cancelled`, which contains the value
    /// that was to be sent.
    ///
    /// # Panics
    /// If it would wait for ever, because all arms are sends with empty slots. Inside
    /// [`no_switch`](crate::no_switch()), if the call would have to wait. If it would have to wait
    /// on a fiber in a destructor that runs during a panic, the process ends with a message.
    #[track_caller]
    pub fn wait(mut self) -> R {
        loop {
            if let Some(index) = self.choose(Some(Deadline::NEVER)) {
                return self.run(index);
            }
        }
    }

    /// Carries out one operation if that is possible without waiting.
    ///
    /// # Blocking
    /// Never.
    pub fn try_wait(mut self) -> Option<R> {
        self.choose(None).map(|index| self.run(index))
    }

    /// Carries out one operation if that is possible within `timeout`.
    ///
    /// # Blocking
    /// As [`wait`](Self::wait), for at most `timeout`.
    ///
    /// # Cancellation
    /// A cancel point, as [`wait`](Self::wait).
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout(mut self, timeout: Duration) -> Option<R> {
        self.choose(Some(Deadline::after(timeout))).map(|index| self.run(index))
    }

    /// Returns the arm that was carried out by the deadline; without one it does not wait.
    #[track_caller]
    fn choose(&mut self, deadline: Option<Deadline>) -> Option<usize> {
        let mut arms: Vec<_> = self.branches.iter_mut().map(|branch| branch.arm()).collect();
        let is_done = match deadline {
            Some(deadline) => wait(&arms, deadline),
            None => select_now(&mut arms),
        };
        if !is_done {
            return None;
        }
        arms.iter().position(|arm| arm.0.has_outcome())
    }

    fn run(mut self, index: usize) -> R {
        let value = self.branches.swap_remove(index).run();
        // Here, because the compiler forgets a value that is being returned if the destructor of
        // another handler panics.
        drop(self);
        value
    }
}

impl<'a, R: 'a> Default for Select<'a, R> {
    fn default() -> Self {
        Select::new()
    }
}

impl<R> fmt::Debug for Select<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("operations", &self.branches.len()).finish()
    }
}
