//! The head of a request, from its bytes: strict, by RFC 9112 and RFC 9110.
//!
//! The crate httparse finds the parts. It also reads heads that RFC 9112 lets a server repair, such
//! as those with bare line feeds; these are refused here, because a repair may differ from that of
//! a proxy before the server.

mod fields;

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version};
use httparse::{Error, Header, Request, Status};

use self::fields::read_fields;
use super::{
    framing::Framing,
    target::{self, Target, TargetForm},
};
use crate::{limits::Limits, refusal::Refusal};

/// The most bytes of a head that any limit allows, so that places in it are 16 bits.
pub(crate) const HEAD_MOST: usize = u16::MAX as usize;
/// The most fields of a head that any limit allows.
pub(crate) const FIELDS_MOST: usize = 256;
/// The number of fields of most requests; more are parsed with more stack.
const FEW_FIELDS: usize = 16;
/// The most memory for bytes and for fields that is kept for the next head.
const BYTES_KEPT: usize = 4 << 10;
const FIELDS_KEPT: usize = 32;

/// The head of a request, whose fields lie in its bytes. Its memory is used for one head after
/// another.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) bytes: Vec<u8>,
    pub(crate) method: Method,
    pub(crate) version: Version,
    /// A copy of the target, which is looked at as text several times.
    pub(crate) target_text: String,
    pub(crate) target: Target,
    pub(crate) fields: Vec<FieldSpan>,
    pub(crate) framing: Framing,
    pub(crate) stays: bool,
    pub(crate) wants_upgrade: bool,
    pub(crate) expects_continue: bool,
}

/// Where a field lies in the bytes of a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldSpan {
    name: (u16, u16),
    value: (u16, u16),
}

impl FieldSpan {
    pub(crate) fn name(self, head: &[u8]) -> &[u8] {
        &head[usize::from(self.name.0)..usize::from(self.name.1)]
    }

    pub(crate) fn value(self, head: &[u8]) -> &[u8] {
        &head[usize::from(self.value.0)..usize::from(self.value.1)]
    }
}

impl Head {
    /// The memory for a head that [`parse`] reads.
    pub(crate) const fn new() -> Self {
        Head {
            bytes: Vec::new(),
            method: Method::GET,
            version: Version::HTTP_11,
            target_text: String::new(),
            target: Target::EMPTY,
            fields: Vec::new(),
            framing: Framing::Length(0),
            stays: false,
            wants_upgrade: false,
            expects_continue: false,
        }
    }

    /// Forgets the head, and gives memory back if there is much of it.
    pub(crate) fn forget(&mut self) {
        // The target is a part of the bytes.
        if self.bytes.capacity() > BYTES_KEPT || self.fields.capacity() > FIELDS_KEPT {
            *self = Head::new();
        }
    }
}

/// Where a head ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The head has this many bytes, its empty line included.
    At(usize),
    /// It has not arrived as a whole. The next search may begin here.
    Later(usize),
}

/// Searches the end of a head from `from`, where an earlier search of these bytes stopped. Also
/// finds an end of bare line feeds, so that such a head is refused at once.
pub(crate) fn find_end(bytes: &[u8], from: usize) -> End {
    for line in memchr::memchr_iter(b'\n', &bytes[from..]) {
        let next = from + line + 1;
        match &bytes[next..] {
            [b'\n', ..] => return End::At(next + 1),
            [b'\r', b'\n', ..] => return End::At(next + 2),
            [] | [b'\r'] => return End::Later(next - 1),
            _ => {}
        }
    }
    End::Later(bytes.len())
}

/// Checks what has arrived of a head without an end: whether it may still become one.
pub(crate) fn check_begun(bytes: &[u8], limits: &Limits) -> Result<(), Refusal> {
    check_start(bytes)?;
    let line = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
    check_line(line, limits)?;
    if bytes.len() > limits.head_bytes { Err(TOO_LARGE) } else { Ok(()) }
}

fn check_start(bytes: &[u8]) -> Result<(), Refusal> {
    match bytes.first().is_none_or(u8::is_ascii_graphic) {
        true => Ok(()),
        false => Err(Refusal::malformed("a request begins with its method")),
    }
}

const TOO_LARGE: Refusal = Refusal::new(
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    "the head of the request is too large",
);

/// The bytes of the first line of a request.
pub(crate) fn line_length(method: &str, target: &str) -> usize {
    method.len() + " ".len() + target.len() + " HTTP/1.1\r\n".len()
}

fn check_line(length: usize, limits: &Limits) -> Result<(), Refusal> {
    if length > limits.line_bytes {
        return Err(Refusal::new(StatusCode::URI_TOO_LONG, "the line of the request is too long"));
    }
    Ok(())
}

