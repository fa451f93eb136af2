//! Bodies in chunks (RFC 9112, section 7.1), without I/O.
//!
//! | state | left at | for |
//! |---|---|---|
//! | line: the size of a chunk, and its extensions | a line feed | data; at size 0, trailers |
//! | data | the last byte of the chunk | end of data |
//! | end of data | the line feed of CR LF | line |
//! | trailers | an empty line | done |
//!
//! Any byte that the grammar does not have is an error, bare line feeds included: the connection is
//! then closed, because nobody knows where the next request begins.

use std::ops::Range;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use httparse::Status;
use smallvec::SmallVec;

use crate::refusal::Refusal;

/// The most bytes of the line before a chunk, its extensions included.
const LINE_MOST: usize = 256;
/// The most bytes of such lines beyond one size for each byte of data: without this limit, a client
/// could send extensions for ever.
const OVERHEAD_MOST: u64 = 16 << 10;
/// The most fields of trailers.
pub(crate) const TRAILERS_MOST: usize = 32;

const MALFORMED: Refusal = Refusal::malformed("the body is not made of chunks");

/// Finds the data in a body of chunks.
#[derive(Debug)]
pub(crate) struct ChunkedDecoder {
    state: ChunkState,
    /// The line or the trailers that have arrived in part.
    begun: SmallVec<[u8; 32]>,
    /// Bytes of lines that carried no data.
    overhead: u64,
    trailers_most: usize,
    trailers: Option<HeaderMap>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Line,
    Data(u64),
    DataEnd,
    Trailers,
    Done,
}

/// What a step has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Data, at this place in the input.
    Data(Range<usize>),
    /// The end of the body.
    End,
    /// All input is consumed.
    NeedsMore,
}

impl ChunkedDecoder {
    /// `trailers_most` is the largest size of all trailers, in bytes.
    pub(crate) fn new(trailers_most: usize) -> Self {
        ChunkedDecoder {
            state: ChunkState::Line,
            begun: SmallVec::new(),
            overhead: 0,
            trailers_most,
            trailers: None,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// The fields behind the last chunk, once the body has ended.
    pub(crate) fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    /// Consumes input up to the next data or the end, and at most `most` bytes of data. Returns how
    /// many bytes it has consumed, and what it has found.
    pub(crate) fn advance(&mut self, input: &[u8], most: usize) -> Result<(usize, Found), Refusal> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            match self.state {
                ChunkState::Line => {
                    let Some(length) = self.take_line(rest, LINE_MOST)? else { break };
                    at += length;
                    self.begin_chunk()?;
                }
                ChunkState::Data(left) => {
                    let here = (rest.len().min(most) as u64).min(left);
                    self.state = match left - here {
                        0 => ChunkState::DataEnd,
                        left => ChunkState::Data(left),
                    };
                    let end = at + here as usize;
                    return Ok((end, Found::Data(at..end)));
                }
                ChunkState::DataEnd => {
                    let expected = &b"\r\n"[self.begun.len()..];
                    if rest[0] != expected[0] {
                        return Err(MALFORMED);
                    }
                    let Some(length) = self.take_line(&rest[..1], 2)? else {
                        at += 1;
                        continue;
                    };
                    at += length;
                    self.begun.clear();
                    self.state = ChunkState::Line;
                }
                ChunkState::Trailers => {
                    at += self.take_trailer_bytes(rest)?;
                }
                ChunkState::Done => break,
            }
        }
        match self.state {
            ChunkState::Done => Ok((at, Found::End)),
            _ => Ok((input.len(), Found::NeedsMore)),
        }
    }

    /// Appends input to the line that has begun. Returns how many bytes its end took.
    fn take_line(&mut self, rest: &[u8], most: usize) -> Result<Option<usize>, Refusal> {
        let end = memchr::memchr(b'\n', rest).map(|at| at + 1);
        let taken = &rest[..end.unwrap_or(rest.len())];
        if self.begun.len() + taken.len() > most {
            return Err(MALFORMED);
        }
        self.begun.extend_from_slice(taken);
        Ok(end)
    }

