//! The descriptors of a polling driver, and their registrations.

use std::os::fd::RawFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::attempt;
use super::slots::Slots;
use super::vain::{Resting, Vain};
use super::{GENERATION_MASK, key_of};
use crate::op::{Op, OpFrame};
use crate::sys::EpollSet;

/// The descriptors, by number, and the epoll set that reports on them.
pub(super) struct Descriptors {
    pub(super) set: Arc<EpollSet>,
    pub(super) slots: Slots,
    pub(super) resting: Resting,
}

impl Descriptors {
    /// Attempts an op, and records from its result whether the descriptor is ready.
    pub(super) fn attempt(&mut self, frame: &OpFrame) -> i32 {
        let result = attempt::attempt(frame);
        self.note(frame, result);
        result
    }

    pub(super) fn has_waiters_before(&mut self, frame: &OpFrame) -> bool {
        let slot = frame.op.fd().and_then(|fd| self.slots.get_mut(fd));
        !matches!(frame.op, Op::Poll { .. })
            && slot.is_some_and(|slot| !slot.queue(&frame.op).is_empty())
    }

    /// Arms the registration of `fd` for one more op.
    pub(super) fn arm_for(&mut self, fd: RawFd, events: u32) -> Result<(), Errno> {
        if self.slots[fd].is_kept {
            self.disarm(fd);
            let others = self.slots[fd].interests();
            return self.arm(fd, others | events);
        }
        let armed = self.slots[fd].armed;
        let wanted = armed | events;
        if wanted != armed || armed == 0 { self.arm(fd, wanted) } else { Ok(()) }
    }

    /// Arms the registration of `fd`, one-shot. The kernel adds errors and hang-ups itself.
    ///
    /// Not for out-of-band data: ordinary reads do not take it, so a peer that sends some would
    /// keep the driver busy.
    pub(super) fn arm(&mut self, fd: RawFd, interests: u32) -> Result<(), Errno> {
        let slot = &mut self.slots[fd];
        let key = key_of(fd, slot.generation);
        let flags = EventFlags::from_bits_retain(interests) | EventFlags::ONESHOT;
        // `registered` may be wrong in either direction (module documentation).
        let armed = self.set.set(fd, key, flags, slot.registered);
        slot.registered = armed.is_ok();
        slot.armed = if armed.is_ok() { interests } else { 0 };
        armed
    }

    /// Deletes the registration of `fd`, because no op waits for `fd` any more, or because the
    /// registration must be made anew.
    pub(super) fn disarm(&mut self, fd: RawFd) {
        let slot = &mut self.slots[fd];
        slot.registered = false;
        slot.armed = 0;
        slot.is_kept = false;
        slot.vain = Vain::default();
        slot.generation = slot.generation.wrapping_add(1) & GENERATION_MASK;
        self.set.forget(fd);
    }
}
