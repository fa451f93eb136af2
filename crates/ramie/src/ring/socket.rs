//! Calls on sockets.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use ramie_driver::{
    Call, IoVec, MessageHeader, Op,
    sys::{self, AddressFamily, Protocol, RecvFlags, SendFlags, Shutdown, SocketType},
};

use super::{Address, leftover};
use crate::{
    core::{cancel, time::Deadline, wait::park::WaitKind},
    op::{
        self, OpError,
        call::{make_at_once, own, raw},
        fixed_file::FdName,
        inboxes,
    },
};

static SOCKET: WaitKind = WaitKind::of_op("a socket to be made or changed");
pub(crate) static ACCEPT: WaitKind = WaitKind::of_op("a connection");
static CONNECT: WaitKind = WaitKind::of_op("a connection to be made");
pub(crate) static RECEIVE: WaitKind = WaitKind::of_op("data from a socket");
pub(crate) static SEND: WaitKind = WaitKind::of_op("room in a socket's send buffer");

/// The most bytes that one call moves, which is also the limit of Linux.
const MAX_BYTES: usize = 0x7fff_f000;
/// The most buffers of one vectored call (`IOV_MAX`).
pub(crate) const MAX_BUFFERS: usize = 1024;

/// Makes a socket that is close-on-exec: `socket`, a ring's op since Linux 5.19.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of socket(2).
///
/// # Examples
/// ```
/// use std::net::SocketAddr;
/// use ramie::ring::{self, AddressFamily, Shutdown, SocketType};
///
/// ramie::run(|| {
///     let listener = ring::socket(AddressFamily::INET, SocketType::STREAM, None)?;
///     ring::bind(&listener, SocketAddr::from(([127, 0, 0, 1], 0)))?;
///     ring::listen(&listener, 16)?;
///     ring::shutdown(&listener, Shutdown::Both)
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn socket(
    family: AddressFamily,
    kind: SocketType,
    protocol: Option<Protocol>,
) -> io::Result<OwnedFd> {
    let call = Call::Socket {
        domain: i32::from(family.as_raw()),
        kind: kind.as_raw() as i32 | sys::SOCK_CLOEXEC,
        protocol: protocol.map_or(0, |protocol| protocol.as_raw().get() as i32),
    };
    // SAFETY: it points to nothing.
    let fd = unsafe { make_at_once(&SOCKET, &call) }?;
    // SAFETY: the call has returned a new descriptor.
    Ok(unsafe { own(fd) })
}

/// Binds a socket to an address: `bind`, a ring's op since Linux 6.11.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of bind(2).
#[track_caller]
pub fn bind(fd: impl AsFd, address: impl Into<Address>) -> io::Result<()> {
    let address = address.into();
    let addr = &raw const address.storage;
    let call = Call::Bind { fd: raw(&fd), addr, addr_len: address.len };
    // SAFETY: the address lies in this frame.
    unsafe { make_at_once(&SOCKET, &call) }.map(drop)
}

/// Makes a socket accept connections: `listen`, a ring's op since Linux 6.11. Up to `backlog`
/// connections wait to be accepted.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of listen(2).
#[track_caller]
pub fn listen(fd: impl AsFd, backlog: u32) -> io::Result<()> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    // SAFETY: it points to nothing.
    unsafe { make_at_once(&SOCKET, &Call::Listen { fd: raw(&fd), backlog }) }.map(drop)
}

/// Shuts down one half of a connection, or both: `shutdown`, a ring's op since Linux 5.11. Calls
/// that wait for that half end.
///
/// # Blocking
/// Parks the strand until the call is complete.
///
/// # Cancellation
/// A cancel point. Once the op has begun, the call waits for its end and returns its result.
///
/// # Errors
/// Those of shutdown(2).
#[track_caller]
pub fn shutdown(fd: impl AsFd, how: Shutdown) -> io::Result<()> {
    // SAFETY: it points to nothing.
    unsafe { make_at_once(&SOCKET, &Call::Shutdown { fd: raw(&fd), how: how as i32 }) }.map(drop)
}

