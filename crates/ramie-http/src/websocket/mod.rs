//! WebSocket, by tungstenite: messages in both directions over a connection of HTTP/1.1, or over a
//! stream of HTTP/2 (RFC 8441, with the feature `http2`).
//!
//! # Examples
//! ```
//! use ramie_http::{Response, Router, get, websocket::{WebSocket, WebSocketUpgrade}};
//!
//! fn echo(mut socket: WebSocket) -> std::io::Result<()> {
//!     while let Some(message) = socket.read()? {
//!         socket.send(message)?;
//!     }
//!     Ok(())
//! }
//!
//! let upgrade = |upgrade: WebSocketUpgrade| -> Response { upgrade.on_upgrade(echo) };
//! let router = Router::new().route("/echo", get(upgrade));
//! # let response = router.call(ramie_http::Request::get("/echo"));
//! # assert_eq!(response.status(), 426);
//! ```
//!
//! # Compression
//! Messages are not compressed: the server declines `permessage-deflate` (RFC 7692), because
//! tungstenite does not have it.

#[cfg(test)]
mod fuzz;
mod stream;
mod upgrade;

use std::{fmt, io, time::Duration};

use ramie::cancel;
pub use tungstenite::{
    Bytes, Message, Utf8Bytes,
    protocol::{CloseFrame, frame::coding::CloseCode},
};
use tungstenite::{
    Error,
    protocol::{Role, WebSocket as Protocol, WebSocketConfig},
};

use self::stream::{SharedStream, Writing};
pub use self::{
    stream::WebSocketSender,
    upgrade::{UpgradeRefusal, WebSocketUpgrade},
};
use crate::{body::is_timeout, connection::Upgraded};

/// How long the client may take to answer a close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that speaks WebSocket, on the fiber of the connection.
///
/// Pings are answered while [`read`](Self::read) waits, and a client that is silent for half of the
/// idle timeout gets one. Dropping the socket closes the connection; the client then sees no close
/// frame, unless [`close`](Self::close) was called.
///
/// When the server stops, the next [`read`](Self::read), or the one that waits, closes the
/// connection with 1001.
///
/// A handler that neither reads nor sends does not learn that its client is gone, nor that the
/// server stops, until the period of [`Server::grace`](crate::Server::grace) is over and its waits
/// are cancelled. [`Limits::request_timeout`](crate::Limits::request_timeout) does not apply. So a
/// handler that mostly sends reads here, and sends from another fiber ([`sender`](Self::sender)).
pub struct WebSocket {
    protocol: Protocol<SharedStream>,
    subprotocol: Option<String>,
    idle_timeout: Duration,
    /// A ping was sent, and nothing has arrived since.
    is_asked: bool,
}

impl WebSocket {
    fn new(
        stream: Upgraded,
        config: WebSocketConfig,
        subprotocol: Option<String>,
        idle_timeout: Duration,
    ) -> io::Result<Self> {
        stream.set_read_timeout(Some(idle_timeout / 2))?;
        stream.set_write_timeout(Some(idle_timeout))?;
        let shared = SharedStream { stream, writing: Writing::default(), has_left: false };
        let protocol = Protocol::from_raw_socket(shared, Role::Server, Some(config));
        Ok(WebSocket { protocol, subprotocol, idle_timeout, is_asked: false })
    }

    /// The subprotocol that both sides have chosen.
    pub fn subprotocol(&self) -> Option<&str> {
        self.subprotocol.as_deref()
    }

    /// A handle that sends messages from other fibers, also while this socket reads.
    pub fn sender(&self) -> WebSocketSender {
        WebSocketSender::new(self.protocol.get_ref())
    }

