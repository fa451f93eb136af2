//! Middleware that compresses responses and decompresses requests.

mod decompress;
mod encoder;
mod types;

use std::io::{self, Read, Write};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{
        ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
        CONTENT_TYPE, ETAG, VARY,
    },
};
use ramie::fiber;

pub use self::decompress::decompress;
use self::encoder::{Encoder, is_built};
use crate::{
    body::{Body, BodyKind, BodySink, BodyWriter, WriteBody},
    coding::{Accepted, Coding},
    conditional::ETag,
    request::Request,
    response::Response,
    router::Next,
};

/// Bodies up to this size are compressed at once, so that their length is known.
const AT_ONCE: usize = 64 << 10;
/// How many bytes are compressed before other fibers may run; it takes about a millisecond.
const PIECE: usize = 32 << 10;

/// Compresses responses, as [`Compression::new`] does.
///
/// # Examples
/// ```
/// use ramie_http::{Request, Router, compress, get};
///
/// let router = Router::new().route("/", get(|| "hello ".repeat(1000))).layer(compress());
/// let request = Request::get("/").with_header("accept-encoding", "gzip, br;q=0.5");
/// let response = router.call(request);
/// assert_eq!(response.headers()["vary"], "accept-encoding");
/// # #[cfg(feature = "gzip")]
/// assert_eq!(response.headers()["content-encoding"], "gzip");
/// # #[cfg(feature = "gzip")]
/// assert!(response.into_body().into_bytes(100).is_ok());
/// ```
pub fn compress() -> impl Fn(Request, Next<'_>) -> Response + Send + Sync + 'static {
    Compression::new().layer()
}

/// Which responses are compressed, in the codings whose features are enabled: `brotli`, `zstd` and
/// `gzip`.
///
/// The coding is the one that the client prefers by its Accept-Encoding; of several, the first of
/// those above. These responses stay as they are:
/// - those of types that are compressed already, such as images, and those without a type;
/// - those that are shorter than [`minimum`](Self::minimum), unless the client accepts
///   no response without a coding (`identity;q=0`);
/// - those with a Content-Encoding, or with `Cache-Control: no-transform`;
/// - parts (206), and those without content;
/// - event streams, unless [`event_streams`](Self::event_streams) is set.
///
/// A compressed response has a weak tag, and no ranges. A flush of a body that is written sends all
/// that was written before, as without compression. The same holds for each read of a body that is
/// read.
#[derive(Clone, Copy, Debug)]
pub struct Compression {
    minimum: u64,
    has_event_streams: bool,
}

impl Default for Compression {
    fn default() -> Self {
        Compression::new()
    }
}

impl Compression {
    /// Compresses responses of 1 KiB and more, but no event streams.
    pub fn new() -> Self {
        Compression { minimum: 1 << 10, has_event_streams: false }
    }

    /// Sets how many bytes a response has at least. Those of unknown length always have enough.
    #[must_use]
    pub fn minimum(mut self, bytes: u64) -> Self {
        self.minimum = bytes;
        self
    }

    /// Compresses `text/event-stream`, too. Each event must be flushed, and costs more bytes than
    /// its text if it is short.
    #[must_use]
    pub fn event_streams(mut self) -> Self {
        self.has_event_streams = true;
        self
    }

    /// The middleware, for [`Router::layer`](crate::Router::layer).
    pub fn layer(self) -> impl Fn(Request, Next<'_>) -> Response + Send + Sync + 'static {
        move |request, next| {
            let accepted = match request.header("accept-encoding") {
                None => Accepted::of(&HeaderMap::new()),
                Some(_) => Accepted::of(request.headers()),
            };
            self.apply(accepted, next.call(request))
        }
    }

    fn apply(self, accepted: Accepted, mut response: Response) -> Response {
        let coding = accepted.best_first().find(|coding| is_built(*coding));
        if response.status() == StatusCode::NOT_MODIFIED {
            // It stands for the 200, whose tag was weak if it was compressed.
            add_vary(response.headers_mut());
            if coding.is_some() {
                weaken(response.headers_mut());
            }
            return response;
        }
        if !self.concerns(&response) {
            return response;
        }
        add_vary(response.headers_mut());
        let is_long = response.body().length().is_none_or(|length| length >= self.minimum);
        match coding {
            Some(coding) if is_long || !accepted.accepts_identity() => encode(response, coding),
            _ => response,
        }
    }

    /// Whether the response might be compressed for some client.
    fn concerns(self, response: &Response) -> bool {
        let (status, headers) = (response.status(), response.headers());
        let has_content = !status.is_informational()
            && status != StatusCode::NO_CONTENT
            && status != StatusCode::PARTIAL_CONTENT
            && !response.body().is_empty();
        let is_plain =
            !headers.contains_key(CONTENT_ENCODING) && !headers.contains_key(CONTENT_RANGE);
        let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        has_content
            && is_plain
            && !has_element(headers, &CACHE_CONTROL, b"no-transform")
            && types::is_compressible(content_type, self.has_event_streams)
    }
}

fn encode(response: Response, coding: Coding) -> Response {
    let (mut parts, body) = response.into_parts();
    let headers = &mut parts.headers;
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    headers.remove(CONTENT_LENGTH);
    headers.remove(ACCEPT_RANGES);
    weaken(headers);
    Response::from_parts(parts, encoded(body, coding))
}

fn encoded(body: Body, coding: Coding) -> Body {
    match body.0 {
        BodyKind::Empty => Body::empty(),
        BodyKind::Full(bytes) if bytes.len() <= AT_ONCE => at_once(&bytes, coding),
        BodyKind::Write(write) => Body::from_writer(move |out| encode_written(write, coding, out)),
        // Such bodies do not wait, so no part of them has to be sent early.
        kind @ (BodyKind::Full(_) | BodyKind::File(_)) => {
            Body::from_writer(move |out| encode_read(Body(kind), coding, out, false))
        }
        kind @ (BodyKind::Read { .. } | BodyKind::Incoming(_) | BodyKind::Arriving(_)) => {
            Body::from_writer(move |out| encode_read(Body(kind), coding, out, true))
        }
    }
}

fn at_once(bytes: &Bytes, coding: Coding) -> Body {
    let encode = || {
        let mut encoder = Encoder::new(coding, Vec::new())?;
        encoder.write_all(bytes)?;
        encoder.finish()
    };
    let encoded: io::Result<Vec<u8>> = encode();
    encoded.expect("a vector takes all bytes").into()
}

fn encode_read(
    mut body: Body,
    coding: Coding,
    out: &mut BodyWriter<'_>,
    flushes: bool,
) -> io::Result<()> {
    let mut encoder = Encoder::new(coding, out)?;
    let mut piece = vec![0; PIECE];
    loop {
        let read = match body.read(&mut piece) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        encoder.write_all(&piece[..read])?;
        if flushes {
            encoder.flush()?;
        }
        fiber::yield_now();
    }
    encoder.finish().map(drop)
}

fn encode_written(write: WriteBody, coding: Coding, out: &mut BodyWriter<'_>) -> io::Result<()> {
    let mut sink = EncodingSink { encoder: Encoder::new(coding, out)?, written: 0 };
    write(&mut BodyWriter::new(&mut sink))?;
    sink.encoder.finish().map(drop)
}

/// Compresses the bytes that a closure writes.
struct EncodingSink<'a, 'b> {
    encoder: Encoder<&'a mut BodyWriter<'b>>,
    /// Since others have run.
    written: usize,
}

impl BodySink for EncodingSink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            self.encoder.write_all(piece)?;
            self.written += piece.len();
            if self.written >= PIECE {
                self.written = 0;
                fiber::yield_now();
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()
    }

    fn set_trailers(&mut self, trailers: HeaderMap) {
        self.encoder.get_mut().set_trailers(trailers);
    }
}

/// Caches must not give the response to clients that accept other codings.
fn add_vary(headers: &mut HeaderMap) {
    let has = |name| has_element(headers, &VARY, name);
    if !has(b"accept-encoding") && !has(b"*") {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// The bytes differ from those that a strong tag would name.
fn weaken(headers: &mut HeaderMap) {
    let tag = headers.get(ETAG).and_then(|value| ETag::parse(value.as_bytes()));
    if let Some(tag) = tag {
        headers.insert(ETAG, tag.weakened().to_value());
    }
}

/// Whether a field that is a list has an element.
fn has_element(headers: &HeaderMap, name: &http::HeaderName, element: &[u8]) -> bool {
    let values = headers.get_all(name).into_iter();
    let mut elements = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    elements.any(|own| own.trim_ascii().eq_ignore_ascii_case(element))
}
