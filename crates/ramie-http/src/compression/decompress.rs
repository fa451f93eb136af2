//! Requests whose bodies the client has compressed.

use std::io::{self, Read};

use http::{
    HeaderValue, StatusCode,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH},
};

use super::encoder::is_built;
use crate::{
    body::{Body, BodyError},
    coding::Coding,
    request::Request,
    response::{IntoResponse, Response},
    router::Next,
};

/// Decompresses the bodies of requests, up to `most` bytes each.
///
/// A body in `gzip`, `br` or `zstd` is decompressed while it is read, if the feature is enabled;
/// its headers Content-Encoding and Content-Length are removed. If it has more than `most` bytes,
/// reads fail with [`BodyError::TooLarge`], so that a small request cannot use up the memory; if it
/// is malformed, with [`BodyError::Malformed`]. The limit of the server on the bytes that arrive
/// holds besides. Requests in other codings, or in several, get 415, with the codings that are
/// accepted.
///
/// # Examples
/// ```
/// use ramie_http::{Body, Request, Router, StatusCode, decompress, post};
///
/// let echo = |body: Body| body.into_bytes(1000).map_err(|_| StatusCode::BAD_REQUEST);
/// let router = Router::new().route("/", post(echo)).layer(decompress(1000));
/// let request = Request::post("/", "text").with_header("content-encoding", "compress");
/// assert_eq!(router.call(request).status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
/// ```
pub fn decompress(most: u64) -> impl Fn(Request, Next<'_>) -> Response + Send + Sync + 'static {
    move |request, next| match coding_of(&request) {
        Ok(None) => next.call(request),
        Ok(Some(coding)) => match decoded(request, coding, most) {
            Ok(request) => next.call(request),
            Err(error) => {
                log::error!("no decoder for the body of a request: {error}");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        },
        Err(UnknownCoding) => unsupported(),
    }
}

/// The client uses a coding that is not in this build, or several.
struct UnknownCoding;

fn coding_of(request: &Request) -> Result<Option<Coding>, UnknownCoding> {
    if request.header("content-encoding").is_none() {
        return Ok(None);
    }
    let values = request.headers().get_all(CONTENT_ENCODING).into_iter();
    let elements = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let mut found = None;
    for element in elements.map(<[u8]>::trim_ascii) {
        if element.is_empty() || element.eq_ignore_ascii_case(b"identity") {
            continue;
        }
        let coding = Coding::of_name(element).filter(|coding| is_built(*coding));
        if found.replace(coding.ok_or(UnknownCoding)?).is_some() {
            return Err(UnknownCoding);
        }
    }
    Ok(found)
}

fn unsupported() -> Response {
    let names: Vec<_> =
        Coding::ALL.into_iter().filter(|coding| is_built(*coding)).map(Coding::name).collect();
    let mut response = StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    if let Ok(names) = HeaderValue::try_from(names.join(", ")) {
        response.headers_mut().insert(ACCEPT_ENCODING, names);
    }
    response
}

fn decoded(request: Request, coding: Coding, most: u64) -> io::Result<Request> {
    let (mut parts, body) = request.into_parts();
    parts.headers_mut().remove(CONTENT_ENCODING);
    parts.headers_mut().remove(CONTENT_LENGTH);
    let decoder = decoder(coding, body)?;
    let body = Body::from_read(DecompressedBody { decoder, left: most, most });
    Ok(Request::from_parts(parts, body))
}

fn decoder(coding: Coding, body: Body) -> io::Result<Box<dyn Read + Send>> {
    Ok(match coding {
        #[cfg(feature = "brotli")]
        Coding::Brotli => {
            let body = UsualWindow { body, is_begun: false };
            Box::new(brotli::Decompressor::new(body, 4 << 10))
        }
        #[cfg(feature = "zstd")]
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(body)?;
            // 8 MiB, the largest window of a client of HTTP (RFC 9659).
            decoder.window_log_max(23)?;
            Box::new(decoder)
        }
        #[cfg(feature = "gzip")]
        Coding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(body)),
        #[allow(unreachable_patterns)]
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// A body in brotli whose window is one of RFC 7932: at most 16 MiB. The decoder also reads larger
/// ones, an extension that no client of HTTP uses, and with one a small body makes it fill 1 GiB
/// before it hands any of it out.
#[cfg(feature = "brotli")]
struct UsualWindow {
    body: Body,
    is_begun: bool,
}

#[cfg(feature = "brotli")]
impl Read for UsualWindow {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.body.read(buf)?;
        if read > 0 && !std::mem::replace(&mut self.is_begun, true) && buf[0] & 0x7f == 0x11 {
            return Err(
                BodyError::Malformed("the window of the compressed body is too large").into()
            );
        }
        Ok(read)
    }
}

/// A body that is decompressed while it is read.
struct DecompressedBody {
    decoder: Box<dyn Read + Send>,
    /// How many bytes it may have still.
    left: u64,
    most: u64,
}

impl Read for DecompressedBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            return match self.decoder.read(&mut [0]).map_err(named)? {
                0 => Ok(0),
                _ => Err(BodyError::TooLarge { most: self.most }.into()),
            };
        }
        let length = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.decoder.read(&mut buf[..length]).map_err(named)?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// An error of a decoder is the client's fault; those of the connection stay as they are.
fn named(error: io::Error) -> io::Error {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    let is_of_decoder = matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof);
    if is_of_decoder && BodyError::of(&error).is_none() && !ramie::cancel::is_cancelled(&error) {
        return BodyError::Malformed("the body of the request is not in its content coding").into();
    }
    error
}
