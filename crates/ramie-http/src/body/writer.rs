//! The writer that a body's closure gets.

use std::io::{self, Write};

use bytes::Bytes;
use http::HeaderMap;

use super::BodyError;

/// Where a closure writes the body of a response. Bytes are sent when enough of them were written,
/// at [`flush`](Write::flush), and at the end.
///
/// # Errors
/// Of writes: those of the connection. Return them, because nothing else can be done.
pub struct BodyWriter<'a> {
    sink: &'a mut dyn BodySink,
}

/// What a [`BodyWriter`] writes to.
pub(crate) trait BodySink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn flush(&mut self) -> io::Result<()>;
    fn set_trailers(&mut self, trailers: HeaderMap);
}

impl<'a> BodyWriter<'a> {
    pub(crate) fn new(sink: &'a mut dyn BodySink) -> Self {
        BodyWriter { sink }
    }

    /// Sets the fields that are sent behind the body. They are left out if the client speaks
    /// HTTP/1.0. Fields that decide about the message, such as `Content-Length`, are left out, too.
    pub fn set_trailers(&mut self, trailers: HeaderMap) {
        self.sink.set_trailers(trailers);
    }
}

/// # Blocking
/// Parks the fiber while the client takes no bytes.
///
/// # Cancellation
/// A cancel point.
impl Write for BodyWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.write(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Keeps the bytes that are written.
pub(crate) struct Collected {
    bytes: Vec<u8>,
    most: u64,
}

impl Collected {
    pub(crate) fn new(most: u64) -> Self {
        Collected { bytes: Vec::new(), most }
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes.into()
    }
}

impl BodySink for Collected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if (self.bytes.len() + bytes.len()) as u64 > self.most {
            return Err(BodyError::TooLarge { most: self.most }.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn set_trailers(&mut self, _: HeaderMap) {}
}
