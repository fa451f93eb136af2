//! Each limit of sizes and counts, to the byte.

use ramie_http::Limits;

use super::{client::statuses, rig::seeing};

/// Expects that one request is answered, and that the other is refused with this status.
#[track_caller]
fn check(limits: Limits, allowed: &str, refused: &str, status: u16) {
    let (rig, seen) = seeing(limits);
    let close = "GET /behind HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answers = rig.exchange([allowed, close].concat());
    assert_eq!(statuses(&answers), [200, 200], "{allowed:?}");
    seen.take();
    let answers = rig.exchange([refused, close].concat());
    assert_eq!(statuses(&answers), [status], "{refused:?}");
    assert!(answers[0].closes());
    assert!(!seen.take().iter().any(|line| line.starts_with("GET /behind")));
}

fn small() -> Limits {
    Limits {
        line_bytes: 100,
        head_bytes: 400,
        fields: 20,
        field_bytes: 150,
        body_bytes: 50,
        ..Limits::default()
    }
}

#[test]
fn a_line_that_is_too_long_is_414() {
    let line = |length: usize| {
        let rest = "GET / HTTP/1.1\r\n".len();
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(length - rest))
    };
    check(small(), &line(100), &line(101), 414);
    check(small(), &line(100), &line(5000), 414);
    check(Limits::default(), &line(8 << 10), &line((8 << 10) + 1), 414);
}

#[test]
fn a_field_that_is_too_long_is_431() {
    let field = |length: usize| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nX:{}\r\n\r\n", "y".repeat(length - 1))
    };
    check(small(), &field(150), &field(151), 431);
}

#[test]
fn too_many_fields_are_431() {
    let fields =
        |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X:\r\n".repeat(count - 1));
    check(small(), &fields(20), &fields(21), 431);
    check(Limits::default(), &fields(100), &fields(101), 431);
    check(Limits { fields: 5, ..small() }, &fields(5), &fields(6), 431);
    check(Limits { fields: 500, ..Limits::default() }, &fields(256), &fields(257), 431);
}

#[test]
fn a_head_that_is_too_large_is_431() {
    let head = |length: usize| {
        let field = format!("X: {}\r\n", "y".repeat(100));
        let start = format!("GET / HTTP/1.1\r\nHost: a\r\n{}", field.repeat(3));
        let pad = length - start.len() - "Z:\r\n\r\n".len();
        format!("{start}Z:{}\r\n\r\n", "z".repeat(pad))
    };
    check(small(), &head(400), &head(401), 431);
}

#[test]
fn a_body_that_is_too_large_is_413() {
    let body = |length: usize| {
        let start = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        start + &"b".repeat(length)
    };
    check(small(), &body(50), &body(51), 413);
    let huge = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n";
    check(small(), &body(50), huge, 413);
}

/// A head that never ends is refused as soon as it is too large, so it takes no more memory.
#[test]
fn a_head_without_an_end_is_refused_at_its_limit() {
    let (rig, _) = seeing(small());
    let mut client = rig.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");
    client.send("X: y\r\n".repeat(100));
    let answers = client.answers_until_close();
    assert_eq!(statuses(&answers), [431]);
    let answers = rig.exchange("G".repeat(101));
    assert_eq!(statuses(&answers), [414]);
}

#[test]
fn the_last_request_of_a_connection_is_announced() {
    let (rig, seen) = seeing(Limits { requests_per_connection: 3, ..Limits::default() });
    let answers = rig.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5));
    assert_eq!(statuses(&answers), [200, 200, 200]);
    let closes: Vec<_> = answers.iter().map(|answer| answer.closes()).collect();
    assert_eq!(closes, [false, false, true]);
    assert_eq!(seen.take().len(), 3);
}
