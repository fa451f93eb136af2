//! Waiting for descriptors that this crate knows nothing of.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    sync::{Arc, OnceLock},
};

use ramie_driver::{MultishotInbox, MultishotItem, MultishotOp, Op, sys};

use crate::{
    core::{cancel::Steps, time::Deadline, wait::park::WaitKind},
    op::{
        self,
        multishot::{self, Intake},
        readiness,
    },
};

static READABLE: WaitKind = WaitKind::new("a descriptor to become readable");
static WRITABLE: WaitKind = WaitKind::new("a descriptor to become writable");

/// A descriptor of any kind that can be polled, with calls that wait until it is ready: an eventfd,
/// inotify, a C library's socket.
///
/// The library's own calls are made by closures, on this thread: [`Async::with_read`] and
/// [`Async::with_write`] call again whenever the descriptor is ready, until the answer is not
/// `WouldBlock`. Make the descriptor nonblocking if others may take the data that you waited for;
/// this type never changes that.
///
/// # Examples
/// ```
/// use std::{io::{Read, Write}, os::unix::net::UnixStream};
///
/// ramie::run(|| {
///     let (left, mut right) = UnixStream::pair()?;
///     left.set_nonblocking(true)?;
///     let left = ramie::io::Async::from_fd(left)?;
///     let reader = ramie::fiber::spawn(move || {
///         let mut buffer = [0; 8];
///         left.with_read(|mut socket| socket.read(&mut buffer))
///     });
///     ramie::fiber::yield_now();
///     right.write_all(b"hello")?;
///     assert_eq!(reader.join().unwrap()?, 5);
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Async<T> {
    io: T,
    /// A call before waiting cannot block.
    is_nonblocking: bool,
    readers: Watch,
    writers: Watch,
}

impl<T: AsFd> Async<T> {
    /// Takes on something with a descriptor.
    ///
    /// `T`'s descriptor must stay the same as long as it lives, as it does for all types of std. A
    /// file on a disk counts as always ready.
    ///
    /// # Errors
    /// The descriptor is not open.
    pub fn from_fd(io: T) -> io::Result<Async<T>> {
        let is_nonblocking = sys::is_nonblocking(&io)?;
        Ok(Async { io, is_nonblocking, readers: Watch::default(), writers: Watch::default() })
    }

