//! The important cases of the Autobahn test suite (groups 1 to 7), as data: frames of a client, and
//! those that an echoing server answers.

use super::*;

/// A frame of a client, masked with zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match u16::try_from(payload.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length as u8),
        Ok(length) => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    frame(0x88, &[&code.to_be_bytes(), reason].concat())
}

/// What the server sends, without the payloads of pongs and messages of its own.
#[derive(Debug, PartialEq)]
enum Got {
    Text(&'static str),
    Bytes(usize),
    Pong(usize),
    /// A close frame with a code; 1005: without.
    Close(u16),
}
use Got::{Bytes, Close, Pong, Text};

/// Reads frames up to the end of the stream.
fn answers(stream: &mut TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let mut rest = &bytes[head..];
    let mut frames = Vec::new();
    while let [first, length, behind @ ..] = rest {
        let (length, behind) = match length {
            126 => (u16::from_be_bytes([behind[0], behind[1]]) as usize, &behind[2..]),
            127 => (u64::from_be_bytes(behind[..8].try_into().unwrap()) as usize, &behind[8..]),
            length => (*length as usize, behind),
        };
        frames.push((*first, behind[..length].to_vec()));
        rest = &behind[length..];
    }
    frames
}

fn is_same(got: &(u8, Vec<u8>), wanted: &Got) -> bool {
    match (got, wanted) {
        ((0x81, payload), Text(text)) => payload == text.as_bytes(),
        ((0x82, payload), Bytes(length)) => payload.len() == *length,
        ((0x8a, payload), Pong(length)) => payload.len() == *length,
        ((0x88, payload), Close(1005)) => payload.is_empty(),
        ((0x88, payload), Close(code)) => payload.starts_with(&code.to_be_bytes()),
        _ => false,
    }
}

/// The number of a case, the frames of the client, and those of the server.
type Case = (&'static str, Vec<Vec<u8>>, Vec<Got>);

fn check(cases: Vec<Case>) {
    with_server(echoing, |address| {
        for (name, frames, wanted) in cases {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let head = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&frames.concat()).unwrap();
            let got = answers(&mut stream);
            let is_same = got.len() == wanted.len()
                && got.iter().zip(&wanted).all(|(got, wanted)| is_same(got, wanted));
            assert!(is_same, "{name}: {got:?} instead of {wanted:?}");
        }
    });
}

#[test]
fn messages_pings_and_fragments() {
    let end = || close(1000, b"");
    let ping = |length| frame(0x89, &vec![1; length]);
    check(vec![
        ("1.1.1", vec![frame(0x81, b""), end()], vec![Text(""), Close(1000)]),
        ("1.1.3", vec![frame(0x82, &[1; 126]), end()], vec![Bytes(126), Close(1000)]),
        ("1.2.6", vec![frame(0x82, &[1; 65535]), end()], vec![Bytes(65535), Close(1000)]),
        ("1.2.7", vec![frame(0x82, &[1; 65536]), end()], vec![Bytes(65536), Close(1000)]),
        ("2.1", vec![ping(0), end()], vec![Pong(0), Close(1000)]),
        ("2.4", vec![ping(125), end()], vec![Pong(125), Close(1000)]),
        ("2.5", vec![ping(126)], vec![Close(1002)]),
        ("2.7", vec![frame(0x8a, b""), end()], vec![Close(1000)]),
        ("2.8", vec![frame(0x8a, b"unasked"), ping(3), end()], vec![Pong(3), Close(1000)]),
        (
            "5.3",
            vec![frame(0x01, b"frag"), frame(0x80, b"ment"), end()],
            vec![Text("fragment"), Close(1000)],
        ),
        (
            "5.6",
            vec![frame(0x01, b"frag"), ping(4), frame(0x80, b"ment"), end()],
            vec![Pong(4), Text("fragment"), Close(1000)],
        ),
        ("5.9", vec![frame(0x80, b"no begin")], vec![Close(1002)]),
        ("5.15", vec![frame(0x01, b"a"), frame(0x81, b"b")], vec![Close(1002)]),
    ]);
}

#[test]
fn reserved_bits_codes_and_lengths() {
    check(vec![
        ("3.1", vec![frame(0xc1, b"a")], vec![Close(1002)]),
        ("3.4", vec![frame(0x81, b"a"), frame(0xb1, b"b")], vec![Text("a"), Close(1002)]),
        ("4.1.1", vec![frame(0x83, b"")], vec![Close(1002)]),
        ("4.2.5", vec![frame(0x8f, b"")], vec![Close(1002)]),
        // Fragments of control frames.
        ("5.1", vec![frame(0x09, b"")], vec![Close(1002)]),
        // A client must mask (RFC 6455, section 5.1).
        ("unmasked", vec![b"\x81\x01a".to_vec()], vec![Close(1002)]),
        // A length of 2^63.
        ("length", vec![[&[0x82, 0xff, 0x80][..], &[0; 11]].concat()], vec![Close(1009)]),
    ]);
}

#[test]
fn texts_are_utf_8() {
    let end = || close(1000, b"");
    check(vec![
        ("6.2.1", vec![frame(0x81, "κόσμε".as_bytes()), end()], vec![Text("κόσμε"), Close(1000)]),
        (
            "6.2.3",
            vec![frame(0x01, b"\xce"), frame(0x80, b"\xba"), end()],
            vec![Text("κ"), Close(1000)],
        ),
        ("6.3.1", vec![frame(0x81, b"\xce\xba\xed\xa0\x80edited")], vec![Close(1007)]),
        ("6.12.1 overlong", vec![frame(0x81, b"\xc0\xaf")], vec![Close(1007)]),
        ("6.6.1 cut", vec![frame(0x81, b"\xce")], vec![Close(1007)]),
        ("6.21 surrogate", vec![frame(0x81, b"\xed\xbf\xbf")], vec![Close(1007)]),
        ("6.4.1 early", vec![frame(0x01, b"\xf4\x90\x80\x80")], vec![Close(1007)]),
    ]);
}

#[test]
fn closes() {
    let echoed = |code| (vec![close(code, b"why")], vec![Close(code)]);
    let refused = |code| (vec![close(code, b"")], vec![Close(1002)]);
    let mut cases = vec![
        ("7.1.3", vec![close(1000, b""), frame(0x89, b"")], vec![Close(1000)]),
        ("7.3.1", vec![frame(0x88, b"")], vec![Close(1005)]),
        ("7.3.2", vec![frame(0x88, b"a")], vec![Close(1002)]),
        ("7.3.5", vec![close(1000, &[b'a'; 123])], vec![Close(1000)]),
        ("7.3.6", vec![close(1000, &[b'a'; 124])], vec![Close(1002)]),
        ("7.5.1", vec![close(1000, b"\xce\xba\xed\xa0\x80")], vec![Close(1007)]),
    ];
    for code in [1000, 1001, 1002, 1003, 1007, 1008, 1011, 3000, 3999, 4000, 4999] {
        let (frames, wanted) = echoed(code);
        cases.push(("7.7", frames, wanted));
    }
    for code in [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000] {
        let (frames, wanted) = refused(code);
        cases.push(("7.9", frames, wanted));
    }
    check(cases);
}
