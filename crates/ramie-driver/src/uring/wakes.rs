//! Wakes that arrive at a ring: through its eventfd, of which a read is always in flight, or as a
//! message from another ring.

use std::cell::UnsafeCell;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;

use super::sqe;
use crate::wake::{WakeTarget, Waker};

/// The state of the wakes of a ring.
pub(super) struct Wakes {
    pub(super) target: Arc<WakeTarget>,
    /// Whether a wake has arrived that no turn has reported yet.
    is_woken: bool,
    /// Whether a read of the eventfd is in the queue or in the kernel.
    is_armed: bool,
    /// The buffer of that read. INVARIANT: freed only while `is_armed` is false.
    count: Box<UnsafeCell<u64>>,
}

impl Wakes {
    pub(super) fn new(target: Arc<WakeTarget>) -> Self {
        Wakes { target, is_woken: false, is_armed: false, count: Box::new(UnsafeCell::new(0)) }
    }

    pub(super) fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.target))
    }

    pub(super) fn is_own(&self, target: &Arc<WakeTarget>) -> bool {
        Arc::ptr_eq(target, &self.target)
    }

    /// Returns the entry of the next read of the eventfd; None while a read is in flight.
    pub(super) fn read_to_arm(&mut self) -> Option<Entry> {
        if self.is_armed {
            return None;
        }
        let eventfd = self.target.eventfd()?;
        let count = self.count.get().cast();
        let read = opcode::Read::new(Fd(eventfd.as_raw_fd()), count, 8).offset(u64::MAX);
        self.is_armed = true;
        Some(read.build().user_data(sqe::TAG_WAKE))
    }

    pub(super) fn is_armed(&self) -> bool {
        self.is_armed
    }

    #[inline]
    pub(super) fn is_woken(&self) -> bool {
        self.is_woken
    }

    /// Makes the next turn return without waiting.
    pub(super) fn note_woken(&mut self) {
        self.is_woken = true;
    }

    pub(super) fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.is_woken)
    }

    /// Handles the completion of the read of the eventfd.
    pub(super) fn on_read(&mut self, result: i32) {
        self.is_armed = false;
        if result >= 0 {
            self.on_message();
        }
    }

    /// Handles a wake from another ring.
    pub(super) fn on_message(&mut self) {
        self.is_woken |= self.target.acknowledge();
    }
}
