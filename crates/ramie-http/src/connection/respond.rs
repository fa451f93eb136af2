//! Sends a response.
//!
//! A body that fails ends the connection: bytes are missing, and the client must not take the rest
//! for the whole. With a length or in chunks, the close of the connection shows that. A body that
//! ends with the connection (HTTP/1.0) would look complete, so its connection is reset.

use std::{
    io::{self, Read, Write},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

use http::{HeaderMap, StatusCode};

use super::Output;
use crate::{
    body::{BodyKind, BodySink, BodyWriter},
    h1::{
        chunked,
        response_head::{self, Afterwards, ResponseFraming, states_length},
    },
    header_maps,
    response::Response,
};

/// Bodies up to this size are copied behind their heads, and sent with those of other responses.
const COPIED: usize = 16 << 10;
/// The size of the pieces in which a body is read and written.
const PIECE: usize = 32 << 10;

/// What the response depends on of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) is_head: bool,
    pub(super) is_http_1_0: bool,
    pub(super) stays: bool,
}

impl Asked {
    /// Most requests.
    const USUAL: Asked = Asked { is_head: false, is_http_1_0: false, stays: true };
}

/// Writes a response. Returns whether the connection may stay open behind it.
#[inline(always)]
pub(super) fn respond(
    output: &mut Output<'_>,
    response: &mut Response,
    asked: Asked,
) -> io::Result<bool> {
    if asked == Asked::USUAL
        && response.status() == StatusCode::OK
        && let BodyKind::Full(bytes) = &response.body().0
        && bytes.len() <= COPIED
        && let Some(content_type) = header_maps::only_content_type(response.headers())
    {
        let out = output.buffer();
        response_head::append_usual(out, content_type, bytes.len());
        out.extend_from_slice(bytes);
        return output.flush_if_large().map(|()| true);
    }
    respond_any(output, response, asked)
}

/// As [`respond`], by the same code for all responses.
#[inline(never)]
pub(super) fn respond_any(
    output: &mut Output<'_>,
    response: &mut Response,
    asked: Asked,
) -> io::Result<bool> {
    let status = response.status();
    let framing = framing(status, response.body().length(), asked.is_http_1_0);
    let stays = append_head(output, response, framing, asked);
    if asked.is_head || framing == ResponseFraming::None || has_no_content(status) {
        return Ok(stays);
    }
    let body = &mut response.body_mut().0;
    if let BodyKind::Full(bytes) = body
        && bytes.len() <= COPIED
    {
        output.buffer().extend_from_slice(bytes);
        return output.flush_if_large().map(|()| stays);
    }
    send_large(output, mem::take(body), framing).map(|()| stays)
}

/// Drops a response that was sent. Usually only a map of headers is left of it, whose memory others
/// use; the destructors of its parts would cost more than to forget them.
#[inline(always)]
pub(super) fn let_go(response: &mut Option<Response>) {
    if let Some(left) = response {
        header_maps::recycle(left.headers_mut());
        drop(mem::take(left.extensions_mut()));
        // The usual kind apart, because the destructor of all kinds is a call.
        match mem::take(left.body_mut()).0 {
            BodyKind::Full(bytes) => drop(bytes),
            other => drop(other),
        }
    }
    // Without memory, because all that could have some was taken.
    mem::forget(response.take());
}

/// Sends what is not a few bytes.
#[inline(never)]
fn send_large(output: &mut Output<'_>, body: BodyKind, framing: ResponseFraming) -> io::Result<()> {
    let sent = output.while_client_waits(|output| send_streamed(output, body, framing));
    if sent.is_err() {
        // Earlier responses are whole. If the connection itself has failed, nothing is left.
        let _ = output.flush();
        if framing == ResponseFraming::UntilClose {
            output.reset_on_close();
        }
    }
    sent
}

/// Appends the head of a response. Returns whether the connection stays open. Not inlined, because
/// the frames of the closures that write bodies lie below those of its callers.
#[inline(never)]
fn append_head(
    output: &mut Output<'_>,
    response: &Response,
    framing: ResponseFraming,
    asked: Asked,
) -> bool {
    let (status, headers) = (response.status(), response.headers());
    let may_state = match framing {
        ResponseFraming::None => status == StatusCode::NOT_MODIFIED,
        // The handler of a HEAD may state a length without making a body.
        ResponseFraming::Length(0) => asked.is_head && !has_no_content(status),
        _ => false,
    };
    let head_framing = match may_state && states_length(headers) {
        true => ResponseFraming::Stated,
        false => framing,
    };
    let out = output.buffer();
    let seen = response_head::append_start(out, status, headers, head_framing);
    let stays = asked.stays && framing != ResponseFraming::UntilClose && !seen.says_close;
    let after = match (stays, asked.is_http_1_0) {
        _ if status == StatusCode::SWITCHING_PROTOCOLS => Afterwards::Upgrade,
        (true, false) => Afterwards::Stay,
        (true, true) => Afterwards::StayOfHttp10,
        (false, _) => Afterwards::Close,
    };
    response_head::append_end(out, head_framing, after, seen);
    stays
}

