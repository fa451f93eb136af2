//! The front of ops that complete again and again, and of the driver's buffers.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use super::{Backend, Driver};
use crate::buffer::{Lease, Pool, Size};
use crate::fixed::FixedFile;
use crate::multishot::{
    Datagram, MultishotId, MultishotInbox, MultishotItem, MultishotOp, NextItem,
};
use crate::op::{IoVec, MessageHeader};
use crate::poll::Poll;
use crate::region::Region;
use crate::sys::{self, SockAddrStorage, raw};

impl Driver {
    /// Begins an op that completes again and again. It is armed by the first
    /// [`next_item`](Self::next_item), and what it brings and nobody takes is in `inbox` once it is
    /// stopped.
    ///
    /// None: this driver does no such ops, or another does one for `inbox`: do them one by one.
    ///
    /// The descriptor stays open while the op is armed without the kernel knowing it: until a item
    /// has come, or [`settle_multishot`](Self::settle_multishot). After that it may be closed, and
    /// its number used again; the kernel keeps the file until the op is stopped.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn start_multishot(
        &mut self,
        op: MultishotOp,
        inbox: &Arc<MultishotInbox>,
    ) -> Option<MultishotId> {
        self.check_fork();
        match &mut self.backend {
            Backend::Uring(uring) => uring.start_multishot(op, inbox),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.start_multishot(op, inbox),
            _ => None,
        }
    }

    /// As [`next_item`](Self::next_item), and where nothing has come as
    /// [`await_item`](Self::await_item): in one step, for who has nothing else to wait for.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn next_item_or_await(&mut self, id: MultishotId, user: u64) -> NextItem {
        match self.next_item(id) {
            NextItem::Pending if !self.await_item(id, user) => NextItem::Gone,
            next => next,
        }
    }

    /// Takes the oldest item; where there is none, sees to it that the op is armed.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn next_item(&mut self, id: MultishotId) -> NextItem {
        self.check_fork();
        match &mut self.backend {
            Backend::Uring(uring) => uring.next_item(id),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.next_item(id),
            _ => NextItem::Gone,
        }
    }

    /// Sees to it that the kernel has looked up the op's descriptor, so that it may be closed, and
    /// takes the oldest item, if there is one. Arms nothing.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn settle_multishot(&mut self, id: MultishotId) -> Option<MultishotItem> {
        self.check_fork();
        match &mut self.backend {
            Backend::Uring(uring) => uring.settle_multishot(id),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.settle_multishot(id),
            _ => None,
        }
    }

    /// Asks that `user`, which is not 0, come out of [`pop_notice`](Self::pop_notice) when there is
    /// something to find out by [`next_item`](Self::next_item). False: there is already.
    pub fn await_item(&mut self, id: MultishotId, user: u64) -> bool {
        match &mut self.backend {
            Backend::Uring(uring) => uring.await_item(id, user),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.await_item(id, user),
            _ => false,
        }
    }

    /// Stops an op; what it left is in its inbox afterwards. False: another driver has it.
    ///
    /// # Blocking
    /// For some microseconds, until the kernel has let go of it.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn stop_multishot(&mut self, id: MultishotId) -> bool {
        self.check_fork();
        match &mut self.backend {
            Backend::Uring(uring) => uring.stop_multishot(id),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.stop_multishot(id),
            _ => false,
        }
    }

    /// Takes the next word that was left by [`await_item`](Self::await_item) or
    /// [`MultishotInbox::request_stop`] and whose event has come.
    #[inline]
    pub fn pop_notice(&mut self) -> Option<u64> {
        match &mut self.backend {
            Backend::Uring(uring) => uring.pop_notice(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.pop_notice(),
            _ => None,
        }
    }

    fn pool(&mut self) -> &mut Pool {
        match &mut self.backend {
            Backend::Uring(uring) => &mut uring.pool,
            Backend::Poll(poll) => &mut poll.pool,
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.pool(),
            Backend::Leaked => unreachable!("left behind by Drop only"),
        }
    }

    fn as_poll(&mut self) -> Option<&mut Poll> {
        match &mut self.backend {
            Backend::Poll(poll) => Some(poll),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.as_poll(),
            _ => None,
        }
    }

    /// Receives from a stream what is there, without waiting, into one of the driver's buffers. By
    /// what is kept beside the descriptor a polling driver may know that nothing is there.
    ///
    /// # Errors
    /// The errno: `EAGAIN` where nothing is there, `ENOMEM` where there is no memory for a buffer.
    pub fn receive_now(&mut self, fd: impl AsFd, file: Option<&FixedFile>) -> Result<Lease, i32> {
        let fd = fd.as_fd().as_raw_fd();
        if let Some((poll, file)) = self.as_poll().zip(file)
            && poll.is_known_to_wait(fd, &file.registration, sys::POLL_IN)
        {
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
        // SAFETY: recv writes into the room only, as many bytes as it says.
        let received = unsafe { self.pool().fill(receive) };
        let result = received.as_ref().map_or_else(|error| *error, |bytes| bytes.len() as i32);
        if let Some((poll, file)) = self.as_poll().zip(file) {
            poll.note_received(fd, &file.registration, result, room_len, 0);
        }
        received.map_err(|error| -error)
    }

    /// Receives a datagram that is there, without waiting, into one of the driver's buffers.
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
        // SAFETY: recvmsg writes into the room only, as many bytes as it says.
        let received = unsafe { self.pool().fill_whole(Size::Datagram, receive) };
        received.map(|bytes| Datagram { bytes, from, from_len }).map_err(|error| -error)
    }

    /// Makes a region known to the ring; reads and writes of it then name its number
    /// ([`OpFrame::registered`](crate::OpFrame::registered)). The number is good for an op that is
    /// submitted next, before another region is registered. None: there is no ring, or the kernel
    /// or the limit of locked memory does not allow it.
    ///
    /// # Panics
    /// In the child of a fork.
    pub fn register(&mut self, region: &Arc<Region>) -> Option<u16> {
        self.check_fork();
        match &mut self.backend {
            Backend::Uring(uring) => uring.register(region),
            // Late ops could name a number that another region has by then.
            _ => None,
        }
    }

    /// Tells whether an idle driver has more buffers than it needs.
    pub fn has_surplus(&self) -> bool {
        match &self.backend {
            Backend::Uring(uring) => uring.has_surplus(),
            Backend::Poll(poll) => poll.pool.has_surplus(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.has_surplus(),
            Backend::Leaked => false,
        }
    }

    /// Frees the buffers that an idle driver does not need. Those that are lent follow when they
    /// have come back.
    pub fn give_back_surplus(&mut self) {
        self.check_fork();
        match &mut self.backend {
            Backend::Uring(uring) => uring.give_back_surplus(),
            Backend::Poll(poll) => poll.pool.give_back_surplus(),
            #[cfg(feature = "faults")]
            Backend::Faulty(faulty) => faulty.inner.give_back_surplus(),
            Backend::Leaked => {}
        }
    }

    /// Lets an op end without notice, as the kernel may: for tests.
    #[cfg(feature = "faults")]
    pub fn end_multishot_silently(&mut self, id: MultishotId) {
        match &mut self.backend {
            Backend::Uring(uring) => uring.end_multishot_silently(id),
            Backend::Faulty(faulty) => faulty.inner.end_multishot_silently(id),
            _ => {}
        }
    }

    /// Tells how many bytes its buffers have: those that are free, on offer to the kernel, lent.
    pub fn buffer_bytes(&mut self) -> usize {
        self.pool().held()
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
