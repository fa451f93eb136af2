//! One I/O op of the strand that calls: handed to the driver, awaited to its last completion.
//!
//! The op and its frame lie in the caller's frame, and so does, as a rule, what the op points to.
//! That is sound because this call does not return, by whatever way, before the kernel is done with
//! them: a deadline cancels the op and goes on waiting, and the op's own result decides. Data that
//! arrived is returned, nothing is lost. A cancelled scope does the same; a call in one that is
//! cancelled already does not begin.
//!
//! Whatever could refuse is asked before the op is submitted: a `no_switch` region, a signal
//! handler, a thread's slot. A panic between the submission and the completion would leave the
//! frame to the kernel, and ends the process ([`HandedOut`]).
#![allow(unsafe_code)]

use std::{io, os::fd::AsRawFd, ptr::NonNull, time::Duration};

use ramie_driver::{
    FixedFile, Op, OpFrame, Submitted, Wait, say,
    sys::{HandedOut, Lent},
};

use super::fixed_file::FdName;
use crate::core::{
    cancel,
    strand::Wake,
    time::Deadline,
    wait::{
        park::{self, Refused, WaitKind, WaitRecord},
        plain::{body_bits, suspend_plainly},
    },
    worker::{self, Worker},
};

/// How long an op that runs during a panic may take before it is cancelled.
pub(crate) const UNWINDING_LIMIT: Duration = Duration::from_millis(100);

/// Why an op did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpError {
    /// The kernel's error.
    Errno(i32),
    /// The deadline passed, and the op had not happened.
    Elapsed,
    /// A scope around the call was cancelled, or a limit over, and the op had not happened.
    Cancelled,
}

impl From<OpError> for io::Error {
    fn from(error: OpError) -> Self {
        match error {
            OpError::Errno(errno) => io::Error::from_raw_os_error(errno),
            OpError::Elapsed => io::Error::from(io::ErrorKind::TimedOut),
            OpError::Cancelled => cancel::error(),
        }
    }
}

/// Performs an op and returns its result, a count or a descriptor.
///
/// # Safety
/// What `op` points to stays valid, and is not used by others in a conflicting way, until this
/// call has returned.
///
/// # Cancellation
/// A cancel point.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()).
#[track_caller]
pub(crate) unsafe fn perform(
    kind: &'static WaitKind,
    op: Op,
    deadline: Deadline,
) -> Result<u32, OpError> {
    // SAFETY: the caller's promise.
    unsafe { perform_frame(kind, OpFrame::new(op), deadline) }
}

/// As [`perform`], for an op that points to nothing.
#[track_caller]
pub(crate) fn perform_pointing_nowhere(
    kind: &'static WaitKind,
    op: Op,
    deadline: Deadline,
) -> Result<u32, OpError> {
    assert!(matches!(op, Op::Poll { .. } | Op::Nop), "this op points to something");
    // SAFETY: it points to nothing.
    unsafe { perform(kind, op, deadline) }
}

/// Waits until one of `events` may hold of a stream.
#[track_caller]
pub(crate) fn await_readiness(
    kind: &'static WaitKind,
    fd: FdName<'_>,
    events: u32,
    deadline: Deadline,
) -> Result<u32, OpError> {
    let op = Op::Poll { fd: fd.as_raw_fd(), events };
    // SAFETY: it points to nothing; the place is that of the stream with this descriptor.
    unsafe { perform_plainly(kind, OpFrame::new(op), deadline, fd.place()) }
}

/// As [`perform`], for ops of which there are many: inlined into the code of the fiber, for the
/// sake of its switch ([`Body::suspend`](worker::Body::suspend)); by the place in the ring's table
/// that the op's descriptor may have.
///
/// # Safety
/// As [`perform`]; and `place` is that of the stream whose descriptor the op names.
#[track_caller]
#[inline(always)]
pub(crate) unsafe fn perform_inline(
    kind: &'static WaitKind,
    op: Op,
    deadline: Deadline,
    place: Option<&FixedFile>,
) -> Result<u32, OpError> {
    // SAFETY: the caller's promise.
    unsafe { perform_plainly(kind, OpFrame::new(op), deadline, place) }
}