    /// Waits until there is something to read, the peer has hung up, or an error is pending.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// The kernel cannot poll the descriptor.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn readable(&self) -> io::Result<()> {
        self.wait(&READABLE, sys::POLL_IN)
    }

    /// Waits until there is room to write, or an error is pending.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// The kernel cannot poll the descriptor.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn writable(&self) -> io::Result<()> {
        self.wait(&WRITABLE, sys::POLL_OUT)
    }

    #[track_caller]
    fn wait(&self, kind: &'static WaitKind, events: u32) -> io::Result<()> {
        let op = Op::Poll { fd: self.io.as_fd().as_raw_fd(), events };
        // SAFETY: the op points to nothing.
        unsafe { op::request(kind, op).perform() }?;
        Ok(())
    }

    /// Iterates over the times when there may be something new to read. It ends only when the
    /// strand is still cancelled after a step that was.
    ///
    /// Each step waits until there is, or may be, more data than at the step before. So read until
    /// `WouldBlock` before the next step, because data that was there before need not be reported
    /// again. A report may be late, when its data is gone already. One op of the kernel watches all
    /// the time, which saves a call for each wait.
    ///
    /// # Blocking
    /// Each step parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// Each step is a cancel point, and reports nothing less for one that was cancelled.
    ///
    /// # Errors
    /// Of a step: the kernel cannot poll the descriptor.
    ///
    /// # Panics
    /// Of a step: inside [`no_switch`](crate::no_switch()).
    pub fn readable_each(&self) -> ReadyEach<'_> {
        self.ready_each(&READABLE, sys::POLL_IN, &self.readers)
    }

    /// Iterates over the times when there may be room to write again; as
    /// [`readable_each`](Async::readable_each).
    ///
    /// # Blocking
    /// As [`readable_each`](Async::readable_each).
    ///
    /// # Cancellation
    /// Each step is a cancel point.
    ///
    /// # Errors
    /// Of a step: the kernel cannot poll the descriptor.
    pub fn writable_each(&self) -> ReadyEach<'_> {
        self.ready_each(&WRITABLE, sys::POLL_OUT, &self.writers)
    }

    fn ready_each<'a>(
        &'a self,
        kind: &'static WaitKind,
        events: u32,
        watch: &Watch,
    ) -> ReadyEach<'a> {
        let fd = self.io.as_fd();
        let op = MultishotOp::Poll { fd: fd.as_raw_fd(), events };
        ReadyEach { fd, kind, events, intake: Intake::new(op, watch.home()), steps: Steps::Going }
    }

    /// Makes a call that reads, whenever the descriptor is readable, until the result is not
    /// `WouldBlock`.
    ///
    /// # Blocking
    /// Parks the strand between two calls. The call itself must not wait: on a descriptor that is
    /// not nonblocking it is made only once there is something to read.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// The closure's, and those of [`Async::readable`].
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn with_read<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.call_until_done(&READABLE, sys::POLL_IN, call)
    }

    /// Makes a call that writes, whenever the descriptor is writable, until the result is not
    /// `WouldBlock`.
    ///
    /// # Blocking
    /// As [`Async::with_read`].
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// The closure's, and those of [`Async::writable`].
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn with_write<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.call_until_done(&WRITABLE, sys::POLL_OUT, call)
    }

    #[track_caller]
    fn call_until_done<R>(
        &self,
        kind: &'static WaitKind,
        events: u32,
        mut call: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let fd = self.io.as_fd();
        readiness::call_until_done(kind, fd, events, self.is_nonblocking, || call(&self.io))
    }

    /// Lends the owner of the descriptor.
    pub fn get_ref(&self) -> &T {
        &self.io
    }

    /// Lends the owner of the descriptor mutably; its descriptor must stay the same.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.io
    }

    /// Gives back the owner of the descriptor.
    pub fn into_inner(self) -> T {
        self.io
    }
}

/// Where the op of a [`ReadyEach`] is at home, which may be forgotten.
#[derive(Debug, Default)]
struct Watch(OnceLock<Arc<MultishotInbox>>);

impl Watch {
    fn home(&self) -> Arc<MultishotInbox> {
        Arc::clone(self.0.get_or_init(Arc::default))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(home) = self.0.get() {
            multishot::stop(home);
        }
    }
}

/// Iterates over the times when a descriptor became ready; made by [`Async::readable_each`] and
/// [`Async::writable_each`].
#[derive(Debug)]
pub struct ReadyEach<'a> {
    fd: BorrowedFd<'a>,
    kind: &'static WaitKind,
    events: u32,
    intake: Intake,
    steps: Steps,
}

impl Iterator for ReadyEach<'_> {
    type Item = io::Result<()>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<()>> {
        if !self.steps.go_on() {
            return None;
        }
        let step = match self.intake.next(self.kind, Deadline::NEVER) {
            Ok(Some(MultishotItem::Failed(errno))) => Err(io::Error::from_raw_os_error(errno)),
            Ok(Some(_)) => Ok(()),
            Ok(None) => self.wait_once(),
            Err(error) => Err(error.into()),
        };
        Some(self.steps.noted(step))
    }
}

impl ReadyEach<'_> {
    #[track_caller]
    fn wait_once(&self) -> io::Result<()> {
        let op = Op::Poll { fd: self.fd.as_raw_fd(), events: self.events };
        op::request(self.kind, op).perform_pointing_nowhere()?;
        Ok(())
    }
}

impl<T: AsFd> AsFd for Async<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl<T: AsFd> AsRawFd for Async<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_fd().as_raw_fd()
    }
}
