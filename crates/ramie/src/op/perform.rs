//! One I/O op of the calling strand: submitted to the driver, and awaited until its last
//! completion.
//!
//! The op's frame lies in the caller's frame, and so does, usually, the memory that the op points
//! to. That is sound because this call never returns before the kernel is done with both: a
//! deadline cancels the op and continues to wait, and the op's own result decides. Data that
//! arrived is returned, so nothing is lost. A cancelled scope does the same. In a scope that is
//! cancelled already, the call does not begin.
//!
//! All checks that could refuse the op come before its submission: a `no_switch` region, a signal
//! handler, the memory for a thread's header. A panic between the submission and the completion
//! would leave the frame to the kernel, so it ends the process ([`HandedOut`]).
#![allow(unsafe_code)]

use std::{io, ptr::NonNull, time::Duration};

use ramie_driver::{
    FixedFile, Op, OpFrame, Submitted, Wait, say,
    sys::{HandedOut, Lent},
};

use crate::core::{
    cancel,
    strand::Wake,
    time::Deadline,
    wait::{
        park::{self, Refused, WaitKind, WaitRecord},
        plain::suspend_plainly,
        record::NO_OFFSET,
        word::WakeWord,
    },
    worker::{self, Worker},
};

/// The time after which an op that runs during a panic is cancelled.
pub(crate) const UNWINDING_LIMIT: Duration = Duration::from_millis(100);

/// The reason why an op did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpError {
    /// The kernel's error.
    Errno(i32),
    /// The deadline passed before the op happened.
    Elapsed,
    /// A scope around the call was cancelled, or a limit expired, before the op happened.
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

/// An op to perform: `request(&READ, op).until(deadline).on(file).perform()`.
#[must_use = "a request does nothing until it is performed"]
pub(crate) struct Request<'a> {
    kind: &'static WaitKind,
    frame: OpFrame,
    deadline: Deadline,
    file: Option<&'a FixedFile>,
}

/// Requests an op. Dumps name the wait by `kind`.
#[inline(always)]
pub(crate) fn request(kind: &'static WaitKind, op: Op) -> Request<'static> {
    request_frame(kind, OpFrame::new(op))
}

/// Requests the op of a frame that has not been submitted.
#[inline(always)]
pub(crate) fn request_frame(kind: &'static WaitKind, frame: OpFrame) -> Request<'static> {
    Request { kind, frame, deadline: Deadline::NEVER, file: None }
}

impl<'a> Request<'a> {
    /// Ends the op at `deadline`.
    #[inline(always)]
    pub(crate) fn until(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
        self
    }

    /// Lets the op name its file by the index in the ring's file table, if the file has one. `file`
    /// must belong to the stream whose descriptor the op names.
    #[inline(always)]
    pub(crate) fn on<'b>(self, file: Option<&'b FixedFile>) -> Request<'b> {
        Request { kind: self.kind, frame: self.frame, deadline: self.deadline, file }
    }

    /// Performs the op and returns its result, a count or a descriptor.
    ///
    /// # Safety
    /// The memory that the op points to stays valid, and is not used by others in a conflicting
    /// way, until this call has returned; and the file is as [`on`](Self::on) requires.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub(crate) unsafe fn perform(self) -> Result<u32, OpError> {
        // SAFETY: the caller's promise.
        unsafe { self.perform_inline() }
    }

    /// As [`perform`](Self::perform), for an op that points to nothing.
    #[track_caller]
    pub(crate) fn perform_pointing_nowhere(self) -> Result<u32, OpError> {
        let points_nowhere = matches!(self.frame.op(), Op::Poll { .. } | Op::Nop);
        assert!(points_nowhere && self.file.is_none(), "this op points to something");
        // SAFETY: it points to nothing, and no file is named besides the descriptor.
        unsafe { self.perform() }
    }

    /// As [`perform`](Self::perform), for frequent ops: inlined into the code of the fiber, because
    /// that makes its switch cheaper ([`FiberStack::suspend`](worker::FiberStack::suspend)).
    ///
    /// Waits by a plain wait if no limit, scope or unwinding forbids it.
    ///
    /// # Safety
    /// As [`perform`](Self::perform).
    #[track_caller]
    #[inline(always)]
    pub(crate) unsafe fn perform_inline(self) -> Result<u32, OpError> {
        let Request { kind, frame, deadline, file } = self;
        // Taken before the frame is in memory, so that the compiler knows the kind.
        let op = *frame.op();
        // SAFETY: by the caller's promise the call of the op is valid.
        let (fd, offset) = unsafe { detail_of(&frame) };
        let record = WaitRecord::plain(kind).with_detail(fd, offset);
        let wait = PlainWait { frame, record };
        let frame = &wait.frame;
        let worker = worker::current();
        let Some(stack) = worker.running.plain_fiber().filter(|_| deadline == Deadline::NEVER)
        else {
            // SAFETY: the caller's promise.
            return unsafe { perform_bounded(&worker, kind, frame, deadline, file) };
        };
        let start = worker.shared.record.begin_op(op.kind());
        // SAFETY: `op` is the op of the frame, which stays in place until it is released; by the
        // caller's promise the memory that the op points to stays valid, and the file belongs to
        // the op's descriptor.
        match unsafe { submit(&worker, frame, op, file) }? {
            Submitted::Complete => {
                worker::note_op_at_once(&worker, frame, fd);
                worker.note_complete_at_once();
            }
            Submitted::InFlight => {
                let in_flight = HandedOut::<InFlight>::new();
                frame.user.set(WakeWord::plain(stack).to_bits());
                while !is_released(frame) {
                    suspend_plainly(&worker.running, stack, &wait.record);
                }
                in_flight.settle();
            }
        }
        worker.shared.record.end_op(op.kind(), start);
        result_of(frame, None)
    }
}