/// As [`perform`], for a frame that has not been submitted.
///
/// # Safety
/// As [`perform`].
#[track_caller]
pub(crate) unsafe fn perform_frame(
    kind: &'static WaitKind,
    frame: OpFrame,
    deadline: Deadline,
) -> Result<u32, OpError> {
    // SAFETY: the caller's promise.
    unsafe { perform_plainly(kind, frame, deadline, None) }
}

/// Performs an op by a plain wait, if that will do.
///
/// # Safety
/// As [`perform_inline`].
#[track_caller]
#[inline(always)]
unsafe fn perform_plainly(
    kind: &'static WaitKind,
    frame: OpFrame,
    deadline: Deadline,
    place: Option<&FixedFile>,
) -> Result<u32, OpError> {
    let detail = frame.op().fd().map_or(u64::MAX, |fd| fd as u64);
    let record = WaitRecord::new(kind).with_detail(detail, 0).of_plain_op();
    let wait = PlainWait { frame, record };
    let frame = &wait.frame;
    let worker = worker::current();
    let Some(body) = worker.plain_fiber().filter(|_| deadline == Deadline::NEVER) else {
        // SAFETY: the caller's promise.
        return unsafe { perform_bounded(&worker, kind, frame, deadline, place) };
    };
    // SAFETY: the frame stays in place until it is popped, and what the op points to does by the
    // caller's promise; so it is with the place.
    match unsafe { worker.submit(frame, place) }? {
        Submitted::Complete => worker.note_complete_at_once(),
        Submitted::InFlight => {
            let in_flight = HandedOut::<InFlight>::new();
            frame.user.set(body_bits(body));
            while !is_popped(frame) {
                suspend_plainly(body, &wait.record);
            }
            in_flight.settle();
        }
    }
    result_of(frame, None)
}

/// A plain wait, whole: what its switch touches lies together, where the run queue's prefetch
/// expects it (`core/worker/prefetch.rs`).
#[repr(C)]
struct PlainWait {
    frame: OpFrame,
    record: WaitRecord,
}

/// Performs the op of a strand that is no fiber, has a limit or a scope around it, or unwinds.
///
/// # Safety
/// As [`perform_inline`]; the frame stays in place during this call.
#[track_caller]
#[inline(never)]
unsafe fn perform_bounded(
    worker: &Worker,
    kind: &'static WaitKind,
    frame: &OpFrame,
    deadline: Deadline,
    place: Option<&FixedFile>,
) -> Result<u32, OpError> {
    worker.check_can_wait();
    worker.check_stack();
    let detail = frame.op().fd().map_or(u64::MAX, |fd| fd as u64);
    let record = WaitRecord::new(kind).with_detail(detail, 0).until(deadline).cancellable();
    if cancel::is_cancelled_here() {
        return Err(OpError::Cancelled);
    }
    // SAFETY: the frame stays in place until `wait_for` has seen it complete, and what the op
    // points to does by the caller's promise.
    match unsafe { worker.submit(frame, place) }? {
        Submitted::Complete => {
            worker.note_complete_at_once();
            result_of(frame, None)
        }
        Submitted::InFlight => {
            let in_flight = HandedOut::<InFlight>::new();
            let result = wait_for(worker, frame, record);
            in_flight.settle();
            result
        }
    }
}

/// Lent to the kernel: the frame of an op, and what it points to.
enum InFlight {}

impl Lent for InFlight {
    const WHAT: &'static str = "the kernel worked on an op in its frame";
}

impl Worker {
    /// Hands an op to the driver, which a thread outside `run` opens when it first needs it.
    ///
    /// # Safety
    /// As [`ramie_driver::Driver::submit_fixed`].
    #[inline(always)]
    unsafe fn submit(
        &self,
        frame: &OpFrame,
        place: Option<&FixedFile>,
    ) -> Result<Submitted, OpError> {
        let submit = |driver: &mut ramie_driver::Driver| match place {
            // SAFETY: the caller's promise.
            Some(place) => unsafe { driver.submit_fixed(NonNull::from(frame), place) },
            // SAFETY: the caller's promise.
            None => unsafe { driver.submit(NonNull::from(frame)) },
        };
        match self.with_open_driver(submit) {
            Some(submitted) => Ok(submitted),
            None => with_driver(self, submit),
        }
    }
}

