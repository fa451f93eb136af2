//! Accepting, by one who may be cancelled and beside others who do the same.
//!
//! *The races to fear*: the kernel wakes one of those who wait for a connection, and that one's
//! wait has just been ended from outside. It may be another strand of this process, or another
//! process. And: a multishot op accepts a connection, and its strand does not come back for it,
//! while another strand waits in the kernel. So no multishot op begins as long as a strand waits in
//! the kernel.

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
        // A connection that arrives while it waits goes to it, and not to the inbox.
        let home = self.home();
        let _waiting = home.take_one_by_one();
        if home.is_in_use()
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
            // Another strand may take the connection in between; a call that would wait then
            // returns at once.
            deadline = Deadline::after(Duration::ZERO);
        }
        match ring::accept_op(self.as_fd(), deadline) {
            Ok((fd, address)) => Ok((Socket::from(fd), address)),
            Err(OpError::Elapsed) => Err(sys::Errno::AGAIN.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Accepts from a listener of several processes.
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
                // The error of a waiting listener that was shut down.
                return Err(sys::Errno::INVAL.into());
            }
            readiness.wait(&ACCEPT, self.named(), sys::POLL_IN, Deadline::NEVER)?;
        }
    }
}
