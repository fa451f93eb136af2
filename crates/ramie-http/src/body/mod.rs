//! Bodies, of requests and of responses.

mod error;
mod expectation;
mod incoming;
mod writer;

pub use error::BodyError;
#[cfg(feature = "websocket")]
pub(crate) use incoming::is_timeout;
pub(crate) use incoming::{BodySource, Incoming};
#[cfg(feature = "http2")]
pub(crate) use incoming::{Pace, ended_early};
pub(crate) use writer::BodySink;
pub use writer::BodyWriter;

use std::{
    fmt,
    io::{self, Read},
    ops::Range,
};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use ramie::fs::File;

use self::writer::Collected;
use crate::io::FileRange;

/// The body of a request or a response.
///
/// The body of a request is a [`Read`]: it arrives while it is read. It can be read until the
/// response to the request is sent.
///
/// The body of a response is made of bytes or text, which are sent with a `Content-Length`; of a
/// [`Read`] ([`Body::from_read`], [`Body::from_sized`]); of a part of a file
/// ([`Body::from_file`]); or of a closure that writes ([`Body::from_writer`]). If the length is not
/// known, the body is sent in chunks.
///
/// # Examples
/// ```
/// use std::io::Write;
/// use ramie_http::Body;
///
/// let body = Body::from_writer(|out| {
///     for number in 1..=3 {
///         writeln!(out, "line {number}")?;
///         out.flush()?; // sends a chunk
///     }
///     Ok(())
/// });
/// assert_eq!(body.into_bytes(100)?, "line 1\nline 2\nline 3\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Default)]
pub struct Body(pub(crate) BodyKind);

