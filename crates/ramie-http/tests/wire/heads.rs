//! Heads of requests: lines, fields, hosts, versions, methods and targets.

use std::io::{Read, Write};

use ramie_http::{Limits, Method, Request, Router, Server, any, get};

use super::{
    client::statuses,
    rig::{Rig, Seen, seeing},
};

const BEHIND: &str = "GET /behind HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Expects that a valid request is answered, the one behind it refused with this status, and
/// nothing further answered.
#[track_caller]
fn refused(request: &[u8], status: u16) {
    let (rig, seen) = seeing(Limits::default());
    let first = "GET /first HTTP/1.1\r\nHost: a\r\n\r\n";
    let answers = rig.exchange([first.as_bytes(), request, BEHIND.as_bytes()].concat());
    let text = request.escape_ascii();
    assert_eq!(statuses(&answers), [200, status], "{text}");
    assert!(answers[1].closes() && !answers[0].closes(), "{text}: {answers:?}");
    assert_eq!(seen.take(), ["GET /first "], "{text}");
}

#[test]
fn malformed_lines_are_refused() {
    for line in [
        "GET /",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET\t/\tHTTP/1.1",
        "GET\u{b}/ HTTP/1.1",
        " GET / HTTP/1.1",
        "GET / HTTP/1.1 x",
        "GET / x HTTP/1.1",
        "GET",
        "/ HTTP/1.1",
        "GET HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1",
        "GET / HTTP/1.10",
        "GET / HTTP/01.1",
        "GET / HTTP /1.1",
        "GET / HTTP/1,1",
        "GET / FTP/1.1",
        "G@T / HTTP/1.1",
        "G\u{e4}T / HTTP/1.1",
        "\"GET\" / HTTP/1.1",
        "GET / HTTP/1.1\r",
        "GET /\r HTTP/1.1",
        "G\0T / HTTP/1.1",
        "GET / HTTP/1.1\0",
    ] {
        refused(format!("{line}\r\nHost: a\r\n\r\n").as_bytes(), 400);
    }
}

#[test]
fn bare_line_feeds_and_carriage_returns_are_refused() {
    for head in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\rGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        refused(head.as_bytes(), 400);
    }
}

#[test]
fn malformed_fields_are_refused() {
    for field in [
        "X : y",
        "X\t: y",
        " X: y",
        "\tX: y",
        "X",
        ": y",
        "X\0: y",
        "X: \0",
        "X: a\u{b}b",
        "X: a\u{7f}",
        "X\u{e4}: y",
        "X(: y",
        "X: y\r\n folded",
        "X: y\r\n\tfolded",
        "X: y\r\n ",
        "X\r\n: y",
    ] {
        refused(format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n").as_bytes(), 400);
        refused(format!("GET / HTTP/1.1\r\n{field}\r\nHost: a\r\n\r\n").as_bytes(), 400);
    }
    for byte in (0..0x20_u8).chain([0x7f]).filter(|byte| !b"\t\r\n".contains(byte)) {
        let text = [b"GET / HTTP/1.1\r\nHost: a\r\nX: a", &[byte][..], b"b\r\n\r\n"].concat();
        refused(&text, 400);
        let text = [b"GET / HTTP/1.1\r\nHost: a\r\nX", &[byte][..], b"Y: b\r\n\r\n"].concat();
        refused(&text, 400);
    }
}

#[test]
fn a_request_has_one_valid_host() {
    for hosts in [
        "",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nhost: b\r\n",
        "Host: a, b\r\n",
        "Host: a b\r\n",
        "Host: a/b\r\n",
        "Host: u@a\r\n",
        "Host: a:b\r\n",
        "Host: a:65536\r\n",
        "Host: [::1\r\n",
        "Host: http://a\r\n",
        "Host: a\u{e4}\r\n",
        "Host: \"a\"\r\n",
        "Host : a\r\n",
    ] {
        refused(format!("GET / HTTP/1.1\r\n{hosts}\r\n").as_bytes(), 400);
    }
    let (rig, _) = seeing(Limits::default());
    for host in ["a", "a.b:80", "127.0.0.1", "[::1]:8080", ""] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(statuses(&rig.exchange(request)), [200], "{host:?}");
    }
    assert_eq!(statuses(&rig.exchange("GET / HTTP/1.0\r\n\r\n")), [200]);
    refused(b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400);
}

#[test]
fn other_versions_are_refused() {
    for version in ["HTTP/1.2", "HTTP/0.9", "HTTP/2.0", "HTTP/3.0"] {
        refused(format!("GET / {version}\r\nHost: a\r\n\r\n").as_bytes(), 505);
    }
    refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
}

#[test]
fn malformed_targets_are_refused() {
    for target in [
        "*",
        "a",
        "a/b",
        "?a",
        "/a#b",
        "#",
        "/%",
        "/%0",
        "/%zz",
        "/\u{e4}",
        "/a\\b",
        "/<",
        "/\"",
        "/\u{7f}",
        "/\0",
        "http://",
        "http:///a",
        "http://u@a/",
        "http://a:b/",
        "http://a,b/",
        "ftp://a/",
        "//",
        "http:/a",
        "http://a#b",
        "a:80",
    ] {
        if target != "//" {
            refused(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(), 400);
        }
    }
}

