//! The result of a receive whose timeout has passed.
//!
//! The result is `WouldBlock`, except in two cases. In both, recv(2) would return 0, whereas a
//! cancelled op reports only that it was cancelled:
//!
//! - The socket was shut down for reading. An op tries a datagram socket without waiting, which
//!   fails with `EAGAIN` although the socket is ready for reading. A ring repeats that more than a
//!   hundred times before a thread of the kernel makes a call that returns the end. A timeout of a
//!   few milliseconds may pass before that.
//! - The socket is a TCP socket, and the buffer has no room: the kernel waits once, and then
//!   returns 0 without looking for bytes.

use std::io;

use ramie_driver::sys;

use super::socket::{Socket, data_result};
use crate::{
    core::{cancel, time::Deadline},
    op::OpError,
    ring::socket as ring,
};

impl Socket {
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(super) fn receive_late(&self, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
        if sys::is_shut_down_for_reading(self) {
            let flags = flags | sys::MSG_DONTWAIT;
            let name = self.named();
            let received = last(|| ring::receive_op(name, buffer, flags, Deadline::NEVER));
            return Ok(received?.unwrap_or(0));
        }
        if buffer.is_empty() && sys::is_tcp(self) {
            return Ok(0);
        }
        Err(sys::Errno::AGAIN.into())
    }
}

/// Receives the data that came before the socket was shut down, if there is any.
#[track_caller]
pub(super) fn last(receive: impl FnOnce() -> Result<u32, OpError>) -> io::Result<Option<usize>> {
    match cancel::shield(receive) {
        Err(OpError::Errno(errno)) if errno == sys::Errno::AGAIN.raw_os_error() => Ok(None),
        result => data_result(result).map(Some),
    }
}