/// Accepts a connection, and returns it with the peer's address; the descriptor is close-on-exec:
/// `accept4`, a ring's op since Linux 5.5.
///
/// # Blocking
/// Parks the strand until there is a connection.
///
/// # Cancellation
/// A cancel point. A connection that was accepted is returned.
///
/// # Errors
/// Those of accept4(2), but never `EINTR`; if a nonblocking listener has no connection, the call
/// waits.
#[track_caller]
pub fn accept(fd: impl AsFd) -> io::Result<(OwnedFd, Address)> {
    cancel::check_io()?;
    let fd = fd.as_fd();
    if let Some(inbox) = inboxes::in_use(fd)
        && let Some(accepted) = leftover::accept(&inbox)?
    {
        return Ok(accepted);
    }
    Ok(accept_op(fd, Deadline::NEVER)?)
}

/// Connects a socket: `connect`, a ring's op since Linux 5.5. Returns when the connection is
/// established.
///
/// # Blocking
/// Parks the strand until the connection is established or has failed.
///
/// # Cancellation
/// A cancel point. The socket cannot be used afterwards.
///
/// # Errors
/// Those of connect(2), but neither `EINTR` nor `EINPROGRESS`.
#[track_caller]
pub fn connect(fd: impl AsFd, address: impl Into<Address>) -> io::Result<()> {
    Ok(connect_op(fd.as_fd(), &address.into(), Deadline::NEVER)?)
}

/// Receives bytes, and returns their number: `recv`, a ring's op since Linux 5.6. 0 means the end
/// of a stream.
///
/// Data that an iterator over the same socket (`recv_each`) has received and the program has not
/// taken comes first. The same applies to [`recvmsg`], and to [`accept`] after `incoming`.
///
/// # Blocking
/// Parks the strand until data arrives, unless `RecvFlags::DONTWAIT` is set.
///
/// # Cancellation
/// A cancel point. Bytes that arrived are returned. Limit: before Linux 6.1, a ring loses the bytes
/// of a cancelled call that has `RecvFlags::WAITALL`.
///
/// # Errors
/// Those of recv(2), but never `EINTR`; `EAGAIN` only with `DONTWAIT`.
#[track_caller]
pub fn recv(fd: impl AsFd, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    let fd = fd.as_fd();
    if let Some(inbox) = inboxes::in_use(fd)
        && let Some(message) = leftover::receive(fd, &inbox, &mut [IoSliceMut::new(buf)], flags)?
    {
        return Ok(message.bytes);
    }
    Ok(receive_op(fd.into(), buf, flags.bits() as i32, Deadline::NEVER)? as usize)
}

/// Sends bytes, without SIGPIPE, and returns their number, which may be smaller than the buffer:
/// `send`, a ring's op since Linux 5.6.
///
/// Send datagrams with `SendFlags::DONTWAIT`, and call [`poll`](super::poll) if there is no room,
/// as the datagram sockets of [`net`](crate::net) do. Otherwise a ring that has to wait for room
/// sends the datagram empty (seen with Unix datagrams on Linux 6.18).
///
/// # Blocking
/// Parks the strand until bytes were sent, unless `SendFlags::DONTWAIT` is set.
///
/// # Cancellation
/// A cancel point. If bytes were sent, the call returns their number.
///
/// # Errors
/// Those of send(2), but never `EINTR`; `EAGAIN` only with `DONTWAIT`.
#[track_caller]
pub fn send(fd: impl AsFd, buf: &[u8], flags: SendFlags) -> io::Result<usize> {
    Ok(send_op(fd.as_fd().into(), buf, flags.bits() as i32, Deadline::NEVER)? as usize)
}

/// The result of [`recvmsg`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// The number of bytes received, which fill the buffers in order.
    pub bytes: usize,
    /// The sender's address; empty for a connection.
    pub from: Address,
    /// Whether a datagram was longer than the buffers, so that its end is lost.
    pub is_truncated: bool,
}

