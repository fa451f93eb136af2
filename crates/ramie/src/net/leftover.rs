//! Leftovers of multishot receives and accepts: data and connections that arrived before they were
//! asked for. They come first in every call that takes from the socket.

use std::{
    io::{self, IoSliceMut},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::Arc,
};

use ramie_driver::{
    Datagram, Lease, MultishotInbox, MultishotItem, MultishotOp,
    sys::{self, RecvFlags},
};

use super::socket::{Address, Half, Socket, data_result};
use crate::{
    core::{time::Deadline, worker},
    op::{
        OpError,
        multishot::{self, MultishotSource},
        readiness::Readiness,
    },
    ring::{
        leftover::receive_item,
        socket::{ACCEPT, RECEIVE},
    },
};

/// A timeout of a socket is reported as by the kernel.
fn timed_out(error: OpError) -> io::Error {
    match error {
        OpError::Elapsed => sys::Errno::AGAIN.into(),
        error => error.into(),
    }
}

impl Socket {
    #[track_caller]
    fn take_leftover(
        &self,
        inbox: &MultishotInbox,
        deadline: Deadline,
    ) -> io::Result<Option<MultishotItem>> {
        multishot::take_leftover(inbox, &RECEIVE, deadline).map_err(timed_out)
    }

    /// Receives leftover data, if there is any.
    #[cold]
    #[track_caller]
    pub(super) fn receive_leftover(
        &self,
        inbox: &MultishotInbox,
        buffer: &mut [u8],
        flags: i32,
    ) -> io::Result<Option<usize>> {
        Ok(self.receive_leftover_from(inbox, buffer, flags)?.map(|(count, _)| count))
    }

    /// Receives leftover data and its sender, if there is any; the sender is unknown for a stream.
    #[cold]
    #[track_caller]
    pub(super) fn receive_leftover_from(
        &self,
        inbox: &MultishotInbox,
        buffer: &mut [u8],
        flags: i32,
    ) -> io::Result<Option<(usize, Address)>> {
        let is_peek = RecvFlags::from_bits_retain(flags.cast_unsigned()) & RecvFlags::PEEK;
        let mut received = Ok(None);
        let mut buffer = [IoSliceMut::new(buffer)];
        let mut take =
            |item: &mut MultishotItem| receive_item(item, &mut buffer, 0, is_peek, &mut received);
        let deadline = self.deadline(Half::Read);
        multishot::with_leftover(inbox, &RECEIVE, deadline, &mut take).map_err(timed_out)?;
        Ok(received?.map(|copied| (copied.message.bytes, copied.message.from)))
    }

    /// Accepts a leftover connection, if there is one.
    #[cold]
    #[track_caller]
    pub(super) fn accept_leftover(&self, inbox: &MultishotInbox) -> io::Result<Option<OwnedFd>> {
        match self.take_leftover(inbox, Deadline::NEVER)? {
            Some(MultishotItem::Connection(fd)) => Ok(Some(fd)),
            Some(MultishotItem::Failed(errno)) => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(None),
        }
    }

    /// Makes a source that receives from this stream by a multishot op.
    pub(super) fn receiver(&self) -> MultishotSource {
        let op = MultishotOp::Receive { fd: self.as_fd().as_raw_fd() };
        MultishotSource::new(op, Arc::clone(self.enlisted_inbox()))
    }

    /// Makes a source that receives datagrams by a multishot op.
    pub(super) fn receiver_from(&self) -> MultishotSource {
        let op = MultishotOp::ReceiveFrom { fd: self.as_fd().as_raw_fd() };
        MultishotSource::new(op, Arc::clone(self.enlisted_inbox()))
    }

    /// Makes a source that accepts by a multishot op.
    pub(crate) fn acceptor(&self) -> MultishotSource {
        let op = MultishotOp::Accept { fd: self.as_fd().as_raw_fd(), flags: sys::SOCK_CLOEXEC };
        MultishotSource::new(op, Arc::clone(self.enlisted_inbox()))
    }