    /// Waits for the next message, text or binary. None: the client has closed the connection, and
    /// got its answer; or the server stops, and the client was told (close 1001).
    ///
    /// # Blocking
    /// Parks the fiber until a message has arrived.
    ///
    /// # Cancellation
    /// A cancel point. The part of a message that has arrived stays, so the next call goes on.
    ///
    /// # Errors
    /// - [`io::ErrorKind::TimedOut`]: the client was silent for the idle timeout, or takes no
    ///   bytes.
    /// - [`io::ErrorKind::InvalidData`]: it breaks the protocol or a limit; it was told by a close
    ///   frame.
    /// - [`io::ErrorKind::UnexpectedEof`]: the stream ended without a close frame.
    /// - Others: those of the stream.
    pub fn read(&mut self) -> io::Result<Option<Message>> {
        while !self.protocol.get_ref().has_left {
            match self.protocol.read() {
                Ok(message @ (Message::Text(_) | Message::Binary(_))) => {
                    self.is_asked = false;
                    return Ok(Some(message));
                }
                // tungstenite answers it in the next read, which then fails.
                Ok(Message::Close(_)) => self.protocol.get_ref().writing.end(),
                // Pings are answered by tungstenite, too.
                Ok(_) => self.is_asked = false,
                Err(Error::ConnectionClosed | Error::AlreadyClosed) => return Ok(None),
                Err(Error::Io(error)) if is_timeout(&error) => self.ask_silent_client()?,
                Err(Error::Io(error)) if self.is_stop(&error) => {
                    self.protocol.get_mut().has_left = true;
                    self.say_goodbye(CloseCode::Away, "")?;
                }
                Err(error) => return Err(self.refuse(error)),
            }
        }
        Ok(None)
    }

    /// Whether a read was cancelled because the server stops, and not by a scope of the program.
    fn is_stop(&self, error: &io::Error) -> bool {
        let is_stopping = self.protocol.get_ref().stream.is_stopping();
        is_stopping && cancel::is_cancelled(error) && cancel::check_cancelled().is_ok()
    }

    fn ask_silent_client(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_asked, true) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.protocol.send(Message::Ping(Bytes::new())).map_err(io_error)
    }

    /// Tells the client why the connection ends, if it is its fault.
    fn refuse(&mut self, error: Error) -> io::Error {
        let code = match &error {
            Error::Capacity(_) => CloseCode::Size,
            Error::Utf8(_) => CloseCode::Invalid,
            Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
                return io::ErrorKind::UnexpectedEof.into();
            }
            Error::Protocol(_) => CloseCode::Protocol,
            _ => return io_error(error),
        };
        self.protocol.get_ref().writing.end();
        let frame = CloseFrame { code, reason: Utf8Bytes::default() };
        // The error that counts is that of the client.
        let _ = self.protocol.close(Some(frame)).and_then(|()| self.protocol.flush());
        io_error(error)
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
    /// [`io::ErrorKind::TimedOut`] if the client takes no bytes for the idle timeout;
    /// [`io::ErrorKind::BrokenPipe`] behind a close; otherwise those of the stream.
    pub fn send(&mut self, message: impl Into<Message>) -> io::Result<()> {
        self.protocol.send(message.into()).map_err(io_error)
    }

    /// Closes the connection with a reason, and waits for the client's answer, for 5 seconds at
    /// most. Messages that arrive meanwhile are dropped.
    ///
    /// # Blocking
    /// Parks the fiber until then.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// Those of the stream. That the client has closed it already, or does not answer, is none.
    pub fn close(mut self, code: CloseCode, reason: &str) -> io::Result<()> {
        self.protocol.get_mut().has_left = true;
        self.say_goodbye(code, reason)
    }

    fn say_goodbye(&mut self, code: CloseCode, reason: &str) -> io::Result<()> {
        self.protocol.get_ref().writing.end();
        let frame = CloseFrame { code, reason: reason.into() };
        match self.protocol.close(Some(frame)).and_then(|()| self.protocol.flush()) {
            Ok(()) => {}
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => return Ok(()),
            Err(error) => return Err(io_error(error)),
        }
        let answered =
            cancel::with_timeout(CLOSE_TIMEOUT, || while self.protocol.read().is_ok() {});
        // Whatever has ended the reads: there is nothing more to be said.
        drop(answered);
        Ok(())
    }
}

fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io(error) if is_timeout(&error) => io::ErrorKind::TimedOut.into(),
        Error::Io(error) => error,
        Error::ConnectionClosed | Error::AlreadyClosed => io::ErrorKind::BrokenPipe.into(),
        Error::Protocol(tungstenite::error::ProtocolError::SendAfterClosing) => {
            io::ErrorKind::BrokenPipe.into()
        }
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("subprotocol", &self.subprotocol)
            .field("idle_timeout", &self.idle_timeout)
            .finish_non_exhaustive()
    }
}