/// Parses the head with which `bytes` begin, and returns its length, without a search for its end.
/// None: it has not arrived as a whole, is refused, or has many fields. Then [`find_end`] and
/// [`parse`] decide, whose refusals do not depend on the pieces in which a head arrives.
pub(crate) fn parse_at_once(bytes: &[u8], limits: &Limits, head: &mut Head) -> Option<usize> {
    check_start(bytes).ok()?;
    let bytes = &bytes[..bytes.len().min(limits.head_bytes.min(HEAD_MOST))];
    let mut few = [const { MaybeUninit::uninit() }; FEW_FIELDS];
    let length = parse_into(bytes, limits, &mut few, head).ok()?;
    debug_assert_eq!(find_end(bytes, 0), End::At(length));
    Some(length)
}

/// Parses a head. `bytes` are all of it and no more.
pub(crate) fn parse(bytes: &[u8], limits: &Limits, head: &mut Head) -> Result<(), Refusal> {
    // In the order of `check_begun`, so that the pieces in which a head arrives do not matter.
    check_start(bytes)?;
    if bytes.len() > limits.head_bytes.min(HEAD_MOST) {
        check_line(memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1), limits)?;
        return Err(TOO_LARGE);
    }
    let mut few = [const { MaybeUninit::uninit() }; FEW_FIELDS];
    let parsed = match parse_into(bytes, limits, &mut few, head) {
        Err(Unparsed::TooManyFields) if limits.fields > FEW_FIELDS => {
            parse_many(bytes, limits, head)
        }
        parsed => parsed,
    };
    match parsed {
        Ok(length) if length == bytes.len() => Ok(()),
        Ok(_) => Err(MALFORMED),
        Err(Unparsed::TooManyFields) => Err(Refusal::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "the head of the request has too many fields",
        )),
        Err(Unparsed::Refused(refusal)) => Err(refusal),
    }
}

const MALFORMED: Refusal = Refusal::malformed("the request is malformed");

/// Why a head was not parsed.
enum Unparsed {
    TooManyFields,
    Refused(Refusal),
}

impl From<Refusal> for Unparsed {
    // A call, so that the compiler knows that it is rare, and lays the usual way out in one piece.
    #[cold]
    #[inline(never)]
    fn from(refusal: Refusal) -> Self {
        Unparsed::Refused(refusal)
    }
}

/// A function of its own, because its array would otherwise be in the frame of every connection.
#[cold]
#[inline(never)]
fn parse_many(bytes: &[u8], limits: &Limits, head: &mut Head) -> Result<usize, Unparsed> {
    let mut many = [const { MaybeUninit::uninit() }; FIELDS_MOST];
    parse_into(bytes, limits, &mut many, head)
}

/// Parses the head with which `bytes` begin, and returns its length. If the head is refused, that
/// in `head` has no meaning.
fn parse_into<'b>(
    bytes: &'b [u8],
    limits: &Limits,
    room: &mut [MaybeUninit<Header<'b>>],
    head: &mut Head,
) -> Result<usize, Unparsed> {
    let mut request = Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(bytes, room) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Err(MALFORMED.into()),
        Err(error) => return Err(unparsed(error, bytes)),
    };
    let bytes = &bytes[..length];
    check_line_ends(bytes, request.headers)?;
    let (method, path) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    check_line(line_length(method, path), limits)?;
    if request.headers.len() > limits.fields {
        return Err(Unparsed::TooManyFields);
    }
    if method == "GET" {
        head.method = Method::GET;
    } else {
        head.method = other_method(method)?;
    }
    target::parse(&head.method, path.as_bytes(), &mut head.target)?;
    head.target_text.clear();
    head.target_text.push_str(path);
    head.version = if request.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    read_fields(bytes, request.headers, limits, head)?;
    if head.target.form == TargetForm::Absolute {
        replace_host(bytes, &mut head.fields, head.target.authority(path.as_bytes()));
    }
    head.bytes.clear();
    head.bytes.extend_from_slice(bytes);
    Ok(length)
}

/// Not inlined, because most requests are GET.
#[inline(never)]
fn other_method(method: &str) -> Result<Method, Refusal> {
    Method::from_bytes(method.as_bytes())
        .map_err(|_| Refusal::malformed("the method of the request is malformed"))
}

