//! Bodies in chunks: syntax, extensions, trailers and limits (RFC 9112, section 7.1).

use ramie_http::{IntoResponse, Limits, Request, Router};

use super::{
    client::{Answer, statuses},
    rig::{Rig, Seen, seeing},
};

const HEAD: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const BEHIND: &str = "GET /behind HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn send(rig: &Rig, seen: &Seen, body: &[u8]) -> (Vec<Answer>, Vec<String>) {
    let answers = rig.exchange([HEAD.as_bytes(), body, BEHIND.as_bytes()].concat());
    (answers, seen.take())
}

#[test]
fn what_the_grammar_has_is_decoded() {
    let (rig, seen) = seeing(Limits::default());
    for body in [
        "5\r\nhello\r\n0\r\n\r\n",
        "0000000000000005\r\nhello\r\n000\r\n\r\n",
        "1\r\nh\r\n4\r\nello\r\n0\r\n\r\n",
        "5;a\r\nhello\r\n0;b=c\r\n\r\n",
        "5 ; a = \"b\\\"\t;\" ; c\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: y\r\nZ:\r\n\r\n",
    ] {
        let (answers, seen) = send(&rig, &seen, body.as_bytes());
        assert_eq!(statuses(&answers), [200, 200], "{body:?}");
        assert_eq!(seen, ["POST / hello", "GET /behind "], "{body:?}");
    }
    let (answers, _) = send(&rig, &seen, b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n");
    assert_eq!(answers[0].body, b"POST / 01234567890123456789");
}

#[test]
fn malformed_chunks_are_refused_and_nothing_behind_is_answered() {
    let (rig, seen) = seeing(Limits::default());
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloworld\r\n0\r\n\r\n",
        "5\r\nhell\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5h\r\nhello\r\n0\r\n\r\n",
        "5_0\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        ";a\r\nhello\r\n0\r\n\r\n",
        "5;\r\nhello\r\n0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n",
        "5;a\0\r\nhello\r\n0\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffff0\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5\r\nhello\r\n0\r\n\r\r\n",
        "5\r\nhello\r\n0\r\nX: y\n\r\n",
        "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n",
        "5\r\nhello\r\n0\r\n X: y\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: \0\r\n\r\n",
        "5\r\nhello\r\n0\r\nX\r\n\r\n",
    ] {
        let (answers, seen) = send(&rig, &seen, body.as_bytes());
        assert_eq!(statuses(&answers), [400], "{body:?}");
        assert!(answers[0].closes(), "{body:?}: {answers:?}");
        assert_eq!(seen.len(), 1, "{body:?}: {seen:?}");
    }
}

#[test]
fn fields_of_a_head_are_refused_in_trailers() {
    let (rig, seen) = seeing(Limits::default());
    for field in [
        "Content-Length: 5",
        "transfer-encoding: chunked",
        "Host: b",
        "Authorization: x",
        "TRAILER: a",
    ] {
        let (answers, _) = send(&rig, &seen, format!("0\r\n{field}\r\n\r\n").as_bytes());
        assert_eq!(statuses(&answers), [400], "{field}");
    }
}

#[test]
fn trailers_are_apart_from_the_headers() {
    let handler = |mut request: Request| {
        let mut body = std::mem::take(request.body_mut());
        let read = std::io::copy(&mut body, &mut std::io::sink()).unwrap();
        let trailers = body.take_trailers().unwrap_or_default();
        assert!(request.header("x-sum").is_none());
        let sums: Vec<_> =
            trailers.get_all("x-sum").iter().map(|sum| sum.to_str().unwrap()).collect();
        format!("{read} {sums:?}").into_response()
    };
    let rig = Rig::start(Router::new().fallback(handler), Limits::default());
    let body = "3\r\nabc\r\n0\r\nX-Sum: 1\r\nx-sum: 2\r\n\r\n";
    let answers = rig.exchange([HEAD, body, BEHIND].concat());
    assert_eq!(answers[0].text(), "3 [\"1\", \"2\"]");
    assert_eq!(answers[1].text(), "0 []");
}

#[test]
fn lines_extensions_and_trailers_are_limited_to_the_byte() {
    let limits = Limits { trailer_bytes: 100, body_bytes: 10, ..Limits::default() };
    let (rig, seen) = seeing(limits);
    let line =
        |length: usize| format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(length - "1;\r\n".len()));
    let trailer = |length: usize| {
        let value = "b".repeat(length - "A:\r\n\r\n".len());
        format!("0\r\nA:{value}\r\n\r\n")
    };
    let chunk = |length: usize| format!("{length:x}\r\n{}\r\n0\r\n\r\n", "c".repeat(length));
    let chunks = |count: usize| format!("{}0\r\n\r\n", "1\r\nd\r\n".repeat(count));
    for (allowed, refused, status) in [
        (line(256), line(257), 400),
        (trailer(100), trailer(101), 431),
        (chunk(10), chunk(11), 413),
        (chunks(10), chunks(11), 413),
    ] {
        let (answers, _) = send(&rig, &seen, allowed.as_bytes());
        assert_eq!(statuses(&answers), [200, 200], "{allowed:?}");
        let (answers, _) = send(&rig, &seen, refused.as_bytes());
        assert_eq!(statuses(&answers), [status], "{refused:?}");
        assert!(answers[0].closes());
    }
}

/// A client that sends extensions for ever is refused, though each of its chunks is allowed.
#[test]
fn endless_extensions_are_refused() {
    let (rig, seen) = seeing(Limits::default());
    let chunk = format!("1;{}\r\nx\r\n", "a".repeat(200));
    let (answers, seen) = send(&rig, &seen, chunk.repeat(200).as_bytes());
    assert_eq!((statuses(&answers), seen.len()), (vec![400], 1));
}
