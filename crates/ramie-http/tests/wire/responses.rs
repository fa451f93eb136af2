//! The framing of responses, by method, status and version.

use std::io::Write;

use ramie_http::{
    Body, HeaderMap, IntoResponse, Limits, Request, Response, Router, StatusCode, get, header,
};

use super::{
    client::{Answer, Client, statuses},
    rig::{Rig, chunked},
};

fn respond(request: Request) -> Response {
    match request.path() {
        "/text" => "hello".into_response(),
        "/chunks" => chunked("hello").into_response(),
        "/sized" => Body::from_sized(&b"hello, world"[..], 5).into_response(),
        "/announced" => ([("content-length", "1234")], ()).into_response(),
        "/malformed" => ([("content-length", "12x")], ()).into_response(),
        "/trailers" => Body::from_writer(|out| {
            out.write_all(b"hello")?;
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "7".parse().unwrap());
            trailers.insert("content-length", "7".parse().unwrap());
            trailers.insert("transfer-encoding", "x".parse().unwrap());
            out.set_trailers(trailers);
            Ok(())
        })
        .into_response(),
        "/upgrade" => {
            let fields = [("upgrade", "x"), ("connection", "upgrade")];
            (StatusCode::UPGRADE_REQUIRED, fields, ()).into_response()
        }
        "/own" => {
            let fields = [
                ("content-length", "7"),
                ("transfer-encoding", "gzip"),
                ("keep-alive", "x"),
                ("connection", "x"),
            ];
            (fields, "hello").into_response()
        }
        path => {
            let status = path[1..].parse::<u16>().ok().and_then(|code| code.try_into().ok());
            let status: StatusCode = status.expect("a status");
            (status, [("content-length", "5")], "hello").into_response()
        }
    }
}

fn start() -> Rig {
    Rig::start(Router::new().fallback(respond), Limits::default())
}

fn ask(client: &mut Client, line: &str) -> Answer {
    client.send(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
    if line.starts_with("HEAD") { client.answer_to_head() } else { client.answer() }
}

#[test]
fn bodies_have_a_length_or_come_in_chunks() {
    let rig = start();
    let mut client = rig.connect();
    for (path, length) in [("/text", Some("5")), ("/chunks", None), ("/sized", Some("5"))] {
        let answer = ask(&mut client, &format!("GET {path}"));
        assert_eq!(answer.text(), "hello", "{path}");
        assert_eq!(answer.field("content-length"), length, "{path}");
        assert_eq!(answer.field("transfer-encoding").is_some(), length.is_none(), "{path}");
    }
    let own = ask(&mut client, "GET /own");
    assert_eq!((own.field("content-length"), own.text()), (Some("5"), "hello"));
    assert!(own.field("keep-alive").is_none() && own.field("connection").is_none());
}

#[test]
fn a_response_to_head_has_the_head_of_get_and_no_body() {
    let rig = start();
    let mut client = rig.connect();
    for path in ["/text", "/chunks", "/sized", "/404"] {
        let mut head = ask(&mut client, &format!("HEAD {path}"));
        let mut got = ask(&mut client, &format!("GET {path}"));
        let date = |(name, _): &(String, String)| name != "date";
        head.fields.retain(date);
        got.fields.retain(date);
        assert_eq!((head.status, head.fields), (got.status, got.fields), "{path}");
    }
    let announced = ask(&mut client, "HEAD /announced");
    assert_eq!(announced.field("content-length"), Some("1234"));
    let malformed = ask(&mut client, "HEAD /malformed");
    assert_eq!(malformed.field("content-length"), Some("0"));
    assert_eq!(ask(&mut client, "GET /announced").field("content-length"), Some("0"));
}

/// The client of these tests checks that 1xx and 204 have no framing field.
#[test]
fn statuses_without_content_have_no_body() {
    let rig = start();
    let mut client = rig.connect();
    for method in ["GET", "HEAD", "POST"] {
        assert_eq!(ask(&mut client, &format!("{method} /204")).status, 204);
        let answer = ask(&mut client, &format!("{method} /304"));
        assert_eq!((answer.status, answer.field("content-length")), (304, Some("5")));
        let answer = ask(&mut client, &format!("{method} /205"));
        assert_eq!((answer.status, answer.field("content-length")), (205, Some("0")));
        assert_eq!(ask(&mut client, "GET /text").text(), "hello");
    }
}

#[test]
fn an_upgrade_is_an_option_of_the_connection() {
    let rig = start();
    for (version, option, answered) in [
        ("1.1", "", "upgrade"),
        ("1.1", "Connection: close\r\n", "close, upgrade"),
        ("1.0", "Connection: keep-alive\r\n", "keep-alive, upgrade"),
    ] {
        let request = format!("GET /upgrade HTTP/{version}\r\nHost: a\r\n{option}\r\n");
        let answers = rig.exchange_and_end(request);
        assert_eq!(answers[0].field("connection"), Some(answered));
        assert_eq!(answers[0].field("upgrade"), Some("x"));
    }
}

/// A client would wait for a final response behind a status 1xx for ever.
#[test]
fn an_interim_status_is_no_response() {
    let rig = start();
    let mut client = rig.connect();
    for status in [100, 101, 102, 103, 199] {
        assert_eq!(ask(&mut client, &format!("GET /{status}")).status, 500, "{status}");
    }
    assert_eq!(ask(&mut client, "GET /text").text(), "hello");
}

#[test]
fn trailers_come_behind_chunks_without_fields_of_framing() {
    let rig = start();
    let mut client = rig.connect();
    let answer = ask(&mut client, "GET /trailers");
    assert_eq!(answer.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    assert_eq!(ask(&mut client, "GET /text").text(), "hello");
    let answers = rig.exchange("GET /trailers HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!((answers[0].text(), answers[0].trailers.len()), ("hello", 0));
}

#[test]
fn http_1_0_gets_no_chunks() {
    let rig = start();
    for connection in ["", "Connection: keep-alive\r\n"] {
        let answers = rig.exchange(format!("GET /chunks HTTP/1.0\r\n{connection}\r\n"));
        assert!(answers[0].is_until_close && answers[0].closes(), "{answers:?}");
        assert_eq!(answers[0].text(), "hello");
        assert_eq!(answers[0].field("transfer-encoding"), None);
    }
}

#[test]
fn each_response_has_a_date() {
    let rig = start();
    for path in ["/text", "/404", "/500", "/304", "/malformed"] {
        let answers = rig.exchange_and_end(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let date = answers[0].field("date").expect("a date");
        assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
    }
    let refused = rig.exchange("nonsense\r\n\r\n");
    assert!(refused[0].field("date").is_some());
}

/// Values that a handler takes from a request cannot begin a second response.
#[test]
fn a_header_cannot_split_a_response() {
    let location = |request: Request| {
        let value = request.query().unwrap_or_default().replace("%0d%0a", "\r\n");
        match header::HeaderValue::from_str(&value) {
            Ok(value) => ([("location", value)], StatusCode::FOUND).into_response(),
            Err(_) => StatusCode::BAD_REQUEST.into_response(),
        }
    };
    let redirect = |request: Request| {
        let to = request.query().unwrap_or_default().replace("%0d%0a", "\r\n");
        ramie_http::Redirect::to(to)
    };
    let router = Router::new().route("/header", get(location)).route("/redirect", get(redirect));
    let rig = Rig::start(router, Limits::default());
    for (path, status) in [("/header", 400), ("/redirect", 500)] {
        let request = format!("GET {path}?a%0d%0aX:1%0d%0a%0d%0a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(statuses(&rig.exchange_and_end(request)), [status]);
    }
}
