//! Ids of requests.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use ramie::sync::Event;
use ramie_http::{
    IntoResponse, Limits, Next, Request, Router, StatusCode, get,
    middleware::{RequestId, request_id},
};

use super::sockets::{Client, serve};

fn answered(request: Request) -> (String, String) {
    let show = |id: RequestId| ([("x-request-id", "of the handler")], id.to_string());
    let response = Router::new().route("/", get(show)).layer(request_id).call(request);
    let header = response.headers()["x-request-id"].to_str().expect("text").to_owned();
    let body = response.into_body().into_bytes(1000).expect("a body");
    (header, String::from_utf8(body.into()).expect("text"))
}

#[test]
fn a_valid_id_of_the_client_is_kept_and_others_are_replaced() {
    let (header, of_handler) = answered(Request::get("/").with_header("x-request-id", "a-7"));
    assert_eq!((header.as_str(), of_handler.as_str()), ("a-7", "a-7"));
    for request in [Request::get("/"), Request::get("/").with_header("x-request-id", "two words")] {
        let (header, of_handler) = answered(request);
        assert_eq!(header, of_handler);
        assert!(header.len() == 32 && header.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}

#[test]
fn all_responses_have_the_id_and_inner_layers_see_it() {
    let router = Router::new()
        .layer(|request: Request, next: Next<'_>| {
            let id: &RequestId = request.extensions().get().expect("the outer layer has run");
            assert_eq!(&**id, "a");
            next.call(request)
        })
        .layer(request_id);
    let response = router.call(Request::get("/nothing").with_header("x-request-id", "a"));
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    assert_eq!(response.headers()["x-request-id"], "a");
}

#[test]
fn a_router_without_the_layer_is_a_500() {
    let router = Router::new().route("/", get(|id: RequestId| id.to_string()));
    assert_eq!(router.call(Request::get("/")).status(), StatusCode::INTERNAL_SERVER_ERROR);
}

fn panics() -> &'static str {
    panic!("on purpose")
}

fn waits() -> String {
    format!("{:?}", Event::new().wait())
}

/// Turns panics into responses, as a program may do.
fn catching(request: Request, next: Next<'_>) -> ramie_http::Response {
    catch_unwind(AssertUnwindSafe(|| next.call(request)))
        .unwrap_or_else(|_| StatusCode::BAD_GATEWAY.into_response())
}

/// The connection answers instead of the handler.
#[test]
fn responses_of_the_connection_have_the_id() {
    let caught = Router::new().route("/caught", get(panics)).layer(request_id).layer(catching);
    let router =
        Router::new().route("/panics", get(panics)).route("/waits", get(waits)).layer(request_id);
    let router = Router::new().route("/plain", get(panics)).merge(router).merge(caught);
    let limits = Limits { request_timeout: Duration::from_millis(50), ..Limits::default() };
    serve(limits, router, |address| {
        for (path, status) in [("/panics", 500), ("/waits", 503)] {
            let head = Client::get(address, path).head();
            assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
            let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: "));
            assert_eq!(id.map(str::len), Some(32), "{head}");
        }
        // That of an earlier request of the same connection is not kept.
        let mut client = Client::get(address, "/caught");
        assert!(client.head().starts_with("HTTP/1.1 502"));
        client.ask("/plain");
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 500") && !head.contains("x-request-id"), "{head}");
    });
}
