//! The driver: one backend, and the checks that hold for every backend.
#![allow(unsafe_code)]

mod any_backend;
mod files;
mod multishot;
mod pollable;
mod receive;

use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::backend::{Backend, Submitted, Wait};
use crate::caps::Caps;
use crate::choice::{Choice, Kind};
use crate::config::Config;
use crate::error::OpenError;
use crate::faults::Faults;
use crate::fixed::FixedFile;
use crate::op::{Op, OpFrame, TakenIn};
use crate::poll::Poll;
use crate::remote::RemoteHandle;
use crate::say;
use crate::sys::HandedOut;
use crate::sys::fork::ForkMark;
use crate::sys::return_predictor;
use crate::uring::Uring;
use crate::wake::Waker;
use crate::why_refused::{OR_POLL, remedy_for_epoll, why_refused};
use any_backend::AnyBackend;
pub use pollable::UNPOLLABLE;

/// Submits ops and reaps their completions, for one thread.
///
/// # Threads
/// A driver stays on its thread: it is not `Send`.
///
/// ```compile_fail,E0277
/// fn sent<T: Send>() {}
/// sent::<ramie_driver::Driver>();
/// ```
///
/// The example above fails for this reason only, because the same lines compile without the bound:
///
/// ```
/// fn kept<T>() {}
/// kept::<ramie_driver::Driver>();
/// ```
///
/// # Teardown
/// Dropping a driver first cancels the ops in flight and waits for the last completion
/// ([`drain`](Self::drain)), then closes the ring, and only then frees the memory that the kernel
/// was given. Frames that were complete but not popped are forgotten. A zero-copy send
/// ([`OpFrame::zero_copy`]) whose peer does not take the bytes is forgotten after a second, too;
/// its bytes and its frame must then stay valid for good.
///
/// # Fork
/// The child of a fork shares the ring with its parent. A driver that is used in the child panics
/// with a message; dropping it there leaks it.
#[derive(Debug)]
pub struct Driver {
    /// INVARIANT: dropped by `Driver`'s own drop only, and not in the child of a fork.
    backend: ManuallyDrop<AnyBackend>,
    reason: Arc<str>,
    mark: ForkMark,
}

impl Driver {
    /// Opens a driver for the calling thread.
    ///
    /// [`Choice::Auto`] tries io_uring for real (a ring, and one op through it) and falls back to
    /// polling; [`reason`](Self::reason) returns the reason, which is also logged, at level info
    /// for the first driver of the process.
    ///
    /// # Errors
    /// io_uring was demanded and refused, or the process is out of descriptors or memory.
    pub fn open(choice: Choice, config: &Config) -> Result<Driver, OpenError> {
        let driver = Self::open_plain(choice, config)?;
        match Faults::from_env()? {
            Some(faults) => Ok(driver.inject(faults)),
            None => Ok(driver),
        }
    }

    /// Injects faults from now on. No op is in flight.
    pub(crate) fn inject(self, faults: Faults) -> Driver {
        let mut driver = ManuallyDrop::new(self);
        // SAFETY: the backend's former driver is neither used nor dropped any more.
        let backend = unsafe { ManuallyDrop::take(&mut driver.backend) };
        Driver {
            backend: ManuallyDrop::new(backend.with_faults(faults)),
            reason: mem::take(&mut driver.reason),
            mark: driver.mark,
        }
    }

    fn open_plain(choice: Choice, config: &Config) -> Result<Driver, OpenError> {
        return_predictor::look();
        let (backend, mut reason, submitter) = match choice {
            Choice::Uring => {
                let (backend, submitter) = Self::uring(config, OR_POLL)?;
                (backend, "io_uring was asked for".to_owned(), submitter)
            }
            Choice::Poll => (
                Self::poll()?,
                "polling was asked for".into(),
                config.submitter.warn_without_ring(),
            ),
            Choice::Auto => match Self::uring(config, "") {
                Ok((backend, submitter)) => {
                    (backend, "a trial of io_uring succeeded".into(), submitter)
                }
                Err(refused) => (
                    Self::poll()?,
                    format!("polling, since {refused}"),
                    config.submitter.warn_without_ring(),
                ),
            },
        };
        if let Some(submitter) = submitter {
            reason = format!("{reason}; {submitter}");
        }
        let backend = ManuallyDrop::new(backend);
        let driver = Driver { backend, reason: reason.into(), mark: ForkMark::get() };
        driver.announce();
        Ok(driver)
    }

