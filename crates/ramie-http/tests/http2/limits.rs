//! The limits and the rules of HTTP/1.1 hold over HTTP/2, too.

use std::io::Write;

use hyper::{HeaderMap, body::Frame};
use ramie_http::{Body, IntoResponse, Response, head};

use super::{
    bodies::{count, frames},
    *,
};

fn with_field(name: &'static str, value: &str) -> HyperRequest<ClientBody> {
    let mut asked = request("GET", "/", full(""));
    asked.headers_mut().insert(name, value.parse().unwrap());
    asked
}

#[test]
fn long_lines_and_fields_are_refused() {
    let limits = Limits { line_bytes: 1000, field_bytes: 500, ..Limits::default() };
    let router = Router::new().route("/{name}", get(|| "fine")).route("/", get(|| "fine"));
    with_client(router, limits, |client| {
        // "GET /… HTTP/1.1\r\n", as a line of HTTP/1.1.
        let longest = 1000 - "GET / HTTP/1.1\r\n".len();
        assert_eq!(ask(client, &format!("/{}", "x".repeat(longest))).0, StatusCode::OK);
        let path = format!("/{}", "x".repeat(longest + 1));
        assert_eq!(ask(client, &path).0, StatusCode::URI_TOO_LONG);
        let longest = 500 - "x-a".len();
        let field = with_field("x-a", &"x".repeat(longest));
        assert_eq!(send(client, field).status(), StatusCode::OK);
        let field = with_field("x-a", &"x".repeat(longest + 1));
        assert_eq!(send(client, field).status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        assert_eq!(ask(client, "/").1, "fine");
    });
}

fn trailers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let parsed = fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    parsed.collect()
}

#[test]
fn trailers_of_requests_have_limits_and_no_fields_of_a_head() {
    let limits = Limits { trailer_bytes: 100, ..Limits::default() };
    with_client(Router::new().route("/", post(count)), limits, |client| {
        let too_large = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        for (fields, status) in [
            (trailers(&[("x-sum", &"7".repeat(91))]), StatusCode::OK),
            (trailers(&[("x-sum", &"7".repeat(92))]), too_large),
            (trailers(&[("a", &"7".repeat(50)), ("b", &"7".repeat(50))]), too_large),
            (trailers(&[("content-length", "7")]), StatusCode::BAD_REQUEST),
            (trailers(&[("authorization", "x")]), StatusCode::BAD_REQUEST),
        ] {
            let body = frames([Frame::data("hello".into()), Frame::trailers(fields.clone())]);
            assert_eq!(send(client, request("POST", "/", body)).status(), status, "{fields:?}");
        }
        let many = (0..33).map(|n| (format!("x-{n}").parse().unwrap(), "".parse().unwrap()));
        let body = frames([Frame::trailers(many.collect())]);
        assert_eq!(send(client, request("POST", "/", body)).status(), too_large);
    });
}

#[test]
fn trailers_of_responses_have_no_fields_of_a_head() {
    fn written() -> Body {
        Body::from_writer(|out| {
            out.write_all(b"hello")?;
            let framing = [("content-length", "7"), ("transfer-encoding", "x"), ("x-sum", "7")];
            out.set_trailers(trailers(&framing));
            Ok(())
        })
    }
    with_client(Router::new().route("/", get(written)), Limits::default(), |client| {
        let response = send(client, request("GET", "/", full("")));
        let collected = block_on(response.into_body().collect()).unwrap();
        assert_eq!(collected.trailers(), Some(&trailers(&[("x-sum", "7")])));
    });
}

/// A client that gets fewer or more bytes than were announced refuses the response.
#[test]
fn the_length_of_a_response_is_that_of_its_body() {
    const LENGTH: [(&str, &str); 1] = [("content-length", "7")];
    let written = || Body::from_writer(|out| out.write_all(b"hello"));
    let of_status = |status: StatusCode| move || (status, LENGTH, "hello").into_response();
    let router = Router::new()
        .route("/full", get(|| (LENGTH, "hello")))
        .route("/written", get(move || (LENGTH, written())))
        .route("/empty", get(|| (LENGTH, ())).head(|| (LENGTH, ())))
        .route("/malformed", head(|| ([("content-length", "7x")], ())))
        .route("/204", get(of_status(StatusCode::NO_CONTENT)))
        .route("/205", get(of_status(StatusCode::RESET_CONTENT)))
        .route("/304", get(of_status(StatusCode::NOT_MODIFIED)));
    with_client(router, Limits::default(), |client| {
        for (method, path, length, body) in [
            ("GET", "/full", Some("5"), "hello"),
            ("HEAD", "/full", Some("5"), ""),
            ("GET", "/written", None, "hello"),
            ("HEAD", "/written", None, ""),
            ("GET", "/empty", None, ""),
            // What the handler of a HEAD states is the length of the response to a GET.
            ("HEAD", "/empty", Some("7"), ""),
            ("HEAD", "/malformed", None, ""),
            ("GET", "/204", None, ""),
            ("GET", "/205", None, ""),
            ("GET", "/304", Some("7"), ""),
        ] {
            let response = send(client, request(method, path, full("")));
            let told = response.headers().get("content-length").cloned();
            assert_eq!(told.as_ref().map(|told| told.to_str().unwrap()), length, "{method} {path}");
            assert_eq!(text(response), body, "{method} {path}");
        }
    });
}

#[test]
fn fields_of_the_connection_are_not_sent() {
    fn own() -> Response {
        let fields = [("connection", "x-own, close"), ("keep-alive", "x"), ("x-own", "x")];
        let more = [("transfer-encoding", "x"), ("upgrade", "x"), ("proxy-connection", "x")];
        (fields, (more, "hello")).into_response()
    }
    with_client(Router::new().route("/", get(own)), Limits::default(), |client| {
        let response = send(client, request("GET", "/", full("")));
        let mut names: Vec<_> = response.headers().keys().map(|name| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-length", "content-type", "date"]);
    });
}

#[test]
fn a_connection_ends_behind_its_last_request() {
    let limits = Limits { requests_per_connection: 3, ..Limits::default() };
    with_server(Router::new().route("/", get(|| "hello")), limits, |address, _| {
        let (mut client, driven) = connect(address);
        for _ in 0..3 {
            assert_eq!(ask(&mut client, "/").1, "hello");
        }
        // The client's handle is alive, so only the server ends the connection.
        driven.join().unwrap().unwrap();
        assert!(client.is_closed());
    });
}
