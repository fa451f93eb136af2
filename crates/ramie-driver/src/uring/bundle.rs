//! A one-shot receive of all available bytes into buffers of the ring.
//!
//! The kernel chooses the buffers when bytes arrive, so the op holds no buffer while it waits. If
//! the kernel finds no buffer on offer, more are offered, and the op is submitted again. The bytes
//! are leased when their completion is reaped, because the next completion may already report the
//! bytes after them.
#![allow(unsafe_code)]

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;

use super::buffer_ring::Filled;
use super::buffers::Buffers;
use super::ring::Ring;
use crate::buffer::Size;
use crate::feature::Feature;
use crate::op::{Op, OpFrame};
use crate::sys;

/// The size of the buffers that these receives use.
pub(super) const SIZE: Size = Size::Large;
/// The number of a group that is never registered, so the kernel finds no buffers in it.
const NO_GROUP: u16 = u16::MAX;

impl Ring {
    /// Builds the entry of a receive into the ring's buffers. If there are none, the kernel will
    /// refuse the entry.
    #[cold]
    pub(super) fn bundle_entry(&mut self, fd: i32) -> Entry {
        let Buffers { pool, groups } = &mut self.reaper.buffers;
        let ran_out = groups.take_shortage();
        let kind = (SIZE, self.features.has(Feature::IncrementalBuffers));
        let is_had = groups.prepare(&self.queue.ring, pool, kind, ran_out);
        let group = if is_had { SIZE as u16 } else { NO_GROUP };
        if is_had && self.is_bundled(SIZE) {
            return opcode::RecvBundle::new(Fd(fd), group).build();
        }
        let receive = opcode::Recv::new(Fd(fd), std::ptr::null_mut(), 0).buf_group(group);
        receive.build().flags(Flags::BUFFER_SELECT)
    }
}

/// Leases the bytes of such a receive, and adds the leases to the list of its op.
#[cold]
pub(super) fn lease(buffers: &mut Buffers, frame: &OpFrame, filled: Filled) {
    let Op::RecvBundle { into, .. } = frame.op else {
        sys::fatal("the kernel has filled a buffer for an op that takes none")
    };
    // SAFETY: the submitter keeps the list valid, and does not access it, until the op is complete
    // (contract of `Driver::submit`).
    let into = unsafe { &mut *into };
    buffers.groups.lease_each(SIZE, filled, |lease| into.push(lease));
}
