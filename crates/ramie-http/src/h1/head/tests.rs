//! Heads, whole and wrong, without sockets.

use super::*;

const LIMITS: Limits =
    Limits { head_bytes: 2000, line_bytes: 300, fields: 40, field_bytes: 500, ..Limits::DEFAULT };

fn parsed(text: &str) -> Result<Head, Refusal> {
    let mut head = Head::new();
    parse(text.as_bytes(), &LIMITS, &mut head).map(|()| head)
}

fn status(head: &str) -> u16 {
    match find_end(head.as_bytes(), 0) {
        End::At(length) => assert_eq!(length, head.len(), "{head:?}"),
        End::Later(_) => panic!("{head:?} has no end"),
    }
    parsed(head).map_or_else(|refusal| refusal.status().as_u16(), |_| 200)
}

#[test]
fn a_head_has_its_parts() {
    let text =
        "POST /a?b HTTP/1.1\r\nHost: c\r\nX-D:\t e f \r\nContent-Length: 5\r\nEmpty:\r\n\r\n";
    let head = parsed(text).unwrap();
    assert_eq!(head.method, Method::POST);
    assert_eq!((head.path(), head.query(), head.authority()), ("/a", Some("b"), None));
    assert_eq!(head.framing, Framing::Length(5));
    assert!(head.stays && !head.is_http_1_0() && !head.expects_continue);
    let map = head.to_map();
    assert_eq!(map.len(), 4);
    assert_eq!((map["x-d"].as_bytes(), map["empty"].as_bytes()), (&b"e f"[..], &b""[..]));
}

#[test]
fn many_fields_are_read_as_few_are() {
    for count in [FEW_FIELDS - 1, FEW_FIELDS, FEW_FIELDS + 1, 39] {
        let fields: String = (1..=count).map(|number| format!("A{number}: {number}\r\n")).collect();
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let map = parsed(&text).unwrap().to_map();
        assert_eq!(map[&format!("a{count}")], count.to_string());
        assert_eq!(map.len(), count + 1);
    }
}

#[test]
fn malformed_heads_are_refused() {
    for head in [
        "nonsense\r\n\r\n",
        "GET /\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / http/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1\r\nHost: a\r\n\r\n",
        "GET / HTTP/11.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: b\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: b\rc\r\n\r\n",
        "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n A: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\tc\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: \0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: \x01\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: \x7f\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA\u{e4}: b\r\n\r\n",
        "GET /\u{e4} HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \u{a0}5\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "\x16\x03\x01\r\n\r\n",
    ] {
        assert_eq!(status(head), 400, "{head:?}");
    }
}

