//! Lines of requests, of `Router::call` and of a server.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use ramie::sync::{Event, mpsc};
use ramie_http::{
    Body, Limits, Request, Router, get,
    middleware::{AccessLog, request_id},
};
use serde_json::Value;

use super::{
    sockets::{Client, serve},
    written::Written,
};

/// The lines of a log that writes JSON.
pub(super) fn json(written: &Written) -> Vec<Value> {
    written.lines().iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn routes() -> Router {
    let streamed = || Body::from_writer(|out| io::Write::write_all(out, b"hello"));
    Router::new()
        .route("/", get(|| "hello"))
        .route("/streamed", get(streamed))
        .route("/panics", get(|| -> &'static str { panic!("of a test") }))
}

#[test]
fn each_request_is_a_line() {
    let written = Written::default();
    let log = AccessLog::common(written.clone());
    let router = routes().layer(request_id).layer(log.layer());
    ramie::run(|| {
        for (method, target) in [("GET", "/?a=%0a"), ("HEAD", "/"), ("POST", "/"), ("GET", "/none")]
        {
            let request = Request::new(method.parse().unwrap(), target);
            router.call(request.with_header("x-request-id", "a7"));
        }
        router.call(Request::get("/streamed").with_header("x-request-id", "a8"));
        let panics = Request::get("/panics").with_header("x-request-id", "a9");
        assert!(catch_unwind(AssertUnwindSafe(|| router.call(panics))).is_err());
    });
    let parts = |line: &String| {
        let (date, rest) = line.strip_prefix("- - - [")?.split_once("] ")?;
        assert!(date.len() == 26 && date.ends_with(" +0000"), "{date}");
        let (rest, micros) = rest.rsplit_once(' ')?;
        micros.parse::<u64>().ok()?;
        Some(rest.to_owned())
    };
    let lines: Vec<_> = written.lines().iter().map(|line| parts(line).expect(line)).collect();
    assert_eq!(
        lines,
        [
            "\"GET /?a=%0a HTTP/1.1\" 200 5 a7",
            "\"HEAD / HTTP/1.1\" 200 0 a7",
            "\"POST / HTTP/1.1\" 405 0 a7",
            "\"GET /none HTTP/1.1\" 404 0 a7",
            "\"GET /streamed HTTP/1.1\" 200 - a8",
            "\"GET /panics HTTP/1.1\" 500 0 a9",
        ]
    );
    assert_eq!(log.lost(), 0);
}

/// A program that catches panics calls a router without a connection, which would forget the id.
#[test]
fn a_panic_without_an_id_does_not_get_that_of_an_earlier_one() {
    let written = Written::default();
    let log = AccessLog::json(written.clone());
    let with_id = routes().layer(request_id);
    let without_id = routes().layer(log.layer());
    ramie::run(|| {
        for router in [with_id, without_id] {
            let call = || router.call(Request::get("/panics"));
            assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        }
    });
    assert_eq!(json(&written)[0]["id"], Value::Null);
}

#[test]
fn an_id_is_logged_on_either_side_of_its_layer() {
    for is_outermost in [true, false] {
        let written = Written::default();
        let log = AccessLog::json(written.clone());
        let router = match is_outermost {
            true => routes().layer(request_id).layer(log.layer()),
            false => routes().layer(log.layer()).layer(request_id),
        };
        let response = ramie::run(|| router.call(Request::get("/")));
        let sent = response.headers()["x-request-id"].to_str().expect("text");
        assert_eq!(json(&written)[0]["id"], sent);
    }
}

/// Serves with a log, and with a route whose handler waits until it is cancelled; calls `client`
/// with a function that makes requests, and with one that waits until such a handler waits.
fn lines_of_server(
    limits: Limits,
    client: impl FnOnce(&mut dyn FnMut(&str) -> Client, &dyn Fn()),
) -> Vec<Value> {
    let written = Written::default();
    let log = AccessLog::json(written.clone());
    let (waiting, waits) = mpsc::channel();
    let wait = move || {
        waiting.send(()).expect("the test waits");
        assert!(Event::new().wait().is_err(), "nothing sets it");
        "the wait has ended"
    };
    let router = routes().route("/wait", get(wait)).layer(log.layer());
    let mut peers = Vec::new();
    serve(limits, router, |address| {
        let mut get = |target: &str| {
            let client = Client::get(address, target);
            peers.push(client.local_addr().to_string());
            client
        };
        client(&mut get, &|| waits.recv().expect("the handler waits"));
    });
    let mut lines = json(&written);
    lines.sort_by_key(|line| peers.iter().position(|peer| line["peer"] == *peer));
    let logged: Vec<_> = lines.iter().map(|line| line["peer"].as_str().unwrap()).collect();
    assert_eq!(logged, peers);
    lines
}

#[test]
fn lines_of_a_server_have_peers_and_the_statuses_that_were_sent() {
    let lines = lines_of_server(Limits::default(), |get, until_it_waits| {
        assert!(get("/").head().starts_with("HTTP/1.1 200 "));
        let gone = get("/wait");
        until_it_waits();
        drop(gone);
        assert!(get("/panics").head().starts_with("HTTP/1.1 500 "));
    });
    let statuses: Vec<_> = lines.iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [200, 499, 500]);
    // Nothing was sent of the text of the handler whose client had gone.
    assert_eq!((&lines[0]["bytes"], &lines[1]["bytes"]), (&5.into(), &0.into()));
}

#[test]
fn a_request_whose_time_is_up_is_logged_as_it_is_answered() {
    let limits = Limits { request_timeout: Duration::from_millis(100), ..Limits::default() };
    let lines = lines_of_server(limits, |get, _| {
        assert!(get("/wait").head().starts_with("HTTP/1.1 503 "));
    });
    assert_eq!(lines[0]["status"], 503);
    // The 503 has no body; the text of the handler was not sent.
    assert_eq!(lines[0]["bytes"], 0);
    assert!(lines[0]["duration_us"].as_u64().unwrap() >= 50_000, "{}", lines[0]);
}
