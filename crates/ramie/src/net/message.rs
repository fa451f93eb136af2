//! A socket's message calls, which pass addresses and descriptors.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    slice,
};

use ramie_driver::{MessageHeader, Op, sys};

use super::{
    late,
    socket::{Address, Half, Socket, data_result},
};
use crate::{
    core::time::Deadline,
    op::{self, OpError, retry::Pauses},
    ring::socket::{SEND, header_of, header_of_mut, receive_message, send_message},
};

/// Whether a send may be split into parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Stream,
    Datagram,
}

/// The result of a receive that takes descriptors; the descriptors go to the caller's vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Received {
    /// Bytes received, in the buffers in their order.
    pub bytes: usize,
    /// The datagram was longer than the buffers; its end is lost.
    pub is_truncated: bool,
    /// Some descriptors could not be received, because the process had no room for more.
    pub is_missing_fds: bool,
}

impl Socket {
    /// Receives into one buffer and returns the sender.
    #[track_caller]
    pub(crate) fn receive_from(
        &self,
        buffer: &mut [u8],
        flags: i32,
    ) -> io::Result<(usize, Address)> {
        if let Some(inbox) = self.busy_inbox()
            && let Some(received) = self.receive_leftover_from(inbox, buffer, flags)?
        {
            return Ok(received);
        }
        let mut buffer = IoSliceMut::new(buffer);
        let mut address = Address::new();
        let mut header = header_of_mut(slice::from_mut(&mut buffer));
        header.name = &raw mut address.storage;
        header.name_len = address.len;
        let bytes = self.receive_message(&mut header, flags)?;
        address.len = header.name_len;
        Ok((bytes, address))
    }

    /// Sends one datagram, to the given address or otherwise to the peer.
    #[track_caller]
    pub(crate) fn send_datagram(&self, buffer: &[u8], to: Option<&Address>) -> io::Result<usize> {
        let buffer = IoSlice::new(buffer);
        let mut header = header_of(slice::from_ref(&buffer));
        if let Some(to) = to {
            header.name = (&raw const to.storage).cast_mut();
            header.name_len = to.len;
        }
        self.send_message(&header, Shape::Datagram)
    }

    /// Sends bytes with descriptors.
    #[track_caller]
    pub(crate) fn send_fds(
        &self,
        buffers: &[IoSlice<'_>],
        fds: &[BorrowedFd<'_>],
        shape: Shape,
    ) -> io::Result<usize> {
        let mut control = sys::Control::passing(fds).ok_or_else(|| {
            let text = format!("at most {} descriptors go with one message", sys::MAX_PASSED_FDS);
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let mut header = header_of(buffers);
        if !control.is_empty() {
            header.control = control.as_mut_ptr();
            header.control_len = control.len();
        }
        self.send_message(&header, shape)
    }

    /// Receives bytes, and adds the descriptors that came with them to `fds`.
    #[track_caller]
    pub(crate) fn receive_fds(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        fds: &mut Vec<OwnedFd>,
    ) -> io::Result<Received> {
        if let Some(inbox) = self.busy_inbox()
            && let Some(first) = buffers.iter_mut().find(|buffer| !buffer.is_empty())
            && let Some(bytes) = self.receive_leftover(inbox, first, 0)?
        {
            return Ok(Received { bytes, ..Received::default() });
        }
        let mut control = sys::Control::new();
        let mut header = header_of_mut(buffers);
        header.control = control.as_mut_ptr();
        header.control_len = control.capacity();
        let bytes = self.receive_message(&mut header, sys::MSG_CMSG_CLOEXEC)?;
        for fd in control.received(header.control_len) {
            // SAFETY: the kernel has just made this descriptor for the receiver of the message.
            fds.push(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        Ok(Received {
            bytes,
            is_truncated: header.flags & sys::MSG_TRUNC != 0,
            is_missing_fds: header.flags & sys::MSG_CTRUNC != 0,
        })
    }

    #[track_caller]
    fn receive_message(&self, header: &mut MessageHeader, flags: i32) -> io::Result<usize> {
        let (fd, flags, deadline) = (self.as_fd(), self.flags(flags), self.deadline(Half::Read));
        // SAFETY: every caller above made the header of buffers that it borrows mutably, and of an
        // address and control messages that lie in its frame, and is still in its call.
        match unsafe { receive_message(fd, header, flags, deadline) } {
            Err(OpError::Elapsed) if sys::is_shut_down_for_reading(self) => {
                let flags = flags | sys::MSG_DONTWAIT;
                // SAFETY: as above.
                let received =
                    late::last(|| unsafe { receive_message(fd, header, flags, Deadline::NEVER) });
                Ok(received?.unwrap_or_else(|| {
                    // The message has no sender.
                    header.name_len = 0;
                    0
                }))
            }
            received => data_result(received),
        }
    }

    #[track_caller]
    fn send_message(&self, header: &MessageHeader, shape: Shape) -> io::Result<usize> {
        let deadline = self.deadline(Half::Write);
        match shape {
            Shape::Stream => data_result(self.try_message(header, self.flags(0), deadline)),
            Shape::Datagram => self.send_again_and_again(header, deadline),
        }
    }

    fn try_message(
        &self,
        header: &MessageHeader,
        flags: i32,
        deadline: Deadline,
    ) -> Result<u32, OpError> {
        // SAFETY: as for the `receive_message` above; a send only reads.
        unsafe { send_message(self.as_fd(), header, flags, deadline) }
    }

    /// Tries to send a datagram each time that there may be room, until there is.
    ///
    /// The kernel must not repeat the send for us: if a datagram finds no room after its bytes were
    /// copied, a ring repeats the send without them, and sends an empty datagram (seen on Linux
    /// 6.18).
    #[track_caller]
    fn send_again_and_again(
        &self,
        header: &MessageHeader,
        deadline: Deadline,
    ) -> io::Result<usize> {
        let mut pauses = Pauses::short();
        loop {
            let sent = data_result(self.try_message(header, sys::MSG_DONTWAIT, Deadline::NEVER));
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.is_nonblocking() || deadline.has_passed() {
                        return Err(error);
                    }
                }
                result => return result,
            }
            if sys::poll_now(self, sys::POLL_OUT)? == 0 {
                let op = Op::Poll { fd: self.as_fd().as_raw_fd(), events: sys::POLL_OUT };
                // SAFETY: the op points to nothing.
                data_result(unsafe { op::request(&SEND, op).until(deadline).perform() })?;
            } else {
                // The receiver's queue is full, and only connected senders are notified of room.
                pauses.pause();
            }
        }
    }
}
