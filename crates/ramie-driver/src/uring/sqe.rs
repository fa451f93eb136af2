//! Building submission queue entries from ops, and the user data by which a completion finds its
//! receiver.
#![allow(unsafe_code)]

use std::mem;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{DestinationSlot, Fd, Fixed};

use crate::call;
use crate::fixed;
use crate::op::{MAX_LEN, Op, OpFrame};
use crate::sys::{SockAddrStorage, WORKING_DIRECTORY};

/// The low bits of `user_data`, which select the kind of the receiver. The other bits are an
/// address, unless noted otherwise.
pub(super) const TAG_BITS: u64 = 0b111;
/// The receiver is an [`OpFrame`].
pub(super) const TAG_FRAME: u64 = 0;
/// The receiver is a multishot op; the other bits are its index.
pub(super) const TAG_MULTISHOT: u64 = 1;
/// The completion of the read of the ring's eventfd.
pub(super) const TAG_WAKE: u64 = 2;
/// No receiver: the completion of a cancel request or of a timeout.
pub(super) const TAG_IGNORE: u64 = 3;
/// A request to cancel an op. The other bits are the op's index (not an address, because the frame
/// may be gone when the request is answered) and the low bits of the number of times that indices
/// had changed.
const CANCEL: u64 = TAG_IGNORE | 1 << 63;
const CHANGES_BITS: u32 = 28;
const CHANGES_SHIFT: u32 = TAG_BITS.count_ones() + u32::BITS;
/// A wake that another ring has put into our completion queue.
pub(super) const TAG_MESSAGE: u64 = 4;
/// The sender's completion of a wake sent to another ring; the address is that ring's
/// `Arc<WakeTarget>`.
pub(super) const TAG_MESSAGE_SENT: u64 = 5;

/// A descriptor that is being closed while no op waits for that; the other bits are its number.
pub(super) const TAG_CLOSE: u64 = 6;
/// The completion of an op that gives a file of the file table a descriptor.
pub(super) const TAG_INSTALLED: u64 = 7;
/// The shift of the descriptor's number.
pub(super) const CLOSE_SHIFT: u32 = TAG_BITS.count_ones();

/// Returns the user data of the multishot op with this index.
pub(super) fn of_multishot(index: u32) -> u64 {
    u64::from(index) << TAG_BITS.count_ones() | TAG_MULTISHOT
}

/// Returns the user data of a request to cancel the op with this index.
pub(super) fn of_cancel(index: u32, changes: u32) -> u64 {
    let changes = u64::from(changes) & ((1 << CHANGES_BITS) - 1);
    CANCEL | changes << CHANGES_SHIFT | u64::from(index) << TAG_BITS.count_ones()
}

/// Returns the index in user data made by [`of_cancel`]; None for other user data.
pub(super) fn cancelled(user_data: u64) -> Option<u32> {
    let is_cancel = user_data & (CANCEL | TAG_BITS) == CANCEL;
    is_cancel.then_some((user_data >> TAG_BITS.count_ones()) as u32)
}

/// Returns the index in user data made by [`of_multishot`].
pub(super) fn multishot(user_data: u64) -> u32 {
    (user_data >> TAG_BITS.count_ones()) as u32
}

/// Returns the user data of a request to cancel the multishot op with this index.
pub(super) fn of_leaving(index: u32) -> u64 {
    (u64::from(index) + 1) << TAG_BITS.count_ones() | TAG_IGNORE
}

/// Returns the index in user data made by [`of_leaving`]; None for other user data.
pub(super) fn leaving(user_data: u64) -> Option<u32> {
    (user_data >> TAG_BITS.count_ones()).checked_sub(1).map(|index| index as u32)
}

// The tag must fit below the alignment of a frame.
const _: () = assert!(align_of::<OpFrame>() as u64 > TAG_BITS);

