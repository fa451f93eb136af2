//! The driver: one backend, and the checks that hold for each.
#![allow(unsafe_code)]

mod any_backend;
mod files;
mod multishot;
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
use crate::op::{OpFrame, TakenIn};
use crate::poll::Poll;
use crate::remote::RemoteHandle;
use crate::say;
use crate::sys::HandedOut;
use crate::sys::fork::ForkMark;
use crate::sys::return_predictor;
use crate::uring::Uring;
use crate::wake::Waker;
use crate::why_refused::why_refused;
use any_backend::AnyBackend;

/// Submits ops and reaps their completions, for one thread.
///
/// # Teardown
/// Dropping a driver first cancels the ops in flight and waits for the last completion
/// ([`drain`](Self::drain)), then closes the ring, and only then frees the memory that the kernel
/// was given. Frames that were complete but not popped are forgotten. So is, after a second, a send
/// that does not copy ([`OpFrame::zero_copy`]) and whose peer does not take the bytes: those, and
/// the frame, must stay valid for good then.
///
/// # Fork
/// The child of a fork shares the ring with its parent. A driver that is used in the child
/// panics with a sentence; dropping it there leaks it.
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

    /// Makes things go wrong from now on. Nothing is in flight.
    pub(crate) fn inject(self, faults: Faults) -> Driver {
        let mut driver = ManuallyDrop::new(self);
        // SAFETY: the driver that had it is neither used nor dropped any more.
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
                let (backend, submitter) = Self::uring(config)?;
                (backend, "io_uring was asked for".to_owned(), submitter)
            }
            Choice::Poll => (
                Self::poll()?,
                "polling was asked for".into(),
                config.submitter.warn_without_ring(),
            ),
            Choice::Auto => match Self::uring(config) {
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

    fn uring(config: &Config) -> Result<(AnyBackend, Option<String>), OpenError> {
        match Uring::open_submitted(config) {
            Ok((uring, submitter)) => Ok((AnyBackend::Uring(Box::new(uring)), submitter)),
            Err(error) => {
                let (cause, cure) = why_refused(&error);
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
                format!("no epoll set could be made ({error}): raise `ulimit -n`"),
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

    /// Returns in one line why it is this backend.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Hands over an op.
    ///
    /// # Safety
    /// The frame stays where it is, and it and all that the op points to stay valid, until the
    /// frame has come out of [`pop_complete`](Self::pop_complete) or this returned
    /// [`Submitted::Complete`]. A frame is submitted once.
    ///
    /// # Panics
    /// In the child of a fork.
    #[inline]
    pub unsafe fn submit(&mut self, frame: NonNull<OpFrame>) -> Submitted {
        self.check_fork();
        // SAFETY: the caller keeps the frame alive.
        let frame = unsafe { frame.as_ref() };
        let taken = HandedOut::<TakenIn>::new();
        let submitted = self.backend.submit(frame);
        taken.settle();
        submitted
    }

    /// As [`submit`](Self::submit), for an op on a stream that may have an index in the file table,
    /// or take one now.
    ///
    /// # Safety
    /// As `submit`; and `file` is that of the stream whose descriptor the op names, and as valid.
    ///
    /// # Panics
    /// In the child of a fork.
    #[inline]
    pub unsafe fn submit_fixed(&mut self, frame: NonNull<OpFrame>, file: &FixedFile) -> Submitted {
        // SAFETY: the caller keeps the frame alive.
        let op = unsafe { frame.as_ref() };
        self.backend.attach(op, file);
        // SAFETY: the caller's promise.
        unsafe { self.submit(frame) }
    }

    /// Asks that a submitted op be cancelled.
    ///
    /// The op's own completion decides and still comes out of `pop_complete`: with `-ECANCELED`,
    /// or with its result if that was quicker. A request is never lost. On an op that is
    /// complete it does nothing.
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

    /// Closes a descriptor without waiting for it; nobody learns whether it succeeded. A ring does
    /// it with its next ops, the polling driver at once.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn close_later(&mut self, fd: OwnedFd) {
        self.check_fork();
        self.backend.close_later(fd);
    }

    /// Returns whether a [`turn`](Self::turn) is worth its cost while there is other work:
    /// completions are in, or ops are to be handed over. About 1 ns. With a ring several ops are
    /// let gather while more keep joining them, for up to 20 us, so that they enter the kernel
    /// together; a worker with nothing else to do makes a turn without asking. With the poll
    /// backend always true while ops wait: only the kernel knows, and asking it takes about 1.3 us.
    #[inline]
    pub fn needs_turn(&self) -> bool {
        !self.mark.is_child() && self.backend.needs_turn()
    }

    /// Hands over submitted ops, waits as `wait` demands, and reaps every completion.
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

    /// Takes the next frame whose op is complete, oldest first. It is the caller's again.
    #[inline]
    pub fn pop_complete(&mut self) -> Option<NonNull<OpFrame>> {
        self.backend.pop_complete()
    }

    /// Returns the number of ops that were submitted and are not complete.
    pub fn in_flight(&self) -> usize {
        self.backend.in_flight()
    }

    /// Returns whether anything may yet complete by itself: an op in flight, or a multishot op that
    /// the kernel has.
    pub fn has_ops(&self) -> bool {
        self.backend.has_armed_multishots() || self.in_flight() > 0
    }

    /// Returns a handle that wakes this driver from any thread.
    pub fn waker(&self) -> Waker {
        self.backend.waker()
    }

    /// Wakes another driver, ring to ring where both are rings and the kernel can; at once.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn wake(&mut self, target: &Waker) {
        self.check_fork();
        self.backend.wake(target);
    }

    /// Cancels everything in flight and waits for the last completion.
    ///
    /// Afterwards the frames come out of `pop_complete` as usual, and the driver can be used on.
    ///
    /// # Blocking
    /// Blocks the thread; a disk read that cannot be interrupted is waited for.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn drain(&mut self) {
        self.check_fork();
        self.backend.drain();
    }

    /// Returns a handle for threads that close descriptors this driver may have registered.
    pub fn remote(&self) -> RemoteHandle {
        self.backend.remote()
    }

    /// Notes that this thread makes calls of its own after it has dropped the driver.
    ///
    /// Some ms after a ring was closed, the kernel interrupts the threads that used it, and their
    /// calls fail with `EINTR`. Dropping a driver seldom closes rings: mostly every ninth on the
    /// same thread, always before Linux 5.18 and where a thread of the kernel polls. With this
    /// note, such a drop waits until that is over (30 to 75 ms); without it, it returns at once.
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
            // SAFETY: here only, and the driver is not used any more (invariant of the field).
            unsafe { ManuallyDrop::drop(&mut self.backend) }
        }
    }
}
