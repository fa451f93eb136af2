//! Whole bodies, as bytes and as text.

use std::io::{self, Cursor, Read};

use ramie_http::{Body, BodyError, extract::Rejection};

use super::{call, line, ok, post};

#[test]
fn whole_bodies_are_bytes_or_text() {
    let bytes = |bytes: bytes::Bytes| format!("{bytes:?}");
    assert_eq!(call("/", bytes, post("a/b", &b"a\xff"[..])), ok("b\"a\\xff\""));
    let bytes = |bytes: Vec<u8>| format!("{bytes:?}");
    assert_eq!(call("/", bytes, post("a/b", Body::from_read(Cursor::new("ab")))), ok("[97, 98]"));
    let text = |text: String| text;
    for content_type in ["text/plain", "a/b; charset=\"UTF-8\"", "text/plain; charset=us-ascii"] {
        assert_eq!(call("/", text, post(content_type, "\u{e4}")), ok("\u{e4}"));
    }
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let text = |text: String| text;
    assert_eq!(call("/", text, post("a/b", &b"a\xff"[..])), line(400, "the body is not UTF-8"));
    assert_eq!(
        call("/", text, post("text/plain; charset=utf-16", "a")),
        line(415, "the charset is `utf-16`, but must be utf-8")
    );
}

/// A body whose reads fail.
struct Failing(fn() -> io::Error);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0())
    }
}

/// The error of a read, and the response.
type Case = (fn() -> io::Error, u16, &'static str);

#[test]
fn the_error_of_a_body_decides_about_the_status() {
    let cases: [Case; 6] = [
        (
            || BodyError::TooLarge { most: 7 }.into(),
            413,
            "the body of the request has more than 7 bytes",
        ),
        (|| BodyError::TooSlow.into(), 408, "the body of the request arrives too slowly"),
        (|| BodyError::Truncated.into(), 400, "the connection ended before the body did"),
        (|| BodyError::Malformed("bad").into(), 400, "bad"),
        (|| BodyError::TrailersTooLarge.into(), 431, "the trailers of the body are too large"),
        (|| io::Error::other("secret"), 500, "the server failed to handle the request"),
    ];
    for (error, status, reason) in cases {
        let body = || Body::from_read(Failing(error));
        let expected = line(status, reason);
        assert_eq!(call("/", |_: Vec<u8>| (), post("a/b", body())), expected);
        assert_eq!(call("/", |text: String| text, post("a/b", body())), expected);
        let copy = |mut body: Body| -> Result<(), Rejection> {
            io::copy(&mut body, &mut io::sink())?;
            Ok(())
        };
        assert_eq!(call("/", copy, post("a/b", body())), expected);
    }
}
