//! Connections with many requests: keep-alive, pipelining, and clients that do not read.

use std::{
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ramie_http::{IntoResponse, Limits, Request, Router};

use super::{
    client::statuses,
    rig::{Rig, seeing},
};

#[test]
fn a_connection_stays_open_as_its_version_and_options_want() {
    let (rig, _) = seeing(Limits::default());
    for (version, option, stays, answered) in [
        ("1.1", "", true, None),
        ("1.1", "Connection: keep-alive\r\n", true, None),
        ("1.1", "Connection: x, Keep-Alive\r\n", true, None),
        ("1.1", "Connection: close\r\n", false, Some("close")),
        ("1.1", "Connection: x\r\nConnection: y, CLOSE\r\n", false, Some("close")),
        ("1.0", "", false, Some("close")),
        ("1.0", "Connection: keep-alive\r\n", true, Some("keep-alive")),
        ("1.0", "Connection: keep-alive, close\r\n", false, Some("close")),
    ] {
        let mut client = rig.connect();
        client.send(format!("GET / HTTP/{version}\r\nHost: a\r\n{option}\r\n"));
        let answer = client.answer();
        assert_eq!(answer.field("connection"), answered, "{version} {option}");
        if stays {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.answer().status, 200);
        } else {
            client.expect_close();
        }
    }
}

#[test]
fn a_response_that_says_close_is_the_last() {
    let close = || ([("connection", "x, close")], "bye").into_response();
    let rig = Rig::start(Router::new().fallback(close), Limits::default());
    let answers = rig.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
    assert_eq!(statuses(&answers), [200]);
    assert!(answers[0].closes());
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let (rig, seen) = seeing(Limits::default());
    let request = |number: usize| match number % 3 {
        0 => format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
        1 => format!("POST /{number} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"),
        _ => format!(
            "POST /{number} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n0\r\n\r\n"
        ),
    };
    let all: String = (0..1000).map(request).collect();
    let answers = rig.exchange_and_end(all);
    assert_eq!(answers.len(), 1000);
    for (number, answer) in answers.iter().enumerate() {
        let path = answer.text().split(' ').nth(1).unwrap();
        assert_eq!(path, format!("/{number}"));
    }
    assert_eq!(seen.take().len(), 1000);
}

/// The client waits for the first response before it sends the body of its second request.
#[test]
fn a_response_is_not_held_back_by_the_body_of_the_next_request() {
    let (rig, _) = seeing(Limits::default());
    let mut client = rig.connect();
    client.send(
        "GET /first HTTP/1.1\r\nHost: a\r\n\r\n\
         POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
    );
    assert_eq!(client.answer().text(), "GET /first ");
    client.send("hello");
    assert_eq!(client.answer().text(), "POST /second hello");
}

#[test]
fn a_response_is_not_held_back_by_the_handler_of_the_next_request() {
    let go_on = Arc::new(ramie::sync::Event::new());
    let wait = Arc::clone(&go_on);
    let handler = move |request: Request| {
        if request.path() == "/second" {
            wait.wait().unwrap();
        }
        request.path().to_owned()
    };
    let rig = Rig::start(Router::new().fallback(handler), Limits::default());
    let mut client = rig.connect();
    client.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /second HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().text(), "/first");
    go_on.set();
    assert_eq!(client.answer().text(), "/second");
}

/// Each head arrives in time, but some part of a head is there all the time.
#[test]
fn a_client_that_pipelines_without_a_pause_is_not_late() {
    let limits = Limits { head_timeout: Duration::from_secs(2), ..Limits::default() };
    let clock = ramie::time::ManualClock::new();
    let seen = super::rig::Seen::default();
    let runtime = ramie::Runtime::builder().workers(1).clock(clock.clone());
    let rig = Rig::start_on(runtime, seen.router(), limits, |server| server);
    let mut client = rig.connect();
    let (begin, end) = ("GET / HTTP/1.1\r\n", "Host: a\r\n\r\n");
    client.send(begin);
    for _ in 0..5 {
        clock.advance(Duration::from_millis(1500));
        client.send([end, begin].concat());
        assert_eq!(client.answer().status, 200);
    }
    client.send(end);
    assert_eq!(client.answer().status, 200);
}

/// A client that sends requests and reads no response is not served further, and what it sends
/// stays in its own kernel.
#[test]
fn a_client_that_does_not_read_is_not_served_without_end() {
    const BODY: usize = 64 << 10;
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let handler = move |_: Request| {
        count.fetch_add(1, Ordering::SeqCst);
        vec![b'x'; BODY].into_response()
    };
    let limits = Limits { write_timeout: Duration::from_millis(300), ..Limits::default() };
    let rig = Rig::start(Router::new().fallback(handler), limits);
    let mut client = rig.connect();
    client.stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    let requests = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    let mut sent = 0;
    // The server closes the connection, because its responses are not taken in time.
    loop {
        match client.stream.write(requests.as_bytes()) {
            Ok(written) => sent += written,
            Err(error) => {
                assert!(
                    matches!(
                        error.kind(),
                        std::io::ErrorKind::BrokenPipe | std::io::ErrorKind::ConnectionReset
                    ),
                    "{error}"
                );
                break;
            }
        }
    }
    // Both kernels buffer some megabytes each way, and nothing else does.
    let handled = handled.load(Ordering::SeqCst);
    assert!(handled * BODY < 64 << 20, "{handled} requests of {sent} bytes were answered");
    let mut rest = Vec::new();
    let ended = client.stream.read_to_end(&mut rest);
    assert!(ended.is_err() || rest.len() <= handled * (BODY + 200));
}