    /// Waits for a connection.
    #[track_caller]
    pub(crate) fn accept_next(&self, source: &mut MultishotSource) -> io::Result<Socket> {
        if self.is_nonblocking() || self.is_shared() {
            source.stop();
        } else {
            match source.next(&ACCEPT, Deadline::NEVER)? {
                Some(MultishotItem::Connection(fd)) => return Ok(Socket::from(fd)),
                Some(MultishotItem::Failed(errno)) => {
                    return Err(io::Error::from_raw_os_error(errno));
                }
                _ => {}
            }
        }
        self.accept().map(|(socket, _)| socket)
    }

    /// Waits for bytes and leases them; none at the end of the stream.
    #[track_caller]
    #[inline(always)]
    pub(super) fn receive_next(&self, source: &mut MultishotSource) -> io::Result<Option<Lease>> {
        if self.waits_for_good(Half::Read)
            && let Some(bytes) = source.next_bytes(&RECEIVE)
        {
            return Ok(Some(bytes));
        }
        self.receive_next_item(source)
    }

    /// As [`receive_next`](Self::receive_next), for every socket and every item.
    #[track_caller]
    #[inline(never)]
    fn receive_next_item(&self, source: &mut MultishotSource) -> io::Result<Option<Lease>> {
        match self.next_of(source)? {
            Some(MultishotItem::Bytes(bytes)) => Ok(Some(bytes)),
            Some(MultishotItem::Failed(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(_) => Ok(None),
            None => self.receive_once(),
        }
    }

    #[track_caller]
    #[inline(never)]
    fn receive_once(&self) -> io::Result<Option<Lease>> {
        let bytes = self.one_by_one(|driver| {
            // A call that must not wait tries the system call itself.
            let fixed_file = self.named().fixed_file().filter(|_| !self.is_nonblocking());
            driver.receive_now(self, fixed_file)
        })?;
        Ok(bytes.filter(|bytes| !bytes.is_empty()))
    }

    /// Waits for a datagram and leases it.
    #[track_caller]
    pub(super) fn receive_next_from(&self, source: &mut MultishotSource) -> io::Result<Datagram> {
        match self.next_of(source)? {
            Some(MultishotItem::Datagram(datagram)) => Ok(*datagram),
            Some(MultishotItem::Failed(errno)) => Err(io::Error::from_raw_os_error(errno)),
            // No bytes and no sender, which is how the kernel reports a socket that was shut down.
            _ => self
                .one_by_one(|driver| driver.receive_from_now(self))?
                .ok_or_else(sys::not_an_ip_address),
        }
    }

    #[track_caller]
    #[inline(always)]
    fn next_of(&self, source: &mut MultishotSource) -> io::Result<Option<MultishotItem>> {
        if self.is_nonblocking() {
            // A call that must not wait tries the system call itself, so the multishot op is
            // stopped first.
            source.stop();
            return self.take_leftover(self.inbox(), Deadline::NEVER);
        }
        source.next(&RECEIVE, self.deadline(Half::Read)).map_err(timed_out)
    }

    /// Tries without waiting, each time that a datagram may have come; no buffer is held between
    /// two attempts. `None`: the socket was shut down.
    #[track_caller]
    fn one_by_one<T>(
        &self,
        mut receive: impl FnMut(&mut ramie_driver::Driver) -> Result<T, i32>,
    ) -> io::Result<Option<T>> {
        let deadline = self.deadline(Half::Read);
        let mut readiness = Readiness::default();
        loop {
            let has_ended = readiness.is_end(self);
            let received = worker::current().io.with_driver(&mut receive)?;
            match received.map_err(io::Error::from_raw_os_error) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => {
                    worker::note_complete_at_once();
                    return received.map(Some);
                }
            }
            if self.is_nonblocking() {
                return Err(sys::Errno::AGAIN.into());
            }
            if has_ended {
                return Ok(None);
            }
            let waited = readiness.wait(&RECEIVE, self.named(), sys::POLL_IN, deadline);
            data_result(waited.map(|()| 0))?;
        }
    }
}