    /// One line of the log for the first driver of the process; the others are like it.
    fn announce(&self) {
        static ANNOUNCED: AtomicBool = AtomicBool::new(false);
        let is_first = !ANNOUNCED.swap(true, Ordering::Relaxed);
        match is_first {
            true => say!(Info, "driver {}: {}", self.kind().name(), self.reason),
            false => say!(Debug, "driver {}: {}", self.kind().name(), self.reason),
        }
    }

    /// `otherwise`, an alternative to a ring, is appended to the remedy in the error.
    fn uring(config: &Config, otherwise: &str) -> Result<(AnyBackend, Option<String>), OpenError> {
        match Uring::open_submitted(config) {
            Ok((uring, submitter)) => Ok((AnyBackend::Uring(Box::new(uring)), submitter)),
            Err(error) => {
                let (cause, cure) = why_refused(&error, otherwise);
                Err(OpenError::new(
                    error.raw_os_error(),
                    format!("io_uring cannot be used ({error}): {cause}; {cure}"),
                ))
            }
        }
    }

    fn poll() -> Result<AnyBackend, OpenError> {
        match Poll::open() {
            Ok(poll) => Ok(AnyBackend::Poll(Box::new(poll))),
            Err(error) => Err(OpenError::new(
                error.raw_os_error(),
                format!("no epoll set could be made ({error}): {}", remedy_for_epoll(&error)),
            )),
        }
    }

    /// Returns the kind of the backend.
    pub fn kind(&self) -> Kind {
        self.caps().kind
    }

    /// Returns the features that the kernel has.
    pub fn caps(&self) -> &Caps {
        self.backend.caps()
    }

    /// Returns one line with the reason for the choice of this backend.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Submits an op.
    ///
    /// # Safety
    /// The frame does not move, and the frame and the memory that the op points to stay valid,
    /// until the frame has come out of [`pop_complete`](Self::pop_complete) or this call has
    /// returned [`Submitted::Complete`]. A frame is submitted once.
    ///
    /// # Panics
    /// In the child of a fork.
    #[inline]
    pub unsafe fn submit(&mut self, frame: NonNull<OpFrame>) -> Submitted {
        // SAFETY: the caller keeps the frame alive.
        let op = *unsafe { frame.as_ref() }.op();
        // SAFETY: the caller's promise; `op` is the frame's op.
        unsafe { self.submit_known(frame, op, None) }
    }

    /// As [`submit`](Self::submit), for an op on a stream that may have an index in the file table,
    /// or take one now.
    ///
    /// # Safety
    /// As `submit`; and `file` belongs to the stream whose descriptor the op names, and stays valid
    /// as long as the frame.
    ///
    /// # Panics
    /// In the child of a fork.
    #[inline]
    pub unsafe fn submit_fixed(&mut self, frame: NonNull<OpFrame>, file: &FixedFile) -> Submitted {
        // SAFETY: the caller keeps the frame alive.
        let op = *unsafe { frame.as_ref() }.op();
        // SAFETY: the caller's promise; `op` is the frame's op.
        unsafe { self.submit_known(frame, op, Some(file)) }
    }

    /// As [`submit`](Self::submit), or as [`submit_fixed`](Self::submit_fixed) with a file. For
    /// callers into which this is inlined, and which know the op: a ring's entry is then made of
    /// values in registers, without a jump by the kind of the op.
    ///
    /// # Safety
    /// As `submit` and `submit_fixed`; and `op` is the frame's op.
    ///
    /// # Panics
    /// In the child of a fork.
    #[inline(always)]
    pub unsafe fn submit_known(
        &mut self,
        frame: NonNull<OpFrame>,
        op: Op,
        file: Option<&FixedFile>,
    ) -> Submitted {
        self.check_fork();
        // SAFETY: the caller keeps the frame alive.
        let frame = unsafe { frame.as_ref() };
        if let Some(file) = file {
            self.backend.attach(frame, file);
        }
        let taken = HandedOut::<TakenIn>::new();
        let submitted = self.backend.submit_known(frame, op);
        taken.settle();
        submitted
    }

    /// Asks that a submitted op be cancelled.
    ///
    /// The op's own completion decides, and the frame still comes out of `pop_complete`: with
    /// `-ECANCELED`, or with the op's result if that was quicker. A request is never lost. On a
    /// complete op it does nothing.
    ///
    /// # Safety
    /// The frame was submitted to this driver, and has not come out of `pop_complete` yet.
    ///
    /// # Panics
    /// In the child of a fork.
    pub unsafe fn cancel(&mut self, frame: NonNull<OpFrame>) {
        self.check_fork();
        // SAFETY: by the contract of `submit` the frame is alive until it is popped.
        let frame = unsafe { frame.as_ref() };
        self.backend.cancel_once(frame);
    }