/// The detail of the op that a dump shows: its descriptor, and its position in the file.
///
/// # Safety
/// If the op is a call, the call to which it points is valid.
#[inline(always)]
unsafe fn detail_of(frame: &OpFrame) -> (u64, u64) {
    let op = frame.op();
    let fd = match *op {
        // SAFETY: the caller's promise.
        Op::Call { call } => unsafe { &*call }.fds()[0],
        _ => op.fd(),
    };
    let offset = match *op {
        Op::Read { offset, .. }
        | Op::Write { offset, .. }
        | Op::ReadVectored { offset, .. }
        | Op::WriteVectored { offset, .. } => offset,
        _ => NO_OFFSET,
    };
    (fd.map_or(u64::MAX, |fd| fd as u64), offset)
}

/// The op and the record of a plain wait. The data that its switch touches lies together, where the
/// run queue's prefetch expects it (`core/worker/prefetch.rs`).
#[repr(C)]
struct PlainWait {
    frame: OpFrame,
    record: WaitRecord,
}

/// Performs the op of a strand that is no fiber, has a limit or a scope around it, or unwinds.
///
/// # Safety
/// As [`Request::perform`]; the frame stays in place during this call.
#[track_caller]
#[inline(never)]
unsafe fn perform_bounded(
    worker: &Worker,
    kind: &'static WaitKind,
    frame: &OpFrame,
    deadline: Deadline,
    file: Option<&FixedFile>,
) -> Result<u32, OpError> {
    worker.check_can_wait();
    worker.running.check_stack(frame);
    // SAFETY: by the caller's promise the call of the op is valid.
    let (fd, offset) = unsafe { detail_of(frame) };
    let record = WaitRecord::new(kind).with_detail(fd, offset).until(deadline).cancellable();
    if cancel::is_cancelled_here() {
        return Err(OpError::Cancelled);
    }
    let op = *frame.op();
    let start = worker.shared.record.begin_op(op.kind());
    // SAFETY: `op` is the op of the frame, which stays in place until `wait_for` has seen it
    // complete; by the caller's promise the memory that the op points to stays valid, and the file
    // belongs to the op's descriptor.
    let result = match unsafe { submit(worker, frame, op, file) }? {
        Submitted::Complete => {
            worker::note_op_at_once(worker, frame, fd);
            worker.note_complete_at_once();
            result_of(frame, None)
        }
        Submitted::InFlight => {
            let in_flight = HandedOut::<InFlight>::new();
            let result = wait_for(worker, frame, record);
            in_flight.settle();
            result
        }
    };
    worker.shared.record.end_op(op.kind(), start);
    result
}

