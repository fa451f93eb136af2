//! Several parts of a body in one (RFC 9110, section 14.6).

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    io::{self, Read},
    ops::Range,
};

use bytes::{Buf, Bytes};
use http::HeaderValue;

use super::{RangeSource, respond::content_range};
use crate::body::Body;

/// The text around the parts, and the parts.
enum Segment {
    Text(Bytes),
    Part(Range<u64>),
}

/// Reads segments one after the other.
struct MultipartReader {
    source: RangeSource,
    segments: VecDeque<Segment>,
}

/// Makes a body of parts, and its type.
pub(super) fn body(
    source: RangeSource,
    parts: &[Range<u64>],
    length: u64,
    content_type: Option<&HeaderValue>,
) -> (Body, HeaderValue) {
    // Random, so that content cannot contain it on purpose.
    let random = RandomState::new();
    let boundary = format!("{:016x}{:016x}", random.hash_one(1), random.hash_one(2));
    let mut segments = VecDeque::with_capacity(parts.len() * 2 + 1);
    let mut total = 0;
    for part in parts {
        let mut text = Vec::new();
        text.extend_from_slice(format!("\r\n--{boundary}\r\n").as_bytes());
        if let Some(content_type) = content_type {
            text.extend_from_slice(b"content-type: ");
            text.extend_from_slice(content_type.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        let range = content_range(part, length);
        text.extend_from_slice(format!("content-range: {range}\r\n\r\n").as_bytes());
        total += text.len() as u64 + (part.end - part.start);
        segments.push_back(Segment::Text(text.into()));
        segments.push_back(Segment::Part(part.clone()));
    }
    let end = format!("\r\n--{boundary}--\r\n");
    total += end.len() as u64;
    segments.push_back(Segment::Text(end.into()));
    let content_type = format!("multipart/byteranges; boundary={boundary}");
    let content_type = HeaderValue::try_from(content_type).expect("a boundary of digits");
    (Body::from_sized(MultipartReader { source, segments }, total), content_type)
}

impl Read for MultipartReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        while let Some(segment) = self.segments.front_mut() {
            let read = match segment {
                Segment::Text(text) => {
                    let length = text.len().min(buf.len());
                    text.copy_to_slice(&mut buf[..length]);
                    length
                }
                Segment::Part(part) if part.is_empty() => 0,
                Segment::Part(part) => {
                    let read = self.source.read_at(buf, part)?;
                    part.start += read as u64;
                    read
                }
            };
            if read > 0 {
                return Ok(read);
            }
            self.segments.pop_front();
        }
        Ok(0)
    }
}