    fn begin_chunk(&mut self) -> Result<(), Refusal> {
        let size = chunk_size(&self.begun).ok_or(MALFORMED)?;
        self.overhead = (self.overhead + self.begun.len() as u64).saturating_sub(size);
        if self.overhead > OVERHEAD_MOST {
            return Err(Refusal::malformed("the chunks of the body are too small for their lines"));
        }
        self.begun.clear();
        self.state = match size {
            0 => ChunkState::Trailers,
            size => ChunkState::Data(size),
        };
        Ok(())
    }

    fn take_trailer_bytes(&mut self, rest: &[u8]) -> Result<usize, Refusal> {
        let line = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        if self.begun.len() + line > self.trailers_most {
            return Err(Refusal::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the trailers of the body are too large",
            ));
        }
        self.begun.extend_from_slice(&rest[..line]);
        if self.begun[..] == *b"\r\n" || self.begun.ends_with(b"\n\r\n") {
            self.trailers = Some(parse_trailers(&self.begun)?);
            self.begun = SmallVec::new();
            self.state = ChunkState::Done;
        } else if self.begun.ends_with(b"\n\n") || self.begun[..] == *b"\n" {
            return Err(MALFORMED);
        }
        Ok(line)
    }
}

/// The size in a line `SIZE [; NAME [= VALUE]]… CR LF`.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\r\n")?;
    let digits = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, extensions) = line.split_at(digits);
    if digits.is_empty() || digits.len() > 16 || !are_extensions(extensions) {
        return None;
    }
    // 16 digits are ASCII and fit.
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// Whether this is `*( BWS ";" BWS name [ BWS "=" BWS value ] )`.
fn are_extensions(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        rest = without_spaces(rest);
        let Some(behind) = rest.strip_prefix(b";") else { return false };
        let Some(behind) = without_token(without_spaces(behind)) else { return false };
        rest = behind;
        if let Some(value) = without_spaces(rest).strip_prefix(b"=") {
            let value = without_spaces(value);
            let behind = match value {
                [b'"', quoted @ ..] => without_quoted(quoted),
                _ => without_token(value),
            };
            let Some(behind) = behind else { return false };
            rest = behind;
        }
    }
    true
}

fn without_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[spaces..]
}

fn without_token(text: &[u8]) -> Option<&[u8]> {
    let is_token = |byte: &&u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let length = text.iter().take_while(is_token).count();
    (length > 0).then(|| &text[length..])
}

/// What follows a quoted string, whose first quote is left out.
fn without_quoted(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    loop {
        rest = match rest {
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', b'\t' | b' '..=b'~' | 0x80.., behind @ ..] => behind,
            [b'\t' | b' '..=b'~' | 0x80.., behind @ ..] if rest[0] != b'\\' => behind,
            _ => return None,
        }
    }
}

/// Fields that decide about the message must not come behind it (RFC 9110, section 6.5.1).
const NOT_IN_TRAILERS: [&str; 10] = [
    "transfer-encoding",
    "content-length",
    "host",
    "content-encoding",
    "content-type",
    "content-range",
    "trailer",
    "connection",
    "expect",
    "authorization",
];

/// Why trailers are refused that have such a field.
pub(crate) const FIELD_OF_HEAD: &str = "the trailers of the body have a field of a head";

