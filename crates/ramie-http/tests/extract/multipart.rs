//! Forms in parts.

use std::io::{self, Cursor, Read};

use ramie_http::{
    Body, BodyError, Request,
    extract::{Multipart, MultipartLimits, Rejection},
};

use super::{call, line, ok, post};

const TYPE: &str = "multipart/form-data; boundary=b";

/// A body of parts, each of the rest of its Content-Disposition, more fields, and data.
fn form(parts: &[(&str, &str, &str)]) -> String {
    let part = |(disposition, fields, data): &(&str, &str, &str)| {
        format!("--b\r\nContent-Disposition: form-data; {disposition}\r\n{fields}\r\n{data}\r\n")
    };
    parts.iter().map(part).collect::<String>() + "--b--\r\n"
}

/// Lists all parts, with at most 100 bytes of each.
fn list(mut form: Multipart) -> Result<String, Rejection> {
    let mut text = String::new();
    while let Some(part) = form.next_part()? {
        text += &format!("{} {:?} {:?}", part.name(), part.file_name(), part.content_type());
        text += &format!(" {}\n", part.into_bytes(100)?.escape_ascii());
    }
    Ok(text)
}

fn listed(body: impl Into<Body>) -> (u16, String) {
    call("/", list, post(TYPE, body))
}

/// Reads one byte at a time.
struct Slow(Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(&mut buf[..1])
    }
}

#[test]
fn parts_have_names_types_and_data() {
    let body = form(&[
        ("name=a", "", ""),
        (
            "name=\"b c\"; filename=\"../x\"",
            "Content-Type: image/png\r\nX-Y: z\r\n",
            "\0\r\n--\r\n",
        ),
        ("name=a", "", "2"),
    ]);
    let expected = "a None None \n\
        b c Some(\"../x\") Some(\"image/png\") \\x00\\r\\n--\\r\\n\n\
        a None None 2\n";
    assert_eq!(listed(body.clone()), ok(expected));
    let slow = Body::from_read(Slow(Cursor::new(body.into_bytes())));
    assert_eq!(listed(slow), ok(expected));
    assert_eq!(listed("--b--"), ok(""));
}

#[test]
fn data_are_read_in_pieces_or_skipped() {
    let long = "0123456789".repeat(10_000);
    let body = form(&[("name=a", "", &long), ("name=b", "", &long), ("name=c", "", "end")]);
    let show = |mut form: Multipart| -> Result<String, Rejection> {
        let mut first = form.next_part()?.expect("a");
        let mut few = [0; 7];
        first.read_exact(&mut few)?;
        assert_eq!(&few, b"0123456");
        let mut second = form.next_part()?.expect("b");
        let (mut read, mut buf) = (0, [0; 777]);
        while let count @ 1.. = second.read(&mut buf)? {
            read += count;
        }
        assert_eq!(second.read(&mut buf)?, 0);
        let third = form.next_part()?.expect("c").into_text(3)?;
        assert!(form.next_part()?.is_none() && form.next_part()?.is_none());
        Ok(format!("{read} {third}"))
    };
    assert_eq!(call("/", show, post(TYPE, body)), ok("100000 end"));
}

#[test]
fn another_type_or_boundary_is_refused() {
    assert_eq!(
        call("/", list, Request::post("/", "")),
        line(415, "the Content-Type of the body is missing, but must be multipart/form-data")
    );
    assert_eq!(
        call("/", list, post("multipart/mixed; boundary=b", "")),
        line(
            415,
            "the Content-Type of the body is `multipart/mixed`, but must be multipart/form-data"
        )
    );
    for content_type in ["multipart/form-data", "multipart/form-data; boundary=\"\""] {
        assert_eq!(
            call("/", list, post(content_type, "")),
            line(400, "the Content-Type of the form has no valid boundary")
        );
    }
}

#[test]
fn a_malformed_body_is_a_400() {
    for (body, reason) in [
        ("", "the body does not begin with the boundary of its Content-Type"),
        ("--b", "the body ends before its last boundary"),
        ("--b--x", "the body does not end with its last boundary"),
        ("--b \r\n", "a boundary of the body is not followed by a line end"),
        ("--b\r\n\r\n\r\n--b--", "each part of the form must have one Content-Disposition"),
    ] {
        assert_eq!(listed(body), line(400, reason), "{body:?}");
    }
}

