//! Time limits of requests.

use std::time::Duration;

use ramie::{fiber, sync::Event};
use ramie_http::{
    Request, Router, StatusCode, get,
    middleware::{deadline, remaining_timeout, remaining_timeout_header},
};

const MINUTE: Duration = Duration::from_secs(60);

/// The remaining time of a handler, in milliseconds.
fn left(longest: Duration, request: Request) -> u64 {
    let show = || {
        let header = remaining_timeout_header().expect("a limit").1;
        assert!(remaining_timeout().expect("a limit") <= MINUTE);
        header.to_str().expect("text").to_owned()
    };
    let response = Router::new().route("/", get(show)).layer(deadline(longest)).call(request);
    let body = response.into_body().into_bytes(100).expect("a body");
    str::from_utf8(&body).expect("text").parse().expect("a number")
}

#[test]
fn a_client_shortens_the_limit_but_does_not_extend_it() {
    let request = || Request::get("/");
    assert!((1..=60_000).contains(&left(MINUTE, request())));
    let longer = request().with_header("x-request-timeout-ms", "99999999");
    assert!((1..=60_000).contains(&left(MINUTE, longer)));
    let shorter = request().with_header("x-request-timeout-ms", "30000");
    assert!((1..=30_000).contains(&left(MINUTE, shorter)));
    let of_grpc = request().with_header("grpc-timeout", "20S");
    assert!((1..=20_000).contains(&left(MINUTE, of_grpc)));
}

/// A handler that waits for ever.
fn wait() -> &'static str {
    assert!(Event::new().wait().is_err(), "nothing sets it");
    "the wait has ended"
}

#[test]
fn a_handler_that_waits_for_too_long_is_a_504() {
    let router = Router::new().route("/", get(wait)).layer(deadline(MINUTE));
    let request = Request::get("/").with_header("x-request-timeout-ms", "10");
    let response = ramie::run(|| router.call(request));
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
    let body = response.into_body().into_bytes(100).expect("a body");
    assert_eq!(body, "the time limit of the request has passed\n");
}

/// The strands of the handler's scopes, too.
#[test]
fn the_limit_reaches_the_strands_of_a_handler() {
    let both = || fiber::scope(|scope| scope.spawn(wait).join().expect("no panic"));
    let router = Router::new().route("/", get(both)).layer(deadline(Duration::from_millis(10)));
    let response = ramie::run(|| router.call(Request::get("/")));
    assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
}

#[test]
fn no_handler_is_called_without_time_or_with_a_malformed_limit() {
    let never = || -> &'static str { panic!("the handler is called") };
    let router = Router::new().route("/", get(never)).layer(deadline(MINUTE));
    for (name, value, status) in [
        ("x-request-timeout-ms", "0", StatusCode::GATEWAY_TIMEOUT),
        ("grpc-timeout", "0n", StatusCode::GATEWAY_TIMEOUT),
        ("x-request-timeout-ms", "-1", StatusCode::BAD_REQUEST),
        ("grpc-timeout", "1", StatusCode::BAD_REQUEST),
    ] {
        let response = router.call(Request::get("/").with_header(name, value));
        assert_eq!(response.status(), status, "{name}: {value}");
    }
}
