//! The fields that decide where a request ends, and whether its connection stays open.
//!
//! RFC 9112, section 6.3, lets a server repair some contradictions. This one repairs none, because
//! a proxy before it may repair them in another way, and then the two disagree about where the next
//! request begins: request smuggling.

use http::StatusCode;

use crate::refusal::Refusal;

const NOT_LAST: Refusal = Refusal::malformed("chunked must be the last transfer coding, once");

/// How the body of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A number of bytes; 0 if the request has no body.
    Length(u64),
    /// Chunks.
    Chunked,
}

/// What the fields of a head say about the message and its connection, gathered field by field.
#[derive(Debug, Default)]
pub(crate) struct FramingFields {
    length: Option<u64>,
    has_coding: bool,
    /// The last coding so far is `chunked`.
    is_chunked: bool,
    has_other_coding: bool,
    pub(crate) wants_close: bool,
    pub(crate) wants_to_stay: bool,
    pub(crate) wants_upgrade: bool,
    pub(crate) expects_continue: bool,
}

impl FramingFields {
    /// Reads a `Content-Length`: digits, once. Even two equal ones are refused.
    pub(crate) fn content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        const BAD: Refusal = Refusal::malformed("Content-Length must be one decimal number");
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(BAD);
        }
        if self.length.is_some() {
            return Err(Refusal::malformed("there must be one Content-Length only"));
        }
        let add =
            |length: u64, digit: &u8| length.checked_mul(10)?.checked_add((digit - b'0').into());
        let length = value.iter().try_fold(0, add);
        self.length = Some(length.ok_or(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is larger than any limit",
        ))?);
        Ok(())
    }

    /// Reads a `Transfer-Encoding`.
    pub(crate) fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        let mut codings = elements(value).peekable();
        if codings.peek().is_none() {
            return Err(Refusal::malformed("Transfer-Encoding must name a coding"));
        }
        for coding in codings {
            if self.is_chunked {
                return Err(NOT_LAST);
            }
            self.has_coding = true;
            self.is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.has_other_coding |= !self.is_chunked;
        }
        Ok(())
    }

    /// Reads a `Connection`.
    pub(crate) fn connection(&mut self, value: &[u8]) {
        // Browsers send this with each request.
        if value == b"keep-alive" {
            self.wants_to_stay = true;
            return;
        }
        for option in elements(value) {
            self.wants_close |= option.eq_ignore_ascii_case(b"close");
            self.wants_to_stay |= option.eq_ignore_ascii_case(b"keep-alive");
            self.wants_upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }

    /// Reads an `Expect`; `100-continue` is the only expectation that exists.
    pub(crate) fn expect(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            return Err(Refusal::new(
                StatusCode::EXPECTATION_FAILED,
                "this server fulfils no expectation but 100-continue",
            ));
        }
        self.expects_continue = true;
        Ok(())
    }

    /// Decides how the body is delimited.
    pub(crate) fn framing(&self, is_http_1_0: bool) -> Result<Framing, Refusal> {
        match (self.has_coding, self.length) {
            (false, length) => Ok(Framing::Length(length.unwrap_or(0))),
            (true, Some(_)) => Err(Refusal::malformed(
                "a request has Content-Length or Transfer-Encoding, not both",
            )),
            (true, None) if is_http_1_0 => {
                Err(Refusal::malformed("HTTP/1.0 has no Transfer-Encoding"))
            }
            // Nobody knows where such a body ends, whatever its codings are.
            (true, None) if !self.is_chunked => Err(NOT_LAST),
            (true, None) if self.has_other_coding => Err(Refusal::new(
                StatusCode::NOT_IMPLEMENTED,
                "chunked is the only transfer coding that this server reads",
            )),
            (true, None) => Ok(Framing::Chunked),
        }
    }

    /// Whether the connection stays open behind the answer.
    pub(crate) fn stays(&self, is_http_1_0: bool) -> bool {
        !self.wants_close && (!is_http_1_0 || self.wants_to_stay)
    }
}