#[test]
fn each_limit_holds_to_the_byte() {
    let limited = |limits: MultipartLimits, body: String| {
        let count = move |mut form: Multipart| -> Result<String, Rejection> {
            form.set_limits(limits);
            let mut count = 0;
            while form.next_part()?.is_some() {
                count += 1;
            }
            Ok(count.to_string())
        };
        call("/", count, post(TYPE, body))
    };
    let default = MultipartLimits::default();
    let parts = |count| form(&vec![("name=a", "", ""); count]);
    let few = MultipartLimits { parts: 2, ..default };
    assert_eq!(limited(few, parts(2)), ok("2"));
    assert_eq!(limited(few, parts(3)), line(413, "the form has more than 2 parts"));
    assert_eq!(limited(default, parts(1000)), ok("1000"));
    assert_eq!(limited(default, parts(1001)), line(413, "the form has more than 1000 parts"));

    let head = "Content-Disposition: form-data; name=a\r\n".len();
    let small = MultipartLimits { part_head_bytes: head, ..default };
    assert_eq!(limited(small, parts(1)), ok("1"));
    let smaller = MultipartLimits { part_head_bytes: head - 1, ..default };
    let reason = format!("the head of a part of the form has more than {} bytes", head - 1);
    assert_eq!(limited(smaller, parts(1)), line(431, &reason));
    let fields = form(&[("name=a", &"A: b\r\n".repeat(16), "")]);
    assert_eq!(limited(default, fields), line(431, "a part of the form has more than 16 fields"));

    let data = form(&[("name=a", "", "12345"), ("name=b", "", "12345")]);
    let short = MultipartLimits { part_bytes: 5, ..default };
    assert_eq!(limited(short, data.clone()), ok("2"));
    let shorter = MultipartLimits { part_bytes: 4, ..default };
    let too_large = line(413, "a part of the form has more than 4 bytes");
    assert_eq!(limited(shorter, data.clone()), too_large);

    let of_size = |most: u64| {
        move |mut form: Multipart| -> Result<String, Rejection> {
            form.next_part()?.expect("a").into_text(most)
        }
    };
    assert_eq!(call("/", of_size(5), post(TYPE, data.clone())), ok("12345"));
    assert_eq!(call("/", of_size(4), post(TYPE, data)), too_large);
}

#[test]
fn text_of_a_part_is_utf8() {
    let text = |mut form: Multipart| -> Result<String, Rejection> {
        form.next_part()?.expect("a part").into_text(100)
    };
    let with = |fields, data| post(TYPE, form(&[("name=a", fields, data)]));
    let utf8 = "Content-Type: text/plain; charset=utf-8\r\n";
    assert_eq!(call("/", text, with(utf8, "\u{e4}")), ok("\u{e4}"));
    assert_eq!(
        call("/", text, with("Content-Type: text/plain; charset=latin1\r\n", "a")),
        line(415, "the charset is `latin1`, but must be utf-8")
    );
    let body = [&form(&[("name=a", "", "x")]).into_bytes()[..]].concat();
    let body: Vec<u8> = body.iter().map(|b| if *b == b'x' { 0xff } else { *b }).collect();
    assert_eq!(call("/", text, post(TYPE, body)), line(400, "a part of the form is not UTF-8"));
}

#[test]
fn after_a_fault_the_form_stays_failed() {
    let show = |mut form: Multipart| {
        let first = form.next_part().map(drop).unwrap_err();
        let second = form.next_part().map(drop).unwrap_err();
        assert_eq!(first, second);
        first
    };
    for body in ["--bx\r\n\r\n", "--b\r\n\r\n\r\n--b--"] {
        assert_eq!(call("/", show, post(TYPE, body)).0, 400);
    }
}

#[test]
fn errors_of_the_body_keep_their_status() {
    let body = || {
        let begin = Cursor::new(&b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\nabc"[..]);
        Body::from_read(begin.chain(Failing))
    };
    let expected = line(408, "the body of the request arrives too slowly");
    assert_eq!(listed(body()), expected);
    let copy = |mut form: Multipart| -> Result<(), Rejection> {
        let mut part = form.next_part()?.expect("a");
        io::copy(&mut part, &mut io::sink())?;
        Ok(())
    };
    assert_eq!(call("/", copy, post(TYPE, body())), expected);
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(BodyError::TooSlow.into())
    }
}
