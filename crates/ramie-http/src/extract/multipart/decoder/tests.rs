//! Tests of the decoder: any pieces of a body give the same parts or the same fault.

use proptest::{collection::vec, prelude::*};

use super::*;

/// A part, its head and its data, as they were found.
pub(super) type FoundParts = Vec<(Vec<u8>, Vec<u8>)>;

pub(super) const HEAD_MOST: usize = 40;

/// Decodes a body that arrives in pieces of these sizes, again and again.
pub(super) fn decode(body: &[u8], pieces: &[usize]) -> Result<FoundParts, MultipartFault> {
    let mut decoder = MultipartDecoder::new("b", HEAD_MOST);
    let (mut parts, mut input): (FoundParts, Vec<u8>) = (Vec::new(), Vec::new());
    let (mut rest, mut sizes) = (body, pieces.iter().cycle());
    loop {
        let (used, found) = decoder.advance(&input, rest.is_empty())?;
        match found {
            PartFound::Head(at) => parts.push((input[at].to_vec(), Vec::new())),
            PartFound::Data(at) => {
                assert!(!at.is_empty() && used == at.end);
                parts.last_mut().unwrap().1.extend_from_slice(&input[at]);
            }
            PartFound::PartEnd => {}
            PartFound::End => {
                assert_eq!(
                    (used, decoder.advance(b"", true)),
                    (input.len(), Ok((0, PartFound::End)))
                );
                return Ok(parts);
            }
            PartFound::NeedsMore => {
                let size = (*sizes.next().unwrap()).min(rest.len());
                input.extend_from_slice(&rest[..size]);
                rest = &rest[size..];
            }
        }
        input.drain(..used);
    }
}

/// As [`decode`], in pieces of each size.
fn decode_in_all_pieces(body: &[u8]) -> Result<FoundParts, MultipartFault> {
    let whole = decode(body, &[usize::MAX]);
    for size in 1..=body.len().max(1) {
        assert_eq!(decode(body, &[size]), whole, "pieces of {size}: {}", body.escape_ascii());
    }
    whole
}

fn text(parts: FoundParts) -> Vec<String> {
    let show = |(head, data): &(Vec<u8>, Vec<u8>)| {
        format!("{}|{}", head.trim_ascii_end().escape_ascii(), data.escape_ascii())
    };
    parts.iter().map(show).collect()
}

#[test]
fn parts_are_found_in_any_pieces() {
    let cases: [(&[u8], &[&str]); 6] = [
        (b"--b--", &[]),
        (b"--b--\r\n", &[]),
        (b"--b\r\nA: 1\r\n\r\nx\r\n--b--\r\n", &["A: 1|x"]),
        (b"--b\r\n\r\n\r\n--b\r\nA: 1\r\nB: 2\r\n\r\n\r\n--b--", &["|", "A: 1\\r\\nB: 2|"]),
        (
            b"--b\r\nA: 1\r\n\r\nx\r\n-\r\n--\r\r\n--\rb\n--b --b\r\n\r\n--b--",
            &["A: 1|x\\r\\n-\\r\\n--\\r\\r\\n--\\rb\\n--b --b\\r\\n"],
        ),
        (b"--b\r\n\r\n\r\n\r\n--b--", &["|\\r\\n"]),
    ];
    for (body, expected) in cases {
        assert_eq!(text(decode_in_all_pieces(body).unwrap()), expected);
    }
}

#[test]
fn other_bodies_are_refused() {
    for (body, fault) in [
        ("", NO_BOUNDARY),
        ("-", NO_BOUNDARY),
        ("x\r\n--b--", NO_BOUNDARY),
        ("\r\n--b--", NO_BOUNDARY),
        ("--a--", NO_BOUNDARY),
        ("--b", ENDS_EARLY),
        ("--b\r", ENDS_EARLY),
        ("--b-", ENDS_EARLY),
        ("--b\r\nA: 1\r\n", ENDS_EARLY),
        ("--b\r\nA: 1\r\n\r\n--b--", ENDS_EARLY),
        ("--b\r\n\r\nx\r\n--b", ENDS_EARLY),
        ("--b\r\n\r\nx", ENDS_EARLY),
        ("--b \r\n\r\n", AFTER_BOUNDARY),
        ("--b\n\r\n", AFTER_BOUNDARY),
        ("--bc\r\n\r\n", AFTER_BOUNDARY),
        ("--b\r\n\r\nx\r\n--bc\r\n--b--", AFTER_BOUNDARY),
        ("--b\r\n\r\nx\r\n--b-x", AFTER_BOUNDARY),
        ("--b--x", BEHIND_END),
        ("--b--\r", BEHIND_END),
        ("--b--\r\n\r\n", BEHIND_END),
        ("--b--\r\n--b--", BEHIND_END),
    ] {
        assert_eq!(decode_in_all_pieces(body.as_bytes()), Err(fault), "{body:?}");
    }
}

#[test]
fn the_limit_of_heads_holds_to_the_byte() {
    let body = |length: usize| format!("--b\r\nA: {}\r\n\r\nx\r\n--b--", "a".repeat(length - 5));
    let parts = decode_in_all_pieces(body(HEAD_MOST).as_bytes()).unwrap();
    assert_eq!(parts[0].0.len(), HEAD_MOST + 2);
    let too_large = decode_in_all_pieces(body(HEAD_MOST + 1).as_bytes());
    assert_eq!(too_large, Err(MultipartFault::HeadTooLarge));
    let endless = format!("--b\r\nA: {}", "a".repeat(100));
    assert_eq!(decode_in_all_pieces(endless.as_bytes()), Err(MultipartFault::HeadTooLarge));
}

/// Text that is full of begun and whole delimiters.
fn tricky() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("\r\n--b"),
        Just("--b"),
        Just("\r\n"),
        Just("\r\n\r\n"),
        Just("\r"),
        Just("\n"),
        Just("-"),
        Just("b"),
        Just("A: 1"),
    ];
    vec(word, 0..30).prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_body_is_the_same_in_any_pieces(
        begin in prop_oneof![Just("--b\r\n"), Just("--b\r\n\r\n"), Just("")],
        body in tricky(),
        pieces in vec(1_usize..9, 1..9),
    ) {
        let body = [begin.as_bytes(), &body[..]].concat();
        prop_assert_eq!(decode(&body, &pieces), decode(&body, &[usize::MAX]));
    }

    #[test]
    fn parts_come_back_as_they_were_written(
        parts in vec((0_usize..35, vec(any::<u8>(), 0..200)), 0..5),
        pieces in vec(1_usize..50, 1..9),
    ) {
        let mut body = Vec::new();
        let mut written = Vec::new();
        for (length, data) in parts {
            if memchr::memmem::find(&data, b"\r\n--b").is_some() {
                continue;
            }
            let head = format!("A:{}\r\n\r\n", "a".repeat(length));
            body.extend_from_slice(b"--b\r\n");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(&data);
            body.extend_from_slice(b"\r\n");
            written.push((head.into_bytes(), data));
        }
        body.extend_from_slice(b"--b--\r\n");
        prop_assert_eq!(decode(&body, &pieces), Ok(written));
    }
}
