//! From the facts and the content to a response.

use std::{
    io,
    ops::Range,
    os::unix::fs::FileExt,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{
        ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_RANGE,
        CONTENT_TYPE, ETAG, LAST_MODIFIED,
    },
};
use ramie::fs::File;

use super::{Precondition, Representation, Selection, multipart, preconditions, selection};
use crate::{body::Body, request::Parts, response::Response};

/// Content of which parts can be sent: bytes, text or a [`File`].
#[derive(Debug)]
pub struct RangeSource(Source);

#[derive(Debug)]
enum Source {
    Bytes(Bytes),
    File(File),
}

impl RangeSource {
    fn into_body(self, range: Range<u64>) -> Body {
        match self.0 {
            Source::Bytes(bytes) => bytes.slice(range.start as usize..range.end as usize).into(),
            Source::File(file) => Body::from_file(file, range),
        }
    }

    /// Reads bytes of a part, which is not empty.
    pub(super) fn read_at(&self, buf: &mut [u8], part: &Range<u64>) -> io::Result<usize> {
        let most = buf.len().min(usize::try_from(part.end - part.start).unwrap_or(usize::MAX));
        match &self.0 {
            Source::Bytes(bytes) => {
                let start = part.start as usize;
                buf[..most].copy_from_slice(&bytes[start..start + most]);
                Ok(most)
            }
            Source::File(file) => match file.read_at(&mut buf[..most], part.start)? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                read => Ok(read),
            },
        }
    }
}

impl From<File> for RangeSource {
    fn from(file: File) -> Self {
        RangeSource(Source::File(file))
    }
}

macro_rules! source_of_bytes {
    ($($from:ty => $bytes:expr),* $(,)?) => {$(
        impl From<$from> for RangeSource {
            fn from(value: $from) -> Self {
                let bytes: fn($from) -> Bytes = $bytes;
                RangeSource(Source::Bytes(bytes(value)))
            }
        }
    )*};
}

source_of_bytes! {
    Bytes => |bytes| bytes,
    &'static str => |text| Bytes::from_static(text.as_bytes()),
    &'static [u8] => Bytes::from_static,
    String => Bytes::from,
    Vec<u8> => Bytes::from,
}

/// Answers a GET or a HEAD: 200 with the whole, 206 with the parts that the request asks for, 304,
/// 412 or 416.
///
/// `headers` are those that the 200 has; the fields ETag, Last-Modified, Accept-Ranges and
/// Content-Range are added, and those that the other statuses must not have are left out. A time in
/// the future is left out, too.
///
/// # Panics
/// If the content is made of bytes, and there are fewer than the facts say.
pub fn respond(
    request: &Parts,
    facts: &Representation,
    headers: HeaderMap,
    content: impl Into<RangeSource>,
) -> Response {
    let mut response = Response::new(Body::empty());
    *response.headers_mut() = headers;
    add_validators(response.headers_mut(), facts);
    match preconditions(request, Some(facts)) {
        Precondition::Holds => select(response, request, facts, content.into()),
        Precondition::NotModified => without_content(response, StatusCode::NOT_MODIFIED),
        Precondition::Failed => without_content(response, StatusCode::PRECONDITION_FAILED),
    }
}

fn select(
    mut response: Response,
    request: &Parts,
    facts: &Representation,
    content: RangeSource,
) -> Response {
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    match selection(request, facts) {
        Selection::Whole => *response.body_mut() = content.into_body(0..facts.length),
        Selection::NotSatisfiable => {
            let range = HeaderValue::try_from(format!("bytes */{}", facts.length));
            headers.extend(range.ok().map(|range| (CONTENT_RANGE, range)));
            return without_content(response, StatusCode::RANGE_NOT_SATISFIABLE);
        }
        Selection::Parts(parts) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let headers = response.headers_mut();
            let body = match &parts[..] {
                [part] => {
                    let range = HeaderValue::try_from(content_range(part, facts.length));
                    headers.extend(range.ok().map(|range| (CONTENT_RANGE, range)));
                    content.into_body(part.clone())
                }
                parts => {
                    let of_part = headers.remove(CONTENT_TYPE);
                    let (body, of_all) =
                        multipart::body(content, parts, facts.length, of_part.as_ref());
                    headers.insert(CONTENT_TYPE, of_all);
                    body
                }
            };
            *response.body_mut() = body;
        }
    }
    response
}

/// The value of Content-Range.
pub(super) fn content_range(part: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", part.start, part.end - 1)
}

fn without_content(mut response: Response, status: StatusCode) -> Response {
    *response.status_mut() = status;
    for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH] {
        response.headers_mut().remove(name);
    }
    response
}

fn add_validators(headers: &mut HeaderMap, facts: &Representation) {
    if let Some(tag) = &facts.etag {
        headers.insert(ETAG, tag.to_value());
    }
    let Some(modified) = facts.modified else { return };
    // A client would take the future for the truth (RFC 9110, section 8.8.2.1), and times before
    // 1970 have no date.
    let is_past = modified <= SystemTime::now();
    let is_date = modified
        .duration_since(SystemTime::UNIX_EPOCH)
        .is_ok_and(|since| since < Duration::from_secs(253_402_300_800));
    if is_past && is_date {
        let date = HeaderValue::try_from(httpdate::fmt_http_date(modified));
        headers.extend(date.ok().map(|date| (LAST_MODIFIED, date)));
    }
}
