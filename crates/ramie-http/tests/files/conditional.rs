//! The rules of RFC 9110 about conditions and ranges; the table is in the docs of the module.

use std::time::{Duration, SystemTime};

use ramie_http::{
    HeaderMap, Method, Request, Response,
    conditional::{ETag, Precondition, Representation, preconditions, respond},
};

const TEXT: &str = "0123456789";
/// The time of the representation, half a second later than its date.
const TIME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn facts() -> Representation {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(784_111_777_500);
    Representation { etag: ETag::strong("v1"), modified: Some(time), length: TEXT.len() as u64 }
}

fn request(method: Method, fields: &[(&str, &str)]) -> Request {
    fields
        .iter()
        .fold(Request::new(method, "/"), |request, (name, value)| request.with_header(name, value))
}

fn answer(method: Method, fields: &[(&str, &str)]) -> Response {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "text/plain"),
        ("content-language", "en"),
        ("content-encoding", "x"),
        ("cache-control", "no-cache"),
        ("vary", "accept"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    respond(&request(method, fields), &facts(), headers, TEXT)
}

fn get(fields: &[(&str, &str)]) -> (u16, String) {
    let response = answer(Method::GET, fields);
    let status = response.status().as_u16();
    let bytes = response.into_body().into_bytes(10_000).unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

fn status(method: Method, fields: &[(&str, &str)]) -> u16 {
    answer(method, fields).status().as_u16()
}

#[test]
fn if_match_compares_strongly() {
    for (value, expected) in [
        ("\"v1\"", 200),
        ("\"v0\", \"v1\"", 200),
        ("*", 200),
        ("W/\"v1\"", 412),
        ("\"v2\"", 412),
        ("v1", 412),
        ("", 412),
    ] {
        assert_eq!(status(Method::GET, &[("if-match", value)]), expected, "{value}");
    }
    let create = request(Method::PUT, &[("if-match", "*")]);
    assert_eq!(preconditions(&create, None), Precondition::Failed);
    assert_eq!(preconditions(&create, Some(&facts())), Precondition::Holds);
    assert_eq!(status(Method::GET, &[("if-match", "\"v0\""), ("if-match", "\"v1\"")]), 200);
}

#[test]
fn if_none_match_compares_weakly() {
    for (value, expected) in [
        ("\"v1\"", 304),
        ("W/\"v1\"", 304),
        ("\"v0\", W/\"v1\"", 304),
        ("*", 304),
        ("\"v2\"", 200),
        ("v1", 200),
    ] {
        assert_eq!(status(Method::GET, &[("if-none-match", value)]), expected, "{value}");
        assert_eq!(status(Method::HEAD, &[("if-none-match", value)]), expected, "{value}");
        let put = preconditions(&request(Method::PUT, &[("if-none-match", value)]), Some(&facts()));
        let failed = if expected == 304 { Precondition::Failed } else { Precondition::Holds };
        assert_eq!(put, failed, "{value}");
    }
    let create = request(Method::PUT, &[("if-none-match", "*")]);
    assert_eq!(preconditions(&create, None), Precondition::Holds);
    let without_tag = Representation { etag: None, ..facts() };
    let get = request(Method::GET, &[("if-none-match", "\"v1\"")]);
    assert_eq!(preconditions(&get, Some(&without_tag)), Precondition::Holds);
}

#[test]
fn if_modified_since_counts_for_get_and_head() {
    for (date, expected) in [(BEFORE, 200), (TIME, 304), (AFTER, 304)] {
        assert_eq!(status(Method::GET, &[("if-modified-since", date)]), expected, "{date}");
        assert_eq!(status(Method::HEAD, &[("if-modified-since", date)]), expected, "{date}");
        let put = request(Method::PUT, &[("if-modified-since", date)]);
        assert_eq!(preconditions(&put, Some(&facts())), Precondition::Holds);
    }
    // The tag counts, whatever the date says.
    let fields = [("if-modified-since", AFTER), ("if-none-match", "\"v2\"")];
    assert_eq!(status(Method::GET, &fields), 200);
}

#[test]
fn if_unmodified_since_fails_for_what_has_changed() {
    for (date, expected) in [(BEFORE, 412), (TIME, 200), (AFTER, 200)] {
        assert_eq!(status(Method::GET, &[("if-unmodified-since", date)]), expected, "{date}");
    }
    let fields = [("if-unmodified-since", BEFORE), ("if-match", "\"v1\"")];
    assert_eq!(status(Method::GET, &fields), 200);
    let put = request(Method::PUT, &[("if-unmodified-since", BEFORE)]);
    assert_eq!(preconditions(&put, Some(&facts())), Precondition::Failed);
}

#[test]
fn if_range_needs_a_strong_validator() {
    for (value, expected) in [
        ("\"v1\"", 206),
        (TIME, 206),
        ("W/\"v1\"", 200),
        ("\"v2\"", 200),
        ("\"v1\", \"v2\"", 200),
        ("*", 200),
        (BEFORE, 200),
        (AFTER, 200),
        ("x", 200),
    ] {
        let fields = [("range", "bytes=0-0"), ("if-range", value)];
        assert_eq!(status(Method::GET, &fields), expected, "{value}");
    }
    // What is not satisfiable does not count, either.
    assert_eq!(status(Method::GET, &[("range", "bytes=10-"), ("if-range", "\"v2\"")]), 200);
    let weak = Representation { etag: ETag::weak("v1"), ..facts() };
    let get = request(Method::GET, &[("range", "bytes=0-0"), ("if-range", "W/\"v1\"")]);
    assert_eq!(respond(&get, &weak, HeaderMap::new(), TEXT).status(), 200);
}

#[test]
fn invalid_dates_do_not_count() {
    for bad in ["", "yesterday", "1994-11-06", "Sun, 99 Nov 1994 08:49:37 GMT", "*"] {
        assert_eq!(status(Method::GET, &[("if-modified-since", bad)]), 200, "{bad}");
        assert_eq!(status(Method::GET, &[("if-unmodified-since", bad)]), 200, "{bad}");
    }
    let twice = [("if-unmodified-since", BEFORE), ("if-unmodified-since", BEFORE)];
    assert_eq!(status(Method::GET, &twice), 200);
    for other_form in ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        assert_eq!(status(Method::GET, &[("if-modified-since", other_form)]), 304, "{other_form}");
    }
}

