//! Heads, whole and wrong, without sockets.

use super::*;

const LIMITS: Limits =
    Limits { head_bytes: 2000, line_bytes: 300, fields: 40, field_bytes: 500, ..Limits::DEFAULT };

fn status(head: &str) -> u16 {
    match find_end(head.as_bytes(), 0) {
        End::At(length) => assert_eq!(length, head.len(), "{head:?}"),
        End::Later(_) => panic!("{head:?} has no end"),
    }
    parse(head.as_bytes(), &LIMITS).map_or_else(|refusal| refusal.status().as_u16(), |_| 200)
}

#[test]
fn a_head_has_its_parts() {
    let text =
        "POST /a?b HTTP/1.1\r\nHost: c\r\nX-D:\t e f \r\nContent-Length: 5\r\nEmpty:\r\n\r\n";
    let head = parse(text.as_bytes(), &LIMITS).unwrap();
    assert_eq!(head.method, Method::POST);
    let (start, end) = head.target_at;
    assert_eq!(&head.bytes[usize::from(start)..usize::from(end)], b"/a?b");
    assert_eq!(head.framing, Framing::Length(5));
    assert!(head.stays && !head.is_http_1_0 && !head.expects_continue);
    let map = head.to_map();
    assert_eq!(map.len(), 4);
    assert_eq!((map["x-d"].as_bytes(), map["empty"].as_bytes()), (&b"e f"[..], &b""[..]));
}

#[test]
fn many_fields_are_read_as_few_are() {
    for count in [FEW_FIELDS - 1, FEW_FIELDS, FEW_FIELDS + 1, 39] {
        let fields: String = (1..=count).map(|number| format!("A{number}: {number}\r\n")).collect();
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let map = parse(text.as_bytes(), &LIMITS).unwrap().to_map();
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

#[test]
fn the_comparison_of_a_whole_head_agrees_with_the_search() {
    for length in 0..=8 {
        for number in 0..3_usize.pow(length) {
            let byte = |at| b"a\r\n"[number / 3_usize.pow(at) % 3];
            let bytes: Vec<u8> = (0..length).map(byte).collect();
            assert_eq!(find_end(&bytes, 0), search_end(&bytes, 0), "{bytes:?}");
        }
    }
}
