//! Accepting, by one who may be cancelled and beside others who do the same.
//!
//! *The race to fear*: the kernel wakes one of those who wait for a connection, and that one's wait
//! has just been ended from outside. It may be another strand of this process, or another process.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::Duration,
};

use ramie_driver::{Op, sys};

use super::socket::{Address, Socket};
use crate::{
    cancel,
    io_op::{self, OpError},
    ring::socket::{self as ring, ACCEPT},
    time::Deadline,
};

impl Socket {
    #[track_caller]
    pub(crate) fn accept(&self) -> io::Result<(Socket, Address)> {
        if let Some(home) = self.busy_home()
            && let Some(fd) = self.accept_early(home)?
        {
            let peer = Address::of_peer(&fd)?;
            return Ok((Socket::from(fd), peer));
        }
        cancel::check_io()?;
        if self.is_shared() {
            return self.accept_in_competition();
        }
        let mut deadline = Deadline::NEVER;
        if self.is_nonblocking() {
            if sys::poll_now(self, sys::POLL_IN)? == 0 {
                return Err(sys::Errno::AGAIN.into());
            }
            // Another may take the connection in between; what would wait then is over at once.
            deadline = Deadline::after(Duration::ZERO);
        }
        let accepted = match ring::accept_op(self.as_fd(), deadline) {
            Err(error @ (OpError::Elapsed | OpError::Cancelled)) => {
                self.accept_what_is_there().ok_or(error)
            }
            accepted => accepted,
        };
        match accepted {
            Ok((fd, address)) => Ok((Socket::from(fd), address)),
            Err(OpError::Elapsed) => Err(sys::Errno::AGAIN.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Accepts for a wait that was ended from outside. A connection wakes one of several waiters in
    /// the kernel; if that one was just being cancelled, the others sleep on.
    #[cold]
    #[track_caller]
    fn accept_what_is_there(&self) -> Option<(OwnedFd, Address)> {
        while sys::poll_now(self, sys::POLL_IN).is_ok_and(|events| events & sys::POLL_IN != 0) {
            let at_once = Deadline::after(Duration::ZERO);
            match cancel::shield(|| ring::accept_op(self.as_fd(), at_once)) {
                Ok(accepted) => return Some(accepted),
                // Another was faster.
                Err(OpError::Elapsed) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Accepts from a listener of several processes.
    #[track_caller]
    fn accept_in_competition(&self) -> io::Result<(Socket, Address)> {
        loop {
            match sys::accept(self) {
                Ok((fd, _)) => {
                    let peer = Address::of_peer(&fd)?;
                    return Ok((Socket::from(fd), peer));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.is_nonblocking() {
                return Err(sys::Errno::AGAIN.into());
            }
            let op = Op::Poll { fd: self.as_fd().as_raw_fd(), events: sys::POLL_IN };
            io_op::perform_pointing_nowhere(&ACCEPT, op, Deadline::NEVER)?;
        }
    }
}
