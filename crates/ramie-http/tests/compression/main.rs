//! Compression of responses, and decompression of requests, over sockets.
#![cfg(all(feature = "gzip", feature = "brotli", feature = "zstd"))]

use std::{
    io::{self, Read, Write},
    net::TcpStream,
};

use ramie::channel::{Receiver, bounded};
use ramie_http::{
    Body, BodyError, Compression, HeaderMap, Request, Response, Router, StatusCode, compress,
    decompress, get, post,
};

#[path = "../common/client_thread.rs"]
mod client_thread;

use client_thread::serve;

const CODINGS: [&str; 3] = ["br", "zstd", "gzip"];

fn decode(coding: &str, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut decoded = Vec::new();
    match coding {
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut decoded)?,
        "zstd" => zstd::stream::read::Decoder::new(bytes)?.read_to_end(&mut decoded)?,
        "gzip" => flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut decoded)?,
        other => panic!("no decoder for {other}"),
    };
    Ok(decoded)
}

fn encode(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    match coding {
        "br" => brotli::CompressorWriter::new(&mut encoded, 4096, 4, 22).write_all(bytes).unwrap(),
        "zstd" => encoded = zstd::encode_all(bytes, 0).unwrap(),
        "gzip" => {
            let level = flate2::Compression::default();
            flate2::write::GzEncoder::new(&mut encoded, level).write_all(bytes).unwrap();
        }
        other => panic!("no encoder for {other}"),
    }
    encoded
}

/// A text that is long, and of which no two places are the same.
fn long_text(lines: u32) -> String {
    (0..lines).map(|number| format!("line {number} of a text that is long\n")).collect()
}

fn respond_with(headers: &[(&str, &str)], body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    for (name, value) in headers {
        let name: ramie_http::HeaderName = name.parse().unwrap();
        response.headers_mut().append(name, value.parse().unwrap());
    }
    response
}

/// Calls a router with one handler and the middleware.
fn answer(
    compression: Compression,
    accepted: &str,
    handler: impl Fn() -> Response + Send + Sync + 'static,
) -> Response {
    let router = Router::new().route("/", get(handler)).layer(compression.layer());
    router.call(Request::get("/").with_header("accept-encoding", accepted))
}

fn coding_of(response: &Response) -> Option<&str> {
    response.headers().get("content-encoding").map(|value| value.to_str().unwrap())
}

fn text_of(response: Response) -> String {
    let coding = coding_of(&response).map(str::to_owned);
    let bytes = response.into_body().into_bytes(64 << 20).unwrap().to_vec();
    let bytes = match coding {
        Some(coding) => decode(&coding, &bytes).unwrap(),
        None => bytes,
    };
    String::from_utf8(bytes).unwrap()
}

