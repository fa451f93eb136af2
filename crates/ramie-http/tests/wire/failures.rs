//! Handlers and bodies that fail, and bodies of requests that outlive their handlers.

use std::{
    io::{Read, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use ramie_http::{Body, BodyError, IntoResponse, Limits, Request, Response, Router, get, post};

use super::{
    client::{Lost, statuses},
    rig::{Rig, seeing},
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_panic_of_a_handler_is_500_and_harms_nobody_else() {
    let handler = |request: Request| match request.path() {
        "/panic" => panic!("on purpose"),
        _ => "fine".into_response(),
    };
    let rig = Rig::start(Router::new().fallback(handler), Limits::default());
    let mut other = rig.connect();
    other.send(GET);
    assert_eq!(other.answer().status, 200);
    for body in ["", "Content-Length: 5\r\n"] {
        let request = format!("GET /panic HTTP/1.1\r\nHost: a\r\n{body}\r\n");
        let answers = rig.exchange(request + "hello" + GET);
        assert_eq!(statuses(&answers), [500]);
        assert!(answers[0].closes());
    }
    other.send(GET);
    assert_eq!(other.answer().status, 200);
}

fn failing(request: Request) -> Response {
    let panics = request.query() == Some("panic");
    let write = move |out: &mut ramie_http::BodyWriter<'_>| {
        out.write_all(b"begun")?;
        out.flush()?;
        assert!(!panics, "on purpose");
        Err(std::io::Error::other("on purpose"))
    };
    match request.path() {
        "/writer" => Body::from_writer(write).into_response(),
        "/short" => Body::from_sized(&b"begun"[..], 10).into_response(),
        "/reader" => Body::from_read((&b"begun"[..]).chain(Failing { panics })).into_response(),
        _ => "fine".into_response(),
    }
}

struct Failing {
    panics: bool,
}

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        assert!(!self.panics, "on purpose");
        Err(std::io::Error::other("on purpose"))
    }
}

/// No client takes the part of a body for the whole, be it in chunks, with a length, or up to the
/// close of the connection.
#[test]
fn a_body_that_fails_cuts_the_connection() {
    let rig = Rig::start(Router::new().fallback(failing), Limits::default());
    let mut other = rig.connect();
    for target in ["/writer", "/writer?panic", "/short", "/reader", "/reader?panic"] {
        for version in ["1.1", "1.0"] {
            let mut client = rig.connect();
            client.send(format!("GET {target} HTTP/{version}\r\nHost: a\r\n\r\n{GET}"));
            let lost = client.try_answer(false);
            assert!(matches!(lost, Err(Lost::Cut | Lost::Reset)), "{target} {version}: {lost:?}");
        }
    }
    other.send(GET);
    assert_eq!(other.answer().text(), "fine");
}

#[test]
fn the_rest_of_a_small_body_is_skipped() {
    let rig = Rig::start(Router::new().fallback(|| "unread"), Limits::default());
    let mut client = rig.connect();
    for length in [1, 1000, 60_000] {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        client.send(head + &"x".repeat(length));
        assert_eq!(client.answer().status, 200);
    }
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("1000\r\n{}\r\n0\r\nX: y\r\n\r\n{GET}", "x".repeat(0x1000)));
    assert_eq!((client.answer().status, client.answer().status), (200, 200));
}

/// The response says that the connection closes, because the server will not read so much.
#[test]
fn a_large_body_that_nobody_reads_closes_the_connection() {
    let rig = Rig::start(Router::new().fallback(|| "unread"), Limits::default());
    let mut client = rig.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    client.send(vec![b'x'; 200_000]);
    let answers = client.answers_until_close();
    assert_eq!(statuses(&answers), [200]);
    assert!(answers[0].closes());
}

/// The response reaches the client though the body of the request was not read.
#[test]
fn a_refused_upload_gets_its_response() {
    let refuse = |request: Request| match request.into_body().into_bytes(10) {
        Err(error) => BodyError::of(&error).unwrap().status().into_response(),
        Ok(_) => "small".into_response(),
    };
    let rig = Rig::start(Router::new().fallback(refuse), Limits::default());
    for _ in 0..20 {
        let mut client = rig.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1500000\r\n\r\n");
        client.send(vec![b'x'; 1_500_000]);
        let answers = client.answers_until_close();
        assert_eq!(statuses(&answers), [413]);
        assert!(answers[0].closes());
    }
}

#[test]
fn malformed_chunks_behind_a_response_are_no_request() {
    let rig = Rig::start(Router::new().fallback(|| "unread"), Limits::default());
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in ["x\r\n", "5\r\nhello!\r\n", "0\r\nX\r\n\r\n"] {
        let answers = rig.exchange([head, body, GET].concat());
        assert_eq!(statuses(&answers), [200], "{body:?}");
    }
}

