//! A socket's descriptor, the options kept beside it, and its ops.
//!
//! Every op borrows the socket until it is complete, so the descriptor cannot be closed, nor its
//! number given to another file, while the kernel works on it.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, OnceLock},
    time::Duration,
};

use ramie_driver::{Kind, MultishotInbox, sys, sys::sockopt};

pub(crate) use crate::ring::Address;
use crate::{
    core::{
        primitive::{AtomicBool, AtomicU64, Ordering},
        time::Deadline,
        worker,
    },
    op::{
        OpError,
        fixed_file::{FdName, StreamFd},
        inboxes::EnlistedInbox,
        multishot,
    },
    ring::socket as ring,
};

/// The number of connections that may wait to be accepted, at most `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;

/// The options that std keeps in the open file description, kept beside the descriptor and shared
/// by its duplicates. In one line of the cache, because each op looks at several of them.
#[derive(Default)]
#[repr(align(64))]
struct Options {
    /// In nanoseconds; 0: no timeout.
    read_timeout: AtomicU64,
    write_timeout: AtomicU64,
    is_nonblocking: AtomicBool,
    /// Whether `O_NONBLOCK` was set on the description for the polling driver.
    is_description_ours: AtomicBool,
    /// Whether other processes accept from this listener, too.
    is_shared: AtomicBool,
    /// The inbox of leftovers; made when there may first be some.
    inbox: OnceLock<Arc<MultishotInbox>>,
    /// Lets calls that know only the descriptor find the leftovers.
    enlisted: OnceLock<EnlistedInbox>,
}

const _: () = assert!(size_of::<Options>() == 64);

impl Drop for Options {
    fn drop(&mut self) {
        // The inbox may also be that of a socket that was made of a duplicate of the descriptor.
        let is_last = self.enlisted.take().is_none_or(EnlistedInbox::leave);
        // A multishot op that was forgotten would keep the file open.
        if let Some(inbox) = self.inbox.get().filter(|inbox| is_last && inbox.is_in_use()) {
            inbox.close();
            multishot::stop(inbox);
        }
    }
}

pub(crate) struct Socket {
    fd: StreamFd,
    options: Arc<Options>,
}

/// The two halves of a connection, each with a timeout of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Read,
    Write,
}

impl Half {
    /// The socket option of this half's timeout in std.
    fn option(self) -> sockopt::Timeout {
        match self {
            Half::Read => sockopt::Timeout::Recv,
            Half::Write => sockopt::Timeout::Send,
        }
    }
}

impl Socket {
    /// Makes a stream socket.
    ///
    /// The socket is nonblocking for the polling driver, which cannot wait for `accept` and
    /// `connect` in the kernel.
    pub(crate) fn stream(family: sys::AddressFamily) -> io::Result<Self> {
        let kind = worker::current().io.with_driver(|driver| driver.kind())?;
        let is_polled = kind == Kind::Poll;
        let socket = Socket::from(sys::socket(family, sys::SocketType::STREAM, is_polled)?);
        socket.options.is_description_ours.store(is_polled, Ordering::Relaxed);
        Ok(socket)
    }

    /// Makes a socket of a listener that other processes may accept from, too.
    ///
    /// The description is nonblocking. If waiters waited in accept, the kernel would wake only one
    /// of them for a connection; if that waiter's process is just dying, nothing would accept the
    /// connection before the next one comes. So here all wait for readiness, then try to accept.
    pub(super) fn shared_listener(fd: OwnedFd) -> Self {
        let socket = Socket::from(fd);
        socket.options.is_description_ours.store(true, Ordering::Relaxed);
        socket.options.is_shared.store(true, Ordering::Relaxed);
        socket
    }

    pub(super) fn is_shared(&self) -> bool {
        self.options.is_shared.load(Ordering::Relaxed)
    }

