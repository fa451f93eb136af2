//! `Expect: 100-continue` (RFC 9110, section 10.1.1).

use std::io::{Read, Write};

use ramie_http::{Body, IntoResponse, Limits, Request, Router, StatusCode};

use super::{
    client::{Client, statuses},
    rig::{Rig, seeing},
};

fn head(version: &str, length: usize) -> String {
    format!(
        "POST / HTTP/{version}\r\nHost: a\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\
         Connection: keep-alive\r\n\r\n"
    )
}

#[test]
fn the_client_is_asked_for_a_body_that_is_read() {
    let (rig, seen) = seeing(Limits::default());
    let mut client = rig.connect();
    for _ in 0..2 {
        client.send(head("1.1", 5));
        assert_eq!(client.answer().status, 100);
        client.send("hello");
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (200, false));
    }
    client.send(head("1.1", 5).replace("Content-Length: 5", "Transfer-Encoding: chunked"));
    assert_eq!(client.answer().status, 100);
    client.send("5\r\nhello\r\n0\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    assert_eq!(seen.take(), ["POST / hello"; 3]);
}

/// The final status comes instead of 100, and the connection is closed, because nobody can know
/// whether the client will send the body.
#[test]
fn a_body_that_nobody_reads_is_not_asked_for() {
    let rig = Rig::start(Router::new().fallback(|| StatusCode::FORBIDDEN), Limits::default());
    let mut client = rig.connect();
    client.send(head("1.1", 5));
    let answers = client.answers_until_close();
    assert_eq!(statuses(&answers), [403]);
    assert!(answers[0].closes());
}

#[test]
fn a_client_that_sends_at_once_is_not_asked() {
    let (rig, seen) = seeing(Limits::default());
    let mut client = rig.connect();
    client.send(head("1.1", 5) + "hello");
    assert_eq!(client.answer().status, 200);
    client.send(head("1.1", 5) + "hello");
    assert_eq!(client.answer().status, 200);
    assert_eq!(seen.take(), ["POST / hello"; 2]);
}

#[test]
fn http_1_0_gets_no_100() {
    let (rig, seen) = seeing(Limits::default());
    let mut client = rig.connect();
    client.send(head("1.0", 5));
    client.send("hello");
    let answer = client.answer();
    assert_eq!((answer.status, answer.field("connection")), (200, Some("keep-alive")));
    assert_eq!(seen.take(), ["POST / hello"]);
}

#[test]
fn no_body_needs_no_100() {
    let (rig, seen) = seeing(Limits::default());
    let mut client = rig.connect();
    client.send(head("1.1", 0));
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (200, false));
    client.send("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    assert_eq!(seen.take().len(), 2);
}

#[test]
fn other_expectations_are_417() {
    let (rig, seen) = seeing(Limits::default());
    for value in ["tea", "", "100-continue;a=b", "100-continue, tea"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nExpect: {value}\r\n\r\n");
        let answers = rig.exchange(request.repeat(2));
        assert_eq!(statuses(&answers), [417], "{value:?}");
        assert!(answers[0].closes());
    }
    assert!(seen.take().is_empty());
}

/// The client takes the first final response for that of its first request, so a 100 for the second
/// must not precede it.
#[test]
fn a_100_comes_behind_the_responses_to_earlier_requests() {
    let (rig, _) = seeing(Limits::default());
    let mut client = rig.connect();
    client.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n".to_owned() + &head("1.1", 5));
    assert_eq!(client.answer().text(), "GET /first ");
    assert_eq!(client.answer().status, 100);
    client.send("hello");
    assert_eq!(client.answer().text(), "POST / hello");
}

/// A body that is read while the response is sent is asked for before the response, never inside.
#[test]
fn a_100_never_comes_within_a_response() {
    let echo = |request: Request| match request.path() {
        "/whole" => request.into_body().into_response(),
        _ => {
            let mut body = request.into_body();
            let write = move |out: &mut ramie_http::BodyWriter<'_>| {
                out.write_all(b"begun ")?;
                out.flush()?;
                let mut text = String::new();
                body.read_to_string(&mut text)?;
                out.write_all(text.as_bytes())
            };
            Body::from_writer(write).into_response()
        }
    };
    let rig = Rig::start(Router::new().fallback(echo), Limits::default());
    for (path, text) in [("/whole", "hello"), ("/written", "begun hello")] {
        let mut client = rig.connect();
        client.send(head("1.1", 5).replacen('/', path, 1));
        assert_eq!(client.answer().status, 100, "{path}");
        client.send("hello");
        assert_eq!(client.answer().text(), text, "{path}");
        exchange_again(&mut client, path);
    }
}

/// The connection is still in step.
#[track_caller]
fn exchange_again(client: &mut Client, path: &str) {
    client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"));
    assert!(client.answer().text().ends_with("abc"));
}

/// The client has not got 100, and so it does not send the body: its next bytes are a request.
#[test]
fn a_read_that_is_cancelled_before_100_is_sent_closes_the_connection() {
    let late = |body: Body| {
        let read = || body.into_bytes(100);
        match ramie::cancel::try_with_timeout(std::time::Duration::ZERO, read) {
            Ok(_) => StatusCode::OK,
            Err(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    };
    let rig = Rig::start(Router::new().fallback(late), Limits::default());
    let mut client = rig.connect();
    client.send(head("1.1", 50));
    let answers = client.answers_until_close();
    assert_eq!(statuses(&answers), [504]);
    assert!(answers[0].closes());
}
