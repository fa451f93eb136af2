//! Sends that do not copy.
#![allow(unsafe_code)]

use std::{
    io::{self, IoSlice},
    os::fd::{AsFd, AsRawFd},
};

use ramie_driver::{Op, OpFrame, sys};

use super::socket::{Half, Socket, data_result};
use crate::{
    op::{self, OpError},
    ring::socket::{SEND, header_of},
};

/// The least number of bytes to send without copying, because for fewer, pinning their pages and
/// waiting for the peer costs more than a copy. (Over loopback, where the kernel copies
/// nevertheless, 16 KiB take 29 us of CPU instead of 6, 64 KiB 36 instead of 29, 256 KiB the same.)
const ZERO_COPY_FROM: usize = 64 << 10;

impl Socket {
    /// Sends without copying if the kernel can and the data is large enough.
    #[track_caller]
    pub(crate) fn send_zero_copy(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let header = header_of(buffers);
        let bytes: usize = buffers.iter().take(header.iov_len).map(|buffer| buffer.len()).sum();
        if bytes < ZERO_COPY_FROM {
            return self.write_vectored(buffers);
        }
        let flags = self.flags(sys::MSG_NOSIGNAL);
        let fd = self.as_fd().as_raw_fd();
        let frame = OpFrame::new(Op::SendMessage { fd, message: &raw const header, flags });
        // SAFETY: the buffers are borrowed for the length of this call, and the header lies in its
        // frame.
        let sent = unsafe {
            op::request_frame(&SEND, frame.zero_copy()).until(self.deadline(Half::Write)).perform()
        };
        match sent {
            // A socket of this kind always copies.
            Err(OpError::Errno(errno)) if errno == sys::Errno::OPNOTSUPP.raw_os_error() => {
                self.write_vectored(buffers)
            }
            sent => data_result(sent),
        }
    }
}