    /// Makes a datagram socket.
    pub(crate) fn datagram(family: sys::AddressFamily) -> io::Result<Self> {
        Ok(Socket::from(sys::socket(family, sys::SocketType::DGRAM, false)?))
    }

    /// Makes a socket of a descriptor that was made elsewhere, with the timeouts and the blocking
    /// mode of its description. If it is a duplicate of a socket's descriptor, both have the same
    /// leftovers.
    pub(crate) fn adopt(fd: OwnedFd) -> Self {
        let socket = Socket::from(fd);
        socket.share_leftovers();
        let refuses = sys::is_nonblocking(&socket.fd).unwrap_or(false);
        socket.set_nonblocking(refuses);
        for half in [Half::Read, Half::Write] {
            // This fails if the descriptor is no socket, and then every later call fails.
            let timeout = sockopt::socket_timeout(&socket.fd, half.option()).unwrap_or(None);
            socket.timeout_of(half).store(to_ns(timeout), Ordering::Relaxed);
        }
        socket
    }

    /// Takes over the inbox of another socket object with the same description, if that has one.
    fn share_leftovers(&self) {
        let options = &self.options;
        if let Some(enlisted) = EnlistedInbox::of_duplicate(&self.fd, &options.inbox) {
            // Nobody else has the options yet.
            let _ = options.enlisted.set(enlisted);
        }
    }

    /// Returns the descriptor, after setting the options kept beside it on its description, where
    /// std and the kernel look for them.
    pub(crate) fn into_fd(self) -> OwnedFd {
        // These fail only if the descriptor is no socket, in which case there are no timeouts.
        let _ = sys::set_nonblocking(&self.fd, self.is_nonblocking());
        for half in [Half::Read, Half::Write] {
            let _ = sockopt::set_socket_timeout(&self.fd, half.option(), self.timeout(half));
        }
        self.fd.into_fd()
    }

    /// Makes a description that we made nonblocking blocking again.
    fn restore_description(&self) {
        if self.options.is_description_ours.swap(false, Ordering::Relaxed) {
            // This can fail only for a bad descriptor, and this descriptor is owned.
            let _ = sys::set_nonblocking(&self.fd, false);
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let fd = sys::dup_cloexec(&self.fd)?;
        Ok(Socket { fd: fd.into(), options: Arc::clone(&self.options) })
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => sys::Shutdown::Read,
            Shutdown::Write => sys::Shutdown::Write,
            Shutdown::Both => sys::Shutdown::Both,
        };
        sys::shutdown(&self.fd, how)
    }

    pub(crate) fn set_nonblocking(&self, refuses_to_wait: bool) {
        self.options.is_nonblocking.store(refuses_to_wait, Ordering::Relaxed);
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.options.is_nonblocking.load(Ordering::Relaxed)
    }

    fn timeout_of(&self, half: Half) -> &AtomicU64 {
        match half {
            Half::Read => &self.options.read_timeout,
            Half::Write => &self.options.write_timeout,
        }
    }

