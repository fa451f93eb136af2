//! `Expect: 100-continue`: the client waits for `100 Continue` before it sends the body.
//!
//! | state | left when | for |
//! |---|---|---|
//! | open | a read of the body has to wait for the client, and 100 is sent | closed |
//! | open | the sending fails, for example because the handler was cancelled | broken |
//! | open | the response begins, and nobody holds the body: 100 is not sent | closed |
//! | open | the response begins, and somebody holds the body and may read it: 100 is sent | closed |
//! | closed, broken | | |
//!
//! Where it is broken, the client may never send the body, so the next request cannot be found.
//!
//! *The race to fear*: a strand reads the body while the connection begins the response, so that
//! 100 comes within it. The state is behind a lock that is held while 100 is written.

use std::{io, time::Duration};

use ramie::sync::{Mutex, PoisonError};

use crate::io::Stream;

/// How long the client may leave no room for `100 Continue`.
const PATIENCE: Duration = Duration::from_secs(10);
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Whether the client of one request still waits for `100 Continue`.
pub(super) struct Expectation {
    state: Mutex<ContinueState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ContinueState {
    Open,
    Closed,
    Broken,
}

impl Expectation {
    pub(super) fn open() -> Self {
        Expectation { state: Mutex::new(ContinueState::Open) }
    }

    /// Sends `100 Continue` if the client still waits for it.
    pub(super) fn fulfil(&self, stream: &Stream) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            ContinueState::Open => {}
            ContinueState::Closed => return Ok(()),
            ContinueState::Broken => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        // Until it is sent as a whole.
        *state = ContinueState::Broken;
        // It waits only for a client that takes no responses, and then also stops others that need
        // the lock.
        ramie::cancel::try_with_timeout(PATIENCE, || stream.write_all(CONTINUE))?;
        *state = ContinueState::Closed;
        Ok(())
    }

    /// Does not send it from now on. Returns whether the client may still wait.
    pub(super) fn close(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let may_wait = *state != ContinueState::Closed;
        if may_wait {
            *state = ContinueState::Broken;
        }
        may_wait
    }
}
