//! A receive into the runtime's own buffers, as many as the available bytes fill.
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

/// The number of buffers that one call fills without the op; the op fills as many as there are.
const MOST_BUFFERS: usize = 8;

/// Receives the available bytes into as many buffers of the runtime as they fill: a bundle, a
/// ring's op since Linux 6.15 (into one buffer since 5.19). No buffer is held while the call waits.
/// An empty list is the end of the stream.
///
/// For sockets of streams; a datagram may be cut off. For repeated receives use
/// [`TcpStream::recv_each`](crate::net::TcpStream::recv_each), which yields leases; bytes that such
/// an iterator has received and the program has not taken come first here, too.
///
/// # Blocking
/// Parks the strand until something arrives.
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
        // SAFETY: the list lies in this frame, and is not looked at before the call returns.
        match unsafe { op::request(&RECEIVE, op).perform() } {
            // The kernel takes no buffers from the driver.
            Err(OpError::Errno(errno)) if errno == Errno::NOBUFS.raw_os_error() => {}
            done => return Ok(done.map(|_| leases)?),
        }
    }
    receive_plainly(fd)
}

/// Takes the bytes that a `recv_each` on this socket has left behind, which came first.
#[track_caller]
fn receive_leftover(inbox: &MultishotInbox) -> io::Result<Option<Vec<Lease>>> {
    let mut leases = Vec::new();
    let mut item = multishot::take_leftover(inbox, &RECEIVE, Deadline::NEVER)?;
    while let Some(this) = item {
        match this {
            MultishotItem::Bytes(bytes) => leases.push(bytes),
            // One at a time, as by the op.
            MultishotItem::Datagram(datagram) if leases.is_empty() => {
                return Ok(Some(vec![datagram.bytes]));
            }
            MultishotItem::Failed(errno) if leases.is_empty() => {
                return Err(io::Error::from_raw_os_error(errno));
            }
            // The kernel repeats its answer.
            MultishotItem::End | MultishotItem::Ready(_) => break,
            other => {
                inbox.put_back(other);
                break;
            }
        }
        item = inbox.take_leftover();
    }
    Ok(Some(leases).filter(|leases| !leases.is_empty()))
}

#[track_caller]
fn receive_plainly(fd: BorrowedFd<'_>) -> io::Result<Vec<Lease>> {
    cancel::check_io()?;
    let mut leases = Vec::new();
    let mut readiness = Readiness::default();
    loop {
        let has_ended = readiness.is_end(fd);
        match worker::current().io.with_driver(|driver| driver.receive_now(fd, None))? {
            // The end of the stream is seen again by the next call.
            Ok(lease) if lease.is_empty() => return Ok(leases),
            Ok(lease) => leases.push(lease),
            // Another strand was faster.
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
        // An error behind the bytes is for the next call: a receive would take it off the socket.
        let is_enough = leases.len() == MOST_BUFFERS;
        if is_enough || (!leases.is_empty() && sys::bytes_queued(fd) == 0) {
            return Ok(leases);
        }
    }
}
