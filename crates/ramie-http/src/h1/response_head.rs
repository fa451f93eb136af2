//! The head of a response, as bytes.

use std::io::Write;

use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::date;

/// How the body of a response is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseFraming {
    /// There is no body, and no field that says so: 1xx, 204, 304.
    None,
    /// There is no body, but the handler states the length of the one that there would be: 304, and
    /// responses to HEAD.
    Stated,
    /// A number of bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// All bytes up to the end of the connection, for HTTP/1.0.
    UntilClose,
}

/// What the connection does behind a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// It stays open, as HTTP/1.1 assumes.
    Stay,
    /// It stays open, which HTTP/1.0 must be told.
    StayOfHttp10,
    Close,
    /// It changes to another protocol.
    Upgrade,
}

/// What the fields of a handler say about the connection and the head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HandlersFields {
    /// The connection is to be closed behind the response.
    pub(crate) says_close: bool,
    has_date: bool,
    has_upgrade: bool,
}

impl HandlersFields {
    /// Looks at a field. Returns whether it is left out, because the connection writes it itself.
    /// Names of a few lengths are compared.
    fn is_left_out(&mut self, name: &str, value: &[u8], framing: ResponseFraming) -> bool {
        match name.len() {
            4 => self.has_date |= name == "date",
            7 => self.has_upgrade |= name == "upgrade",
            10 if name == "connection" => {
                self.says_close |= has_close(value);
                return true;
            }
            10 => return name == "keep-alive",
            14 => return name == "content-length" && framing != ResponseFraming::Stated,
            17 => return name == "transfer-encoding",
            _ => {}
        }
        false
    }
}

#[cold]
fn has_close(options: &[u8]) -> bool {
    let mut options = options.split(|byte| *byte == b',');
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// Whether the handler states a length, once and well-formed.
pub(crate) fn states_length(headers: &HeaderMap) -> bool {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).into_iter();
    let is_number =
        |value: &HeaderValue| !value.is_empty() && value.as_bytes().iter().all(u8::is_ascii_digit);
    lengths.next().is_some_and(is_number) && lengths.next().is_none()
}

/// Appends the head of most responses: 200, a Content-Type and no other field of the handler, and a
/// length; the connection stays open. The same bytes as those of [`append_start`] and
/// [`append_end`], by a third of their instructions.
pub(crate) fn append_usual(out: &mut Vec<u8>, content_type: &HeaderValue, length: usize) {
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: ");
    out.extend_from_slice(content_type.as_bytes());
    date::append_amid_usual(out);
    append_number(out, length as u64);
    out.extend_from_slice(b"\r\n");
}

/// Appends the status and the fields of a handler.
pub(crate) fn append_start(
    out: &mut Vec<u8>,
    status: StatusCode,
    headers: &HeaderMap,
    framing: ResponseFraming,
) -> HandlersFields {
    append_status(out, status);
    let mut seen = HandlersFields::default();
    for (name, value) in headers {
        // Most responses have this field, so it is written without the checks of others.
        if *name == header::CONTENT_TYPE {
            out.extend_from_slice(b"content-type: ");
            append_rest(out, value.as_bytes());
            continue;
        }
        let (name, value) = (name.as_str(), value.as_bytes());
        if !seen.is_left_out(name, value, framing) {
            append_field(out, name.as_bytes(), value);
        }
    }
    if !seen.has_date && !status.is_informational() {
        date::append_field_of_now(out);
    }
    seen
}

/// Appends the fields of the connection, and the end of the head.
pub(crate) fn append_end(
    out: &mut Vec<u8>,
    framing: ResponseFraming,
    after: Afterwards,
    seen: HandlersFields,
) {
    match framing {
        ResponseFraming::Length(length) => append_length(out, length),
        ResponseFraming::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        ResponseFraming::None | ResponseFraming::Stated | ResponseFraming::UntilClose => {}
    }
    if after != Afterwards::Stay || seen.has_upgrade {
        append_connection(out, after, seen);
    }
    out.extend_from_slice(b"\r\n");
}

#[cold]
fn append_connection(out: &mut Vec<u8>, after: Afterwards, seen: HandlersFields) {
    // An Upgrade, as in 426, must be an option of the connection, too (RFC 9110, section 7.8).
    out.extend_from_slice(match (after, seen.has_upgrade) {
        (Afterwards::Stay, false) => b"" as &[u8],
        (Afterwards::Stay, true) | (Afterwards::Upgrade, _) => b"connection: upgrade\r\n",
        (Afterwards::StayOfHttp10, false) => b"connection: keep-alive\r\n",
        (Afterwards::StayOfHttp10, true) => b"connection: keep-alive, upgrade\r\n",
        (Afterwards::Close, false) => b"connection: close\r\n",
        (Afterwards::Close, true) => b"connection: close, upgrade\r\n",
    });
}

