//! The driver's front: one of two backends behind one set of calls.
#![allow(unsafe_code)]

mod choice;
mod config;
mod multishot;

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::caps::Caps;
#[cfg(feature = "faults")]
use crate::faults::{Faults, Faulty};
use crate::fixed::FixedFile;
use crate::op::{OpFrame, TakenIn};
use crate::poll::Poll;
use crate::remote::RemoteHandle;
use crate::report;
use crate::say;
use crate::sys::HandedOut;
use crate::sys::fork::ForkMark;
use crate::sys::return_predictor;
use crate::uring::Uring;
use crate::wake::Waker;
pub use choice::{Choice, Kind};
pub use config::Config;

/// Why no driver could be opened: a sentence with the cause and the cure.
#[derive(Clone, Debug)]
pub struct OpenError {
    errno: Option<i32>,
    sentence: String,
}

impl OpenError {
    pub(crate) fn new(errno: Option<i32>, sentence: String) -> Self {
        OpenError { errno, sentence }
    }

    /// The kernel's answer, if there was one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.errno
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for OpenError {}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match error.errno {
            Some(errno) => io::Error::from_raw_os_error(errno).kind(),
            None => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

/// What became of a submitted op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Submitted {
    /// It will come out of [`Driver::pop_complete`].
    InFlight,
    /// The result is in the frame, which will *not* come out of `pop_complete`.
    Complete,
}

/// How long [`Driver::turn`] may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Never,
    /// Until something completes or a wake arrives; at most this long if a duration is given.
    Until(Option<Duration>),
}

/// Submits ops and reaps their completions, for one thread.
///
/// # Teardown
/// Dropping a driver first cancels what is in flight and waits for the last completion
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
    backend: Backend,
    reason: Arc<str>,
    mark: ForkMark,
}

#[derive(Debug)]
enum Backend {
    Uring(Box<Uring>),
    Poll(Box<Poll>),
    #[cfg(feature = "faults")]
    Faulty(Box<Faulty>),
    /// Only while a forked child drops it.
    Leaked,
}

impl Driver {
    /// Opens a driver for the calling thread.
    ///
    /// [`Choice::Auto`] tries io_uring for real (a ring, and one op through it) and falls back
    /// to polling; [`reason`](Self::reason) says why, and so does the log, at level info for the
    /// first driver of the process.
    ///
    /// # Errors
    /// io_uring was demanded and refused, or the process is out of descriptors or memory.
    pub fn open(choice: Choice, config: &Config) -> Result<Driver, OpenError> {
        let driver = Self::open_plain(choice, config)?;
        #[cfg(feature = "faults")]
        if let Some(faults) = Faults::from_env()? {
            return Ok(driver.with_faults(faults));
        }
        Ok(driver)
    }

    /// Makes things go wrong from now on: for tests. Nothing may be in flight.
    #[cfg(feature = "faults")]
    pub fn with_faults(self, faults: Faults) -> Driver {
        let (reason, mark) = (Arc::clone(&self.reason), ForkMark::get());
        Driver { backend: Backend::Faulty(Box::new(Faulty::around(self, faults))), reason, mark }
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

    fn uring(config: &Config) -> Result<(Backend, Option<String>), OpenError> {
        match Uring::open_submitted(config) {
            Ok((uring, submitter)) => Ok((Backend::Uring(Box::new(uring)), submitter)),
            Err(error) => {
                let (cause, cure) = report::why_refused(&error);
                Err(OpenError::new(
                    error.raw_os_error(),
                    format!("io_uring cannot be used ({error}): {cause}; {cure}"),
                ))
            }
        }
    }

    fn poll() -> Result<Backend, OpenError> {
        match Poll::open() {
            Ok(poll) => Ok(Backend::Poll(Box::new(poll))),
            Err(error) => Err(OpenError::new(
                error.raw_os_error(),
                format!("no epoll set could be made ({error}): raise `ulimit -n`"),
            )),
        }
    }

    /// Tells which backend this is.
    pub fn kind(&self) -> Kind {
        self.caps().kind
    }

    /// Tells what the kernel gives.
    pub fn caps(&self) -> &Caps {
        match &self.backend {
            Backend::Uring(uring) => uring.caps(),
            Backend::Poll(poll) => poll.caps(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.caps(),
            Backend::Leaked => unreachable!("left behind by Drop only"),
        }
    }

    /// Tells in one line why it is this backend.
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
        let submitted = match &mut self.backend {
            Backend::Uring(uring) => uring.submit(frame),
            Backend::Poll(poll) => poll.submit(frame),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.submit(frame),
            Backend::Leaked => unreachable!("left behind by Drop only"),
        };
        taken.settle();
        submitted
    }

    /// As [`submit`](Self::submit), for an op on a stream that may have a place, or take one now.
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
        match self.ring() {
            Some(ring) => op.slot.set(ring.slot_of(file, &op.op)),
            None => op.registration.set(&raw const file.registration),
        }
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
        if frame.is_complete() || frame.cancel_asked.replace(true) {
            return;
        }
        match &mut self.backend {
            Backend::Uring(uring) => uring.cancel(frame),
            Backend::Poll(poll) => poll.cancel(frame),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.cancel(frame),
            Backend::Leaked => unreachable!("left behind by Drop only"),
        }
    }

