//! A receive of all available bytes, into buffers of the runtime.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use ramie_driver::{
    Feature, Lease, MultishotInbox, MultishotItem, Op,
    sys::{self, Errno},
};

use super::socket::RECEIVE;
use crate::{
    core::{cancel, time::Deadline, worker},
    op::{self, OpError, inboxes, multishot, readiness::Readiness},
};

/// The largest number of buffers that one call fills without the op. The op has no such limit.
const MOST_BUFFERS: usize = 8;

/// Receives all available bytes into buffers of the runtime: a bundle, a ring's op since Linux 6.15
/// (with one buffer since 5.19). The call holds no buffer while it waits. An empty list means the
/// end of the stream.
///
/// The call is for stream sockets; of a datagram, the end may be lost. For repeated receives use
/// [`TcpStream::recv_each`](crate::net::TcpStream::recv_each), which yields leases. Bytes that such
/// an iterator has received and the program has not taken come first.
///
/// # Blocking
/// Parks the strand until data arrives.
///
/// # Cancellation
/// A cancel point. Bytes that arrived are returned.
///
/// # Errors
/// Those of recv(2), but never `EINTR`, `EAGAIN` or `ENOBUFS`.
///
/// # Examples
/// ```
/// use ramie::{io::Write, os::unix::net::UnixStream, ring};
///
/// ramie::run(|| {
///     let (from, mut to) = UnixStream::pair()?;
///     to.write_all(b"in whatever pieces")?;
///     let leases = ring::recv_bundle(&from)?;
///     let bytes: Vec<u8> = leases.iter().flat_map(|lease| lease.iter().copied()).collect();
///     assert_eq!(bytes, b"in whatever pieces");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn recv_bundle(fd: impl AsFd) -> io::Result<Vec<Lease>> {
    let fd = fd.as_fd();
    if let Some(inbox) = inboxes::in_use(fd)
        && let Some(leases) = receive_leftover(&inbox)?
    {
        return Ok(leases);
    }
    let has_buffers = worker::current()
        .io
        .with_driver(|driver| driver.caps().features.has(Feature::BufferRing))?;
    if has_buffers {
        let mut leases = Vec::new();
        let op = Op::RecvBundle { fd: fd.as_raw_fd(), into: &raw mut leases };
        // SAFETY: the list lies in this frame, and is not accessed before the call returns.
        match unsafe { op::request(&RECEIVE, op).perform() } {
            // The driver has no buffers that the kernel could fill.
            Err(OpError::Errno(errno)) if errno == Errno::NOBUFS.raw_os_error() => {}
            done => return Ok(done.map(|_| leases)?),
        }
    }
    receive_plainly(fd)
}

/// Takes the bytes that a `recv_each` on this socket has received and the program has not taken.
#[track_caller]
fn receive_leftover(inbox: &MultishotInbox) -> io::Result<Option<Vec<Lease>>> {
    let mut bundle = LeftoverBundle::default();
    let mut has_more =
        multishot::with_leftover(inbox, &RECEIVE, Deadline::NEVER, &mut |item| bundle.take(item))?;
    while has_more && !bundle.is_complete {
        has_more = inbox.with_oldest(&mut |item| bundle.take(item));
    }
    match bundle.failure {
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Ok(Some(bundle.leases).filter(|leases| !leases.is_empty())),
    }
}

/// What a call has taken out of an inbox.
#[derive(Default)]
struct LeftoverBundle {
    leases: Vec<Lease>,
    failure: Option<i32>,
    is_complete: bool,
}

impl LeftoverBundle {
    /// Adds an item. Returns whether the item leaves the inbox.
    fn take(&mut self, item: &mut MultishotItem) -> bool {
        let is_first = self.leases.is_empty();
        self.is_complete = !matches!(item, MultishotItem::Bytes(_));
        match item {
            MultishotItem::Bytes(_) => {}
            // A datagram is returned alone, as by the op.
            MultishotItem::Datagram(_) if is_first => {}
            MultishotItem::Failed(errno) if is_first => {
                self.failure = Some(*errno);
                return true;
            }
            // The next call gets the same result from the kernel.
            MultishotItem::End | MultishotItem::Ready(_) => return true,
            _ => return false,
        }
        match std::mem::replace(item, MultishotItem::End) {
            MultishotItem::Bytes(bytes) => self.leases.push(bytes),
            MultishotItem::Datagram(datagram) => self.leases.push(datagram.bytes),
            _ => {}
        }
        true
    }
}

#[track_caller]
fn receive_plainly(fd: BorrowedFd<'_>) -> io::Result<Vec<Lease>> {
    cancel::check_io()?;
    let mut leases = Vec::new();
    let mut readiness = Readiness::default();
    loop {
        let has_ended = readiness.is_end(fd);
        match worker::current().io.with_driver(|driver| driver.receive_now(fd, None))? {
            // The next call finds the end of the stream again.
            Ok(lease) if lease.is_empty() => return Ok(leases),
            Ok(lease) => leases.push(lease),
            // Another strand has received the data.
            Err(_) if !leases.is_empty() => return Ok(leases),
            Err(errno) if errno == Errno::AGAIN.raw_os_error() => {
                if has_ended {
                    return Ok(leases);
                }
                readiness.wait(&RECEIVE, fd.into(), sys::POLL_IN, Deadline::NEVER)?;
            }
            Err(errno) => return Err(io::Error::from_raw_os_error(errno)),
        }
        worker::note_complete_at_once();
        // No further receive, because it could take an error off the socket that the next call must
        // report.
        let is_enough = leases.len() == MOST_BUFFERS;
        if is_enough || (!leases.is_empty() && sys::bytes_queued(fd) == 0) {
            return Ok(leases);
        }
    }
}
