//! Requests with a time of their own, over HTTP/1.1.

use std::time::Duration;

use ramie::fiber;
use ramie_http::{
    Limits, Request, Router, get,
    middleware::{AccessLog, request_timeout},
};

use super::{
    access_log::json,
    sockets::{Client, serve},
    written::Written,
};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn the_log_of_a_request_with_a_longer_time_has_the_status_that_was_sent() {
    let written = Written::default();
    let log = AccessLog::json(written.clone());
    let longer = || fiber::sleep(Duration::from_millis(400));
    let longer = Router::new().route("/", get(longer)).layer(request_timeout(MINUTE));
    let router = Router::new()
        .nest("/longer", longer)
        .route("/usual", get(|| fiber::sleep(MINUTE)))
        .layer(log.layer());
    let limits = Limits { request_timeout: Duration::from_millis(80), ..Limits::default() };
    serve(limits, router, |address| {
        let mut client = Client::get(address, "/longer");
        assert!(client.head().starts_with("HTTP/1.1 200 "));
        client.ask("/usual");
        assert!(client.head().starts_with("HTTP/1.1 503 "));
    });
    let statuses: Vec<_> = json(&written).iter().map(|line| line["status"].as_u64()).collect();
    assert_eq!(statuses, [Some(200), Some(503)]);
}

/// A program that calls a router has no server's limit to replace.
#[test]
fn a_request_of_the_program_is_left_alone() {
    let handler = || {
        fiber::sleep(Duration::from_millis(5));
        "done"
    };
    let router = Router::new().route("/", get(handler)).layer(request_timeout(Duration::ZERO));
    let response = ramie::run(|| router.call(Request::get("/")));
    assert_eq!(response.status(), 200);
}
