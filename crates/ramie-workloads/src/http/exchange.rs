//! The server's side of HTTP/1.1 without I/O: requests go in as bytes, answers come out as bytes.
//!
//! Every GET is answered with the same page, a HEAD with its head, other methods with 405. A
//! malformed head is answered with 400, a head that is too large with 431. Requests may arrive in
//! pieces or several at once. A body with a declared length is skipped. A chunked body ends the
//! connection.

use std::mem::MaybeUninit;

use httparse::{Header, Request, Status};

use super::page::Page;

/// The largest head of a request, in bytes, and the most fields in it.
const HEAD_MAX: usize = 8 * 1024;
const FIELDS_MAX: usize = 64;
const FEW_FIELDS: usize = 8;

/// The next step of the connection after the answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterAnswers {
    /// Read more bytes.
    Read,
    /// Close the connection.
    Close,
    /// Close, but first read the rest of the peer's input.
    CloseAfterRest,
}

/// The protocol state of one connection: input that is not parsed yet, and answers to be sent.
#[derive(Debug, Default)]
pub struct Exchange {
    /// The part of a head that has arrived so far. Without an allocation while it is empty, because
    /// most connections are idle most of the time.
    begun: Vec<u8>,
    /// Bytes of a body that have not arrived yet.
    body_left: u64,
    output: Vec<u8>,
    /// Where in `output` a page's body belongs, if bodies are not copied into it.
    bodies: Vec<usize>,
    served: u64,
}

/// A parsed request head.
struct RequestHead {
    is_head: bool,
    is_allowed: bool,
    is_http_1_0: bool,
    wants_to_stay: bool,
    body: Body,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// The length in bytes; 0 if there is no body.
    Length(u64),
    /// The body is chunked, or the peer sends it only after `100 Continue`.
    NotSkipped,
}

/// The output buffer keeps its memory for the next answers up to this size.
const OUTPUT_KEPT: usize = 512;

impl Exchange {
    /// Whether every received request has been answered and no part of another has arrived.
    pub fn is_between_requests(&self) -> bool {
        self.begun.is_empty() && self.body_left == 0
    }