/// Receives into several buffers, and returns the sender: `recvmsg`, a ring's op since Linux 5.3.
///
/// To receive descriptors, use the sockets of [`os::unix::net`](crate::os::unix::net).
///
/// # Blocking
/// Parks the strand until data arrives, unless `RecvFlags::DONTWAIT` is set.
///
/// # Cancellation
/// A cancel point. Bytes that arrived are returned. Limit: before Linux 6.1, a ring loses the bytes
/// of a cancelled call that has `RecvFlags::WAITALL`.
///
/// # Errors
/// Those of recvmsg(2), but never `EINTR`; `EAGAIN` only with `DONTWAIT`.
#[track_caller]
pub fn recvmsg(
    fd: impl AsFd,
    bufs: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
) -> io::Result<Message> {
    let fd = fd.as_fd();
    if let Some(inbox) = inboxes::in_use(fd)
        && let Some(message) = leftover::receive(fd, &inbox, bufs, flags)?
    {
        return Ok(message);
    }
    let mut from = Address::new();
    let mut header = header_of_mut(bufs);
    header.name = &raw mut from.storage;
    header.name_len = from.len;
    let flags = flags.bits() as i32;
    // SAFETY: the buffers are borrowed mutably, and the address lies in this frame.
    let bytes = unsafe { receive_message(fd, &mut header, flags, Deadline::NEVER) }?;
    from.len = header.name_len;
    let is_truncated = header.flags & sys::MSG_TRUNC != 0;
    Ok(Message { bytes: bytes as usize, from, is_truncated })
}

