//! The drain: cancels all ops in flight and waits for their last completions.
#![allow(unsafe_code)]

use std::time::Duration;

use io_uring::opcode;
use rustix::io::Errno;

use super::counts::RingCounts;
use super::parting::{self, Prospect};
use super::ring::Ring;
use super::{Uring, sqe};
use crate::backend::Wait;
use crate::submitter::Submitter;

/// The time after which the drain repeats its cancel requests.
const DRAIN_ROUND: Duration = Duration::from_millis(20);
/// The number of rounds without a completion, together a second, after which the drain no longer
/// waits for peers to read the bytes of zero-copy sends.
const MOST_STILL_ROUNDS: u32 = 50;

impl Ring {
    pub(super) fn drain(&mut self) {
        self.reaper.is_draining = true;
        let (mut left, mut still) = (usize::MAX, 0);
        self.push_cancel_all();
        self.stop_all_multishots();
        while self.reaper.left() > 0 {
            while let Some(frame) = self.reaper.retries.pop() {
                // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
                let frame = unsafe { frame.as_ref() };
                self.reaper.finish(frame, -Errno::CANCELED.raw_os_error());
            }
            let before = self.reaper.left();
            if before >= left {
                // No op has completed. The kernel may not have found ops that it was moving at that
                // moment.
                still += 1;
                if still >= MOST_STILL_ROUNDS {
                    self.reaper.forget_unreleased();
                }
                self.push_cancel_all();
                self.stop_all_multishots();
            }
            left = before;
            self.wait_or_die(Wait::Until(Some(DRAIN_ROUND)));
        }
        self.reaper.is_draining = false;
    }

    /// Cancels the read of the eventfd and waits for its completion.
    fn end_wakes(&mut self) {
        while self.reaper.wakes.is_armed() {
            let cancel = opcode::AsyncCancel::new(sqe::TAG_WAKE).build();
            self.push(&cancel.user_data(sqe::TAG_IGNORE));
            self.wait_or_die(Wait::Until(Some(DRAIN_ROUND)));
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.ring.reaper.wakes.target.close_ring();
        self.ring.drain();
        self.ring.queue.end_submitter_thread();
        self.ring.end_wakes();
        let Ring { queue, reaper, .. } = &mut self.ring;
        self.files.close(&queue.ring);
        reaper.buffers.groups.close(&queue.ring);
        self.regions.close(&queue.ring);
        let prospect = Prospect {
            // A kernel thread would continue to poll a parked ring.
            may_park: !matches!(self.caps.submitter, Submitter::KernelThread { .. }),
            thread_goes_on: self.thread_goes_on,
        };
        self.parting = parting::part(&queue.ring, &mut queue.registered_ring, prospect);
        RingCounts::retire(&queue.counts);
    }
}
