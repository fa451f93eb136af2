//! Full waits, and the protocol by which every strand suspends.
//!
//! Every wait in this crate, of a fiber or of an OS thread, goes through this module, with a
//! [`WaitRecord`] that lies in the waiter's frame. `yield_now` is no wait, because its strand stays
//! runnable. There are two kinds of waits, and a constructor of the record for each:
//!
//! - A *full* wait ([`WaitRecord::new`], [`prepare`]) may be ended by any thread, by a deadline or
//!   by a cancellation. The protocol below is for full waits.
//! - A *plain* wait ([`WaitRecord::plain`], [`plain`](super::plain)) is that of a fiber for its own
//!   op, and only the completion of that op ends it.
//!
//! # Protocol
//! 1. The waiter begins a wait ([`prepare`]): its header's word becomes `WAITING` with a new epoch,
//!    and the waiter holds a [`WakeRef`] that names this wait and no other.
//! 2. It hands copies of the reference to all that may end the wait: a parking lot, an op, the word
//!    of a joiner. From here on the wait may be over at any time; the strand still runs.
//! 3. It checks its condition again, if the primitive needs that.
//! 4. It suspends ([`Prepared::suspend`]). A waker that won the claim has made the strand runnable
//!    or will; since only the strand's own worker resumes it, and that worker is running this very
//!    code, the strand cannot be resumed before it has suspended.
//! 5. It runs again, with the reason that the winner stored.
//!
//! The record is read only by the worker that owns the strand (dumps, abandonment), and only while
//! the strand is suspended, so it needs no synchronisation. (A watchdog reads copies of records,
//! which the kernel makes: `core/worker/view.rs`.)
//!
//! Between 1 and 5 the waiter's frame and the references to it are lent: a panic that would leave
//! the frame ends the process ([`HandedOut`]). All checks that could refuse the wait come before 1.
//!
//! # Cancel points
//! A *cancellable* record ([`WaitRecord::cancellable`]) lets its wait end when a scope around it is
//! cancelled, or a limit has expired. The wait then does not begin in a cancelled scope, ends at
//! the earliest limit, and may be ended by `cancel` (see [`cancel`](crate::cancel)). If no scope
//! and no limit is around the strand, this costs one load.
//!
//! `cancel` may end the wait only from `suspend` on, which looks at the marks once more. *The race
//! to fear*: between `prepare` and `suspend` primitives hold spin locks. A strand whose wait was
//! cancelled there could only suspend, with the lock held.
//!
//! # In a signal handler
//! A handler interrupts its thread anywhere, also while a wait changes its data. A handler that
//! runs on the signal stack, as it should, is recognised by that stack, and the process ends with a
//! message.
//!
//! # While unwinding
//! A destructor that runs during a panic may wait. Suspending there would let other fibers see
//! `std::thread::panicking()` and poison their locks, so nothing below ever suspends then: see
//! [`Refused::Unwinding`].

use ramie_driver::sys::{HandedOut, Lent};

pub(crate) use super::record::{Subject, WaitKind, WaitRecord};
use super::word::WakeWord;
use crate::core::{
    cancel,
    strand::{Wake, WakeRef},
    time::Deadline,
    worker::{self, FiberStack, Worker},
};

/// The reason why a wait did not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// The strand is unwinding and must not suspend.
    Unwinding,
    /// The wait is a cancel point, and the strand is cancelled.
    Cancelled,
}

/// A wait that has begun and whose strand has not yet suspended.
pub(crate) struct Prepared<'a> {
    worker: &'a Worker,
    stack: &'a FiberStack,
    record: &'a WaitRecord,
    wait: WakeRef,
    begun: HandedOut<Wait>,
}

/// The loan of a wait, with its record and its entries in queues, to all that may end it.
enum Wait {}

impl Lent for Wait {
    const WHAT: &'static str = "a wait had begun";
}

/// Begins a wait of the current strand.
#[inline(always)]
pub(crate) fn prepare<'a>(
    worker: &'a Worker,
    record: &'a WaitRecord,
) -> Result<Prepared<'a>, Refused> {
    let stack = check_and_enter(worker, record)?;
    Ok(Prepared::begun(worker, stack, record, stack.header().begin_wait()))
}

/// Begins a wait for `unpark`. Returns `None` if its token was set.
#[inline(always)]
pub(crate) fn prepare_park<'a>(
    worker: &'a Worker,
    record: &'a WaitRecord,
) -> Result<Option<Prepared<'a>>, Refused> {
    let stack = check_and_enter(worker, record)?;
    let wait = stack.header().begin_park();
    Ok(wait.map(|wait| Prepared::begun(worker, stack, record, wait)))
}

