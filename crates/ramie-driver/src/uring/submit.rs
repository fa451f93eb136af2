//! Submitting ops: making an entry in the queue from a frame.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::Arc;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;

use super::ring::Ring;
use super::{bundle, sqe};
use crate::buffer::Size;
use crate::feature::Feature;
use crate::op::{MAX_LEN, Manner, Op, OpFrame, OpState};
use crate::wake::{WakeTarget, Waker};

impl Ring {
    /// Puts the op, which is the frame's, into the submission queue.
    #[inline(always)]
    pub(super) fn hand_over(&mut self, frame: &OpFrame, op: Op) {
        frame.state.set(OpState::InFlight);
        let user_data = ptr::from_ref(frame) as u64 | sqe::TAG_FRAME;
        if frame.injected.is_due() {
            // A no-op takes the place of the op, and `route` completes the op with the errno.
            return self.push(&opcode::Nop::new().build().user_data(user_data));
        }
        if frame.manner.get() != Manner::Plain
            && let Some(entry) = self.special_entry(frame)
        {
            return self.push(&entry.user_data(user_data));
        }
        let flags = if frame.in_background { Flags::ASYNC } else { Flags::empty() };
        sqe::with_entry(
            frame,
            op,
            user_data,
            flags,
            #[inline(always)]
            |entry| self.push(&entry),
        );
    }

    /// Returns the entry of an op that is submitted in a special way; None if it is submitted as
    /// usual.
    #[cold]
    fn special_entry(&mut self, frame: &OpFrame) -> Option<Entry> {
        match (frame.manner.get(), frame.op) {
            (_, Op::RecvBundle { fd, .. }) => Some(self.bundle_entry(fd)),
            (Manner::ZeroCopy, _) if self.features.has(Feature::ZeroCopy) => {
                Some(sqe::zero_copy_entry(&frame.op))
            }
            (Manner::Registered(number), Op::Read { fd, buf, len, offset }) => {
                let read = opcode::ReadFixed::new(Fd(fd), buf, len.min(MAX_LEN), number);
                Some(read.offset(offset).build())
            }
            (Manner::Registered(number), Op::Write { fd, buf, len, offset }) => {
                let write = opcode::WriteFixed::new(Fd(fd), buf, len.min(MAX_LEN), number);
                Some(write.offset(offset).build())
            }
            _ => None,
        }
    }

    /// Whether one completion may report several filled buffers of this size.
    pub(super) fn is_bundled(&self, size: Size) -> bool {
        let has = |feature| self.features.has(feature);
        size == bundle::SIZE && has(Feature::Bundle) && has(Feature::IncrementalBuffers)
    }

    /// Queues the entries that the reaper has noted: ops to retry, and the eventfd's next read.
    pub(super) fn push_noted(&mut self) {
        if let Some(read) = self.reaper.wakes.read_to_arm() {
            self.push(&read);
        }
        while let Some(frame) = self.reaper.retries.pop() {
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
            let frame = unsafe { frame.as_ref() };
            self.hand_over_again(frame);
        }
        if self.reaper.cancels.have_missed() {
            self.cancel_again();
        }
        if self.reaper.multishots.are_used() {
            self.tend_multishots();
        }
    }

    fn hand_over_again(&mut self, frame: &OpFrame) {
        if frame.state.get() == OpState::ToAwait {
            frame.state.set(OpState::AwaitingReadiness);
            let user_data = ptr::from_ref(frame) as u64 | sqe::TAG_FRAME;
            self.push(&sqe::readiness_entry(&frame.op).user_data(user_data));
        } else {
            self.hand_over(frame, frame.op);
        }
        // The op's cancellation may have been requested in between. The request is queued behind
        // the op, so data that has arrived still comes first.
        if frame.cancel_asked.get() {
            self.push_cancel(frame);
        }
    }

    /// Wakes another driver, by a message if both are rings.
    pub(super) fn wake(&mut self, waker: &Waker) {
        let target = &waker.0;
        if self.reaper.wakes.is_own(target) {
            self.reaper.wakes.note_woken();
            return;
        }
        if !target.claim() {
            return;
        }
        let has_messages = self.features.has(Feature::MsgRing);
        let sent = has_messages && target.with_ring(|ring| self.send(ring, target));
        if !sent {
            target.notify();
        }
    }

    /// Sends a wake to another ring, and submits it at once.
    fn send(&mut self, ring: i32, target: &Arc<WakeTarget>) {
        let address = Arc::into_raw(Arc::clone(target)) as u64;
        debug_assert_eq!(address & sqe::TAG_BITS, 0);
        let message = opcode::MsgRingData::new(Fd(ring), 0, sqe::TAG_MESSAGE, None).build();
        self.reaper.messages += 1;
        self.push(&message.user_data(address | sqe::TAG_MESSAGE_SENT));
        self.flush();
    }
}
