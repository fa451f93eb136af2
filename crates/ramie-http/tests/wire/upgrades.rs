//! The change to another protocol (RFC 9110, section 7.8).

use std::io::{Read, Write};

use ramie_http::{IntoResponse, Limits, Request, Response, Router, StatusCode, Upgrade, Upgraded};

use super::{client::statuses, rig::Rig};

/// Answers each byte by its upper case.
fn shout(mut stream: Upgraded) {
    let mut byte = [0];
    while let Ok(1) = stream.read(&mut byte) {
        if stream.write_all(&byte.map(|byte| byte.to_ascii_uppercase())).is_err() {
            break;
        }
    }
}

fn start() -> Rig {
    let handler = |request: Request| -> Response {
        if request.path() == "/ask" {
            return "still HTTP".into_response();
        }
        let fields = [("upgrade", "shout"), ("connection", "upgrade")];
        let mut response = (StatusCode::SWITCHING_PROTOCOLS, fields, ()).into_response();
        response.extensions_mut().insert(Upgrade::new(shout));
        response
    };
    Rig::start(Router::new().fallback(handler), Limits::default())
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: shout\r\n";

#[test]
fn an_upgrade_needs_a_request_for_it() {
    let rig = start();
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: shout\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.0\r\nHost: a\r\n{UPGRADE}\r\n"),
    ] {
        assert_eq!(statuses(&rig.exchange_and_end(&request)), [500], "{request:?}");
    }
    // A handler need not change the protocol.
    let answers = rig.exchange_and_end(format!("GET /ask HTTP/1.1\r\nHost: a\r\n{UPGRADE}\r\n"));
    assert_eq!(answers[0].text(), "still HTTP");
}

#[test]
fn an_upgrade_begins_behind_the_body() {
    let rig = start();
    for (fields, body) in [
        ("", ""),
        ("Content-Length: 5\r\n", "hello"),
        ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        // The last request of a connection, as far as HTTP is concerned.
        ("Connection: close\r\n", ""),
    ] {
        let mut client = rig.connect();
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{UPGRADE}{fields}\r\n");
        client.send(head + body + "abc");
        let answer = client.answer();
        assert_eq!((answer.status, answer.field("connection")), (101, Some("upgrade")));
        assert_eq!(client.take(3).unwrap(), b"ABC", "{fields:?}");
        client.send("def");
        assert_eq!(client.take(3).unwrap(), b"DEF");
    }
}

/// Nobody knows where the new protocol would begin.
#[test]
fn an_upgrade_without_the_end_of_the_body_fails() {
    let rig = start();
    for (fields, body) in [
        ("Content-Length: 5\r\nExpect: 100-continue\r\n", ""),
        ("Transfer-Encoding: chunked\r\n", "nonsense\r\n"),
        ("Content-Length: 1000000\r\n", "abc"),
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{UPGRADE}{fields}\r\n{body}");
        let answers = rig.exchange_and_end(&request);
        assert_eq!(statuses(&answers), [500], "{fields:?}");
        assert!(answers[0].closes());
    }
}
