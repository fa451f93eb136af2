//! From an op to a submission queue entry, and what the user data of a completion means.
#![allow(unsafe_code)]

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;

use crate::call;
use crate::op::{MAX_LEN, Op, OpFrame};
use crate::sys::WORKING_DIRECTORY;

/// Low bits of `user_data`: who the completion is for. The rest is an address.
pub(super) const TAG_BITS: u64 = 0b111;
/// An [`OpFrame`].
pub(super) const TAG_FRAME: u64 = 0;
/// An op that completes again and again; the rest is its place, not an address.
pub(super) const TAG_MULTISHOT: u64 = 1;
/// The read of our eventfd.
pub(super) const TAG_WAKE: u64 = 2;
/// Nobody: a cancel request's own completion, a timeout.
pub(super) const TAG_IGNORE: u64 = 3;
/// A wake that another ring has put into our completion queue.
pub(super) const TAG_MESSAGE: u64 = 4;
/// Our side of a wake sent to another ring: the address is its `Arc<WakeTarget>`.
pub(super) const TAG_MESSAGE_SENT: u64 = 5;

/// The user data of the op in that place.
pub(super) fn of_multishot(index: u32) -> u64 {
    u64::from(index) << TAG_BITS.count_ones() | TAG_MULTISHOT
}

// The tag must fit below the alignment of a frame.
const _: () = assert!(align_of::<OpFrame>() as u64 > TAG_BITS);

/// Builds the entry for `op`, without user data, and hands it to `put`.
///
/// The ops of busy streams have a branch each, with a `put` of its own, so that the entry is
/// written straight into the queue. Built elsewhere and copied it would be read back in larger
/// pieces than it was written in, which makes the CPU wait: some 12 ns an op.
#[inline(always)]
pub(super) fn with_entry(op: &Op, mut put: impl FnMut(Entry)) {
    match *op {
        Op::Read { fd, buf, len, offset } => {
            put(opcode::Read::new(Fd(fd), buf, len.min(MAX_LEN)).offset(offset).build());
        }
        Op::Write { fd, buf, len, offset } => {
            put(opcode::Write::new(Fd(fd), buf, len.min(MAX_LEN)).offset(offset).build());
        }
        Op::Recv { fd, buf, len, flags } => {
            put(opcode::Recv::new(Fd(fd), buf, len.min(MAX_LEN)).flags(flags).build());
        }
        Op::Send { fd, buf, len, flags } => {
            let flags = flags | crate::sys::MSG_NOSIGNAL;
            put(opcode::Send::new(Fd(fd), buf, len.min(MAX_LEN)).flags(flags).build());
        }
        _ => put(entry_of_others(op)),
    }
}

/// The entry of an op that has no branch of its own in [`with_entry`].
#[inline(never)]
fn entry_of_others(op: &Op) -> Entry {
    match *op {
        Op::Read { .. } | Op::Write { .. } | Op::Recv { .. } | Op::Send { .. } | Op::Nop => {
            opcode::Nop::new().build()
        }
        Op::ReadVectored { fd, iov, count, offset } => {
            opcode::Readv::new(Fd(fd), iov.cast(), count).offset(offset).build()
        }
        Op::WriteVectored { fd, iov, count, offset } => {
            opcode::Writev::new(Fd(fd), iov.cast(), count).offset(offset).build()
        }
        Op::RecvMessage { fd, message, flags } => {
            opcode::RecvMsg::new(Fd(fd), message.cast()).flags(flags as u32).build()
        }
        Op::SendMessage { fd, message, flags } => {
            let flags = flags | crate::sys::MSG_NOSIGNAL;
            opcode::SendMsg::new(Fd(fd), message.cast()).flags(flags as u32).build()
        }
        Op::Accept { fd, addr, addr_len, flags } => {
            opcode::Accept::new(Fd(fd), addr.cast(), addr_len).flags(flags).build()
        }
        Op::Connect { fd, addr, addr_len } => {
            opcode::Connect::new(Fd(fd), addr.cast(), addr_len).build()
        }
        Op::Poll { fd, events } => opcode::PollAdd::new(Fd(fd), events).build(),
        Op::Open { path, flags, mode } => {
            opcode::OpenAt::new(Fd(WORKING_DIRECTORY), path.cast()).flags(flags).mode(mode).build()
        }
        Op::Close { fd } => opcode::Close::new(Fd(fd)).build(),
        Op::EpollWait { fd, events, count } => {
            opcode::EpollWait::new(Fd(fd), events.cast(), count).build()
        }
        // SAFETY: the submitter keeps the call valid (contract of `Driver::submit`).
        Op::Call { call } => call::entry(unsafe { &*call }),
    }
}

/// Builds the entry that waits until a call of `op` can make progress.
pub(super) fn readiness_entry(op: &Op) -> Entry {
    opcode::PollAdd::new(Fd(op.fd().unwrap_or(-1)), op.readiness()).build()
}