#[test]
fn conditions_are_evaluated_in_order() {
    let known = ("if-none-match", "\"v1\"");
    assert_eq!(status(Method::GET, &[("if-match", "\"v2\""), known]), 412);
    assert_eq!(status(Method::GET, &[("if-unmodified-since", BEFORE), known]), 412);
    assert_eq!(status(Method::GET, &[known, ("range", "bytes=0-0")]), 304);
    assert_eq!(status(Method::GET, &[("if-match", "\"v2\""), ("range", "bytes=99-")]), 412);
    assert_eq!(status(Method::GET, &[("if-none-match", "\"v2\""), ("range", "bytes=99-")]), 416);
}

#[test]
fn ranges_count_for_get_only() {
    assert_eq!(get(&[("range", "bytes=2-3")]), (206, "23".to_owned()));
    assert_eq!(status(Method::HEAD, &[("range", "bytes=2-3")]), 200);
    assert_eq!(status(Method::HEAD, &[("range", "bytes=99-")]), 200);
}

#[test]
fn ranges_that_ask_for_too_much_get_the_whole() {
    let many = (0..17).map(|_| "0-0").collect::<Vec<_>>().join(",");
    for range in [&format!("bytes={many}"), "bytes=0-5,3-9", "bytes=1-0", "lines=0-1", "bytes=x"] {
        assert_eq!(get(&[("range", range)]), (200, TEXT.to_owned()), "{range}");
    }
    assert_eq!(get(&[("range", "bytes=0-1"), ("range", "bytes=0-1")]).0, 200);
}

#[test]
fn ranges_behind_the_end_get_416() {
    for range in ["bytes=10-", "bytes=99-100, 200-", "bytes=-0"] {
        let response = answer(Method::GET, &[("range", range)]);
        assert_eq!(response.status(), 416);
        assert_eq!(response.headers()["content-range"], "bytes */10");
        assert!(response.body().is_empty() && !response.headers().contains_key("content-type"));
    }
}

#[test]
fn one_range_gets_one_part() {
    for (range, part, content) in [
        ("bytes=0-0", "bytes 0-0/10", "0"),
        ("bytes=8-", "bytes 8-9/10", "89"),
        ("bytes=-3", "bytes 7-9/10", "789"),
        ("bytes=-99", "bytes 0-9/10", TEXT),
        ("bytes=5-99, 100-", "bytes 5-9/10", "56789"),
    ] {
        let response = answer(Method::GET, &[("range", range)]);
        assert_eq!(response.status(), 206, "{range}");
        assert_eq!(response.headers()["content-range"], part);
        assert_eq!(response.headers()["content-type"], "text/plain");
        assert_eq!(response.headers()["etag"], "\"v1\"");
        assert_eq!(response.into_body().into_bytes(100).unwrap(), content);
    }
}

#[test]
fn several_ranges_get_several_parts() {
    let response = answer(Method::GET, &[("range", "bytes=-2, 0-0, 20-")]);
    assert_eq!(response.status(), 206);
    let headers = response.headers();
    assert!(!headers.contains_key("content-range"));
    let content_type = headers["content-type"].to_str().unwrap().to_owned();
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let part = |range: &str, content: &str| {
        format!(
            "\r\n--{boundary}\r\ncontent-type: text/plain\r\n\
             content-range: {range}\r\n\r\n{content}"
        )
    };
    let parts = [part("bytes 8-9/10", "89"), part("bytes 0-0/10", "0")].concat();
    let expected = format!("{parts}\r\n--{boundary}--\r\n");
    assert_eq!(response.body().length(), Some(expected.len() as u64));
    assert_eq!(response.into_body().into_bytes(1000).unwrap(), expected);
}

#[test]
fn a_304_has_the_fields_of_its_200() {
    let whole = answer(Method::GET, &[]);
    for name in ["etag", "last-modified", "cache-control", "vary", "content-type", "accept-ranges"]
    {
        assert!(whole.headers().contains_key(name), "{name}");
    }
    assert_eq!(whole.headers()["last-modified"], TIME);
    let known = answer(Method::GET, &[("if-none-match", "*")]);
    assert!(known.body().is_empty());
    for name in ["etag", "cache-control", "vary"] {
        assert_eq!(known.headers()[name], whole.headers()[name]);
    }
    for name in ["content-type", "content-language", "content-encoding"] {
        assert!(!known.headers().contains_key(name), "{name}");
    }
}

#[test]
fn a_time_in_the_future_is_left_out() {
    let later = Some(SystemTime::now() + Duration::from_secs(1000));
    let facts = Representation { modified: later, ..facts() };
    let response = respond(&Request::get("/"), &facts, HeaderMap::new(), TEXT);
    assert!(!response.headers().contains_key("last-modified"));
}
