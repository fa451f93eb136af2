//! A stream that speaks another protocol than HTTP: a whole connection, or one stream of HTTP/2.

use std::{
    io::{self, IoSlice},
    net::Shutdown,
    time::Duration,
};

use super::Stream;

/// Bytes in both directions at once, from any fiber.
pub(crate) trait Duplex: Send + Sync {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize>;
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;
    #[cfg_attr(not(feature = "websocket"), allow(dead_code, reason = "only WebSocket writes so"))]
    fn write_all(&self, bytes: &[u8]) -> io::Result<()>;
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
    /// Ends both directions at once: what waits for the stream sees its end.
    #[cfg_attr(not(feature = "websocket"), allow(dead_code, reason = "only WebSocket cuts"))]
    fn cut(&self);
}

impl Duplex for Stream {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.read(buf)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }

    fn write_vectored(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_vectored(parts)
    }

    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)
    }

    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket().set_write_timeout(timeout)
    }

    fn cut(&self) {
        // If this fails, the connection is gone already.
        let _ = self.socket().shutdown(Shutdown::Both);
    }
}