#[test]
fn all_kinds_of_bodies_are_compressed_in_all_codings() {
    let text = long_text(20_000);
    let path = std::env::temp_dir().join(format!("ramie-http-compression-{}", std::process::id()));
    std::fs::write(&path, &text).unwrap();
    type Make = Box<dyn Fn(&str) -> Body + Send + Sync>;
    let length = text.len() as u64;
    let file_path = path.clone();
    let kinds: Vec<Make> = vec![
        Box::new(|text| text.to_owned().into()),
        Box::new(|text| Body::from_read(io::Cursor::new(text.to_owned()))),
        Box::new(move |text| Body::from_sized(io::Cursor::new(text.to_owned()), length)),
        Box::new(move |_| Body::from_file(ramie::fs::File::open(&file_path).unwrap(), 0..length)),
        Box::new(|text| {
            let text = text.to_owned();
            Body::from_writer(move |out| {
                out.write_all(text.as_bytes())?;
                let mut trailers = HeaderMap::new();
                trailers.insert("x-end", "yes".parse().unwrap());
                out.set_trailers(trailers);
                Ok(())
            })
        }),
    ];
    let kinds = std::sync::Arc::new(kinds);
    for coding in CODINGS {
        for kind in 0..kinds.len() {
            let (kinds, text) = (kinds.clone(), text.clone());
            let expected = text.clone();
            let response = answer(Compression::new(), coding, move || {
                respond_with(&[("content-type", "text/plain")], kinds[kind](&text))
            });
            assert_eq!(coding_of(&response), Some(coding));
            assert!(text_of(response) == expected, "{coding}, kind {kind}");
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn short_bodies_keep_a_length() {
    let text = long_text(100);
    let response = answer(Compression::new(), "gzip", {
        let text = text.clone();
        move || {
            respond_with(&[("content-type", "text/plain"), ("content-length", "1")], text.clone())
        }
    });
    assert!(response.body().length().unwrap() < text.len() as u64 / 3);
    assert!(!response.headers().contains_key("content-length"));
    assert_eq!(text_of(response), text);
}

#[test]
fn only_what_is_worth_it_is_compressed() {
    let long = || long_text(100);
    let plain = ("content-type", "text/plain");
    type Kept = (&'static str, Vec<(&'static str, &'static str)>, String);
    let kept: [Kept; 7] = [
        ("of an image", vec![("content-type", "image/png")], long()),
        ("without a type", vec![], long()),
        ("short", vec![plain], "short".to_owned()),
        ("compressed", vec![plain, ("content-encoding", "x")], long()),
        ("not to be transformed", vec![plain, ("cache-control", "a, No-Transform")], long()),
        ("of events", vec![("content-type", "text/event-stream")], long()),
        ("part", vec![plain, ("content-range", "bytes 0-1/2")], long()),
    ];
    for (name, headers, text) in kept {
        let body = text.clone();
        let response =
            answer(Compression::new(), "gzip", move || respond_with(&headers, body.clone()));
        assert_ne!(coding_of(&response), Some("gzip"), "{name}");
        assert_eq!(response.into_body().into_bytes(1 << 20).unwrap(), text, "{name}");
    }
    let partial = answer(Compression::new(), "gzip", move || {
        let mut response = respond_with(&[plain], long());
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        response
    });
    assert_eq!(coding_of(&partial), None);
    let events = answer(Compression::new().event_streams(), "gzip", move || {
        respond_with(&[("content-type", "text/event-stream")], long())
    });
    assert_eq!(coding_of(&events), Some("gzip"));
    let shorter =
        answer(Compression::new().minimum(5), "gzip", move || respond_with(&[plain], "short"));
    assert_eq!(coding_of(&shorter), Some("gzip"));
}

#[test]
fn the_client_chooses() {
    let plain = |text: &'static str| move || respond_with(&[("content-type", "text/plain")], text);
    let long: &'static str = long_text(100).leak();
    for (accepted, coding) in [
        ("gzip, br, zstd", Some("br")),
        ("gzip, zstd", Some("zstd")),
        ("gzip;q=1, br;q=0.9", Some("gzip")),
        ("*", Some("br")),
        ("*;q=0", Some("none")),
        ("deflate", None),
        ("", None),
        ("identity, gzip;q=0.5", None),
    ] {
        let response = answer(Compression::new(), accepted, plain(long));
        // Nothing that the client accepts is there, so it gets the text as it is.
        let coding = coding.filter(|coding| *coding != "none");
        assert_eq!(coding_of(&response), coding, "{accepted}");
        assert_eq!(response.headers()["vary"], "accept-encoding", "{accepted}");
        assert_eq!(text_of(response), long, "{accepted}");
    }
    let refused = answer(Compression::new(), "identity;q=0, gzip", plain("short"));
    assert_eq!(coding_of(&refused), Some("gzip"));
    let router = Router::new().route("/", get(plain(long))).layer(compress());
    assert_eq!(coding_of(&router.call(Request::get("/"))), None);
}

#[test]
fn tags_are_weakened_and_vary_is_added_once() {
    let long: &'static str = long_text(100).leak();
    let response = answer(Compression::new(), "gzip", move || {
        let headers = [
            ("content-type", "text/plain"),
            ("etag", "\"v1\""),
            ("vary", "Origin, Accept-Encoding"),
            ("accept-ranges", "bytes"),
        ];
        respond_with(&headers, long)
    });
    let headers = response.headers();
    assert_eq!(headers["etag"], "W/\"v1\"");
    assert_eq!(headers.get_all("vary").iter().count(), 1);
    assert!(!headers.contains_key("accept-ranges"));
    let kept = answer(Compression::new(), "", move || {
        respond_with(
            &[("content-type", "text/plain"), ("etag", "\"v1\""), ("vary", "origin")],
            long,
        )
    });
    assert_eq!(kept.headers()["etag"], "\"v1\"");
    let vary: Vec<_> = kept.headers().get_all("vary").iter().collect();
    assert_eq!(vary, ["origin", "accept-encoding"]);
    let not_modified = answer(Compression::new(), "gzip", move || {
        let mut response = respond_with(&[("etag", "\"v1\"")], Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    });
    assert_eq!(not_modified.headers()["etag"], "W/\"v1\"");
    assert_eq!(not_modified.headers()["vary"], "accept-encoding");
}

#[test]
fn a_flush_sends_all_that_was_written() {
    for coding in CODINGS {
        let (go_on, wait): (_, Receiver<()>) = bounded(1);
        let handler = move || {
            let wait = wait.clone();
            let body = Body::from_writer(move |out| {
                out.write_all(b"first")?;
                out.flush()?;
                // The client has decoded the first part by now.
                wait.recv().map_err(io::Error::other)?;
                out.write_all(b" and second")
            });
            respond_with(&[("content-type", "text/plain")], body)
        };
        let router = Router::new().route("/", get(handler)).layer(compress());
        serve(router, move |address| {
            let mut stream = TcpStream::connect(address).unwrap();
            let request = format!("GET / HTTP/1.0\r\nhost: a\r\naccept-encoding: {coding}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut received = Vec::new();
            let mut decoded = Vec::new();
            while decoded != b"first" {
                let mut piece = [0; 1000];
                let read = stream.read(&mut piece).unwrap();
                assert_ne!(read, 0, "{coding}");
                received.extend_from_slice(&piece[..read]);
                decoded = decode_begun(coding, &received);
            }
            go_on.send(()).unwrap();
            stream.read_to_end(&mut received).unwrap();
            assert_eq!(decode(coding, body_of(&received)).unwrap(), b"first and second");
        });
    }
}

fn body_of(response: &[u8]) -> &[u8] {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n");
    end.map_or(&[], |end| &response[end + 4..])
}

/// Decodes as much as there is.
fn decode_begun(coding: &str, response: &[u8]) -> Vec<u8> {
    let body = body_of(response);
    let mut decoded = Vec::new();
    let mut piece = [0; 100];
    let mut decoder: Box<dyn Read> = match coding {
        "br" => Box::new(brotli::Decompressor::new(body, 4096)),
        "zstd" => Box::new(zstd::stream::read::Decoder::new(body).unwrap()),
        _ => Box::new(flate2::read::GzDecoder::new(body)),
    };
    while let Ok(read @ 1..) = decoder.read(&mut piece) {
        decoded.extend_from_slice(&piece[..read]);
    }
    decoded
}

#[test]
fn a_body_that_fails_has_no_end() {
    for coding in CODINGS {
        let handler = || {
            let body = Body::from_writer(|out| {
                out.write_all(long_text(5000).as_bytes())?;
                Err(io::Error::other("on purpose"))
            });
            respond_with(&[("content-type", "text/plain")], body)
        };
        let router = Router::new().route("/", get(handler)).layer(compress());
        let response = serve(router, move |address| {
            let mut stream = TcpStream::connect(address).unwrap();
            let request = format!("GET / HTTP/1.0\r\nhost: a\r\naccept-encoding: {coding}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut received = Vec::new();
            let _ = stream.read_to_end(&mut received);
            received
        });
        assert!(decode(coding, body_of(&response)).is_err(), "{coding}");
    }
}

/// Echoes bodies of up to a megabyte, or the status of the error.
fn echo(most: u64) -> Router {
    let echo = |request: Request| {
        assert!(request.header("content-encoding").is_none());
        assert!(request.header("content-length").is_none() || request.body().length().is_some());
        request.into_body().into_bytes(1 << 20).map_err(|error| {
            BodyError::of(&error).map_or(StatusCode::INTERNAL_SERVER_ERROR, BodyError::status)
        })
    };
    Router::new().route("/", post(echo)).layer(decompress(most))
}

fn send(router: &Router, coding: &str, body: impl Into<Body>) -> (u16, Vec<u8>) {
    let request = Request::post("/", body).with_header("content-encoding", coding);
    let response = router.call(request);
    let status = response.status().as_u16();
    (status, response.into_body().into_bytes(64 << 20).unwrap().to_vec())
}

#[test]
fn requests_are_decompressed() {
    let text = long_text(1000).into_bytes();
    let router = echo(1 << 20);
    for coding in CODINGS {
        let encoded = encode(coding, &text);
        assert_eq!(send(&router, coding, encoded.clone()), (200, text.clone()), "{coding}");
        let several = format!("identity, {}", coding.to_uppercase());
        assert_eq!(send(&router, &several, encoded).0, 200, "{several}");
    }
    assert_eq!(send(&router, "x-gzip", encode("gzip", &text)), (200, text.clone()));
    let plain = Request::post("/", "plain");
    assert_eq!(router.call(plain).into_body().into_bytes(100).unwrap(), "plain");
}

#[test]
fn a_bomb_is_refused() {
    let zeros = vec![0; 16 << 20];
    for coding in CODINGS {
        let bomb = encode(coding, &zeros);
        assert!(bomb.len() < 100_000);
        assert_eq!(send(&echo(10_000), coding, bomb).0, 413, "{coding}");
        let exact = encode(coding, &zeros[..10_000]);
        assert_eq!(send(&echo(10_000), coding, exact.clone()).0, 200, "{coding}");
        assert_eq!(send(&echo(9_999), coding, exact).0, 413, "{coding}");
    }
}

/// With the extension of brotli for windows of up to 1 GiB, a few bytes would use as much memory.
#[cfg(feature = "brotli")]
#[test]
fn a_window_that_is_larger_than_those_of_http_is_refused() {
    for (is_large, status) in [(false, 200), (true, 400)] {
        let mut params = brotli::enc::BrotliEncoderParams { lgwin: 24, ..Default::default() };
        params.large_window = is_large;
        let mut encoded = Vec::new();
        brotli::BrotliCompress(&mut &b"hello"[..], &mut encoded, &params).unwrap();
        assert_eq!(encoded[0] & 0x7f == 0x11, is_large, "{encoded:?}");
        assert_eq!(send(&echo(1000), "br", encoded).0, status, "{is_large}");
    }
}

#[test]
fn malformed_bodies_get_400_and_unknown_codings_415() {
    let router = echo(1 << 20);
    for coding in CODINGS {
        let mut encoded = encode(coding, long_text(1000).as_bytes());
        assert_eq!(send(&router, coding, "nothing of the kind").0, 400, "{coding}");
        encoded.truncate(encoded.len() / 2);
        assert_eq!(send(&router, coding, encoded).0, 400, "{coding}");
    }
    for coding in ["deflate", "compress", "gzip, br", "gzip, gzip", "x"] {
        let request = Request::post("/", "text").with_header("content-encoding", coding);
        let response = router.call(request);
        assert_eq!(response.status(), 415, "{coding}");
        assert_eq!(response.headers()["accept-encoding"], "br, zstd, gzip");
    }
}