/// Makes all checks that could refuse the wait. Returns the stack of the strand.
#[inline(always)]
fn check_and_enter<'a>(worker: &'a Worker, record: &WaitRecord) -> Result<&'a FiberStack, Refused> {
    check_may_wait(worker, record)?;
    let stack = worker.current_strand();
    if record.is_cancel_point && !worker.running.has_no_context() {
        enter_cancel_point(record)?;
    }
    Ok(stack)
}

/// Records the limits and scopes around the wait.
#[cold]
#[inline(never)]
fn enter_cancel_point(record: &WaitRecord) -> Result<(), Refused> {
    let ambient = cancel::ambient();
    if ambient.is_cancelled || ambient.deadline.has_passed() {
        cancel::note_notice();
        return Err(Refused::Cancelled);
    }
    record.ends_at.set(record.deadline.min(ambient.deadline));
    record.is_in_scope.set(ambient.has_node);
    Ok(())
}

impl<'a> Prepared<'a> {
    #[inline(always)]
    fn begun(
        worker: &'a Worker,
        stack: &'a FiberStack,
        record: &'a WaitRecord,
        wait: WakeRef,
    ) -> Self {
        record.since_ms.set(worker.running.now_ms());
        worker.shared.record.parks.add_one();
        stack.record.set(record);
        Prepared { worker, stack, record, wait, begun: HandedOut::<Wait>::new() }
    }

    /// Lets the wait be cancelled from now on. Returns true if a scope was cancelled before, and
    /// this call ended the wait itself.
    #[cold]
    #[inline(never)]
    fn claim_if_cancelled(&self) -> bool {
        cancel::join_scopes();
        self.stack.header().allow_cancel();
        cancel::fence_after_begin();
        cancel::ambient().is_cancelled && self.stack.header().claim(self.wait, Wake::Cancelled)
    }

    pub(crate) fn wake_ref(&self) -> WakeRef {
        self.wait
    }

    /// The word by which a driver names this wait.
    #[inline(always)]
    pub(crate) fn wake_word(&self) -> WakeWord {
        WakeWord::full(self.wait)
    }

    /// Suspends until the wait is over.
    #[inline(always)]
    pub(crate) fn suspend(self) -> Wake {
        // Only a cancel point is ever marked as in a scope.
        if self.record.is_in_scope.get() && self.claim_if_cancelled() {
            self.ended();
            cancel::note_notice();
            return Wake::Cancelled;
        }
        let ends_at = self.record.ends_at.get();
        if ends_at != Deadline::NEVER {
            self.worker.arm_timer(self.stack, ends_at);
        }
        self.worker.running.recorder.note_waits(self.stack, self.record);
        self.worker.switch_out();
        self.worker.running.recorder.note_continues(self.stack, self.record);
        self.stack.record.set(std::ptr::null());
        let reason = self.stack.header().wake_reason();
        self.begun.settle();
        if reason != Wake::Woken && self.record.is_cancel_point {
            return self.record.settle(reason);
        }
        reason
    }

    /// Ends the wait and continues without suspending. If another thread has ended the wait
    /// already, suspends, because that thread will make the strand runnable.
    pub(crate) fn abort_or_suspend(self) {
        if self.stack.header().claim(self.wait, Wake::Woken) {
            self.ended();
        } else {
            self.suspend();
        }
    }

    /// Continues without suspending, after the strand itself has ended the wait.
    pub(crate) fn ended(self) {
        self.stack.record.set(std::ptr::null());
        self.begun.settle();
    }
}

impl WaitRecord {
    /// Distinguishes the wait's own deadline from a limit around it. A cancellation that a shield
    /// defers is a spurious wake-up.
    #[cold]
    fn settle(&self, reason: Wake) -> Wake {
        match reason {
            Wake::TimedOut if self.deadline.has_passed() => Wake::TimedOut,
            _ if cancel::cause().is_some() => Wake::Cancelled,
            _ => Wake::Woken,
        }
    }
}

/// Waits for the record's deadline.
#[inline(always)]
pub(crate) fn park(record: &WaitRecord) -> Result<Wake, Refused> {
    let worker = worker::current();
    Ok(prepare(&worker, record)?.suspend())
}

#[inline(always)]
fn check_may_wait(worker: &Worker, record: &WaitRecord) -> Result<(), Refused> {
    worker.running.check_may_wait(record);
    worker.running.check_stack(record);
    if std::thread::panicking() && worker.must_not_suspend_while_unwinding() {
        return Err(Refused::Unwinding);
    }
    Ok(())
}

/// Ends the process, because a destructor that runs during a panic waits for another strand, and
/// its call cannot return an error.
#[cold]
pub(crate) fn abort_wait_while_unwinding(what: &str) -> ! {
    ramie_driver::sys::fatal(&format!(
        "a destructor that runs during a panic waits for {what}. No other fiber can run \
         then, so it would wait forever. Do not wait in destructors, or use a call that returns an \
         error then, such as Mutex::lock_or_cancelled or JoinHandle::wait. Aborting."
    ))
}
