//! One I/O op of the strand that calls: handed to the driver, awaited to its last completion.
//!
//! The op and its frame lie in the caller's frame, and so does, as a rule, what the op points to.
//! That is sound because this call does not return, by whatever way, before the kernel is done with
//! them: a deadline cancels the op and goes on waiting, and the op's own result decides. Data that
//! arrived is returned, nothing is lost.
#![allow(unsafe_code)]

use std::{io, ptr::NonNull, time::Duration};

use ramie_driver::{Op, OpFrame, Submitted, Wait};

use crate::{
    park::{self, WaitKind, WaitRecord},
    time::Deadline,
    worker::{self, Worker},
};

/// How long an op that runs during a panic may take before it is cancelled.
const UNWINDING_LIMIT: Duration = Duration::from_millis(100);

/// Why an op did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpError {
    /// The kernel's error.
    Errno(i32),
    /// The deadline passed, and the op had not happened.
    Elapsed,
}

impl From<OpError> for io::Error {
    fn from(error: OpError) -> Self {
        match error {
            OpError::Errno(errno) => io::Error::from_raw_os_error(errno),
            OpError::Elapsed => io::Error::from(io::ErrorKind::TimedOut),
        }
    }
}

/// Performs an op and returns its result, a count or a descriptor.
///
/// # Safety
/// What `op` points to stays valid, and is not used by others in a conflicting way, until this
/// call has returned.
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

/// As [`perform`], for a frame that has not been submitted.
///
/// # Safety
/// As [`perform`].
#[track_caller]
#[inline]
pub(crate) unsafe fn perform_frame(
    kind: &'static WaitKind,
    frame: OpFrame,
    deadline: Deadline,
) -> Result<u32, OpError> {
    let worker = worker::current();
    worker.check_may_switch();
    let detail = frame.op().fd().map_or(u64::MAX, |fd| fd as u64);
    let record = WaitRecord::new(kind).with_detail(detail, 0).until(deadline);
    let submitted = with_driver(&worker, |driver| {
        // SAFETY: the frame stays in place until `wait_for` has seen it complete, and what the
        // op points to does by the caller's promise.
        unsafe { driver.submit(NonNull::from(&frame)) }
    })?;
    match submitted {
        Submitted::Complete => result_of(&frame, false),
        Submitted::InFlight => wait_for(&worker, &frame, record),
    }
}

fn with_driver<R>(
    worker: &Worker,
    f: impl FnOnce(&mut ramie_driver::Driver) -> R,
) -> Result<R, OpError> {
    worker.with_driver(f).map_err(|error| {
        log::error!("this thread cannot do I/O: {error}");
        OpError::Errno(error.raw_os_error().unwrap_or(ENOSYS))
    })
}

const ENOSYS: i32 = 38;
const ECANCELED: i32 = 125;

fn result_of(frame: &OpFrame, was_cancelled: bool) -> Result<u32, OpError> {
    match frame.result() {
        count if count >= 0 => Ok(count as u32),
        error if was_cancelled && -error == ECANCELED => Err(OpError::Elapsed),
        error => Err(OpError::Errno(-error)),
    }
}

fn wait_for(worker: &Worker, frame: &OpFrame, mut record: WaitRecord) -> Result<u32, OpError> {
    let mut was_cancelled = false;
    while !is_popped(frame) {
        let Ok(prepared) = park::prepare(worker, &record) else {
            return drive_inline(worker, frame);
        };
        frame.user.set(prepared.wake_ref().to_bits());
        prepared.suspend();
        if !is_popped(frame) && record.deadline.has_passed() {
            cancel(worker, frame);
            was_cancelled = true;
            // From here on only the op's own completion counts.
            record = record.until(Deadline::NEVER);
        }
    }
    result_of(frame, was_cancelled)
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
    let mut was_cancelled = false;
    while !is_popped(frame) {
        let now = ramie_driver::sys::monotonic_ns();
        if now >= limit && !was_cancelled {
            cancel(worker, frame);
            was_cancelled = true;
        }
        let bound = Duration::from_nanos(limit.saturating_sub(now));
        let wait = Wait::Until((!was_cancelled).then_some(bound));
        worker.turn_inline(wait);
    }
    result_of(frame, was_cancelled)
}

/// Takes possession of the descriptor that an op returned.
///
/// # Safety
/// `fd` is the result of an op that returns a new descriptor, used once.
pub(crate) unsafe fn own_fd(fd: u32) -> std::os::fd::OwnedFd {
    // SAFETY: the caller's promise.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd as i32) }
}