/// Whether a response of this status must have no content, though it has a length (RFC 9110,
/// section 15.3.6).
fn has_no_content(status: StatusCode) -> bool {
    status == StatusCode::RESET_CONTENT
}

fn framing(status: StatusCode, length: Option<u64>, is_http_1_0: bool) -> ResponseFraming {
    match length {
        _ if status.is_informational() => ResponseFraming::None,
        _ if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED => {
            ResponseFraming::None
        }
        _ if has_no_content(status) => ResponseFraming::Length(0),
        Some(length) => ResponseFraming::Length(length),
        None if is_http_1_0 => ResponseFraming::UntilClose,
        None => ResponseFraming::Chunked,
    }
}

/// Sends a body that the program makes while it is sent.
#[inline(never)]
fn send_streamed(
    output: &mut Output<'_>,
    body: BodyKind,
    framing: ResponseFraming,
) -> io::Result<()> {
    match body {
        BodyKind::Empty => Ok(()),
        BodyKind::Full(bytes) => output.send_with(&bytes),
        BodyKind::Write(write) => without_panic(|| {
            let mut sink = ResponseSink { output, framing, trailers: None };
            write(&mut BodyWriter::new(&mut sink))?;
            sink.finish()
        }),
        BodyKind::Read { mut reader, length } => {
            without_panic(|| send_read(output, &mut *reader, length, framing))
        }
        BodyKind::File(part) if part.left() <= COPIED as u64 => {
            part.append_to(output.buffer())?;
            output.flush_if_large()
        }
        BodyKind::File(part) => output.send_file(part),
        BodyKind::Arriving(mut body) => {
            let length = body.length();
            send_read(output, &mut *body, length, framing)
        }
        BodyKind::Incoming(incoming) => {
            let length = incoming.length();
            send_read(output, &mut { incoming }, length, framing)
        }
    }
}

/// Turns a panic of the program's code into an error, because the connection has to be cut in the
/// same way. The panic hook has reported it.
fn without_panic(send: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // What is left of the output is flushed or dropped, so it cannot be in a state to fear.
    catch_unwind(AssertUnwindSafe(send))
        .unwrap_or_else(|_| Err(io::Error::other("the body of a response has panicked")))
}

/// Sends what a reader reads. A function of its own, because its buffer would otherwise be in the
/// frame of every response.
#[inline(never)]
fn send_read(
    output: &mut Output<'_>,
    reader: &mut dyn Read,
    length: Option<u64>,
    framing: ResponseFraming,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    let mut left = length;
    let mut sink = ResponseSink { output, framing, trailers: None };
    loop {
        let most = left.map_or(PIECE, |left| PIECE.min(usize::try_from(left).unwrap_or(PIECE)));
        if most == 0 {
            break;
        }
        let read = match reader.read(&mut piece[..most]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        match (read, left) {
            (0, Some(_)) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the reader of a response has fewer bytes than its length",
                ));
            }
            (0, None) => break,
            _ => {}
        }
        left = left.map(|left| left - read as u64);
        sink.write(&piece[..read])?;
        // A reader that waits must not hold back what it has read before.
        sink.flush()?;
    }
    sink.finish()
}

/// Writes a body of unknown length.
struct ResponseSink<'a, 'c> {
    output: &'a mut Output<'c>,
    framing: ResponseFraming,
    trailers: Option<HeaderMap>,
}

impl ResponseSink<'_, '_> {
    fn finish(self) -> io::Result<()> {
        if self.framing != ResponseFraming::Chunked {
            return self.output.flush_if_large();
        }
        let out = self.output.buffer();
        out.extend_from_slice(b"0\r\n");
        let trailers = self.trailers.iter().flat_map(HeaderMap::iter);
        for (name, value) in trailers.filter(|(name, _)| chunked::may_be_trailer(name.as_str())) {
            response_head::append_field(out, name.as_str().as_bytes(), value.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        self.output.flush_if_large()
    }
}

impl BodySink for ResponseSink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let out = self.output.buffer();
        if self.framing == ResponseFraming::Chunked {
            // A chunk for each write: the runtime's own buffer is filled before it is sent.
            write!(out, "{:x}\r\n", bytes.len())?;
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        } else {
            out.extend_from_slice(bytes);
        }
        self.output.flush_if_large()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn set_trailers(&mut self, trailers: HeaderMap) {
        self.trailers = Some(trailers);
    }
}