#[cold]
#[inline(never)]
fn unparsed(error: Error, bytes: &[u8]) -> Unparsed {
    match error {
        Error::TooManyHeaders => Unparsed::TooManyFields,
        Error::Version => version_refused(bytes).into(),
        Error::NewLine => BARE_LINE_FEED.into(),
        Error::HeaderName | Error::HeaderValue => {
            Refusal::malformed("a field of the request is malformed").into()
        }
        _ => MALFORMED.into(),
    }
}

const BARE_LINE_FEED: Refusal =
    Refusal::malformed("each line ends with a carriage return and a line feed");

/// httparse also takes bare line feeds for the ends of lines, but has line feeds nowhere else. So
/// each lies before the name of a field, or in the empty line and before it.
fn check_line_ends(bytes: &[u8], headers: &[Header<'_>]) -> Result<(), Refusal> {
    let is_behind_line = |header: &Header<'_>| {
        let start = offset(bytes, header.name.as_bytes());
        bytes.get(start.wrapping_sub(2)..start) == Some(b"\r\n")
    };
    match bytes.ends_with(b"\r\n\r\n") && headers.iter().all(is_behind_line) {
        true => Ok(()),
        false => Err(BARE_LINE_FEED),
    }
}

/// 505 for a version of HTTP that exists or may exist, 400 for anything else.
fn version_refused(bytes: &[u8]) -> Refusal {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let version = words.nth(2).filter(|_| words.next().is_none()).unwrap_or_default();
    match version {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor, b'\r']
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Refusal::new(
                StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                "this server speaks HTTP/1.1 and HTTP/1.0 here",
            )
        }
        _ => Refusal::malformed("the line of the request does not end with a version of HTTP"),
    }
}

/// The host of an absolute target replaces that of the field (RFC 9112, section 3.2.2), so that
/// nobody who looks at the field decides by another host.
#[cold]
#[inline(never)]
fn replace_host(bytes: &[u8], spans: &mut [FieldSpan], authority: Option<&[u8]>) {
    let is_host = |span: &&mut FieldSpan| span.name(bytes).eq_ignore_ascii_case(b"host");
    if let (Some(host), Some(authority)) = (spans.iter_mut().find(is_host), authority) {
        host.value = place(bytes, authority);
    }
}

/// Where a part of the head begins in it.
fn offset(head: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).wrapping_sub(head.as_ptr() as usize)
}

/// Where a part of the head lies in it.
fn place(head: &[u8], part: &[u8]) -> (u16, u16) {
    // An empty part may lie anywhere.
    let start = offset(head, part);
    match part.is_empty() {
        true => (0, 0),
        // Both fit, because the head has at most `HEAD_MOST` bytes.
        false => (start as u16, (start + part.len()) as u16),
    }
}

impl Head {
    pub(crate) fn is_http_1_0(&self) -> bool {
        self.version == Version::HTTP_10
    }

    /// Whether the scheme of the target is `https`.
    pub(crate) fn is_https(&self) -> bool {
        self.target.is_https(self.target_text.as_bytes())
    }

    /// The path of the target; `/` if it is empty.
    #[inline]
    pub(crate) fn path(&self) -> &str {
        let (start, end) = self.target.path;
        match &self.target_text[usize::from(start)..usize::from(end)] {
            "" => "/",
            path => path,
        }
    }

    /// The query of the target.
    pub(crate) fn query(&self) -> Option<&str> {
        let start = usize::from(self.target.path.1) + 1;
        self.target.has_query.then(|| &self.target_text[start..])
    }

    /// The host and the port of an absolute target.
    pub(crate) fn authority(&self) -> Option<&str> {
        let authority = self.target.authority(self.target_text.as_bytes())?;
        str::from_utf8(authority).ok()
    }

    /// The target.
    pub(crate) fn to_uri(&self) -> Uri {
        let target = Bytes::copy_from_slice(self.target_text.as_bytes());
        // The tests of `target` show that the crate `http` takes what `target::parse` takes.
        Uri::from_maybe_shared(target).unwrap_or_default()
    }

    /// The value of the first field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&[u8]> {
        let is_named =
            |field: &&FieldSpan| field.name(&self.bytes).eq_ignore_ascii_case(name.as_bytes());
        self.fields.iter().find(is_named).map(|field| field.value(&self.bytes))
    }

    /// All fields, by name.
    pub(crate) fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.fields.len());
        // All values share one copy.
        let bytes = Bytes::copy_from_slice(&self.bytes);
        for field in &self.fields {
            let name = HeaderName::from_bytes(field.name(&bytes));
            let value = bytes.slice_ref(field.value(&bytes));
            // httparse has checked both.
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_maybe_shared(value)) {
                map.append(name, value);
            }
        }
        map
    }
}

#[cfg(test)]
mod tests;