/// Sends several buffers as one message, without SIGPIPE, to the given address or, without one, to
/// the peer: `sendmsg`, a ring's op since Linux 5.3. For datagrams see [`send`].
///
/// # Blocking
/// Parks the strand until bytes were sent, unless `SendFlags::DONTWAIT` is set.
///
/// # Cancellation
/// A cancel point. If bytes were sent, the call returns their number.
///
/// # Errors
/// Those of sendmsg(2), but never `EINTR`; `EAGAIN` only with `DONTWAIT`.
#[track_caller]
pub fn sendmsg(
    fd: impl AsFd,
    bufs: &[IoSlice<'_>],
    to: Option<&Address>,
    flags: SendFlags,
) -> io::Result<usize> {
    let mut header = header_of(bufs);
    if let Some(to) = to {
        header.name = (&raw const to.storage).cast_mut();
        header.name_len = to.len;
    }
    let flags = flags.bits() as i32;
    // SAFETY: buffers and address are borrowed.
    Ok(unsafe { send_message(fd.as_fd(), &header, flags, Deadline::NEVER) }? as usize)
}

/// Makes one receive, with a deadline.
#[inline(always)]
#[track_caller]
pub(crate) fn receive_op(
    fd: FdName<'_>,
    buf: &mut [u8],
    flags: i32,
    deadline: Deadline,
) -> Result<u32, OpError> {
    let len = buf.len().min(MAX_BYTES) as u32;
    let op = Op::Recv { fd: fd.as_raw_fd(), buf: buf.as_mut_ptr(), len, flags };
    // SAFETY: the buffer is borrowed mutably for the length of this call; `fd.fixed_file()` is the
    // registered file of the same descriptor.
    unsafe { op::request(&RECEIVE, op).until(deadline).on(fd.fixed_file()).perform_inline() }
}

/// Makes one send, with a deadline.
#[inline(always)]
#[track_caller]
pub(crate) fn send_op(
    fd: FdName<'_>,
    buf: &[u8],
    flags: i32,
    deadline: Deadline,
) -> Result<u32, OpError> {
    let len = buf.len().min(MAX_BYTES) as u32;
    let flags = flags | sys::MSG_NOSIGNAL;
    let op = Op::Send { fd: fd.as_raw_fd(), buf: buf.as_ptr(), len, flags };
    // SAFETY: the buffer is borrowed for the length of this call; `fd.fixed_file()` is the
    // registered file of the same descriptor.
    unsafe { op::request(&SEND, op).until(deadline).on(fd.fixed_file()).perform_inline() }
}

/// Receives one message, with a deadline.
///
/// # Safety
/// The header points to memory that is valid for writes until this has returned.
#[track_caller]
pub(crate) unsafe fn receive_message(
    fd: BorrowedFd<'_>,
    header: &mut MessageHeader,
    flags: i32,
    deadline: Deadline,
) -> Result<u32, OpError> {
    let op = Op::RecvMessage { fd: fd.as_raw_fd(), message: &raw mut *header, flags };
    // SAFETY: the header is borrowed mutably; the memory that it points to is valid by the caller's
    // promise.
    unsafe { op::request(&RECEIVE, op).until(deadline).perform() }
}

/// Sends one message, with a deadline.
///
/// # Safety
/// The header points to memory that is valid for reads until this has returned.
#[track_caller]
pub(crate) unsafe fn send_message(
    fd: BorrowedFd<'_>,
    header: &MessageHeader,
    flags: i32,
    deadline: Deadline,
) -> Result<u32, OpError> {
    let flags = flags | sys::MSG_NOSIGNAL;
    let op = Op::SendMessage { fd: fd.as_raw_fd(), message: header, flags };
    // SAFETY: the header is borrowed; the memory that it points to is valid by the caller's
    // promise.
    unsafe { op::request(&SEND, op).until(deadline).perform() }
}

/// Makes one accept, with a deadline.
#[track_caller]
pub(crate) fn accept_op(
    fd: BorrowedFd<'_>,
    deadline: Deadline,
) -> Result<(OwnedFd, Address), OpError> {
    match accept_once(fd, deadline) {
        Err(error @ (OpError::Elapsed | OpError::Cancelled)) => {
            accept_available_connections(fd, |deadline| accept_once(fd, deadline)).ok_or(error)
        }
        accepted => accepted,
    }
}

/// Accepts a connection that is in the queue, by `accept`, after a wait was ended from outside. A
/// connection wakes one of several waiters in the kernel. If that waiter is being cancelled at that
/// moment, the connection stays in the queue, and the other waiters are not woken.
#[cold]
pub(super) fn accept_available_connections<T>(
    listener: BorrowedFd<'_>,
    mut accept: impl FnMut(Deadline) -> Result<T, OpError>,
) -> Option<T> {
    while sys::poll_now(listener, sys::POLL_IN).is_ok_and(|events| events & sys::POLL_IN != 0) {
        match cancel::shield(|| accept(Deadline::after(Duration::ZERO))) {
            Ok(accepted) => return Some(accepted),
            // Another strand has accepted the connection.
            Err(OpError::Elapsed) => {}
            Err(_) => return None,
        }
    }
    None
}

#[track_caller]
fn accept_once(fd: BorrowedFd<'_>, deadline: Deadline) -> Result<(OwnedFd, Address), OpError> {
    let mut address = Address::new();
    let op = Op::Accept {
        fd: fd.as_raw_fd(),
        addr: &raw mut address.storage,
        addr_len: &raw mut address.len,
        flags: sys::SOCK_CLOEXEC,
    };
    // SAFETY: address and length lie in this frame.
    let fd = unsafe { op::request(&ACCEPT, op).until(deadline).perform() }?;
    // SAFETY: a successful accept returns a new descriptor that nobody else owns.
    Ok((unsafe { op::own_fd(fd) }, address))
}

/// Makes one connect, with a deadline.
#[track_caller]
pub(crate) fn connect_op(
    fd: BorrowedFd<'_>,
    address: &Address,
    deadline: Deadline,
) -> Result<(), OpError> {
    let addr = &raw const address.storage;
    let op = Op::Connect { fd: fd.as_raw_fd(), addr, addr_len: address.len };
    // SAFETY: the address is borrowed for the length of this call.
    unsafe { op::request(&CONNECT, op).until(deadline).perform() }.map(drop)
}

/// std guarantees that `IoSlice` has the layout of `iovec`; a send only reads it.
pub(crate) fn header_of(buffers: &[IoSlice<'_>]) -> MessageHeader {
    let iov = buffers.as_ptr().cast::<IoVec>().cast_mut();
    MessageHeader::vectored(iov, buffers.len().min(MAX_BUFFERS))
}

/// std guarantees that `IoSliceMut` has the layout of `iovec`.
pub(crate) fn header_of_mut(buffers: &mut [IoSliceMut<'_>]) -> MessageHeader {
    MessageHeader::vectored(buffers.as_mut_ptr().cast(), buffers.len().min(MAX_BUFFERS))
}