#[inline]
fn append_status(out: &mut Vec<u8>, status: StatusCode) {
    match status {
        StatusCode::OK => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
        _ => append_other_status(out, status),
    }
}

#[inline(never)]
fn append_other_status(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or("").as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a field and its line end.
pub(crate) fn append_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    append_rest(out, value);
}

/// Appends what follows the colon of a field.
fn append_rest(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the field Content-Length.
#[inline]
fn append_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"content-length: ");
    append_number(out, length);
}

/// Appends a number and a line end.
#[inline]
fn append_number(out: &mut Vec<u8>, number: u64) {
    match number {
        0..1_000_000 => append_line(out, number as u32),
        _ => append_large(out, number),
    }
}

/// Appends a number of up to six digits and a line end, without std's formatter.
#[inline]
fn append_line(out: &mut Vec<u8>, mut number: u32) {
    let mut line = u64::from(u16::from_le_bytes(*b"\r\n"));
    let mut length = 2;
    loop {
        line = (line << 8) | u64::from(b'0' + (number % 10) as u8);
        length += 1;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    // To copy all eight bytes costs less than to call memcpy for some of them.
    out.extend_from_slice(&line.to_le_bytes());
    out.truncate(out.len() - 8 + length);
}

#[cold]
fn append_large(out: &mut Vec<u8>, number: u64) {
    let _ = write!(out, "{number}\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(
        status: u16,
        fields: &[(&'static str, &'static str)],
        framing: ResponseFraming,
    ) -> String {
        let mut headers = HeaderMap::new();
        headers.insert("date", HeaderValue::from_static("now"));
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let mut out = Vec::new();
        let status = StatusCode::from_u16(status).unwrap();
        let seen = append_start(&mut out, status, &headers, framing);
        append_end(&mut out, framing, Afterwards::Stay, seen);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_head_has_a_status_fields_and_a_length() {
        assert_eq!(
            head(200, &[("a", "b"), ("a", "c")], ResponseFraming::Length(1_000_000)),
            "HTTP/1.1 200 OK\r\ndate: now\r\na: b\r\na: c\r\ncontent-length: 1000000\r\n\r\n"
        );
        assert_eq!(
            head(404, &[], ResponseFraming::Length(0)),
            "HTTP/1.1 404 Not Found\r\ndate: now\r\ncontent-length: 0\r\n\r\n"
        );
        assert!(head(299, &[], ResponseFraming::None).starts_with("HTTP/1.1 299 \r\n"));
        let largest = head(200, &[], ResponseFraming::Length(u64::MAX));
        assert!(largest.contains("content-length: 18446744073709551615\r\n"));
    }

    #[test]
    fn lengths_are_decimal_numbers() {
        for length in [0, 7, 10, 123_456, 999_999, 1_000_000, u64::from(u32::MAX) + 1, u64::MAX] {
            let text = head(200, &[], ResponseFraming::Length(length));
            assert!(text.ends_with(&format!("\r\ncontent-length: {length}\r\n\r\n")), "{text}");
        }
    }

    #[test]
    fn the_usual_head_is_as_any_other() {
        let text = HeaderValue::from_static("text/plain");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, text.clone())]);
        for length in [0, 9, 10, 12_345] {
            let any = || {
                let mut out = b"before".to_vec();
                let framing = ResponseFraming::Length(length as u64);
                let seen = append_start(&mut out, StatusCode::OK, &headers, framing);
                append_end(&mut out, framing, Afterwards::Stay, seen);
                out
            };
            let before = any();
            let mut usual = b"before".to_vec();
            append_usual(&mut usual, &text, length);
            // The second may have changed in between.
            assert!([before, any()].contains(&usual), "{}", usual.escape_ascii());
        }
    }

    #[test]
    fn fields_of_the_connection_are_not_a_handlers() {
        let own = [
            ("content-length", "7"),
            ("transfer-encoding", "gzip"),
            ("connection", "x"),
            ("keep-alive", "y"),
        ];
        assert_eq!(
            head(200, &own, ResponseFraming::Chunked),
            "HTTP/1.1 200 OK\r\ndate: now\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        assert!(head(304, &own, ResponseFraming::Stated).contains("content-length: 7\r\n"));
        assert!(!head(204, &own, ResponseFraming::None).contains("content-length"));
    }
}