    pub(crate) fn set_timeout(&self, half: Half, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "cannot set a 0 duration timeout",
            ));
        }
        self.timeout_of(half).store(to_ns(timeout), Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn timeout(&self, half: Half) -> Option<Duration> {
        match self.timeout_of(half).load(Ordering::Relaxed) {
            0 => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }

    #[inline]
    pub(crate) fn deadline(&self, half: Half) -> Deadline {
        match self.timeout_of(half).load(Ordering::Relaxed) {
            0 => Deadline::NEVER,
            ns => Deadline::after(Duration::from_nanos(ns)),
        }
    }

    /// Whether the calls of this half wait, and without a timeout.
    #[inline]
    pub(super) fn waits_for_good(&self, half: Half) -> bool {
        !self.is_nonblocking() && self.timeout_of(half).load(Ordering::Relaxed) == 0
    }

    /// The names by which an op may refer to the socket.
    pub(super) fn named(&self) -> FdName<'_> {
        self.fd.named()
    }

    /// The inbox of leftovers.
    pub(super) fn inbox(&self) -> &Arc<MultishotInbox> {
        self.options.inbox.get_or_init(Arc::default)
    }

    /// Returns the leftovers, and lets calls that know only the descriptor find them.
    pub(super) fn enlisted_inbox(&self) -> &Arc<MultishotInbox> {
        let options = &*self.options;
        options.enlisted.get_or_init(|| EnlistedInbox::new(self, &options.inbox));
        self.inbox()
    }

    /// Returns the leftovers if there may be any.
    #[inline]
    pub(super) fn busy_inbox(&self) -> Option<&MultishotInbox> {
        self.options.inbox.get().map(|inbox| &**inbox).filter(|inbox| inbox.is_in_use())
    }

    /// The flags of a data call: it refuses to wait if the socket does.
    pub(super) fn flags(&self, flags: i32) -> i32 {
        if self.is_nonblocking() { flags | sys::MSG_DONTWAIT } else { flags }
    }

    #[track_caller]
    #[inline(always)]
    pub(crate) fn receive(&self, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
        if let Some(inbox) = self.busy_inbox()
            && let Some(bytes) = self.receive_leftover(inbox, buffer, flags)?
        {
            return Ok(bytes);
        }
        let (flags, deadline) = (self.flags(flags), self.deadline(Half::Read));
        match ring::receive_op(self.fd.named(), buffer, flags, deadline) {
            Err(OpError::Elapsed) => self.receive_late(buffer, flags),
            received => data_result(received),
        }
    }

    #[track_caller]
    #[inline(always)]
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer, 0)
    }

    #[track_caller]
    #[inline(always)]
    pub(crate) fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        let (flags, deadline) = (self.flags(0), self.deadline(Half::Write));
        data_result(ring::send_op(self.fd.named(), buffer, flags, deadline))
    }

    #[track_caller]
    pub(crate) fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        // Without room for data std's readv(2) ignores the socket; recvmsg(2) would wait for data.
        if buffers.iter().take(ring::MAX_BUFFERS).all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        if let Some(inbox) = self.busy_inbox()
            && let Some(first) = buffers.iter_mut().find(|buffer| !buffer.is_empty())
            && let Some(bytes) = self.receive_leftover(inbox, first, 0)?
        {
            return Ok(bytes);
        }
        let mut header = ring::header_of_mut(buffers);
        let (fd, flags, deadline) = (self.fd.as_fd(), self.flags(0), self.deadline(Half::Read));
        // SAFETY: the buffers are borrowed mutably for the length of this call.
        data_result(unsafe { ring::receive_message(fd, &mut header, flags, deadline) })
    }

    #[track_caller]
    pub(crate) fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        // As for `read_vectored`.
        if buffers.iter().take(ring::MAX_BUFFERS).all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        let header = ring::header_of(buffers);
        let (fd, flags, deadline) = (self.fd.as_fd(), self.flags(0), self.deadline(Half::Write));
        // SAFETY: the buffers are borrowed for the length of this call.
        data_result(unsafe { ring::send_message(fd, &header, flags, deadline) })
    }

    #[track_caller]
    pub(crate) fn connect(&self, address: &Address, deadline: Deadline) -> io::Result<()> {
        let connected = ring::connect_op(self.fd.as_fd(), address, deadline);
        self.restore_description();
        match connected {
            Ok(()) => Ok(()),
            Err(OpError::Elapsed) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Socket { fd: fd.into(), options: Arc::default() }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// As in std on Unix, a data call that times out returns `WouldBlock`.
#[inline]
pub(super) fn data_result(result: Result<u32, OpError>) -> io::Result<usize> {
    match result {
        Ok(bytes) => Ok(bytes as usize),
        Err(OpError::Elapsed) => Err(sys::Errno::AGAIN.into()),
        Err(error) => Err(error.into()),
    }
}

fn to_ns(timeout: Option<Duration>) -> u64 {
    timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}