/// A closure that writes a body.
pub(crate) type WriteBody = Box<dyn FnOnce(&mut BodyWriter<'_>) -> io::Result<()> + Send>;

#[derive(Default)]
pub(crate) enum BodyKind {
    #[default]
    Empty,
    Full(Bytes),
    Read {
        reader: Box<dyn Read + Send>,
        length: Option<u64>,
    },
    Write(WriteBody),
    File(FileRange),
    Incoming(Incoming),
    /// Of a request of another protocol.
    #[cfg_attr(not(feature = "http2"), allow(dead_code, reason = "only HTTP/2 has it"))]
    Arriving(Box<dyn ArrivingBody>),
}

/// The body of a request that another protocol than HTTP/1.1 delivers.
pub(crate) trait ArrivingBody: Read + Send {
    /// The announced number of bytes.
    fn length(&self) -> Option<u64>;
    fn set_limit(&mut self, most: u64);
    fn take_trailers(&mut self) -> Option<HeaderMap>;
}

impl Body {
    /// No body.
    pub const fn empty() -> Self {
        Body(BodyKind::Empty)
    }

    /// All bytes of a reader, up to its end; sent in chunks.
    pub fn from_read(reader: impl Read + Send + 'static) -> Self {
        Body(BodyKind::Read { reader: Box::new(reader), length: None })
    }

    /// The next `length` bytes of a reader. If it ends earlier, the connection is closed, so that
    /// the client notices.
    pub fn from_sized(reader: impl Read + Send + 'static, length: u64) -> Self {
        Body(BodyKind::Read { reader: Box::new(reader), length: Some(length) })
    }

    /// A part of a file, which the kernel sends without copying it through the program. If the file
    /// ends earlier, the connection is closed, so that the client notices; if the file grows, the
    /// client gets the part that was announced. The position of the file is neither used nor moved.
    ///
    /// # Examples
    /// ```
    /// use ramie::fs::File;
    /// use ramie_http::Body;
    /// # let path = std::env::temp_dir().join(format!("ramie-http-doc-{}", std::process::id()));
    /// # std::fs::write(&path, "hello, world")?;
    ///
    /// let body = Body::from_file(File::open(&path)?, 7..12);
    /// assert_eq!(body.length(), Some(5));
    /// assert_eq!(body.into_bytes(100)?, "world");
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn from_file(file: File, range: Range<u64>) -> Self {
        Body(BodyKind::File(FileRange::new(file, range)))
    }

    /// The bytes that a closure writes; sent in chunks. The closure runs on the fiber of the
    /// connection, while the response is sent; its writes wait for the client. If it returns an
    /// error or panics, the connection is closed, so that the client notices.
    ///
    /// The handler has returned by then, so `Limits::request_timeout` does not apply to the
    /// closure; [`ramie::cancel::with_timeout`] limits its time. The access log has the status of
    /// the head, and an error of the closure is logged at the level debug only, because most are
    /// clients that have gone: one that matters is to be logged by the closure.
    pub fn from_writer(
        write: impl FnOnce(&mut BodyWriter<'_>) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Body(BodyKind::Write(Box::new(write)))
    }

    pub(crate) fn incoming(incoming: Incoming) -> Self {
        Body(BodyKind::Incoming(incoming))
    }

    /// The number of bytes, if it is known before they are read.
    pub fn length(&self) -> Option<u64> {
        match &self.0 {
            BodyKind::Empty => Some(0),
            BodyKind::Full(bytes) => Some(bytes.len() as u64),
            BodyKind::Read { length, .. } => *length,
            BodyKind::Write(_) => None,
            BodyKind::File(part) => Some(part.left()),
            BodyKind::Incoming(incoming) => incoming.length(),
            BodyKind::Arriving(body) => body.length(),
        }
    }

    /// Whether there are no bytes, for certain.
    pub fn is_empty(&self) -> bool {
        self.length() == Some(0)
    }

    /// Reads the whole body.
    ///
    /// # Blocking
    /// Parks the fiber until the body has arrived.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// If there are more than `most` bytes, with [`BodyError::TooLarge`] inside; otherwise as a
    /// read of the body.
    pub fn into_bytes(mut self, most: u64) -> io::Result<Bytes> {
        if self.length().is_some_and(|length| length > most) {
            return Err(BodyError::TooLarge { most }.into());
        }
        match std::mem::take(&mut self.0) {
            BodyKind::Empty => return Ok(Bytes::new()),
            BodyKind::Full(bytes) => return Ok(bytes),
            BodyKind::Write(write) => {
                let mut collected = Collected::new(most);
                write(&mut BodyWriter::new(&mut collected))?;
                return Ok(collected.into_bytes());
            }
            kind => self.0 = kind,
        }
        // Room as bytes arrive, because a client may announce a length and send nothing.
        let mut bytes = Vec::new();
        { &mut self }.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > most {
            true => Err(BodyError::TooLarge { most }.into()),
            false => Ok(bytes.into()),
        }
    }

    /// The fields behind a body in chunks, once it was read to its end.
    pub fn take_trailers(&mut self) -> Option<HeaderMap> {
        match &mut self.0 {
            BodyKind::Incoming(incoming) => incoming.take_trailers(),
            BodyKind::Arriving(body) => body.take_trailers(),
            _ => None,
        }
    }

    /// Sets how many bytes the client may send in this body, instead of `Limits::body_bytes`. Has
    /// no effect on other bodies.
    ///
    /// To be called before anything reads the body, so a route whose handler takes an argument that
    /// is made of the body sets the limit in a layer.
    ///
    /// # Examples
    /// Uploads may be as large as 1 GiB and take an hour:
    /// ```
    /// use std::{io, time::Duration};
    /// use ramie::{cancel, fs::{self, File}};
    /// use ramie_http::{Body, Next, Request, Response, Router, extract::{Path, Rejection}};
    /// use ramie_http::{middleware::request_timeout, post};
    ///
    /// fn with_limit(mut request: Request, next: Next<'_>) -> Response {
    ///     request.body_mut().set_limit(1 << 30);
    ///     next.call(request)
    /// }
    ///
    /// fn store(Path(number): Path<u32>, mut body: Body) -> Result<String, Rejection> {
    ///     let path = std::env::temp_dir().join(format!("upload-{number}"));
    ///     # let path = path.with_extension(std::process::id().to_string());
    ///     let mut file = File::create(&path)?;
    ///     let length = io::copy(&mut body, &mut file).inspect_err(|_| {
    ///         // Shielded, because the handler is cancelled if its client has gone away.
    ///         let _ = cancel::shield(|| fs::remove_file(&path));
    ///     })?;
    ///     # std::fs::remove_file(&path)?;
    ///     Ok(format!("{length} bytes\n"))
    /// }
    ///
    /// let uploads = Router::new()
    ///     .route("/uploads/{number}", post(store))
    ///     .layer(with_limit)
    ///     .layer(request_timeout(Duration::from_secs(60 * 60)));
    /// let router = Router::new().merge(uploads);
    /// let response = router.call(Request::post("/uploads/7", "content"));
    /// assert_eq!(response.into_body().into_bytes(100)?, "7 bytes\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_limit(&mut self, most: u64) {
        match &mut self.0 {
            BodyKind::Incoming(incoming) => incoming.set_limit(most),
            BodyKind::Arriving(body) => body.set_limit(most),
            _ => {}
        }
    }
}

/// # Blocking
/// Each read parks the fiber until bytes have arrived.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// With a [`BodyError`] inside if the client breaks the protocol or a limit; otherwise those of
/// the stream, or of the reader that the body was made of. A body of a closure cannot be read.
impl Read for Body {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            BodyKind::Empty => Ok(0),
            BodyKind::Full(bytes) => {
                let length = bytes.len().min(buf.len());
                bytes.copy_to_slice(&mut buf[..length]);
                Ok(length)
            }
            BodyKind::Read { reader, length: None } => reader.read(buf),
            BodyKind::Read { reader, length: Some(left) } => {
                let most = buf.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                let read = reader.read(&mut buf[..most])?;
                *left -= read as u64;
                Ok(read)
            }
            BodyKind::Write(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a body of a closure is written and cannot be read; use Body::into_bytes",
            )),
            BodyKind::File(part) => part.read(buf),
            BodyKind::Incoming(incoming) => incoming.read(buf),
            BodyKind::Arriving(body) => body.read(buf),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("length", &self.length()).finish_non_exhaustive()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        match bytes.is_empty() {
            true => Body::empty(),
            false => Body(BodyKind::Full(bytes)),
        }
    }
}

