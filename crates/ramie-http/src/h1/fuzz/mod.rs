//! The targets of fuzzing: heads, bodies in chunks, targets, and the values of fields.

mod reference;

use http::{Method, Uri, uri::Authority};

use super::{
    authority,
    chunked::{ChunkedDecoder, Found},
    framing::{Framing, FramingFields, elements},
    head::{self, End, Head},
    target::{self, Target},
};
use crate::{
    fuzz::{Random, targets},
    limits::Limits,
    refusal::Refusal,
};

const LIMITS: Limits = Limits { line_bytes: 1000, head_bytes: 3000, fields: 30, ..Limits::DEFAULT };

/// Where the head of this input ends, searched as pieces arrive.
fn end_in_pieces(input: &[u8], random: &mut Random) -> Option<usize> {
    let (mut arrived, mut from) = (0, 0);
    for piece in random.pieces(input) {
        arrived += piece.len();
        match head::find_end(&input[..arrived], from) {
            End::At(length) => return Some(length),
            End::Later(next) => from = next,
        }
    }
    None
}

fn check_head(input: &[u8], random: &mut Random) {
    let whole = match head::find_end(input, 0) {
        End::At(length) => Some(length),
        End::Later(_) => None,
    };
    assert_eq!(end_in_pieces(input, random), whole, "the end depends on the pieces");
    let mut at_once = Head::new();
    let length_at_once = head::parse_at_once(input, &LIMITS, &mut at_once);
    let Some(length) = whole else {
        assert_eq!(length_at_once, None, "a head without an end was parsed");
        let _ = head::check_begun(input, &LIMITS);
        return;
    };
    let bytes = &input[..length];
    let mut parsed = Head::new();
    if let Err(refusal) = head::parse(bytes, &LIMITS, &mut parsed) {
        assert_eq!(length_at_once, None, "a head was parsed that is refused");
        return assert_is_refusal(refusal);
    }
    if length_at_once.is_some() {
        assert_eq!(length_at_once, whole, "the head has two ends");
        assert_eq!(format!("{at_once:?}"), format!("{parsed:?}"));
    }
    let begun = head::check_begun(&bytes[..random.below(length)], &LIMITS);
    assert_eq!(begun, Ok(()), "the beginning of a good head was refused");
    reference::assert_is_head(bytes);
    assert_parts_are_of(&parsed, bytes);
}

fn assert_is_refusal(refusal: Refusal) {
    let status = refusal.status().as_u16();
    assert!(matches!(status, 400 | 413 | 414 | 417 | 431 | 501 | 505), "{refusal}");
}

/// What the program sees of a head is what the head has.
fn assert_parts_are_of(head: &Head, bytes: &[u8]) {
    let map = head.to_map();
    assert_eq!(map.len(), head.fields.len(), "a field was lost");
    for (name, value) in &map {
        assert!(reference::is_token(name.as_str().as_bytes()));
        assert!(!value.as_bytes().iter().any(|byte| b"\r\n\0".contains(byte)));
        let first = head.field(name.as_str()).expect("a field of the map");
        assert_eq!(first, map.get(name).expect("the first one").as_bytes());
    }
    let uri = head.to_uri();
    assert_eq!(uri.path(), head.path());
    assert_eq!(uri.query(), head.query());
    let line = bytes.split(|byte| *byte == b'\r').next().expect("a line");
    let line = String::from_utf8_lossy(line);
    let is_in_line = |text: &str| text == "/" || line.contains(text);
    assert!(is_in_line(head.path()) && is_in_line(head.query().unwrap_or("/")));
}

/// Data and the number of bytes up to the end of the body, none if it has not ended.
type DecodedChunks = Option<(Vec<u8>, usize)>;

fn decode(pieces: &[&[u8]], most: usize) -> Result<DecodedChunks, Refusal> {
    let mut decoder = ChunkedDecoder::new(1000);
    let (mut data, mut used) = (Vec::new(), 0);
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let (length, found) = decoder.advance(rest, most)?;
            used += length;
            match found {
                Found::Data(at) => data.extend_from_slice(&rest[at]),
                Found::End => return Ok(Some((data, used))),
                Found::NeedsMore => break,
            }
            rest = &rest[length..];
        }
    }
    Ok(None)
}

fn check_chunks(input: &[u8], random: &mut Random) {
    let whole = decode(&[input], usize::MAX);
    let most = 1 + random.below(10);
    let cut = decode(&random.pieces(input), most);
    assert_eq!(cut, whole, "the outcome depends on the pieces");
    match whole {
        Ok(Some(decoded)) => {
            assert_eq!(reference::decode_chunks(input), Some(decoded.clone()));
            let (data, length) = decoded;
            assert_eq!(decode(&[&input[..length]], most), Ok(Some((data, length))));
        }
        Ok(None) => {}
        Err(refusal) => assert!(matches!(refusal.status().as_u16(), 400 | 431), "{refusal}"),
    }
}

fn check_target(input: &[u8], random: &mut Random) {
    let methods = [Method::GET, Method::OPTIONS, Method::POST, Method::CONNECT];
    let method = random.choose(&methods);
    let mut parsed = Target::EMPTY;
    if target::parse(method, input, &mut parsed).is_err() {
        return;
    }
    assert!(input.iter().all(|byte| (b'!'..=b'~').contains(byte)), "a byte of no URI");
    let uri = Uri::try_from(input).expect("a URI of the crate http");
    let (start, end) = (usize::from(parsed.path.0), usize::from(parsed.path.1));
    let text = str::from_utf8(input).expect("ASCII");
    let path = if start == end { "/" } else { &text[start..end] };
    assert_eq!(uri.path(), path);
    assert_eq!(uri.query(), parsed.has_query.then(|| &text[end + 1..]));
    let authority = parsed.authority(input).map(|authority| str::from_utf8(authority).unwrap());
    assert_eq!(uri.authority().map(Authority::as_str), authority);
    assert_eq!(uri.scheme_str() == Some("https"), parsed.is_https(input));
    assert!(!method.as_str().eq("CONNECT"), "there is no CONNECT here");
}

fn check_value(input: &[u8], _: &mut Random) {
    let mut fields = FramingFields::default();
    let is_number = !input.is_empty() && input.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(input).ok().and_then(|text| text.parse::<u64>().ok());
    match fields.content_length(input) {
        Ok(()) => {
            let number = number.filter(|_| is_number).expect("a number");
            assert_eq!(fields.framing(false), Ok(Framing::Length(number)));
        }
        Err(refusal) => {
            let status = if is_number { 413 } else { 400 };
            assert_eq!(refusal.status().as_u16(), status);
        }
    }
    let mut fields = FramingFields::default();
    let coded = fields.transfer_encoding(input).and_then(|()| fields.framing(false));
    let names: Vec<_> = elements(input).map(<[u8]>::to_ascii_lowercase).collect();
    assert_eq!(coded.is_ok(), names == [b"chunked"], "{coded:?}");
    let mut fields = FramingFields::default();
    fields.connection(input);
    assert_eq!(fields.wants_close, names.iter().any(|name| name == b"close"));
    if authority::is_valid(input) && !input.is_empty() && input[0] != b':' {
        assert!(Authority::try_from(input).is_ok(), "a host that the crate http refuses");
    }
}

targets! {
    "head" check_head any_head_is_a_head_or_refused any_head_for_long,
    "chunked" check_chunks any_chunks_are_decoded_or_refused any_chunks_for_long,
    "targets" check_target any_target_is_a_uri_or_refused any_target_for_long,
    "value" check_value any_value_has_one_reading any_value_for_long,
}
