//! Connections that change to another protocol, such as WebSocket.

use std::{
    fmt,
    io::{self, IoSlice, Read, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::StatusCode;
use ramie::cancel::CancelHandle;

use super::{Asked, Ended, Http1, Presence, Step, fail, respond};
use crate::{
    body::Incoming,
    io::{Duplex, Input},
    response::Response,
};

/// What a connection does once its response 101 is sent; an extension of that response.
///
/// Over HTTP/2, a client asks for WebSocket by an extended CONNECT (RFC 8441), which handlers see
/// as a GET. A response 101 then opens the stream of the request, and the connection goes on.
#[derive(Clone)]
pub struct Upgrade(Arc<Mutex<Option<OnUpgrade>>>);

type OnUpgrade = Box<dyn FnOnce(Upgraded) + Send>;

impl Upgrade {
    /// Calls `f` with the stream, on the fiber of the connection, which is closed when `f` returns;
    /// over HTTP/2, on that of the request, whose stream is closed.
    pub fn new(f: impl FnOnce(Upgraded) + Send + 'static) -> Self {
        Upgrade(Arc::new(Mutex::new(Some(Box::new(f)))))
    }

    pub(crate) fn call(self, stream: Upgraded) {
        let f = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(f) = f {
            f(stream);
        }
    }
}

impl<P: Presence> Http1<'_, '_, P> {
    /// Changes to another protocol, which begins behind the body of the request, if the status of
    /// the response says so. Other statuses that are not final are refused.
    #[cold]
    #[inline(never)]
    pub(super) fn switch(
        &mut self,
        response: &mut Response,
        wants_upgrade: bool,
        mut lent: Option<&Incoming>,
        mut asked: Asked,
    ) -> io::Result<Step> {
        let upgrade = match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => response.extensions_mut().remove::<Upgrade>(),
            _ => None,
        };
        match upgrade.filter(|_| wants_upgrade) {
            Some(upgrade) => {
                let is_behind_body = match lent {
                    Some(lent) => self.take_body_back(lent, true)?,
                    None => true,
                };
                if is_behind_body {
                    respond::respond_any(&mut self.output, response, asked)?;
                    return Ok(Step::End(Ended::Upgraded(upgrade)));
                }
                log::error!("a handler has upgraded a request whose body it has not read");
                (lent, asked.stays) = (None, false);
            }
            None => {
                let status = response.status();
                log::error!("a handler answered {status}, which is no final status");
            }
        }
        fail(response);
        let stays = respond::respond_any(&mut self.output, response, asked)?;
        self.go_on(lent, stays)
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Upgrade").finish_non_exhaustive()
    }
}

/// The extension of a request for WebSocket that has come as an extended CONNECT of HTTP/2.
#[cfg(any(feature = "http2", feature = "websocket"))]
#[derive(Clone, Copy)]
pub(crate) struct ByConnect;

/// The stream of a connection that speaks another protocol from now on.
pub struct Upgraded {
    stream: Arc<dyn Duplex>,
    /// What the client has sent behind its request.
    input: Input,
    /// Cancelled when the server begins to stop.
    #[cfg_attr(not(feature = "websocket"), allow(dead_code, reason = "only WebSocket asks"))]
    until_stop: CancelHandle,
}

impl Upgraded {
    pub(crate) fn new(stream: Arc<dyn Duplex>, input: Input, until_stop: CancelHandle) -> Self {
        Upgraded { stream, input, until_stop }
    }

    /// As a read, which is also cancelled when the server begins to stop.
    #[cfg(feature = "websocket")]
    pub(crate) fn read_until_stop(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.input.is_empty() {
            true => self.until_stop.run(|| self.stream.read(buf)),
            false => self.read(buf),
        }
    }

    /// Whether the server stops.
    #[cfg(feature = "websocket")]
    pub(crate) fn is_stopping(&self) -> bool {
        self.until_stop.is_cancelled()
    }

    #[cfg(feature = "websocket")]
    pub(crate) fn stream(&self) -> &Arc<dyn Duplex> {
        &self.stream
    }

    /// Sets how long a read may wait; as for [`ramie::net::TcpStream`].
    ///
    /// # Errors
    /// As there.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(timeout)
    }

    /// Sets how long a write may wait; as for [`ramie::net::TcpStream`].
    ///
    /// # Errors
    /// As there.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_write_timeout(timeout)
    }
}

impl Read for Upgraded {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let unused = self.input.unused();
        if unused.is_empty() {
            return self.stream.read(buf);
        }
        let length = unused.len().min(buf.len());
        buf[..length].copy_from_slice(&unused[..length]);
        self.input.consume(length);
        Ok(length)
    }
}

impl Write for Upgraded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").finish_non_exhaustive()
    }
}