    /// Asks that every op in flight on `fd` be cancelled, or every op whatever it works on; tells
    /// of how many. Each ends as if [`cancel`](Self::cancel) had been called.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn cancel_on(&mut self, fd: Option<RawFd>) -> usize {
        self.check_fork();
        let is_meant = |frame: &OpFrame| match fd {
            Some(fd) => frame.op.is_on(fd),
            None => true,
        };
        match &mut self.backend {
            Backend::Uring(uring) => uring.cancel_all(is_meant),
            Backend::Poll(poll) => poll.cancel_all(is_meant),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.cancel_all(is_meant),
            Backend::Leaked => 0,
        }
    }

    /// Closes a descriptor without waiting for it; nobody learns whether it succeeded. A ring does
    /// it with its next ops, the polling driver at once.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn close_later(&mut self, fd: OwnedFd) {
        self.check_fork();
        match &mut self.backend {
            Backend::Uring(uring) => uring.close_later(fd),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.close_later(fd),
            _ => drop(fd),
        }
    }

    /// Tells whether a [`turn`](Self::turn) is worth its cost while there is other work:
    /// completions are in, or ops are to be handed over. About 1 ns. With a ring several
    /// ops are let gather while more keep joining them, for up to 20 us, so that they enter the
    /// kernel together; who has nothing else to do does not ask, and makes a turn. With the poll
    /// backend always true while ops wait: only the kernel knows, and asking it takes about 1.3 us.
    #[inline]
    pub fn needs_turn(&self) -> bool {
        match &self.backend {
            Backend::Uring(uring) => !self.mark.is_child() && uring.needs_turn(),
            Backend::Poll(poll) => poll.needs_turn(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.needs_turn(),
            Backend::Leaked => false,
        }
    }

    /// Hands over what was submitted, waits as told, and reaps every completion.
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
        match &mut self.backend {
            Backend::Uring(uring) => uring.turn(wait),
            Backend::Poll(poll) => poll.turn(wait),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.turn(wait),
            Backend::Leaked => unreachable!("left behind by Drop only"),
        }
    }

    /// Takes the next frame whose op is complete, oldest first. It is the caller's again.
    #[inline]
    pub fn pop_complete(&mut self) -> Option<NonNull<OpFrame>> {
        match &mut self.backend {
            Backend::Uring(uring) => uring.completed.pop(),
            Backend::Poll(poll) => poll.completed.pop(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.pop(),
            Backend::Leaked => None,
        }
    }

    /// Tells how many ops were submitted and are not complete.
    pub fn in_flight(&self) -> usize {
        match &self.backend {
            Backend::Uring(uring) => uring.in_flight(),
            Backend::Poll(poll) => poll.in_flight(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.in_flight(),
            Backend::Leaked => 0,
        }
    }

    /// Tells whether anything may yet complete by itself: an op in flight, or one that completes
    /// again and again and that the kernel has.
    pub fn has_ops(&self) -> bool {
        let is_armed = match &self.backend {
            Backend::Uring(uring) => uring.has_armed_multishots(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.has_ops(),
            Backend::Poll(_) | Backend::Leaked => false,
        };
        is_armed || self.in_flight() > 0
    }

    /// Returns a handle that wakes this driver from any thread.
    pub fn waker(&self) -> Waker {
        match &self.backend {
            Backend::Uring(uring) => uring.waker(),
            Backend::Poll(poll) => poll.waker(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.waker(),
            Backend::Leaked => unreachable!("left behind by Drop only"),
        }
    }

    /// Wakes another driver, ring to ring where both are rings and the kernel can; at once.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn wake(&mut self, target: &Waker) {
        self.check_fork();
        match &mut self.backend {
            Backend::Uring(uring) => uring.wake(target),
            Backend::Poll(_) => target.wake(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.wake(target),
            Backend::Leaked => unreachable!("left behind by Drop only"),
        }
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
        match &mut self.backend {
            Backend::Uring(uring) => uring.drain(),
            Backend::Poll(poll) => poll.drain(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.drain(),
            Backend::Leaked => {}
        }
    }

    /// Returns a handle for threads that close descriptors this driver may have registered.
    pub fn remote(&self) -> RemoteHandle {
        match &self.backend {
            Backend::Poll(poll) => RemoteHandle(Some(poll.set())),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.remote(),
            _ => RemoteHandle(None),
        }
    }

    /// The ring, if this is one.
    #[inline]
    pub(crate) fn ring(&mut self) -> Option<&mut Uring> {
        match &mut self.backend {
            Backend::Uring(uring) => Some(uring),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.ring(),
            _ => None,
        }
    }

    /// Whether this is the child of a fork, and the driver its parent's.
    pub(crate) fn is_childs(&self) -> bool {
        self.mark.is_child()
    }

    #[inline]
    pub(crate) fn check_fork(&self) {
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
        if self.mark.is_child() {
            // The ring and the ops in it are the parent's.
            std::mem::forget(std::mem::replace(&mut self.backend, Backend::Leaked));
        }
    }
}
