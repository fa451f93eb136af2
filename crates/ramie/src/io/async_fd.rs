//! Waiting for descriptors of any kind, for example those of C libraries.
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
        multishot::{self, MultishotSource},
        readiness,
    },
};

static READABLE: WaitKind = WaitKind::of_op("a descriptor to become readable");
static WRITABLE: WaitKind = WaitKind::of_op("a descriptor to become writable");

/// A descriptor of any kind that can be polled, with calls that wait until it is ready: an eventfd,
/// inotify, a C library's socket.
///
/// Closures make the library's own calls, on this thread: [`Async::with_read`] and
/// [`Async::with_write`] call the closure each time that the descriptor is ready, until the result
/// is not `WouldBlock`. Make the descriptor nonblocking if other readers may take the data that you
/// waited for; this type never changes its mode. The waits are for what the kernel reports, because
/// a library's calls take nothing else: they do not see what an iterator over a socket
/// (`recv_each`, `incoming`) has received early, for which see [`ring::poll`](crate::ring::poll).
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
    /// Whether the descriptor is nonblocking, so that a call before the wait cannot block.
    is_nonblocking: bool,
    readers: Watch,
    writers: Watch,
}

impl<T: AsFd> Async<T> {
    /// Wraps the owner of a descriptor.
    ///
    /// The descriptor of `io` must never change, which holds for all types of std. A file on a disk
    /// counts as always ready.
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

    /// Waits repeatedly for new data: each step of the iterator returns when there may be something
    /// new to read. The iterator ends only if the strand is still cancelled after a cancelled step.
    ///
    /// Read until `WouldBlock` before the next step, because data that was there at one step need
    /// not be reported at the next. A step may also return when its data is gone already. One
    /// multishot op watches all the time, which saves a system call for each wait.
    ///
    /// # Blocking
    /// Each step parks the fiber, or the thread outside one.
    ///
    /// # Cancellation
    /// Each step is a cancel point; a cancelled step loses no report.
    ///
    /// # Errors
    /// Of a step: the kernel cannot poll the descriptor.
    ///
    /// # Panics
    /// Of a step: inside [`no_switch`](crate::no_switch()).
    pub fn readable_each(&self) -> ReadyEach<'_> {
        self.ready_each(&READABLE, sys::POLL_IN, &self.readers)
    }

    /// Waits repeatedly for room to write, as [`readable_each`](Async::readable_each) does for
    /// data.
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
        ReadyEach {
            fd,
            kind,
            events,
            source: MultishotSource::new(op, watch.inbox()),
            steps: Steps::Going,
        }
    }

    /// Calls `call`, which reads, each time that the descriptor is readable, until the result is
    /// not `WouldBlock`.
    ///
    /// # Blocking
    /// Parks the strand between two calls. The call itself must not wait, so on a blocking
    /// descriptor it is made only when there is something to read.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// Those of the closure, and of [`Async::readable`].
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn with_read<R>(&self, call: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.call_until_done(&READABLE, sys::POLL_IN, call)
    }

    /// Calls `call`, which writes, each time that the descriptor is writable, until the result is
    /// not `WouldBlock`.
    ///
    /// # Blocking
    /// As [`Async::with_read`].
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// Those of the closure, and of [`Async::writable`].
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

/// The inbox of the op of a [`ReadyEach`], which may be forgotten.
#[derive(Debug, Default)]
struct Watch(OnceLock<Arc<MultishotInbox>>);

impl Watch {
    fn inbox(&self) -> Arc<MultishotInbox> {
        Arc::clone(self.0.get_or_init(Arc::default))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(inbox) = self.0.get() {
            multishot::stop(inbox);
        }
    }
}

/// Iterates over the reports that a descriptor became ready; made by [`Async::readable_each`] and
/// [`Async::writable_each`].
#[derive(Debug)]
pub struct ReadyEach<'a> {
    fd: BorrowedFd<'a>,
    kind: &'static WaitKind,
    events: u32,
    source: MultishotSource,
    steps: Steps,
}

impl Iterator for ReadyEach<'_> {
    type Item = io::Result<()>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<()>> {
        if !self.steps.go_on() {
            return None;
        }
        let step = match self.source.next(self.kind, Deadline::NEVER) {
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
