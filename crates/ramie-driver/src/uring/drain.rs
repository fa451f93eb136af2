//! Ending what is in flight, to the last completion.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use io_uring::opcode;
use rustix::io::Errno;

use super::parting::{self, Prospect};
use super::{ENTERED_BY_THE_DEAD, Uring, sqe};
use crate::backend::Wait;
use crate::submitter::Submitter;
use crate::sys;

/// How long `drain` waits before it asks again.
const DRAIN_ROUND: Duration = Duration::from_millis(20);
/// After so many rounds, a second, bytes that a peer does not take are no reason to wait.
const MOST_STILL_ROUNDS: u32 = 50;

impl Uring {
    pub(crate) fn drain(&mut self) {
        self.draining = true;
        let (mut left, mut still) = (usize::MAX, 0);
        self.push_cancel_all();
        self.stop_all_multishots();
        while self.left() > 0 {
            while let Some(frame) = self.retries.pop() {
                // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
                let frame = unsafe { frame.as_ref() };
                self.finish(frame, -Errno::CANCELED.raw_os_error());
            }
            let before = self.left();
            if before >= left {
                // Nothing moves: the kernel may have missed what it was just moving itself.
                still += 1;
                if still >= MOST_STILL_ROUNDS {
                    self.forget_unreleased();
                }
                self.push_cancel_all();
                self.stop_all_multishots();
            }
            left = before;
            self.wait_or_die(Wait::Until(Some(DRAIN_ROUND)));
        }
        self.draining = false;
    }

    /// What the kernel is to give back before the ring may go.
    fn left(&self) -> usize {
        self.in_flight() + self.messages + self.closing + self.multishots.armed()
    }

    pub(super) fn wait_or_die(&mut self, wait: Wait) {
        if let Err(error) = self.enter(wait) {
            sys::fatal(&format!("ops in flight cannot be waited for ({error})"));
        }
        self.reap();
        while self.overflowed() {
            if let Err(error) = self.enter(Wait::Never) {
                sys::fatal(&format!("ops in flight cannot be waited for ({error})"));
            }
            self.reap();
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.target.close_ring();
        self.drain();
        self.end_submitter_thread();
        while self.wake_armed {
            let cancel = opcode::AsyncCancel::new(sqe::TAG_WAKE).build();
            self.push(&cancel.user_data(sqe::TAG_IGNORE));
            self.wait_or_die(Wait::Until(Some(DRAIN_ROUND)));
        }
        self.files.close(&self.ring);
        self.groups.close(&self.ring);
        self.regions.close(&self.ring);
        let prospect = Prospect {
            // A thread of the kernel would go on to look for its entries.
            may_park: !matches!(self.caps.submitter, Submitter::KernelThread { .. }),
            thread_goes_on: self.thread_goes_on,
        };
        self.parting = parting::part(&self.ring, &mut self.registered_ring, prospect);
        ENTERED_BY_THE_DEAD.fetch_add(self.entered, Ordering::Relaxed);
    }
}
