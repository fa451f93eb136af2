//! The stream of a WebSocket, and the handles that send over it from other fibers.
//!
//! # Protocol
//! tungstenite hands whole frames to a write, and a [`WebSocketSender`] makes whole frames. Each
//! write holds one lock until the kernel has taken all its bytes, so frames are never mixed. Once a
//! close frame was sent, the lock's flag refuses the messages of senders, as RFC 6455 demands.
//!
//! A write that fails may have sent a part of a frame, behind which nothing can follow. So the
//! stream is shut down, and its reader sees the end.
//!
//! Senders have a weak reference to the stream, so that they do not keep a connection open that has
//! ended.

use std::{
    fmt,
    io::{self, Read, Write},
    sync::{Arc, Weak},
};

use ramie::sync::{Mutex, MutexGuard, PoisonError};
use tungstenite::{
    Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

use crate::{connection::Upgraded, io::Duplex};

/// Serializes writes.
#[derive(Clone, Default)]
pub(super) struct Writing(Arc<Mutex<IsOver>>);

#[derive(Default)]
struct IsOver(bool);

impl Writing {
    fn lock(&self) -> MutexGuard<'_, IsOver> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses the messages of senders from now on.
    pub(super) fn end(&self) {
        self.lock().0 = true;
    }
}

impl IsOver {
    fn send(&mut self, stream: &dyn Duplex, frames: &[u8]) -> io::Result<()> {
        stream.write_all(frames).inspect_err(|_| {
            self.0 = true;
            stream.cut();
        })
    }
}

/// A stream whose writes are not mixed with those of senders.
pub(super) struct SharedStream {
    pub(super) stream: Upgraded,
    pub(super) writing: Writing,
    /// A stop of the server no longer ends reads, because the client is told already.
    pub(super) has_left: bool,
}

impl Read for SharedStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.has_left {
            true => self.stream.read(buf),
            false => self.stream.read_until_stop(buf),
        }
    }
}

impl Write for SharedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut writing = self.writing.lock();
        writing.send(&**self.stream.stream(), bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends messages over a [`WebSocket`](super::WebSocket) from any fiber, also while the socket
/// reads.
///
/// # Examples
/// ```
/// use std::io;
/// use ramie::{channel::Receiver, structured::race};
/// use ramie_http::websocket::WebSocket;
///
/// /// Sends what arrives on a channel, and ignores what the client says.
/// fn feed(mut socket: WebSocket, news: Receiver<String>) -> io::Result<()> {
///     let sender = socket.sender();
///     // When the client is gone, the race cancels the wait for news.
///     let ended = race(|racers| {
///         racers.spawn(|| news.iter().try_for_each(|text| sender.send(text)));
///         racers.spawn(move || {
///             while socket.read()?.is_some() {}
///             Ok(())
///         });
///     });
///     ended.expect("two strands")
/// }
/// ```
#[derive(Clone)]
pub struct WebSocketSender {
    stream: Weak<dyn Duplex>,
    writing: Writing,
}

impl WebSocketSender {
    pub(super) fn new(shared: &SharedStream) -> Self {
        let stream = Arc::downgrade(shared.stream.stream());
        WebSocketSender { stream, writing: shared.writing.clone() }
    }

    /// Sends a message.
    ///
    /// # Blocking
    /// Parks the fiber until the kernel has taken the whole message.
    ///
    /// # Cancellation
    /// A cancel point. If the message was sent in part, the connection is of no more use, and is
    /// closed.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] if the connection has ended or is about to;
    /// [`io::ErrorKind::WouldBlock`] if the client takes no bytes for the idle timeout;
    /// [`io::ErrorKind::InvalidInput`] if the message is neither text nor binary; otherwise those
    /// of the stream.
    pub fn send(&self, message: impl Into<Message>) -> io::Result<()> {
        let frame = encoded(message.into())?;
        let Some(stream) = self.stream.upgrade() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut writing = self.writing.lock();
        if writing.0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        writing.send(&*stream, &frame)
    }
}

fn encoded(message: Message) -> io::Result<Vec<u8>> {
    let code = match &message {
        Message::Text(_) => OpCode::Data(Data::Text),
        Message::Binary(_) => OpCode::Data(Data::Binary),
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a sender sends text and binary messages only",
            ));
        }
    };
    let frame = Frame::message(message.into_data(), code, true);
    let mut bytes = Vec::with_capacity(frame.len());
    frame.format(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

impl fmt::Debug for WebSocketSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketSender").finish_non_exhaustive()
    }
}