#[test]
fn what_is_not_served_has_a_status_of_its_own() {
    assert_eq!(status("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
    assert_eq!(status("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 505);
    assert_eq!(status("PRI * HTTP/2.0\r\n\r\n"), 505);
    assert_eq!(status("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), 501);
    assert_eq!(status("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n"), 417);
    assert_eq!(
        status("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
        501
    );
}

#[test]
fn each_limit_holds_to_the_byte() {
    let line = |length: usize| {
        let path = "a".repeat(length - "GET / HTTP/1.1\r\n".len());
        format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n")
    };
    assert_eq!((status(&line(300)), status(&line(301))), (200, 414));
    let fields =
        |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(count - 1));
    assert_eq!((status(&fields(40)), status(&fields(41)), status(&fields(300))), (200, 431, 431));
    let field = |length: usize| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "b".repeat(length - 1))
    };
    assert_eq!((status(&field(500)), status(&field(501))), (200, 431));
    let head = |length: usize| {
        let fields = format!("A: {}\r\n", "b".repeat(480)).repeat(4);
        let start = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}");
        let pad = length - start.len() - "D: \r\n\r\n".len();
        format!("{start}D: {}\r\n\r\n", "d".repeat(pad))
    };
    assert_eq!((head(2000).len(), status(&head(2000)), status(&head(2001))), (2000, 200, 431));
}

#[test]
fn an_end_is_found_in_any_pieces() {
    let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
    let end = text.len() - 4;
    for cut in 0..end {
        let End::Later(next) = find_end(&text[..cut], 0) else { panic!("an end at {cut}") };
        assert_eq!(find_end(text, next), End::At(end), "cut at {cut}");
    }
}

#[test]
fn a_head_that_cannot_become_one_is_refused_before_its_end() {
    let begun = |bytes: &[u8]| {
        check_begun(bytes, &LIMITS).map_or_else(|refusal| refusal.status().as_u16(), |()| 200)
    };
    assert_eq!(begun(b""), 200);
    assert_eq!(begun(b"GE"), 200);
    assert_eq!(begun(b"\x16\x03\x01"), 400);
    assert_eq!(begun(b"\n"), 400);
    assert_eq!((begun(&[b'a'; 300]), begun(&[b'a'; 301])), (200, 414));
    let long = [&b"GET / HTTP/1.1\r\nA: "[..], &[b'b'; 2000]].concat();
    assert_eq!((begun(&long[..2000]), begun(&long)), (200, 431));
}

/// What a search for the end and [`parse`] find at the start of these bytes.
fn parsed_slowly(bytes: &[u8]) -> Option<(usize, String)> {
    let End::At(length) = find_end(bytes, 0) else { return None };
    let mut head = Head::new();
    parse(&bytes[..length], &LIMITS, &mut head).ok().map(|()| (length, format!("{head:?}")))
}

fn assert_at_once_as_slowly(bytes: &[u8], head: &mut Head) {
    let at_once = parse_at_once(bytes, &LIMITS, head).map(|length| (length, format!("{head:?}")));
    assert_eq!(at_once, parsed_slowly(bytes), "{:?}", String::from_utf8_lossy(bytes));
}

#[test]
fn what_is_parsed_at_once_is_what_is_found_slowly() {
    let text = b"GET / HTTP/1.1\r\nHost:a\r\nA:b\r\n\r\nGET / HTTP/1.1\r\n";
    let edits = |text: &[u8]| -> Vec<Vec<u8>> {
        let edit = |at, insert: &[u8], cut| [&text[..at], insert, &text[at + cut..]].concat();
        let inserts = [&b""[..], b"\r", b"\n", b"\r\n", b" "];
        let all = (0..text.len())
            .flat_map(|at| inserts.map(|insert| [0, 1].map(|cut| (at, insert, cut))));
        all.flatten().map(|(at, insert, cut)| edit(at, insert, cut)).collect()
    };
    // The memory of one head is used for all.
    let mut head = Head::new();
    for once in edits(text) {
        assert_at_once_as_slowly(&once, &mut head);
        for length in 0..once.len() {
            assert_at_once_as_slowly(&once[..length], &mut head);
        }
        for twice in edits(&once).iter().step_by(31) {
            assert_at_once_as_slowly(twice, &mut head);
        }
    }
}

#[test]
fn a_head_at_a_limit_is_parsed_at_once_and_one_beyond_is_not() {
    let mut head = Head::new();
    for (count, is_parsed) in [(FEW_FIELDS, true), (FEW_FIELDS + 1, false)] {
        let fields = "A: b\r\n".repeat(count - 1);
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let length = parse_at_once(text.as_bytes(), &LIMITS, &mut head);
        assert_eq!(length, is_parsed.then_some(text.len()));
    }
    for (length, is_parsed) in [(LIMITS.head_bytes, true), (LIMITS.head_bytes + 1, false)] {
        let field = "A: ".to_owned() + &"b".repeat(480) + "\r\n";
        let start = "GET / HTTP/1.1\r\nHost: a\r\n".to_owned() + &field.repeat(4);
        let pad = length - start.len() - "D: \r\n\r\n".len();
        let text = format!("{start}D: {}\r\n\r\nGET / HTTP/1.1\r\n", "d".repeat(pad));
        let parsed = parse_at_once(text.as_bytes(), &LIMITS, &mut head);
        assert_eq!(parsed, is_parsed.then_some(length));
    }
}