/// The elements of a list, without spaces and tabs around them; empty elements are left out (RFC
/// 9110, section 5.6.1).
pub(crate) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    list.split(|byte| *byte == b',')
        .map(move |element| {
            let start = element.iter().position(|byte| !is_space(byte)).unwrap_or(element.len());
            let end = element.iter().rposition(|byte| !is_space(byte)).map_or(start, |at| at + 1);
            &element[start..end]
        })
        .filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(lengths: &[&str], codings: &[&str], is_http_1_0: bool) -> Result<Framing, u16> {
        let mut fields = FramingFields::default();
        let mut all = || {
            lengths.iter().try_for_each(|value| fields.content_length(value.as_bytes()))?;
            codings.iter().try_for_each(|value| fields.transfer_encoding(value.as_bytes()))?;
            fields.framing(is_http_1_0)
        };
        all().map_err(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn a_body_is_delimited_by_one_field() {
        assert_eq!(framing(&[], &[], false), Ok(Framing::Length(0)));
        assert_eq!(framing(&["007"], &[], true), Ok(Framing::Length(7)));
        let most = u64::MAX.to_string();
        assert_eq!(framing(&[&most], &[], false), Ok(Framing::Length(u64::MAX)));
        for one in ["chunked", "Chunked", " ,chunked,"] {
            assert_eq!(framing(&[], &[one], false), Ok(Framing::Chunked), "{one}");
        }
    }

    #[test]
    fn contradictions_are_refused_and_not_repaired() {
        for length in ["", "+1", "-1", "1 ", " 1", "0x1", "1,1", "1, 1", "1.0", "\u{661}"] {
            assert_eq!(framing(&[length], &[], false), Err(400), "{length:?}");
        }
        assert_eq!(framing(&["1", "1"], &[], false), Err(400));
        assert_eq!(framing(&["18446744073709551616"], &[], false), Err(413));
        assert_eq!(framing(&["1"], &["chunked"], false), Err(400));
        assert_eq!(framing(&["0"], &["chunked"], false), Err(400));
        assert_eq!(framing(&[], &["chunked"], true), Err(400));
        assert_eq!(framing(&[], &["chunked, chunked"], false), Err(400));
        assert_eq!(framing(&[], &["chunked", "chunked"], false), Err(400));
        assert_eq!(framing(&[], &["chunked, gzip"], false), Err(400));
        assert_eq!(framing(&[], &[""], false), Err(400));
        assert_eq!(framing(&[], &[","], false), Err(400));
        for coding in ["gzip", "identity", "chunked;a=b", "\u{b}chunked", "chunked\0"] {
            assert_eq!(framing(&[], &[coding], false), Err(400), "{coding:?}");
        }
        assert_eq!(framing(&[], &["chunked", ""], false), Err(400));
        assert_eq!(framing(&[], &["gzip, chunked"], false), Err(501));
        assert_eq!(framing(&[], &["gzip", "chunked"], false), Err(501));
    }

    #[test]
    fn a_connection_stays_open_unless_somebody_wants_it_closed() {
        for (value, is_http_1_0, stays) in [
            ("", false, true),
            ("", true, false),
            ("keep-alive", true, true),
            ("a, Keep-Alive ,b", true, true),
            ("close, keep-alive", true, false),
            ("x,CLOSE", false, false),
            ("closed", false, true),
        ] {
            let mut fields = FramingFields::default();
            fields.connection(value.as_bytes());
            assert_eq!(fields.stays(is_http_1_0), stays, "{value:?}");
        }
    }

    #[test]
    fn the_one_expectation_is_100_continue() {
        let mut fields = FramingFields::default();
        assert!(fields.expect(b"100-Continue").is_ok() && fields.expects_continue);
        for other in ["", "200-ok", "100-continue, x", "100-continue;q=1"] {
            let refused = FramingFields::default().expect(other.as_bytes()).unwrap_err();
            assert_eq!(refused.status(), 417, "{other}");
        }
    }
}
