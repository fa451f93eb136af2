//! HTTP/1.1 without I/O: bytes go in, answers come out.
//!
//! Every GET is answered with `Hello, world!`, a HEAD with its head, other methods with 405; heads
//! that are no HTTP with 400, too large ones with 431. Requests may come in pieces or several at
//! once. A body that says its length is skipped; a chunked one ends the connection.

use std::mem::MaybeUninit;

use httparse::{Header, Request, Status};

/// The largest head of a request, in bytes, and the most fields in it.
const HEAD_MAX: usize = 8 * 1024;
const FIELDS_MAX: usize = 64;
const FEW_FIELDS: usize = 8;

const BODY: &str = "Hello, world!\n";

/// What to do when the answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Read,
    Close,
    /// Close, but read what the peer still sends before that.
    CloseAfterRest,
}

/// One side of a connection: what was received and is not used up, what is to be sent.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// The head that is not whole yet. Without memory while there is none, as of most connections
    /// at most times.
    begun: Vec<u8>,
    /// Bytes of a body that are still to come.
    body_left: u64,
    output: Vec<u8>,
}

/// What a request's head asks for.
struct Wish {
    is_head: bool,
    is_allowed: bool,
    is_http_1_0: bool,
    wants_to_stay: bool,
    body: Body,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// So many bytes; 0 if there is none.
    Length(u64),
    /// It ends where the chunks say, or is sent only after a word from us.
    NotSkipped,
}

/// The output's memory is kept for the next answers up to this size.
const OUTPUT_KEPT: usize = 512;

impl Exchange {
    /// Whether no part of a request has been received that was not answered.
    pub(super) fn is_between_requests(&self) -> bool {
        self.begun.is_empty() && self.body_left == 0
    }

    pub(super) fn answers(&self) -> &[u8] {
        &self.output
    }

    pub(super) fn answers_are_sent(&mut self) {
        self.output.clear();
        self.output.shrink_to(OUTPUT_KEPT);
    }

    /// Takes in what came and answers all requests that are whole.
    pub(super) fn receive(&mut self, bytes: &[u8], is_last: bool) -> Next {
        if self.begun.is_empty() {
            let (used, next) = self.answer_all(bytes, is_last);
            self.begun.extend_from_slice(&bytes[used..]);
            return next;
        }
        let mut begun = std::mem::take(&mut self.begun);
        begun.extend_from_slice(bytes);
        let (used, next) = self.answer_all(&begun, is_last);
        if used < begun.len() {
            begun.drain(..used);
            self.begun = begun;
        }
        next
    }

    /// Answers the requests in `input`; tells how many bytes they took.
    fn answer_all(&mut self, input: &[u8], is_last: bool) -> (usize, Next) {
        let mut used = 0;
        loop {
            used += self.skip_body(input.len() - used);
            if used == input.len() {
                return (used, Next::Read);
            }
            match self.answer_one(&input[used..], is_last) {
                Ok(0) => return (used, Next::Read),
                Ok(length) => used += length,
                Err(next) => return (input.len(), next),
            }
        }
    }

    /// Skips the body's part of the next `here` bytes.
    fn skip_body(&mut self, here: usize) -> usize {
        let skipped = self.body_left.min(here as u64);
        self.body_left -= skipped;
        skipped as usize
    }

    /// Answers the first request of `input`; gives the length of its head, 0 if it is not whole.
    fn answer_one(&mut self, input: &[u8], is_last: bool) -> Result<usize, Next> {
        let (length, wish) = match read_head(input) {
            Ok(Status::Complete(head)) if head.0 <= HEAD_MAX => head,
            Ok(Status::Partial) if input.len() < HEAD_MAX => return Ok(0),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => {
                return Err(self.refuse("431 Request Header Fields Too Large"));
            }
            Err(_) => return Err(self.refuse("400 Bad Request")),
        };
        let Some(wish) = wish else { return Err(self.refuse("400 Bad Request")) };
        let Body::Length(body_left) = wish.body else {
            self.write_answer(&wish, false);
            return Err(Next::CloseAfterRest);
        };
        let stays = wish.wants_to_stay && !is_last;
        self.write_answer(&wish, stays);
        self.body_left = body_left;
        match (stays, body_left) {
            (true, _) => Ok(length),
            (false, 0) if length == input.len() => Err(Next::Close),
            (false, _) => Err(Next::CloseAfterRest),
        }
    }

    fn write_answer(&mut self, wish: &Wish, stays: bool) {
        let out = &mut self.output;
        let head = if wish.is_allowed {
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n"
        } else {
            "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\n"
        };
        out.extend_from_slice(head.as_bytes());
        match (stays, wish.is_http_1_0) {
            (true, false) => {}
            (true, true) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
            (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        }
        out.extend_from_slice(b"\r\n");
        if wish.is_allowed && !wish.is_head {
            out.extend_from_slice(BODY.as_bytes());
        }
    }

    /// Answers what cannot be understood; nothing after it could be, either.
    fn refuse(&mut self, status: &str) -> Next {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        self.output.extend_from_slice(answer.as_bytes());
        Next::CloseAfterRest
    }
}

/// A head's length, and what it asks for: none if it contradicts itself or the protocol.
type Head = (usize, Option<Wish>);

/// Reads the head at the start of `input`, with the little room on the stack that most need: an
/// idle connection's stack is then one page.
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
        Status::Complete(length) => Status::Complete((length, Wish::of(&request))),
        Status::Partial => Status::Partial,
    })
}

impl Wish {
    /// Reads a whole head; none if it contradicts itself or the protocol.
    fn of(request: &Request<'_, '_>) -> Option<Self> {
        let method = request.method?;
        let is_http_1_0 = request.version? == 0;
        let mut connection = Connection::default();
        let (mut hosts, mut length, mut is_skippable) = (0, None, true);
        for field in request.headers.iter() {
            // No field that matters here has another length.
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
        Some(Wish {
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

/// Digits only: a sign or a list has been used to smuggle requests past proxies.
fn parse_length(value: &[u8]) -> Option<u64> {
    let text = str::from_utf8(value).ok()?.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// What the `Connection` fields ask for.
#[derive(Default)]
struct Connection {
    close: bool,
    keep_alive: bool,
}

impl Connection {
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