/// Whether a field may come behind a body.
pub(crate) fn may_be_trailer(name: &str) -> bool {
    !NOT_IN_TRAILERS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn parse_trailers(bytes: &[u8]) -> Result<HeaderMap, Refusal> {
    let mut ends = memchr::memchr_iter(b'\n', bytes);
    if !ends.all(|at| at > 0 && bytes[at - 1] == b'\r') {
        return Err(MALFORMED);
    }
    let mut room = [httparse::EMPTY_HEADER; TRAILERS_MOST];
    let Ok(Status::Complete((_, fields))) = httparse::parse_headers(bytes, &mut room) else {
        return Err(Refusal::malformed("the trailers of the body are malformed"));
    };
    let mut trailers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        if !may_be_trailer(field.name) {
            return Err(Refusal::malformed(FIELD_OF_HEAD));
        }
        let name = HeaderName::from_bytes(field.name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value)) {
            trailers.append(name, value);
        }
    }
    Ok(trailers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes in pieces; the data, the trailers, and how much of the input was left.
    fn decode(input: &[u8], piece: usize) -> Result<Option<(Vec<u8>, HeaderMap, usize)>, u16> {
        let mut decoder = ChunkedDecoder::new(200);
        let mut data = Vec::new();
        let mut used = 0;
        for piece in input.chunks(piece) {
            let mut rest = piece;
            loop {
                let step = decoder.advance(rest, 5);
                let (length, found) = step.map_err(|refusal| refusal.status().as_u16())?;
                used += length;
                match found {
                    Found::Data(at) => data.extend_from_slice(&rest[at]),
                    Found::End => {
                        let trailers = decoder.take_trailers().unwrap();
                        return Ok(Some((data, trailers, input.len() - used)));
                    }
                    Found::NeedsMore => break,
                }
                rest = &rest[length..];
            }
        }
        Ok(None)
    }

    fn decode_in_all_pieces(input: &[u8]) -> Result<Option<(Vec<u8>, HeaderMap, usize)>, u16> {
        let whole = decode(input, usize::MAX);
        for piece in 1..input.len() {
            assert_eq!(
                decode(input, piece),
                whole,
                "pieces of {piece}: {:?}",
                input.escape_ascii()
            );
        }
        whole
    }

    #[test]
    fn data_and_trailers_are_found_in_any_pieces() {
        let input =
            b"5\r\nhello\r\n00c;a=b ; c=\"\\\"; d\"\r\n, this world\r\n0\r\nA: b\r\nc:d\r\n\r\nGET";
        let (data, trailers, left) = decode_in_all_pieces(input).unwrap().unwrap();
        assert_eq!(data, b"hello, this world");
        assert_eq!(
            (&trailers["a"], &trailers["c"]),
            (&"b".parse().unwrap(), &"d".parse().unwrap())
        );
        assert_eq!(left, 3);
        let (data, trailers, left) = decode_in_all_pieces(b"0\r\n\r\n").unwrap().unwrap();
        assert_eq!((data.len(), trailers.len(), left), (0, 0, 0));
        assert_eq!(decode_in_all_pieces(b"5\r\nhel"), Ok(None));
    }

    #[test]
    fn what_the_grammar_lacks_is_refused() {
        for bad in [
            "\r\n",
            "5\nhello\r\n",
            "5\r\nhello\n",
            "5\r\nhelloX",
            "5\r\nhello\rX",
            "5\r\nhello!\r\n",
            " 5\r\n",
            "5 \r\n",
            "+5\r\n",
            "-1\r\n",
            "0x5\r\n",
            "5;\r\n",
            "5;=b\r\n",
            "5;a=\r\n",
            "5;a=\"b\r\n",
            "5;a b\r\n",
            "5;a=b\x01\r\n",
            "5 a\r\n",
            "g\r\n",
            "fffffffffffffffff\r\n",
            "5\r\r\n",
            "0\r\n\n",
            "0\r\nA: b\n\r\n",
            "0\r\nA b\r\n\r\n",
            "0\r\n A: b\r\n\r\n",
            "0\r\nContent-Length: 5\r\n\r\n",
            "0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "0\r\nA : b\r\n\r\n",
            "0\r\nA: b\r\n c\r\n\r\n",
            "0\r\nA: \0\r\n\r\n",
            "5;a=\"\\\x01\"\r\n",
        ] {
            assert_eq!(decode_in_all_pieces(bad.as_bytes()), Err(400), "{bad:?}");
        }
    }

    #[test]
    fn lines_extensions_and_trailers_have_limits() {
        let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(LINE_MOST));
        assert_eq!(decode(long.as_bytes(), usize::MAX), Err(400));
        let extended = format!("1;{}\r\nx\r\n", "a".repeat(200));
        let most = OVERHEAD_MOST as usize / extended.len();
        assert!(decode(extended.repeat(most).as_bytes(), usize::MAX).is_ok());
        assert_eq!(decode(extended.repeat(most + 5).as_bytes(), usize::MAX), Err(400));
        let large = format!("0\r\nA: {}\r\n\r\n", "b".repeat(200));
        assert_eq!(decode(large.as_bytes(), usize::MAX), Err(431));
        let many = format!("0\r\n{}\r\n", "A:b\r\n".repeat(TRAILERS_MOST + 1));
        assert_eq!(decode(many.as_bytes(), usize::MAX), Err(400));
    }
}
