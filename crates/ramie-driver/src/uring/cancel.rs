//! Asking that ops end, and closing descriptors for nobody.
//!
//! *The race to fear*: the kernel is just moving the op, from one wait to the next, when it looks
//! for it. It then says that there is none (`ENOENT`), as it does of an op that is complete, and
//! the op waits on. (Seen where a thread of the kernel enters, of a receive that waits for all
//! its bytes.) So after such an answer the op is asked for again, if it is still in flight; and
//! one that completes again and again counts as armed again. The answer tells the op's place.
//! Another that is to be cancelled may be there by now: it is asked for twice, which harms
//! nothing. Where frames have changed places meanwhile, all that are to be cancelled are asked
//! for.
#![allow(unsafe_code)]

use std::os::fd::{IntoRawFd, OwnedFd};

use io_uring::opcode;
use io_uring::types::Fd;

use rustix::io::Errno;

use super::{Uring, sqe};
use crate::op::{OpFrame, State};

const NOT_FOUND: i32 = -Errno::NOENT.raw_os_error();

impl Uring {
    pub(crate) fn cancel(&mut self, frame: &OpFrame) {
        self.asked += 1;
        // What waits for its retry is not in the kernel: the request follows it there.
        if !matches!(frame.state.get(), State::ToRetry | State::ToAwait) {
            self.push_cancel(frame);
        }
    }

    pub(super) fn push_cancel(&mut self, frame: &OpFrame) {
        let target = std::ptr::from_ref(frame) as u64 | sqe::TAG_FRAME;
        let answer = sqe::of_cancel(frame.place.get(), self.frames.changes());
        self.push(&opcode::AsyncCancel::new(target).build().user_data(answer));
    }

    /// What the kernel has said of a request to cancel an op, by the request's user data.
    pub(super) fn note_cancel(&mut self, user_data: u64, result: i32) {
        if result != NOT_FOUND {
            return;
        }
        if let Some(place) = sqe::cancelled(user_data) {
            let has_moved = user_data != sqe::of_cancel(place, self.frames.changes());
            let is_to_ask = self.asked > 0 && (has_moved || self.frame_to_ask_for(place).is_some());
            if is_to_ask {
                self.missed = true;
                self.requests_missed.push(user_data);
            }
        } else if let Some(index) = sqe::leaving(user_data) {
            self.missed |= self.multishots.note_missed(index);
        }
    }

    /// What is to be cancelled and still in the kernel, if it is in that place.
    fn frame_to_ask_for(&self, place: u32) -> Option<*const OpFrame> {
        let frame = self.frames.at(place as usize)?;
        // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
        let op = unsafe { &*frame };
        let is_found = matches!(op.state.get(), State::InFlight | State::AwaitingReadiness);
        (op.cancel_asked.get() && is_found).then_some(frame)
    }

    /// Asks again for what the kernel has not found.
    #[cold]
    pub(super) fn cancel_again(&mut self) {
        self.missed = false;
        for request in std::mem::take(&mut self.requests_missed) {
            let place = sqe::cancelled(request).unwrap_or_default();
            if request != sqe::of_cancel(place, self.frames.changes()) {
                // Seldom, and then there are not many places.
                return (0..self.frames.places() as u32).rev().for_each(|at| self.ask_again(at));
            }
            self.ask_again(place);
        }
    }

    fn ask_again(&mut self, place: u32) {
        if let Some(frame) = self.frame_to_ask_for(place) {
            // SAFETY: a frame in flight is alive (contract of `Driver::submit`).
            self.push_cancel(unsafe { &*frame });
        }
    }

    /// Cancels what is meant, and tells how many that are.
    pub(crate) fn cancel_all(&mut self, is_meant: impl Fn(&OpFrame) -> bool) -> usize {
        let mut count = 0;
        // By place, and from the last, as `push_cancel_all`.
        for place in (0..self.frames.places()).rev() {
            let Some(frame) = self.frames.at(place) else { continue };
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

    pub(crate) fn close_later(&mut self, fd: OwnedFd) {
        let fd = fd.into_raw_fd();
        self.closing += 1;
        let user_data = (fd as u64) << sqe::CLOSE_SHIFT | sqe::TAG_CLOSE;
        self.push(&opcode::Close::new(Fd(fd)).build().user_data(user_data));
    }

    pub(super) fn push_cancel_all(&mut self) {
        // By place, since pushing may complete some of them; from the last, since those that are
        // left may then move to earlier places.
        for place in (0..self.frames.places()).rev() {
            if let Some(frame) = self.frames.at(place) {
                let cancel = opcode::AsyncCancel::new(frame as u64 | sqe::TAG_FRAME).build();
                self.push(&cancel.user_data(sqe::TAG_IGNORE));
            }
        }
    }
}