#[cold]
#[inline(never)]
fn with_driver<R>(
    worker: &Worker,
    f: impl FnOnce(&mut ramie_driver::Driver) -> R,
) -> Result<R, OpError> {
    worker.with_driver(f).map_err(|error| {
        say!(Error, "this thread cannot do I/O: {error}");
        OpError::Errno(error.raw_os_error().unwrap_or(ENOSYS))
    })
}

const ENOSYS: i32 = 38;
const ECANCELED: i32 = 125;

/// What the op came to; `ended_by` is why we cancelled it, if we did.
///
/// Errors lie out of line: with them the compiler makes one jump by a table out of this and of what
/// the callers do with it.
#[inline(always)]
fn result_of(frame: &OpFrame, ended_by: Option<OpError>) -> Result<u32, OpError> {
    match frame.result() {
        count @ 0.. => Ok(count as u32),
        error => Err(error_of(-error, ended_by)),
    }
}

#[cold]
#[inline(never)]
fn error_of(errno: i32, ended_by: Option<OpError>) -> OpError {
    match ended_by {
        Some(why) if errno == ECANCELED => why,
        _ => OpError::Errno(errno),
    }
}

fn wait_for(worker: &Worker, frame: &OpFrame, mut record: WaitRecord) -> Result<u32, OpError> {
    let mut ended_by = None;
    while !is_popped(frame) {
        let reason = match park::prepare(worker, &record) {
            Ok(prepared) => {
                frame.user.set(prepared.wake_ref().to_bits());
                prepared.suspend()
            }
            Err(Refused::Unwinding) => return drive_inline(worker, frame),
            Err(Refused::Cancelled) => Wake::Cancelled,
        };
        let why = match reason {
            Wake::Woken => continue,
            Wake::TimedOut => OpError::Elapsed,
            Wake::Cancelled => OpError::Cancelled,
        };
        if !is_popped(frame) {
            cancel(worker, frame);
            ended_by = Some(why);
            // From here on only the op's own completion counts.
            record = WaitRecord::of_rest(&record);
        }
    }
    result_of(frame, ended_by)
}

/// Whether the driver has let go of the frame.
fn is_popped(frame: &OpFrame) -> bool {
    frame.user.get() == worker::POPPED
}

fn cancel(worker: &Worker, frame: &OpFrame) {
    // A driver that took the op in is open.
    let _ = worker.with_driver(|driver| {
        // SAFETY: the frame was submitted to this driver, which has not let go of it: the callers
        // saw that it is not popped.
        unsafe { driver.cancel(NonNull::from(frame)) }
    });
}

/// Awaits an op in the kernel, with no other fiber running: the strand unwinds from a panic.
#[cold]
fn drive_inline(worker: &Worker, frame: &OpFrame) -> Result<u32, OpError> {
    frame.user.set(0);
    let limit = ramie_driver::sys::monotonic_ns() + UNWINDING_LIMIT.as_nanos() as u64;
    let mut ended_by = None;
    while !is_popped(frame) {
        let now = ramie_driver::sys::monotonic_ns();
        if now >= limit && ended_by.is_none() {
            cancel(worker, frame);
            ended_by = Some(OpError::Elapsed);
        }
        let bound = Duration::from_nanos(limit.saturating_sub(now));
        let wait = Wait::Until(ended_by.is_none().then_some(bound));
        worker.turn_inline(wait);
    }
    result_of(frame, ended_by)
}

/// Takes possession of the descriptor that an op returned.
///
/// # Safety
/// `fd` is the result of an op that returns a new descriptor, used once.
pub(crate) unsafe fn own_fd(fd: u32) -> std::os::fd::OwnedFd {
    // SAFETY: the caller's promise.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd as i32) }
}