/// Builds the entry for a frame's op, which is `op`, and hands it to `put`.
///
/// Each op that streams use often has a branch with a `put` of its own, so that its entry is
/// written directly into the queue, in whole words. The builders of `opcode` write smaller pieces
/// than are later read, which stalls the CPU for up to 12 ns.
#[inline(always)]
pub(super) fn with_entry(
    frame: &OpFrame,
    op: Op,
    user_data: u64,
    flags: Flags,
    mut put: impl FnMut(Entry),
) {
    let fixed_file_index = frame.fixed_file_index.get();
    let stream = |code: u8, fd: i32, buf: *const u8, len: u32, offset: u64, call_flags: u32| {
        let (fd, flags) = match fixed_file_index {
            fixed::NO_INDEX => (fd, flags),
            _ => (fixed::number_of(fixed_file_index), flags | Flags::FIXED_FILE),
        };
        let head = u64::from(code) | u64::from(flags.bits()) << 8 | u64::from(fd as u32) << 32;
        let len = u64::from(len.min(MAX_LEN)) | u64::from(call_flags) << 32;
        entry_of_words([head, offset, buf.expose_provenance() as u64, len, user_data, 0, 0, 0])
    };
    match op {
        Op::Read { fd, buf, len, offset } => {
            put(stream(opcode::Read::CODE, fd, buf, len, offset, 0));
        }
        Op::Write { fd, buf, len, offset } => {
            put(stream(opcode::Write::CODE, fd, buf, len, offset, 0));
        }
        Op::Recv { fd, buf, len, flags } => {
            put(stream(opcode::Recv::CODE, fd, buf, len, 0, flags as u32));
        }
        Op::Send { fd, buf, len, flags } => {
            let flags = flags | crate::sys::MSG_NOSIGNAL;
            put(stream(opcode::Send::CODE, fd, buf, len, 0, flags as u32));
        }
        Op::Accept { fd, addr, addr_len, .. } if fixed_file_index != fixed::NO_INDEX => {
            put(accept_into(fixed_file_index, fd, addr, addr_len)
                .user_data(user_data)
                .flags(flags));
        }
        _ => put(entry_of_others(&frame.op).user_data(user_data).flags(flags)),
    }
}

/// Makes an entry from the words of `struct io_uring_sqe`: op code, flags and descriptor; offset;
/// address; length and the call's own flags; user data; three words that are zero for the ops of
/// streams.
#[inline(always)]
fn entry_of_words(words: [u64; 8]) -> Entry {
    const _: () = assert!(size_of::<Entry>() == 64 && cfg!(target_endian = "little"));
    // SAFETY: an entry is a `repr(C)` struct of 64 bytes that consists of integers, so any bits are
    // valid.
    unsafe { mem::transmute_copy::<[u64; 8], Entry>(&words) }
}

/// Returns the entry of an accept whose connection gets an index in the file table instead of a
/// descriptor.
#[inline(never)]
fn accept_into(
    fixed_file_index: u16,
    fd: i32,
    addr: *mut SockAddrStorage,
    addr_len: *mut u32,
) -> Entry {
    let target = u32::from(fixed_file_index) - 1;
    // Fails only for numbers of more than 32 bits.
    let target = DestinationSlot::try_from_slot_target(target).ok();
    opcode::Accept::new(Fd(fd), addr.cast(), addr_len).file_index(target).build()
}

/// Returns the entry that gives the file at an index a descriptor, which is close-on-exec.
pub(super) fn install_entry(fixed_file_index: u16) -> Entry {
    opcode::FixedFdInstall::new(Fixed(u32::from(fixed_file_index) - 1), 0)
        .build()
        .user_data(TAG_INSTALLED)
}

/// Returns the entry of an op that has no branch of its own in [`with_entry`].
#[inline(never)]
fn entry_of_others(op: &Op) -> Entry {
    match *op {
        Op::Read { .. } | Op::Write { .. } | Op::Recv { .. } | Op::Send { .. } | Op::Nop => {
            opcode::Nop::new().build()
        }
        Op::RecvBundle { .. } => unreachable!("it has a manner of its own (`Op::manner`)"),
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

/// Builds the entry of a send that does not copy. It completes twice.
#[cold]
pub(super) fn zero_copy_entry(op: &Op) -> Entry {
    match *op {
        Op::Send { fd, buf, len, flags } => {
            let flags = flags | crate::sys::MSG_NOSIGNAL;
            opcode::SendZc::new(Fd(fd), buf, len.min(MAX_LEN)).flags(flags).build()
        }
        Op::SendMessage { fd, message, flags } => {
            let flags = flags | crate::sys::MSG_NOSIGNAL;
            opcode::SendMsgZc::new(Fd(fd), message.cast()).flags(flags as u32).build()
        }
        _ => entry_of_others(op),
    }
}

/// Builds the entry that waits until a call of `op` can make progress.
pub(super) fn readiness_entry(op: &Op) -> Entry {
    opcode::PollAdd::new(Fd(op.fd().unwrap_or(-1)), op.readiness()).build()
}
