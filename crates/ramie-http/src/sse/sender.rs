//! The sending end of a stream of events.

use std::{fmt, io};

use ramie::channel::{SendError, Sender, TrySendError};

use super::{SseEvent, forward::cancelled};

/// Sends the events of an [`Sse`](super::Sse). Clones send to the same client.
#[derive(Clone)]
pub struct SseSender {
    sender: Sender<String>,
}

impl SseSender {
    pub(super) fn new(sender: Sender<String>) -> Self {
        SseSender { sender }
    }

    /// Sends an event. An event may be lost after this returns, if the client goes away.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one, while 16 events wait for the client.
    ///
    /// # Cancellation
    /// A cancel point. A cancelled event is not sent.
    ///
    /// # Errors
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe): the client is gone, or the response was dropped.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput): the name or the id of the event has a line
    /// end, or the id has a NUL. That of the cancellation.
    pub fn send(&self, event: impl Into<SseEvent>) -> io::Result<()> {
        let text = event.into().encode()?;
        self.sender.send(text).map_err(|error| match error {
            SendError::Cancelled(_) => cancelled(),
            SendError::Disconnected(_) => gone(),
        })
    }

    /// Sends an event if there is room for it. So one slow client of many does not delay the
    /// others.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock): 16 events wait for the client. Otherwise as
    /// [`send`](Self::send).
    pub fn try_send(&self, event: impl Into<SseEvent>) -> io::Result<()> {
        let text = event.into().encode()?;
        self.sender.try_send(text).map_err(|error| match error {
            TrySendError::Full(_) => io::ErrorKind::WouldBlock.into(),
            TrySendError::Disconnected(_) => gone(),
        })
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the client of the events is gone")
}

impl fmt::Debug for SseSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseSender").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sse::{ROOM, Sse};

    #[test]
    fn a_full_channel_and_a_dropped_response_are_told_apart() {
        let (sender, events) = Sse::channel();
        (0..ROOM).for_each(|_| sender.try_send("event").unwrap());
        assert_eq!(sender.try_send("event").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(events);
        assert_eq!(sender.try_send("event").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(sender.send("event").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
