//! The one way off a strand.
//!
//! Every wait in this crate, of a fiber or of an OS thread, goes through [`park`] with a
//! [`WaitRecord`] that lies in the waiter's frame. (`yield_now` alone does not: it stays runnable.)
//!
//! # Protocol
//! 1. The waiter begins a wait ([`prepare`]): its slot's word becomes `WAITING` with a new epoch,
//!    and the waiter holds a [`WakeRef`] that names this wait and no other.
//! 2. It hands copies of the reference to whoever may end the wait: a wait list, an op, a joiner's
//!    word. From here on the wait may be over at any time; the strand still runs.
//! 3. It re-checks the condition it waits for, where the primitive needs that.
//! 4. It suspends ([`Prepared::suspend`]). A waker that won the claim has made the strand runnable
//!    or will; since only the strand's own worker resumes it, and that worker is running this very
//!    code, the strand cannot be resumed before it has suspended.
//! 5. It runs again, with the reason the winner gave.
//!
//! The record is read only by the worker that owns the strand (dumps, abandonment), and only while
//! the strand is suspended, so it needs no synchronisation.
//!
//! # While unwinding
//! A destructor that runs during a panic may wait. Suspending there would let other fibers see
//! `std::thread::panicking()` and poison their locks, so nothing below ever suspends then: see
//! [`Unwinding`].

use std::panic::Location;

use crate::{
    strand::{Wake, WakeRef},
    time::Deadline,
    worker::{self, Body, Worker},
};

/// What a strand may wait for, as dumps and reports name it.
#[derive(Debug)]
pub(crate) struct WaitKind {
    pub(crate) name: &'static str,
}

impl WaitKind {
    pub(crate) const fn new(name: &'static str) -> Self {
        WaitKind { name }
    }
}

/// One wait, described by the waiter.
pub(crate) struct WaitRecord {
    pub(crate) kind: &'static WaitKind,
    pub(crate) location: &'static Location<'static>,
    /// What the kind makes of them: a descriptor, an address, an id.
    pub(crate) detail: [u64; 2],
    pub(crate) deadline: Deadline,
    /// Takes the waiter off whatever list it is on, when its strand is given up for good.
    pub(crate) unlink: Option<Unlink>,
}

/// A hook with the address it works on. It runs on the worker that owns the waiting strand.
#[derive(Clone, Copy)]
pub(crate) struct Unlink {
    pub(crate) hook: unsafe fn(*const ()),
    pub(crate) target: *const (),
}

impl WaitRecord {
    #[track_caller]
    #[inline]
    pub(crate) fn new(kind: &'static WaitKind) -> Self {
        WaitRecord {
            kind,
            location: Location::caller(),
            detail: [0; 2],
            deadline: Deadline::NEVER,
            unlink: None,
        }
    }

    #[inline]
    pub(crate) fn until(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
        self
    }

    #[inline]
    pub(crate) fn with_detail(mut self, first: u64, second: u64) -> Self {
        self.detail = [first, second];
        self
    }

    pub(crate) fn with_unlink(mut self, hook: unsafe fn(*const ()), target: *const ()) -> Self {
        self.unlink = Some(Unlink { hook, target });
        self
    }
}

/// The strand is unwinding and must not suspend.
#[derive(Debug)]
pub(crate) struct Unwinding;

/// A wait that has begun and whose strand has not yet suspended.
pub(crate) struct Prepared<'a> {
    worker: &'a Worker,
    body: &'a Body,
    record: &'a WaitRecord,
    wait: WakeRef,
}

/// Begins a wait of the current strand.
#[inline(always)]
pub(crate) fn prepare<'a>(
    worker: &'a Worker,
    record: &'a WaitRecord,
) -> Result<Prepared<'a>, Unwinding> {
    check_may_switch(worker)?;
    let body = worker.current_strand();
    body.record.set(record);
    let wait = body.slot().begin_wait();
    Ok(Prepared { worker, body, record, wait })
}

/// Begins a wait for `unpark`; `None` when its token was there.
#[inline(always)]
pub(crate) fn prepare_park<'a>(
    worker: &'a Worker,
    record: &'a WaitRecord,
) -> Result<Option<Prepared<'a>>, Unwinding> {
    check_may_switch(worker)?;
    let body = worker.current_strand();
    let Some(wait) = body.slot().begin_park() else { return Ok(None) };
    body.record.set(record);
    Ok(Some(Prepared { worker, body, record, wait }))
}

impl Prepared<'_> {
    pub(crate) fn wake_ref(&self) -> WakeRef {
        self.wait
    }

    /// Suspends until the wait is over.
    #[inline(always)]
    pub(crate) fn suspend(self) -> Wake {
        if self.record.deadline != Deadline::NEVER {
            self.worker.arm_timer(self.body, self.record.deadline);
        }
        self.worker.switch_out();
        self.body.record.set(std::ptr::null());
        self.body.slot().wake_reason()
    }

    /// Goes on without suspending; only while no copy of the reference is in other hands.
    pub(crate) fn abort(self) {
        self.body.slot().abort_wait(self.wait);
        self.body.record.set(std::ptr::null());
    }
}

/// Waits, where the record itself says all: for its deadline.
#[inline(always)]
pub(crate) fn park(record: &WaitRecord) -> Result<Wake, Unwinding> {
    let worker = worker::current();
    Ok(prepare(&worker, record)?.suspend())
}

#[inline(always)]
fn check_may_switch(worker: &Worker) -> Result<(), Unwinding> {
    worker.check_may_switch();
    if std::thread::panicking() && worker.must_not_suspend_while_unwinding() {
        return Err(Unwinding);
    }
    Ok(())
}

/// Ends the process: a destructor that runs during a panic waits for another strand, and the call
/// has no way to say that it could not.
#[cold]
pub(crate) fn abort_wait_while_unwinding(what: &str) -> ! {
    eprintln!(
        "ramie: {what} would have to wait for another strand in a destructor that runs during a \
         panic; other fibers cannot run then, so it would wait for ever. Release the lock or join \
         the strand before the code that may panic. Aborting."
    );
    std::process::abort()
}
