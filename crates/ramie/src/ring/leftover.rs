//! Leftovers: data and connections that an iterator over a socket (`recv_each`, `recv_from_each`,
//! `incoming`) has received and the program has not taken. Calls that get only the descriptor of
//! the socket find them here.

use std::{
    io::{self, IoSliceMut},
    os::fd::{BorrowedFd, OwnedFd},
};

use ramie_driver::{
    CURRENT_POSITION, MultishotInbox, MultishotItem,
    sys::{self, OFlags, PollFlags, RecvFlags, SpliceFlags},
};

use super::{
    Address, Message,
    data::MAX_BUFFERS,
    pipe::MOVE,
    poll,
    socket::{ACCEPT, RECEIVE, recvmsg},
};
use crate::{
    core::{cancel, time::Deadline},
    op::{inboxes, multishot},
};

/// The bytes for which a pipe has room if it is ready to be written (`PIPE_BUF`).
const ROOM_IN_PIPE: usize = 4096;

/// Reads leftover data, if there is any, for a read at `offset`.
///
/// Only a read at [`CURRENT_POSITION`] takes leftover data, because a socket has no position. The
/// caller has replaced the current position of a file by its offset, so a read of a file does not
/// look.
#[inline]
#[track_caller]
pub(super) fn read(
    fd: BorrowedFd<'_>,
    bufs: &mut [IoSliceMut<'_>],
    offset: u64,
) -> io::Result<Option<usize>> {
    if offset != CURRENT_POSITION {
        return Ok(None);
    }
    let Some(inbox) = inboxes::in_use(fd) else { return Ok(None) };
    let count = bufs.len().min(MAX_BUFFERS);
    let bufs = &mut bufs[..count];
    // As read(2) of a socket, which then takes no datagram and does not wait.
    if bufs.iter().all(|buf| buf.is_empty()) {
        cancel::check_io()?;
        return Ok(Some(0));
    }
    Ok(receive(fd, &inbox, bufs, RecvFlags::empty())?.map(|message| message.bytes))
}

/// Receives leftover data, if there is any.
#[cold]
#[inline(never)]
#[track_caller]
pub(super) fn receive(
    fd: BorrowedFd<'_>,
    inbox: &MultishotInbox,
    bufs: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
) -> io::Result<Option<Message>> {
    // Out-of-band bytes and queued errors are separate from the stream, and no iterator receives
    // them.
    if flags.intersects(RecvFlags::OOB | RecvFlags::ERRQUEUE) {
        return Ok(None);
    }
    let is_peek = flags.contains(RecvFlags::PEEK);
    let room: usize = bufs.iter().map(|buf| buf.len()).sum();
    let mut received = Ok(None);
    let mut take = |item: &mut MultishotItem| receive_item(item, bufs, 0, flags, &mut received);
    if !multishot::with_leftover(inbox, &RECEIVE, Deadline::NEVER, &mut take)? {
        return Ok(None);
    }
    let Some(Copied { mut message, is_of_stream }) = received? else { return Ok(None) };
    if is_of_stream && !is_peek {
        receive_more(inbox, bufs, flags, room, &mut message.bytes);
        if flags.contains(RecvFlags::WAITALL) && message.bytes < room {
            message.bytes += receive_rest(fd, bufs, message.bytes, flags);
        }
    }
    Ok(Some(message))
}

/// The part of an item that a call has copied into its buffers.
pub(crate) struct Copied {
    pub(crate) message: Message,
    is_of_stream: bool,
}

/// Copies an item behind the first `done` bytes of the buffers. Returns whether nothing of it is
/// left for the next call.
pub(crate) fn receive_item(
    item: &mut MultishotItem,
    bufs: &mut [IoSliceMut<'_>],
    done: usize,
    flags: RecvFlags,
    received: &mut io::Result<Option<Copied>>,
) -> bool {
    let is_peek = flags.contains(RecvFlags::PEEK);
    match item {
        MultishotItem::Bytes(bytes) => {
            let count = fill(bufs, done, bytes);
            if !is_peek {
                bytes.advance(count);
            }
            let message = Message { bytes: count, from: nobody(), is_truncated: false };
            *received = Ok(Some(Copied { message, is_of_stream: true }));
            bytes.is_empty()
        }
        MultishotItem::Datagram(datagram) => {
            let whole = datagram.bytes.len();
            let count = fill(bufs, done, &datagram.bytes);
            let from = Address { storage: datagram.from, len: datagram.from_len };
            let bytes = if flags.contains(RecvFlags::TRUNC) { whole } else { count };
            let message = Message { bytes, from, is_truncated: count < whole };
            *received = Ok(Some(Copied { message, is_of_stream: false }));
            !is_peek
        }
        MultishotItem::Failed(errno) => {
            *received = Err(io::Error::from_raw_os_error(*errno));
            true
        }
        MultishotItem::Connection(_) => false,
        // The next call gets the same result from the kernel.
        MultishotItem::End | MultishotItem::Ready(_) => true,
    }
}

/// Takes further leftover bytes of a stream, up to the room in the buffers.
fn receive_more(
    inbox: &MultishotInbox,
    bufs: &mut [IoSliceMut<'_>],
    flags: RecvFlags,
    room: usize,
    done: &mut usize,
) {
    while *done < room {
        let mut received = Ok(None);
        let mut take = |item: &mut MultishotItem| {
            matches!(item, MultishotItem::Bytes(_))
                && receive_item(item, bufs, *done, flags, &mut received)
        };
        inbox.with_oldest(&mut take);
        let Ok(Some(copied)) = received else { return };
        *done += copied.message.bytes;
    }
}

/// Moves leftover data to the pipe `to`, if there is any.
///
/// The data stays in the inbox until it is in the pipe, so calls of other strands meanwhile find
/// it.
#[cold]
#[track_caller]
pub(super) fn splice(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    len: usize,
    flags: SpliceFlags,
) -> io::Result<Option<usize>> {
    // The kernel refuses other targets.
    let is_writable = sys::status_flags(to)? & OFlags::RWMODE != OFlags::RDONLY;
    if len == 0 || !is_writable || !sys::is_pipe(to) {
        return Ok(None);
    }
    let waits = !flags.contains(SpliceFlags::NONBLOCK);
    while inboxes::has_leftover(from, &MOVE)? {
        if waits {
            poll(to, PollFlags::OUT)?;
        }
        let Some(inbox) = inboxes::in_use(from) else { continue };
        let mut moved = Ok(None);
        let mut take = |item: &mut MultishotItem| splice_item(item, to, len, &mut moved);
        let has_found = multishot::with_leftover(&inbox, &MOVE, Deadline::NEVER, &mut take)?;
        match moved {
            Ok(None) if !has_found => {}
            // Another writer was faster.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && waits => {}
            moved => return moved,
        }
    }
    Ok(None)
}

/// Moves the front of an item to a pipe. Returns whether nothing of it is left for the next call.
fn splice_item(
    item: &mut MultishotItem,
    to: BorrowedFd<'_>,
    len: usize,
    moved: &mut io::Result<Option<usize>>,
) -> bool {
    match item {
        MultishotItem::Bytes(bytes) => {
            *moved = write_at_once(to, bytes, len).map(Some);
            bytes.advance(moved.as_ref().map_or(0, |count| count.unwrap_or(0)));
            bytes.is_empty()
        }
        // As from the kernel, the rest of a datagram is lost.
        MultishotItem::Datagram(datagram) => {
            *moved = write_at_once(to, &datagram.bytes, len).map(Some);
            moved.is_ok()
        }
        MultishotItem::Failed(errno) => {
            *moved = Err(io::Error::from_raw_os_error(*errno));
            true
        }
        MultishotItem::Connection(_) => false,
        // The kernel has the same result.
        MultishotItem::End | MultishotItem::Ready(_) => true,
    }
}

/// Writes up to `len` bytes to a pipe without waiting, even if the pipe is a blocking one.
///
/// A write refuses to wait only on pipes that were never spliced, and on none before Linux 6.4, but
/// a splice does on all of them. So the bytes go through a second pipe.
fn write_at_once(to: BorrowedFd<'_>, bytes: &[u8], len: usize) -> io::Result<usize> {
    let bytes = &bytes[..bytes.len().min(len).min(ROOM_IN_PIPE)];
    if bytes.is_empty() {
        return Ok(0);
    }
    let (out, into) = sys::pipe()?;
    sys::write(into, bytes)?;
    sys::splice_now(out, to, bytes.len())
}

/// Takes the oldest connection that an iterator has accepted, if there is one.
#[cold]
#[inline(never)]
#[track_caller]
pub(super) fn accept(inbox: &MultishotInbox) -> io::Result<Option<(OwnedFd, Address)>> {
    match multishot::take_leftover(inbox, &ACCEPT, Deadline::NEVER)? {
        Some(MultishotItem::Connection(fd)) => {
            let peer = Address::of_peer(&fd)?;
            Ok(Some((fd, peer)))
        }
        Some(MultishotItem::Failed(errno)) => Err(io::Error::from_raw_os_error(errno)),
        _ => Ok(None),
    }
}

/// Receives into the room after the first bytes. Ignores an error, because bytes were received
/// already.
#[track_caller]
fn receive_rest(
    fd: BorrowedFd<'_>,
    bufs: &mut [IoSliceMut<'_>],
    first: usize,
    flags: RecvFlags,
) -> usize {
    let mut rest: Vec<_> = bufs.iter_mut().map(|buf| IoSliceMut::new(buf)).collect();
    let mut rest = &mut rest[..];
    IoSliceMut::advance_slices(&mut rest, first);
    recvmsg(fd, rest, flags).map_or(0, |message| message.bytes)
}

/// Copies to the buffers, after their first bytes; returns the number of bytes copied.
fn fill(bufs: &mut [IoSliceMut<'_>], first: usize, mut bytes: &[u8]) -> usize {
    let (whole, mut skip) = (bytes.len(), first);
    for buf in bufs {
        let start = skip.min(buf.len());
        skip -= start;
        let count = bytes.len().min(buf.len() - start);
        buf[start..start + count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
    }
    whole - bytes.len()
}

/// The empty address, which recvmsg(2) returns for a connection.
fn nobody() -> Address {
    Address { len: 0, ..Address::new() }
}
