//! Receives into the driver's own buffers, made at once, and the memory that the driver keeps.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use super::Driver;
use crate::backend::Backend;
use crate::buffer::{Lease, Size};
use crate::fixed::FixedFile;
use crate::multishot::Datagram;
use crate::region::Region;
use crate::sys::abi::{IoVec, MessageHeader};
use crate::sys::{self, SockAddrStorage, raw};

impl Driver {
    /// Receives the available bytes of a stream, without waiting, into one of the driver's buffers.
    /// A polling driver may know from the registration beside the descriptor that there are none.
    ///
    /// # Errors
    /// The errno: `EAGAIN` if there are no bytes, `ENOMEM` if there is no memory for a buffer.
    pub fn receive_now(&mut self, fd: impl AsFd, file: Option<&FixedFile>) -> Result<Lease, i32> {
        let fd = fd.as_fd().as_raw_fd();
        if file.is_some_and(|file| self.backend.is_known_to_wait(fd, file)) {
            return Err(rustix::io::Errno::AGAIN.raw_os_error());
        }
        let mut room_len = 0;
        let receive = |room: NonNull<u8>, len| {
            room_len = len as u32;
            uninterrupted(|| {
                // SAFETY: `fill` gives that room.
                unsafe { raw::recv(fd, room.as_ptr(), len as u32, sys::MSG_DONTWAIT) }
            })
        };
        // SAFETY: recv writes into the room only, as many bytes as it returns.
        let received = unsafe { self.backend.pool().fill(receive) };
        let result = received.as_ref().map_or_else(|error| *error, |bytes| bytes.len() as i32);
        if let Some(file) = file {
            self.backend.note_received(fd, file, result, room_len);
        }
        received.map_err(|error| -error)
    }

    /// Receives an available datagram, without waiting, into one of the driver's buffers.
    ///
    /// # Errors
    /// As [`receive_now`](Self::receive_now).
    pub fn receive_from_now(&mut self, fd: impl AsFd) -> Result<Datagram, i32> {
        let fd = fd.as_fd().as_raw_fd();
        let mut from = SockAddrStorage::new();
        let mut from_len = SockAddrStorage::LEN;
        let receive = |room: NonNull<u8>, len| {
            let mut part = IoVec { base: room.as_ptr(), len };
            let mut message = MessageHeader::vectored(&raw mut part, 1);
            message.name = &raw mut from;
            message.name_len = SockAddrStorage::LEN;
            let result = uninterrupted(|| {
                // SAFETY: `fill_whole` gives that room, and the address outlives the call.
                unsafe { raw::recvmsg(fd, &raw mut message, sys::MSG_DONTWAIT) }
            });
            from_len = message.name_len;
            result
        };
        // SAFETY: recvmsg writes into the room only, as many bytes as it returns.
        let received = unsafe { self.backend.pool().fill_whole(Size::Datagram, receive) };
        received.map(|bytes| Datagram { bytes, from, from_len }).map_err(|error| -error)
    }

    /// Registers a region with the ring and returns its index, by which reads and writes then name
    /// it ([`OpFrame::registered`](crate::OpFrame::registered)). The index is valid for an op that
    /// is submitted next, before another region is registered. None: there is no ring, or the
    /// kernel or the limit of locked memory does not allow it.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn register(&mut self, region: &Arc<Region>) -> Option<u16> {
        self.check_fork();
        self.backend.register(region)
    }

    /// Returns whether an idle driver has more buffers than it needs.
    pub fn has_surplus(&self) -> bool {
        self.backend.has_surplus()
    }

    /// Frees the buffers that an idle driver does not need; lent buffers follow when they are
    /// returned.
    pub fn give_back_surplus(&mut self) {
        self.check_fork();
        self.backend.give_back_surplus()
    }

    /// Returns the number of bytes of all its buffers: free ones, those on offer to the kernel, and
    /// lent ones.
    pub fn buffer_bytes(&mut self) -> usize {
        self.backend.pool().held()
    }
}

fn uninterrupted(mut call: impl FnMut() -> i32) -> i32 {
    const INTERRUPTED: i32 = -rustix::io::Errno::INTR.raw_os_error();
    loop {
        match call() {
            INTERRUPTED => {}
            result => return result,
        }
    }
}
