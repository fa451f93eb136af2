//! Accepting connections, on a strand that may be cancelled and beside others that accept from the
//! same listener.
//!
//! *The races to fear*: the kernel wakes one waiter for a connection. If the wait of that waiter
//! was just ended from outside, another strand or process might sleep beside the connection. And if
//! a multishot op accepts a connection that its strand never takes, another strand that waits in
//! the kernel misses that connection. So no multishot op begins as long as a strand waits in the
//! kernel.

use std::{io, os::fd::AsFd, time::Duration};

use ramie_driver::sys;

use super::socket::{Address, Socket};
use crate::{
    core::{cancel, time::Deadline, worker},
    op::{OpError, readiness::Readiness},
    ring::{socket as ring, socket::ACCEPT},
};

impl Socket {
    #[track_caller]
    pub(crate) fn accept(&self) -> io::Result<(Socket, Address)> {
        // A connection that arrives while this strand waits goes to this strand, and not to the
        // inbox.
        let inbox = self.inbox();
        let _waiting = inbox.take_one_by_one();
        if inbox.is_in_use()
            && let Some(fd) = self.accept_leftover(inbox)?
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
            // Another strand may take the connection in between, so this call must return at once
            // where it would wait.
            deadline = Deadline::after(Duration::ZERO);
        }
        match ring::accept_op(self.as_fd(), deadline) {
            Ok((fd, address)) => Ok((Socket::from(fd), address)),
            Err(OpError::Elapsed) => Err(sys::Errno::AGAIN.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Accepts from a listener that several processes share.
    #[track_caller]
    fn accept_in_competition(&self) -> io::Result<(Socket, Address)> {
        let mut readiness = Readiness::of_race();
        loop {
            let has_ended = readiness.is_end(self);
            match sys::accept(self) {
                Ok((fd, _)) => {
                    worker::note_complete_at_once();
                    let peer = Address::of_peer(&fd)?;
                    return Ok((Socket::from(fd), peer));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.is_nonblocking() {
                return Err(sys::Errno::AGAIN.into());
            }
            if has_ended {
                // The error of an accept that waits while the listener is shut down.
                return Err(sys::Errno::INVAL.into());
            }
            readiness.wait(&ACCEPT, self.named(), sys::POLL_IN, Deadline::NEVER)?;
        }
    }
}