    /// How many GETs have been answered with the page so far.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// The answers to be sent, as pairs of consecutive bytes, such as a head and a body.
    pub fn answers<'a>(&'a self, page: &'a Page) -> impl Iterator<Item = [&'a [u8]; 2]> {
        let starts = std::iter::once(0).chain(self.bodies.iter().copied());
        let with_body = starts.zip(&self.bodies);
        let pairs = with_body.map(|(from, to)| [&self.output[from..*to], page.body()]);
        let rest = &self.output[self.bodies.last().copied().unwrap_or(0)..];
        pairs.chain((!rest.is_empty()).then_some([rest, &[]]))
    }

    /// Forgets the answers, because they are sent.
    pub fn answers_are_sent(&mut self) {
        self.output.clear();
        self.output.shrink_to(OUTPUT_KEPT);
        self.bodies.clear();
    }

    /// Parses `bytes` and answers all requests that are complete. `is_last` means that the
    /// connection is to be closed after the first of them.
    pub fn receive(&mut self, bytes: &[u8], is_last: bool, page: &Page) -> AfterAnswers {
        if self.begun.is_empty() {
            let (used, next) = self.answer_all(bytes, is_last, page);
            self.begun.extend_from_slice(&bytes[used..]);
            return next;
        }
        let mut begun = std::mem::take(&mut self.begun);
        begun.extend_from_slice(bytes);
        let (used, next) = self.answer_all(&begun, is_last, page);
        if used < begun.len() {
            begun.drain(..used);
            self.begun = begun;
        }
        next
    }

    /// Answers the requests in `input`; returns the number of bytes that it consumed.
    fn answer_all(&mut self, input: &[u8], is_last: bool, page: &Page) -> (usize, AfterAnswers) {
        let mut used = 0;
        loop {
            used += self.skip_body(input.len() - used);
            if used == input.len() {
                return (used, AfterAnswers::Read);
            }
            match self.answer_one(&input[used..], is_last, page) {
                Ok(0) => return (used, AfterAnswers::Read),
                Ok(length) => used += length,
                Err(next) => return (input.len(), next),
            }
        }
    }

    /// Skips the part of the body that lies in the next `here` bytes.
    fn skip_body(&mut self, here: usize) -> usize {
        let skipped = self.body_left.min(here as u64);
        self.body_left -= skipped;
        skipped as usize
    }

    /// Answers the first request of `input`; returns the length of its head, 0 if it is incomplete.
    fn answer_one(
        &mut self,
        input: &[u8],
        is_last: bool,
        page: &Page,
    ) -> Result<usize, AfterAnswers> {
        let (length, request) = match read_head(input) {
            Ok(Status::Complete(head)) if head.0 <= HEAD_MAX => head,
            Ok(Status::Partial) if input.len() < HEAD_MAX => return Ok(0),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => {
                return Err(self.refuse("431 Request Header Fields Too Large"));
            }
            Err(_) => return Err(self.refuse("400 Bad Request")),
        };
        let Some(request) = request else { return Err(self.refuse("400 Bad Request")) };
        let Body::Length(body_left) = request.body else {
            self.write_answer(&request, false, page);
            return Err(AfterAnswers::CloseAfterRest);
        };
        let stays = request.wants_to_stay && !is_last;
        self.write_answer(&request, stays, page);
        self.body_left = body_left;
        match (stays, body_left) {
            (true, _) => Ok(length),
            (false, 0) if length == input.len() => Err(AfterAnswers::Close),
            (false, _) => Err(AfterAnswers::CloseAfterRest),
        }
    }

    fn write_answer(&mut self, request: &RequestHead, stays: bool, page: &Page) {
        let out = &mut self.output;
        let head = if request.is_allowed {
            page.head()
        } else {
            b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\n"
        };
        out.extend_from_slice(head);
        match (stays, request.is_http_1_0) {
            (true, false) => {}
            (true, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
            (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        }
        out.extend_from_slice(b"\r\n");
        if request.is_allowed && !request.is_head {
            self.served += 1;
            match page.is_copied() {
                true => out.extend_from_slice(page.body()),
                false => self.bodies.push(out.len()),
            }
        }
    }

    /// Answers input that cannot be parsed. Input after it could not be parsed either.
    fn refuse(&mut self, status: &str) -> AfterAnswers {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        self.output.extend_from_slice(answer.as_bytes());
        AfterAnswers::CloseAfterRest
    }
}

/// The length of a head and its request; no request if the head violates the protocol.
type Head = (usize, Option<RequestHead>);

/// Parses the head at the start of `input`. Tries a few fields first, which suffice for most
/// requests and keep the stack of an idle connection within one page.
fn read_head(input: &[u8]) -> httparse::Result<Head> {
    match read_head_of::<FEW_FIELDS>(input) {
        Err(httparse::Error::TooManyHeaders) => read_large_head(input),
        result => result,
    }
}

#[cold]
#[inline(never)]
fn read_large_head(input: &[u8]) -> httparse::Result<Head> {
    read_head_of::<FIELDS_MAX>(input)
}

fn read_head_of<const FIELDS: usize>(input: &[u8]) -> httparse::Result<Head> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut request = Request::new(&mut []);
    let status = request.parse_with_uninit_headers(input, &mut fields)?;
    Ok(match status {
        Status::Complete(length) => Status::Complete((length, RequestHead::of(&request))),
        Status::Partial => Status::Partial,
    })
}

impl RequestHead {
    /// Interprets a complete head; `None` if it contradicts itself or the protocol.
    fn of(request: &Request<'_, '_>) -> Option<Self> {
        let method = request.method?;
        let is_http_1_0 = request.version? == 0;
        let mut connection = ConnectionOptions::default();
        let (mut hosts, mut length, mut is_skippable) = (0, None, true);
        for field in request.headers.iter() {
            // Compares the length first: no other field with these lengths matters here.
            match field.name.len() {
                4 if is(field, "host") => hosts += 1,
                6 if is(field, "expect") => is_skippable = false,
                10 if is(field, "connection") => connection.read(field.value),
                14 if is(field, "content-length") => {
                    let value = parse_length(field.value)?;
                    if length.replace(value).is_some_and(|before| before != value) {
                        return None;
                    }
                }
                17 if is(field, "transfer-encoding") => is_skippable = false,
                _ => {}
            }
        }
        if hosts > 1 || (hosts == 0 && !is_http_1_0) {
            return None;
        }
        Some(RequestHead {
            is_head: method == "HEAD",
            is_allowed: method == "GET" || method == "HEAD",
            is_http_1_0,
            wants_to_stay: !connection.close && (connection.keep_alive || !is_http_1_0),
            body: if is_skippable { Body::Length(length.unwrap_or(0)) } else { Body::NotSkipped },
        })
    }
}

fn is(field: &Header<'_>, name: &str) -> bool {
    field.name.eq_ignore_ascii_case(name)
}

/// Digits only, because a sign or a list can smuggle requests past a proxy.
fn parse_length(value: &[u8]) -> Option<u64> {
    let text = str::from_utf8(value).ok()?.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// The options of the `Connection` fields.
#[derive(Default)]
struct ConnectionOptions {
    close: bool,
    keep_alive: bool,
}

impl ConnectionOptions {
    fn read(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

#[cfg(test)]
mod tests;
