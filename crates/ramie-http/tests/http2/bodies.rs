//! Bodies of requests and of responses.

use std::io::{self, Cursor, ErrorKind, Read, Write};

use hyper::{HeaderMap, body::Frame};
use ramie::{cancel, channel};
use ramie_http::{Body, BodyError, IntoResponse, Response};

use super::*;

pub(super) const LARGE: usize = 3 << 20;

/// A body of this test's own source.
fn source() -> Body {
    let file = ramie::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http2/bodies.rs"))
        .unwrap();
    Body::from_file(file, 0..SOURCE.len() as u64)
}

const SOURCE: &str = include_str!("bodies.rs");

pub(super) fn trailers() -> HeaderMap {
    HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())])
}

fn written() -> Body {
    Body::from_writer(|out| {
        for number in 0..3 {
            write!(out, "{number} ")?;
            out.flush()?;
        }
        out.set_trailers(trailers());
        Ok(())
    })
}

pub(super) fn router() -> Router {
    let large = || vec![7; LARGE];
    Router::new()
        .route("/file", get(source))
        .route("/large", get(move || Body::from(large())))
        .route("/read", get(move || Body::from_read(Cursor::new(large()))))
        .route("/sized", get(move || Body::from_sized(Cursor::new(large()), LARGE as u64)))
        .route("/short", get(|| Body::from_sized(Cursor::new("abc"), 4)))
        .route("/written", get(written))
        .route("/panics", get(|| Body::from_writer(|_| panic!("on purpose"))))
        .route("/echo", post(|body: Body| body))
        .route("/count", post(count))
        .route("/empty", get(|| StatusCode::NO_CONTENT))
}

/// Counts the bytes of a body, and returns the names of its trailers.
pub(super) fn count(mut body: Body) -> Response {
    let told = body.length();
    let counted = io::copy(&mut body, &mut io::sink()).and_then(|count| {
        assert_eq!(body.read(&mut [0; 9])?, 0);
        let trailers = body.take_trailers().unwrap_or_default();
        Ok(format!("{count} {told:?} {:?}", trailers.keys().collect::<Vec<_>>()))
    });
    match counted {
        Ok(counted) => counted.into_response(),
        Err(error) => BodyError::of(&error).unwrap().status().into_response(),
    }
}

pub(super) fn frames(
    frames: impl IntoIterator<Item = Frame<Bytes>, IntoIter: Send + Sync + 'static>,
) -> ClientBody {
    struct Each<I>(I);
    impl<I: Iterator<Item = Frame<Bytes>> + Unpin> hyper::body::Body for Each<I> {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            std::task::Poll::Ready(self.0.next().map(Ok))
        }
    }
    BodyExt::boxed(Each(Box::new(frames.into_iter())))
}

pub(super) fn limits() -> Limits {
    Limits { body_bytes: 2 * LARGE as u64, ..Limits::default() }
}

#[test]
fn all_kinds_of_responses_arrive() {
    with_client(router(), limits(), |client| {
        for (path, has_length) in [("/large", true), ("/read", false), ("/sized", true)] {
            let response = send(client, request("GET", path, full("")));
            let length = response.headers().get("content-length").cloned();
            assert_eq!(length.is_some(), has_length, "{path}");
            let body = block_on(response.into_body().collect()).unwrap().to_bytes();
            assert!(body.len() == LARGE && body.iter().all(|byte| *byte == 7), "{path}");
        }
        let response = send(client, request("GET", "/written", full("")));
        let collected = block_on(response.into_body().collect()).unwrap();
        assert_eq!(collected.trailers(), Some(&trailers()));
        assert_eq!(collected.to_bytes(), "0 1 2 ");
        assert_eq!(ask(client, "/file").1, SOURCE);
        assert_eq!(ask(client, "/empty"), (StatusCode::NO_CONTENT, String::new()));
    });
}

#[test]
fn head_has_the_length_of_get_and_no_body() {
    with_client(router(), limits(), |client| {
        let response = send(client, request("HEAD", "/large", full("")));
        assert_eq!(response.headers()["content-length"], LARGE.to_string().as_str());
        assert_eq!(text(response), "");
        // The closure is not called.
        assert_eq!(send(client, request("HEAD", "/panics", full(""))).status(), StatusCode::OK);
    });
}