    /// Asks that every op in flight on `fd` be cancelled, or every op; returns their number. Each
    /// ends as if [`cancel`](Self::cancel) had been called.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn cancel_on(&mut self, fd: Option<RawFd>) -> usize {
        self.check_fork();
        let is_meant = |frame: &OpFrame| match fd {
            Some(fd) => frame.op.is_on(fd),
            None => true,
        };
        self.backend.cancel_all(is_meant)
    }

    /// Closes a descriptor without waiting; the result is discarded. A ring closes it with its next
    /// ops, the polling driver at once.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn close_later(&mut self, fd: OwnedFd) {
        self.check_fork();
        self.backend.close_later(fd);
    }

    /// Returns whether a [`turn`](Self::turn) is worth its cost while there is other work: there
    /// are completions, or ops to submit. Takes about 1 ns. With a ring, ops gather as long as more
    /// ops join them, for up to 20 us, so that they enter the kernel together (or in the batches of
    /// a worker that often sleeps, which [`submit`](Self::submit) hands over itself); a worker with
    /// nothing else to do makes a turn without this call. With the poll backend it is always true
    /// while ops wait, because only the kernel knows whether they are ready, and asking it takes
    /// about 1.3 us.
    #[inline]
    pub fn needs_turn(&self) -> bool {
        !self.mark.is_child() && self.backend.needs_turn()
    }

    /// Passes submitted ops to the kernel, waits as `wait` demands, and reaps every completion.
    ///
    /// It does not wait if frames are complete or a wake is pending; a pending wake is consumed.
    /// It may return early (a signal, a completion of the driver's own).
    ///
    /// # Blocking
    /// Blocks the thread, up to `wait`.
    ///
    /// # Errors
    /// The kernel refuses to wait: an internal error. A lost completion aborts the process.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn turn(&mut self, wait: Wait) -> io::Result<()> {
        self.check_fork();
        self.backend.turn(wait)
    }

    /// Takes the next frame whose op is complete, oldest first. The frame belongs to the caller
    /// again.
    #[inline]
    pub fn pop_complete(&mut self) -> Option<NonNull<OpFrame>> {
        self.backend.pop_complete()
    }

    /// Returns the number of ops that were submitted and are not complete.
    pub fn in_flight(&self) -> usize {
        self.backend.in_flight()
    }

    /// Returns whether a completion may still arrive, because an op is in flight or a multishot op
    /// is armed.
    pub fn has_ops(&self) -> bool {
        self.backend.has_armed_multishots() || self.in_flight() > 0
    }

    /// Returns a handle that wakes this driver from any thread.
    pub fn waker(&self) -> Waker {
        self.backend.waker()
    }

    /// Wakes another driver at once: by a message if both are rings and the kernel supports it.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn wake(&mut self, target: &Waker) {
        self.check_fork();
        self.backend.wake(target);
    }

    /// Cancels everything in flight and waits for the last completion.
    ///
    /// Afterwards the frames come out of `pop_complete` as usual, and the driver can be used again.
    ///
    /// # Blocking
    /// Blocks the thread, also for disk reads that cannot be interrupted.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn drain(&mut self) {
        self.check_fork();
        self.backend.drain();
    }

    /// Returns a handle for threads that close descriptors which this driver may have registered.
    pub fn remote(&self) -> RemoteHandle {
        self.backend.remote()
    }

    /// Notes that this thread makes calls of its own after it has dropped the driver.
    ///
    /// Some ms after a ring was closed, the kernel interrupts the threads that used it, and their
    /// calls fail with `EINTR`. Dropping a driver seldom closes rings: usually every ninth drop on
    /// a thread does, and each drop before Linux 5.18 or of a ring that a kernel thread polls. With
    /// this note, such a drop waits until the interruption is over (30 to 75 ms); without it, the
    /// drop returns at once.
    pub fn note_thread_goes_on(&mut self) {
        self.backend.note_thread_goes_on();
    }

    #[inline]
    fn check_fork(&self) {
        if self.mark.is_child() {
            used_after_fork();
        }
    }
}

#[cold]
fn used_after_fork() -> ! {
    panic!(
        "this driver belongs to the process that was forked: fork before any worker, ring or \
         thread of Ramie exists, or exec in the child"
    )
}

impl Drop for Driver {
    fn drop(&mut self) {
        // In a child the ring and the ops in it are the parent's.
        if !self.mark.is_child() {
            // SAFETY: dropped only here, and the driver is not used any more (invariant of the
            // field).
            unsafe { ManuallyDrop::drop(&mut self.backend) }
        }
    }
}
