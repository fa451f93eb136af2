//! A receive into the ring's own buffers, once: as many of them as the bytes that are there take.
//!
//! The kernel picks the buffers when bytes arrive, so nothing is held while the op waits. Where it
//! finds none on offer there are to be more, and the op is handed over again. What it brings is
//! leased when its completion is reaped: the next one may tell of the bytes behind.
#![allow(unsafe_code)]

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;

use super::Uring;
use super::buffer_ring::Filled;
use crate::buffer::Size;
use crate::feature::Feature;
use crate::op::{Op, OpFrame};
use crate::sys;

/// The buffers that are received into.
pub(super) const SIZE: Size = Size::Large;
/// A group that there is never: of it the kernel finds no buffers.
const NO_GROUP: u16 = u16::MAX;

impl Uring {
    /// Whether one completion may tell of several buffers of that size.
    pub(super) fn is_bundled(&self, size: Size) -> bool {
        let has = |feature| self.caps.features.has(feature);
        size == SIZE && has(Feature::Bundle) && has(Feature::IncrementalBuffers)
    }

    /// The entry of a receive into the ring's own buffers; it is refused where there are none.
    #[cold]
    pub(super) fn bundle_entry(&mut self, fd: i32) -> Entry {
        let ran_out = self.groups.take_shortage();
        let kind = (SIZE, self.caps.features.has(Feature::IncrementalBuffers));
        let is_had = self.groups.prepare(&self.ring, &mut self.pool, kind, ran_out);
        let group = if is_had { SIZE as u16 } else { NO_GROUP };
        if is_had && self.is_bundled(SIZE) {
            return opcode::RecvBundle::new(Fd(fd), group).build();
        }
        let receive = opcode::Recv::new(Fd(fd), std::ptr::null_mut(), 0).buf_group(group);
        receive.build().flags(Flags::BUFFER_SELECT)
    }

    /// Leases what such a receive has brought.
    #[cold]
    pub(super) fn take_bundle(&mut self, frame: &OpFrame, filled: Filled) {
        let Op::RecvBundle { into, .. } = frame.op else {
            sys::fatal("the kernel has filled a buffer for an op that takes none")
        };
        // SAFETY: the submitter keeps the list valid, and leaves it alone, until the op is complete
        // (contract of `Driver::submit`).
        let into = unsafe { &mut *into };
        self.groups.lease_each(SIZE, filled, |lease| into.push(lease));
    }
}