#[test]
fn the_client_notices_a_body_that_fails() {
    with_client(router(), limits(), |client| {
        for path in ["/short", "/panics"] {
            let response = block_on(client.send_request(request("GET", path, full(""))));
            // If the reset comes at once, the client does not even see the head.
            let body = response.and_then(|response| block_on(response.into_body().collect()));
            assert!(body.is_err(), "{path}");
        }
        assert_eq!(ask(client, "/empty").0, StatusCode::NO_CONTENT);
    });
}

#[test]
fn bodies_of_requests_are_read_as_they_arrive() {
    with_client(router(), limits(), |client| {
        let answer = text(send(client, request("POST", "/count", full(vec![1; LARGE]))));
        assert_eq!(answer, format!("{LARGE} Some({LARGE}) []"));
        let pieces = (0..300).map(|_| Frame::data(Bytes::from(vec![1; 1000])));
        let body = frames(pieces.chain([Frame::trailers(trailers())]));
        let answer = text(send(client, request("POST", "/count", body)));
        assert_eq!(answer, r#"300000 None ["x-sum"]"#);
        assert_eq!(text(send(client, request("POST", "/count", full("")))), "0 Some(0) []");
        let echo = text(send(client, request("POST", "/echo", full("hello"))));
        assert_eq!(echo, "hello");
    });
}

#[test]
fn bodies_have_limits() {
    let limits = Limits { body_bytes: 1000, ..Limits::default() };
    with_client(router(), limits, |client| {
        let announced = send(client, request("POST", "/count", full(vec![1; 1001])));
        assert_eq!(announced.status(), StatusCode::PAYLOAD_TOO_LARGE);
        let pieces = (0..11).map(|_| Frame::data(Bytes::from(vec![1; 100])));
        let counted = send(client, request("POST", "/count", frames(pieces)));
        assert_eq!(counted.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(
            text(send(client, request("POST", "/count", full(vec![1; 1000])))),
            "1000 Some(1000) []"
        );
    });
}

#[test]
fn a_body_that_is_late_is_an_error_of_the_reader() {
    let limits = Limits { body_grace: Duration::from_millis(50), ..Limits::default() };
    with_client(router(), limits, |client| {
        let late = send(client, request("POST", "/count", BodyExt::boxed(PendingFrames)));
        assert_eq!(late.status(), StatusCode::REQUEST_TIMEOUT);
    });
}

/// A body that never arrives.
struct PendingFrames;

impl hyper::body::Body for PendingFrames {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

#[test]
fn a_reset_ends_the_writer_of_a_body() {
    let ended = Arc::new(Event::new());
    let handler = {
        let ended = Arc::clone(&ended);
        move || {
            let ended = Arc::clone(&ended);
            Body::from_writer(move |out| {
                let failed = loop {
                    if let Err(error) = out.write_all(&[0; 16 << 10]) {
                        break error;
                    }
                };
                assert_ne!(failed.kind(), ErrorKind::TimedOut);
                ended.set();
                Err(failed)
            })
        }
    };
    with_client(Router::new().route("/", get(handler)), Limits::default(), |client| {
        let response = send(client, request("GET", "/", full("")));
        drop(response);
        ended.wait().unwrap();
    });
}

/// As over HTTP/1.1, though the reset cancels the handler, too.
#[test]
fn a_body_whose_stream_is_reset_is_truncated() {
    let (sender, errors) = channel::bounded(1);
    let begun = Arc::new(Event::new());
    let begin = Arc::clone(&begun);
    let handler = move |mut body: Body| {
        body.read_exact(&mut [0; 5]).unwrap();
        begin.set();
        let error = body.read(&mut [0; 5]).unwrap_err();
        cancel::shield(|| sender.send(BodyError::of(&error))).unwrap();
    };
    let router = Router::new().route("/", post(handler));
    with_server(router, Limits::default(), |address, _| {
        let head = raw::head_fields("POST", "/");
        let mut client = raw::RawClient::connect(address);
        client.send(&raw::frame(raw::HEADERS, raw::END_HEADERS, 1, &head)).unwrap();
        client.send(&raw::frame(raw::DATA, 0, 1, b"hello")).unwrap();
        begun.wait().unwrap();
        client.send(&raw::frame(raw::RST_STREAM, 0, 1, &8u32.to_be_bytes())).unwrap();
        assert_eq!(errors.recv().unwrap(), Some(BodyError::Truncated));
    });
}
