//! Leftovers: data and connections that an iterator over a socket (`recv_each`, `recv_from_each`,
//! `incoming`) has received and the program has not taken. Calls that get only the descriptor of
//! the socket find them here.

use std::{
    io::{self, IoSliceMut},
    os::fd::{BorrowedFd, OwnedFd},
};

use ramie_driver::{CURRENT_POSITION, MultishotInbox, MultishotItem, sys::RecvFlags};

use super::{
    Address, Message,
    data::MAX_BUFFERS,
    socket::{ACCEPT, RECEIVE, recvmsg},
};
use crate::{
    core::{cancel, time::Deadline},
    op::{inboxes, multishot},
};

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
    match multishot::take_leftover(inbox, &RECEIVE, Deadline::NEVER)? {
        Some(bytes @ MultishotItem::Bytes(_)) => {
            inbox.put_back(bytes);
            let room: usize = bufs.iter().map(|buf| buf.len()).sum();
            let mut bytes = take_bytes(inbox, bufs, is_peek);
            if flags.contains(RecvFlags::WAITALL) && !is_peek && bytes < room {
                bytes += receive_rest(fd, bufs, bytes, flags);
            }
            Ok(Some(Message { bytes, from: nobody(), is_truncated: false }))
        }
        Some(MultishotItem::Datagram(datagram)) => {
            let whole = datagram.bytes.len();
            let count = fill(bufs, 0, &datagram.bytes);
            let from = Address { storage: datagram.from, len: datagram.from_len };
            if is_peek {
                inbox.put_back(MultishotItem::Datagram(datagram));
            }
            let bytes = if flags.contains(RecvFlags::TRUNC) { whole } else { count };
            Ok(Some(Message { bytes, from, is_truncated: count < whole }))
        }
        Some(MultishotItem::Failed(errno)) => Err(io::Error::from_raw_os_error(errno)),
        Some(connection @ MultishotItem::Connection(_)) => {
            inbox.put_back(connection);
            Ok(None)
        }
        // The next call gets the same result from the kernel.
        Some(MultishotItem::End | MultishotItem::Ready(_)) | None => Ok(None),
    }
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

/// Takes leftover bytes of a stream, up to the room in the buffers.
fn take_bytes(inbox: &MultishotInbox, bufs: &mut [IoSliceMut<'_>], is_peek: bool) -> usize {
    let room: usize = bufs.iter().map(|buf| buf.len()).sum();
    let mut done = 0;
    while let Some(item) = inbox.take_leftover() {
        let MultishotItem::Bytes(mut bytes) = item else {
            inbox.put_back(item);
            break;
        };
        let count = fill(bufs, done, &bytes);
        done += count;
        if !is_peek {
            bytes.advance(count);
        }
        let is_rest = !bytes.is_empty();
        if is_rest {
            inbox.put_back(MultishotItem::Bytes(bytes));
        }
        if is_rest || done == room {
            break;
        }
    }
    done
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