/// The loan of an op's frame, and of the memory that it points to, to the kernel.
enum InFlight {}

impl Lent for InFlight {
    const WHAT: &'static str = "the kernel worked on an op in its frame";
}

/// Submits an op to the driver. A thread outside `run` opens its driver with its first op.
///
/// # Safety
/// As [`ramie_driver::Driver::submit_known`].
#[inline(always)]
unsafe fn submit(
    worker: &Worker,
    frame: &OpFrame,
    op: Op,
    file: Option<&FixedFile>,
) -> Result<Submitted, OpError> {
    let submitted = worker.io.with_open_driver(
        #[inline(always)]
        |driver| {
            // SAFETY: the caller's promise.
            unsafe { driver.submit_known(NonNull::from(frame), op, file) }
        },
    );
    match submitted {
        Some(submitted) => Ok(submitted),
        // SAFETY: the caller's promise.
        None => unsafe { open_and_submit(worker, frame, op, file) },
    }
}

/// Submits the first op of a thread outside a runtime, which has no driver yet.
///
/// # Safety
/// As [`submit`].
#[cold]
#[inline(never)]
unsafe fn open_and_submit(
    worker: &Worker,
    frame: &OpFrame,
    op: Op,
    file: Option<&FixedFile>,
) -> Result<Submitted, OpError> {
    // SAFETY: the caller's promise.
    with_driver(worker, |driver| unsafe { driver.submit_known(NonNull::from(frame), op, file) })
}

fn with_driver<R>(
    worker: &Worker,
    f: impl FnOnce(&mut ramie_driver::Driver) -> R,
) -> Result<R, OpError> {
    worker.io.with_driver(f).map_err(|error| {
        say!(Error, "this thread cannot do I/O: {error}");
        OpError::Errno(error.raw_os_error().unwrap_or(libc::ENOSYS))
    })
}

/// Returns the result of the op. `ended_by` is the reason for which the op was cancelled, if it
/// was.
///
/// Error paths are out of line, because LLVM otherwise merges them with the caller's match into a
/// jump table.
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
        Some(why) if errno == libc::ECANCELED => why,
        _ => OpError::Errno(errno),
    }
}

fn wait_for(worker: &Worker, frame: &OpFrame, mut record: WaitRecord) -> Result<u32, OpError> {
    let mut ended_by = None;
    while !is_released(frame) {
        let reason = match park::prepare(worker, &record) {
            Ok(prepared) => {
                frame.user.set(prepared.wake_word().to_bits());
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
        if !is_released(frame) {
            cancel(worker, frame);
            ended_by = Some(why);
            // From here on only the op's own completion counts.
            record = WaitRecord::of_rest(&record);
        }
    }
    result_of(frame, ended_by)
}

/// Whether the driver has released the frame.
fn is_released(frame: &OpFrame) -> bool {
    frame.user.get() == WakeWord::RELEASED.to_bits()
}

fn cancel(worker: &Worker, frame: &OpFrame) {
    // The driver is open, because the op was submitted to it.
    let _ = worker.io.with_driver(|driver| {
        // SAFETY: the frame was submitted to this driver, which has not released it, as the callers
        // saw.
        unsafe { driver.cancel(NonNull::from(frame)) }
    });
}

/// Awaits an op in the kernel, without running other fibers, because the strand unwinds from a
/// panic.
#[cold]
fn drive_inline(worker: &Worker, frame: &OpFrame) -> Result<u32, OpError> {
    frame.user.set(WakeWord::NOBODY.to_bits());
    let limit = ramie_driver::sys::monotonic_ns() + UNWINDING_LIMIT.as_nanos() as u64;
    let mut ended_by = None;
    while !is_released(frame) {
        let now = ramie_driver::sys::monotonic_ns();
        if now >= limit && ended_by.is_none() {
            cancel(worker, frame);
            ended_by = Some(OpError::Elapsed);
        }
        let bound = Duration::from_nanos(limit.saturating_sub(now));
        let wait = Wait::Until(ended_by.is_none().then_some(bound));
        worker.io.turn(wait, &worker.scheduler, &worker.running);
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