macro_rules! body_from {
    ($($from:ty => $bytes:expr),* $(,)?) => {$(
        impl From<$from> for Body {
            fn from(value: $from) -> Self {
                let bytes: fn($from) -> Bytes = $bytes;
                bytes(value).into()
            }
        }
    )*};
}

body_from! {
    &'static str => |text| Bytes::from_static(text.as_bytes()),
    &'static [u8] => Bytes::from_static,
    String => Bytes::from,
    Vec<u8> => Bytes::from,
    Box<[u8]> => Bytes::from,
    () => |()| Bytes::new(),
}

impl From<std::borrow::Cow<'static, str>> for Body {
    fn from(text: std::borrow::Cow<'static, str>) -> Self {
        match text {
            std::borrow::Cow::Borrowed(text) => text.into(),
            std::borrow::Cow::Owned(text) => text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    #[test]
    fn bodies_are_read_up_to_a_limit() {
        let sized = || Body::from_sized(Cursor::new("hello, world"), 5);
        let unsized_ = || Body::from_read(Cursor::new("hello"));
        let written = || Body::from_writer(|out| out.write_all(b"hello"));
        for body in [sized, unsized_, written, || "hello".into()] {
            assert_eq!(body().into_bytes(5).unwrap(), "hello");
            let error = body().into_bytes(4).unwrap_err();
            assert!(matches!(BodyError::of(&error), Some(BodyError::TooLarge { most: 4 })));
        }
        assert_eq!((sized().length(), unsized_().length()), (Some(5), None));
        assert!(Body::from("").is_empty() && !unsized_().is_empty());
        let error = written().read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}