#[test]
fn a_body_that_ends_early_is_an_error_of_the_client() {
    let (rig, _) = seeing(Limits::default());
    for request in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    ] {
        let answers = rig.exchange_and_end(request);
        assert_eq!(statuses(&answers), [400], "{request:?}");
        assert!(answers[0].closes());
    }
    for request in ["G", "GET / HTTP/1.1\r\nHost: a\r\n", "\r\n", "\r"] {
        assert!(rig.exchange_and_end(request).is_empty(), "{request:?}");
    }
}

/// A handler that keeps the body reads an error once the response is sent, never the next request.
#[test]
fn a_body_that_was_kept_is_over_with_the_response() {
    let kept = Arc::new(Mutex::new(None));
    let keep = {
        let kept = Arc::clone(&kept);
        move |request: Request| {
            *kept.lock().unwrap() = Some(request.into_body());
            "kept"
        }
    };
    let read = move |_: Request| {
        let mut body: Body = kept.lock().unwrap().take().expect("a body");
        let error = body.read(&mut [0; 10]).unwrap_err();
        format!("{:?}", BodyError::of(&error))
    };
    let router = Router::new().route("/keep", post(keep)).route("/read", get(read));
    let rig = Rig::start(router, Limits::default());
    let mut client = rig.connect();
    for length in [3, 0] {
        client.send(format!("POST /keep HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"));
        client.send("a".repeat(length));
        assert_eq!(client.answer().text(), "kept");
        if length > 0 {
            client.send("GET /read HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.answer().text(), "Some(Over)");
        }
    }
}

/// The connection closes though the program holds, or even reads, the body of its request.
#[test]
fn a_body_that_was_kept_does_not_keep_the_connection() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let handler = move |request: Request| {
        let reads = request.path() == "/reads";
        let mut body = request.into_body();
        if reads {
            let (sender, begun) = ramie::channel::bounded(1);
            ramie::fiber::spawn(move || {
                let first = body.read(&mut [0; 1]);
                let _ = sender.send(first.is_ok());
                let _ = std::io::copy(&mut body, &mut std::io::sink());
            });
            begun.recv().unwrap();
        } else {
            keep.lock().unwrap().push(body);
        }
        Body::from_writer(|_| Err(std::io::Error::other("on purpose")))
    };
    let rig = Rig::start(Router::new().fallback(handler), Limits::default());
    for path in ["/keeps", "/reads"] {
        let mut client = rig.connect();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nh"));
        let lost = client.try_answer(false);
        assert!(matches!(lost, Err(Lost::Cut | Lost::Reset)), "{path}: {lost:?}");
    }
    let mut kept = std::mem::take(&mut *kept.lock().unwrap());
    let error = kept[0].read(&mut [0; 1]).unwrap_err();
    assert_eq!(BodyError::of(&error), Some(BodyError::Over));
}

/// The response is sent while another fiber waits for the rest of the body.
#[test]
fn a_response_does_not_wait_for_a_fiber_that_reads_the_body() {
    let handler = |request: Request| {
        let mut body = request.into_body();
        let (sender, begun) = ramie::channel::bounded(1);
        ramie::fiber::spawn(move || {
            let first = body.read(&mut [0; 1]);
            let _ = sender.send(first.is_ok());
            let _ = std::io::copy(&mut body, &mut std::io::sink());
        });
        format!("{:?}", begun.recv().ok())
    };
    let rig = Rig::start(Router::new().fallback(handler), Limits::default());
    let mut client = rig.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nh");
    assert_eq!(client.answer().text(), "Some(true)");
    client.send("ello");
    client.send(GET.replace("GET", "POST").replace("\r\n\r\n", "\r\nContent-Length: 1\r\n\r\nx"));
    assert_eq!(client.answer().status, 200);
}

/// The time that a handler takes between two reads is not the client's fault.
#[test]
fn a_slow_handler_is_not_a_slow_client() {
    let clock = ramie::time::ManualClock::new();
    let limits = Limits {
        body_grace: Duration::from_secs(2),
        request_timeout: Duration::from_secs(1000),
        ..Limits::default()
    };
    let runtime = ramie::Runtime::builder().workers(1).clock(clock.clone());
    let advance = clock.clone();
    let handler = move |request: Request| {
        let mut body = request.into_body();
        let first = body.read(&mut [0; 1]).map_err(|error| error.to_string());
        advance.advance(Duration::from_secs(100));
        let second = body.read(&mut [0; 1]).map_err(|error| error.to_string());
        format!("{first:?} {second:?}")
    };
    let rig = Rig::start_on(runtime, Router::new().fallback(handler), limits, |server| server);
    let mut client = rig.connect();
    let expect = "Content-Length: 2\r\nExpect: 100-continue";
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{expect}\r\n\r\n"));
    assert_eq!(client.answer().status, 100);
    client.send("ab");
    assert_eq!(client.answer().text(), "Ok(1) Ok(1)");
}