#[test]
fn each_form_of_a_target_is_served() {
    let (rig, seen) = seeing(Limits::default());
    for (line, path) in [
        ("GET /a?b", "GET /a "),
        ("GET //a", "GET //a "),
        ("GET http://a/b?c", "GET /b "),
        ("GET HTTP://A", "GET / "),
        ("GET http://a?b", "GET / "),
        ("OPTIONS *", "OPTIONS * "),
        ("OPTIONS /a", "OPTIONS /a "),
        ("G-T!#$%&'*+.^_`|~ /a", "G-T!#$%&'*+.^_`|~ /a "),
    ] {
        let request = format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(statuses(&rig.exchange(request)), [200], "{line}");
        assert_eq!(seen.take(), [path], "{line}");
    }
    refused(b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 501);
    refused(b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", 501);
}

/// An https resource must not be served over a stream that nobody has encrypted (RFC 9110, 7.4).
#[test]
fn https_over_a_plain_stream_is_misdirected() {
    refused(b"GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 421);
}

/// A proxy of this machine may have decrypted what comes by a Unix socket.
#[test]
fn https_over_a_unix_socket_is_served() {
    let path = std::env::temp_dir().join(format!("ramie-http-wire-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let (sender, started) = std::sync::mpsc::channel();
    let bound = path.clone();
    let server = std::thread::spawn(move || {
        ramie::run(|| {
            let listener = ramie::os::unix::net::UnixListener::bind(bound).unwrap();
            let server = Server::on_unix(listener).tolerates_half_close();
            sender.send(server.handle()).unwrap();
            server.serve(Seen::default().router()).unwrap();
        });
    });
    let handle = started.recv().unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let request = "GET https://a/ HTTP/1.1\r\nHost: b\r\n\r\n";
    stream.write_all([request, "nonsense\r\n\r\n", request].concat().as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    let statuses: Vec<_> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "400"], "{answers}");
    handle.stop();
    server.join().unwrap();
    std::fs::remove_file(path).unwrap();
}

/// RFC 9112, section 3.2.2: the field Host is ignored if the target has a host.
#[test]
fn the_host_of_an_absolute_target_replaces_the_field() {
    let handler = |request: Request| {
        let by_field = request.header_str("host").unwrap_or("none").to_owned();
        let by_map = request.headers().get("host").map(|host| host.to_str().unwrap().to_owned());
        format!("{by_field} {}", by_map.unwrap_or_default())
    };
    let rig = Rig::start(Router::new().fallback(handler), Limits::default());
    for (target, seen) in [
        ("http://b:81/c", "b:81 b:81"),
        ("http://b", "b b"),
        ("http://[::1]?d", "[::1] [::1]"),
        ("/", "a a"),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(rig.exchange(request)[0].text(), seen, "{target}");
    }
}

#[test]
fn a_method_without_a_handler_is_not_allowed() {
    let rig = Rig::start(Router::new().route("/", get(|| "got")), Limits::default());
    let request = "DELETE / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let answers = rig.exchange_and_end(request);
    assert_eq!(statuses(&answers), [405, 200]);
    assert_eq!(answers[0].field("allow"), Some("GET, HEAD"));
}

/// RFC 9110, section 9.1. A method of another route is one that the server knows.
#[test]
fn an_unknown_method_is_501() {
    let other = get(|| "got").on(Method::from_bytes(b"PROPFIND").unwrap(), || "found");
    let router = Router::new()
        .route("/", get(|| "got"))
        .route("/any", any(|| "any"))
        .nest("/files", Router::new().route("/", other));
    let rig = Rig::start(router, Limits::default());
    for (request, status) in [
        ("BREW /", 501),
        ("PATCH /", 405),
        ("TRACE /", 405),
        ("PROPFIND /", 405),
        ("PROPFIND /files", 200),
        ("BREW /files", 501),
        ("BREW /any", 200),
        ("BREW /none", 404),
    ] {
        let request = format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n");
        let answers = rig.exchange_and_end(&request);
        assert_eq!(statuses(&answers), [status], "{request}");
        assert_eq!(answers[0].field("allow").is_some(), status == 405, "{request}");
    }
}

#[test]
fn methods_are_case_sensitive() {
    let rig = Rig::start(Router::new().route("/", get(|| "got")), Limits::default());
    for (method, status) in [("GET", 200), ("get", 501), ("Get", 501)] {
        let request = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(statuses(&rig.exchange_and_end(request)), [status], "{method}");
    }
}

/// RFC 9112, section 2.2: an empty line before a request is ignored. A second one is not.
#[test]
fn one_empty_line_before_a_request_is_ignored() {
    let (rig, seen) = seeing(Limits::default());
    let one = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx\r\n";
    let answers = rig.exchange(format!("\r\n{one}{BEHIND}"));
    assert_eq!(statuses(&answers), [200, 200]);
    assert_eq!(seen.take(), ["POST / x", "GET /behind "]);
    refused(b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
}

#[test]
fn bytes_of_another_protocol_are_refused_at_once() {
    let (rig, _) = seeing(Limits::default());
    for hello in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\0", b"\x80\x2e", b"\xff"] {
        let answers = rig.exchange(hello);
        assert_eq!(statuses(&answers), [400]);
        assert!(answers[0].closes());
    }
}
