//! Asking that many ops end, and closing descriptors for nobody.
#![allow(unsafe_code)]

use std::os::fd::{IntoRawFd, OwnedFd};

use io_uring::opcode;
use io_uring::types::Fd;

use super::{Uring, sqe};
use crate::op::OpFrame;

impl Uring {
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
