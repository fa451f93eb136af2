//! Requests to cancel ops, and closes for which no op waits.
//!
//! *The race to fear*: the kernel searches for the op while it moves the op from one wait to the
//! next. It then answers that there is no such op (`ENOENT`), as it does for a complete op, and the
//! op continues to wait. (This was seen with a kernel thread as submitter, for a receive that waits
//! for all its bytes.) So after such an answer the request is repeated if the op is still in
//! flight, and a multishot op counts as armed again. The answer names the op's index. If another
//! cancelled op has that index by now, its cancellation is requested twice, which does no harm. If
//! the indices of frames have changed meanwhile, the requests for all cancelled frames are
//! repeated.
#![allow(unsafe_code)]

use std::os::fd::{IntoRawFd, OwnedFd};

use io_uring::opcode;
use io_uring::types::Fd;
use rustix::io::Errno;

use super::reap::Reaper;
use super::ring::Ring;
use super::sqe;
use crate::op::{OpFrame, OpState};

const NOT_FOUND: i32 = -Errno::NOENT.raw_os_error();

/// The requests to cancel ops of frames.
#[derive(Default)]
pub(super) struct Cancels {
    /// The number of ops in flight whose cancellation was requested.
    asked: usize,
    /// Whether the kernel has not found an op whose cancellation was requested.
    has_missed: bool,
    /// The user data of requests whose op was not found, without those of multishot ops.
    missed: Vec<u64>,
}

impl Cancels {
    pub(super) fn note_asked(&mut self) {
        self.asked += 1;
    }

    #[inline]
    pub(super) fn note_end(&mut self, frame: &OpFrame) {
        self.asked -= usize::from(frame.cancel_asked.get());
    }

    /// Whether some requests must be repeated.
    #[inline]
    pub(super) fn have_missed(&self) -> bool {
        self.has_missed
    }

    fn note_missed(&mut self, request: u64) {
        self.has_missed = true;
        self.missed.push(request);
    }

    fn take_missed(&mut self) -> Vec<u64> {
        self.has_missed = false;
        std::mem::take(&mut self.missed)
    }
}

impl Reaper {
    /// Handles the kernel's answer to a request to cancel an op, which the user data identifies.
    pub(super) fn note_answer_to_cancel(&mut self, user_data: u64, result: i32) {
        if result != NOT_FOUND {
            return;
        }
        if let Some(index) = sqe::cancelled(user_data) {
            let changes = self.in_flight.changes();
            let has_moved = user_data != sqe::of_cancel(index, changes);
            let is_to_ask =
                self.cancels.asked > 0 && (has_moved || self.frame_to_ask_for(index).is_some());
            if is_to_ask {
                self.cancels.note_missed(user_data);
            }
        } else if let Some(index) = sqe::leaving(user_data) {
            self.cancels.has_missed |= self.multishots.note_missed(index);
        }
    }

    /// Returns the frame at that index if its cancellation was requested and the op is still in
    /// flight.
    fn frame_to_ask_for(&self, index: u32) -> Option<*const OpFrame> {
        let frame = self.in_flight.at(index as usize)?;
        // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
        let op = unsafe { &*frame };
        let is_found = matches!(op.state.get(), OpState::InFlight | OpState::AwaitingReadiness);
        (op.cancel_asked.get() && is_found).then_some(frame)
    }
}

impl Ring {
    pub(super) fn cancel(&mut self, frame: &OpFrame) {
        self.reaper.cancels.note_asked();
        // An op that waits to be submitted again is not in the kernel; the request follows when it
        // is.
        if !matches!(frame.state.get(), OpState::ToRetry | OpState::ToAwait) {
            self.push_cancel(frame);
        }
    }

    pub(super) fn push_cancel(&mut self, frame: &OpFrame) {
        let target = std::ptr::from_ref(frame) as u64 | sqe::TAG_FRAME;
        let answer = sqe::of_cancel(frame.in_flight_index.get(), self.reaper.in_flight.changes());
        self.push(&opcode::AsyncCancel::new(target).build().user_data(answer));
    }

    /// Repeats the requests for the ops that the kernel has not found.
    #[cold]
    pub(super) fn cancel_again(&mut self) {
        for request in self.reaper.cancels.take_missed() {
            let index = sqe::cancelled(request).unwrap_or_default();
            if request != sqe::of_cancel(index, self.reaper.in_flight.changes()) {
                // All indices. This is rare, and the table is short then, because it has just been
                // made smaller.
                let indices = 0..self.reaper.in_flight.table_len() as u32;
                return indices.rev().for_each(|at| self.ask_again(at));
            }
            self.ask_again(index);
        }
    }

    fn ask_again(&mut self, index: u32) {
        if let Some(frame) = self.reaper.frame_to_ask_for(index) {
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
            self.push_cancel(unsafe { &*frame });
        }
    }

    /// Requests the cancellation of every op for which `is_meant` returns true, and returns their
    /// number.
    pub(super) fn cancel_all(&mut self, is_meant: impl Fn(&OpFrame) -> bool) -> usize {
        let mut count = 0;
        // By index and from the last one, for the reason given in `push_cancel_all`.
        for index in (0..self.reaper.in_flight.table_len()).rev() {
            let Some(frame) = self.reaper.in_flight.at(index) else { continue };
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
            let frame = unsafe { &*frame };
            if is_meant(frame) {
                count += 1;
                if !frame.cancel_asked.replace(true) {
                    self.cancel(frame);
                }
            }
        }
        count
    }

    pub(super) fn close_later(&mut self, fd: OwnedFd) {
        let fd = fd.into_raw_fd();
        self.reaper.closing += 1;
        let user_data = (fd as u64) << sqe::CLOSE_SHIFT | sqe::TAG_CLOSE;
        self.push(&opcode::Close::new(Fd(fd)).build().user_data(user_data));
    }

    pub(super) fn push_cancel_all(&mut self) {
        // By index, because a push may complete some of the ops; from the last one, because the
        // remaining frames may then move to lower indices.
        for index in (0..self.reaper.in_flight.table_len()).rev() {
            if let Some(frame) = self.reaper.in_flight.at(index) {
                let cancel = opcode::AsyncCancel::new(frame as u64 | sqe::TAG_FRAME).build();
                self.push(&cancel.user_data(sqe::TAG_IGNORE));
            }
        }
    }
}
