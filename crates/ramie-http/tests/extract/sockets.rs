//! Arguments whose bodies arrive over sockets.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::SocketAddr,
    time::Duration,
};

use ramie::{net::TcpStream, sync::mpsc};
use ramie_http::{
    Body, Limits, Request, Router,
    extract::{Form, Json, Multipart, Rejection},
    post,
};
use serde::Deserialize;

use super::{client_fiber::serve, line};

struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        // So a server that does not respond or close fails the test.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        Client(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("the server reads");
    }

    /// The head of a POST, its body to follow.
    fn send_head(&mut self, fields: &str) {
        self.send(&format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    }

    /// The status, whether the head announces that the connection closes, and the text.
    fn receive(&mut self) -> (u16, bool, String) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).expect("a head") > 0, "ended in {head:?}");
        }
        let field =
            |name| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let mut body = vec![0; field("content-length").expect("a length").parse().unwrap()];
        self.0.read_exact(&mut body).expect("a body");
        let status = head.split(' ').nth(1).expect("a status").parse().unwrap();
        (status, field("connection") == Some("close"), String::from_utf8(body).unwrap())
    }

    fn expect(&mut self, (status, text): (u16, String), closes: bool) {
        assert_eq!(self.receive(), (status, closes, text));
        if closes {
            assert_eq!(self.0.read(&mut [0]).expect("an end"), 0);
        }
    }
}

fn show(Json(numbers): Json<Vec<u32>>) -> String {
    format!("{numbers:?}")
}

#[test]
fn a_body_is_read_while_it_arrives() {
    let (first, seen) = mpsc::channel();
    let read = move |mut body: Body| -> Result<String, Rejection> {
        let mut begin = [0; 5];
        body.read_exact(&mut begin)?;
        first.send(()).expect("the client waits");
        let mut rest = String::new();
        body.read_to_string(&mut rest)?;
        Ok(rest)
    };
    serve(Limits::default(), Router::new().route("/", post(read)), |address| {
        let mut client = Client::connect(address);
        client.send_head("Transfer-Encoding: chunked\r\n");
        client.send("5\r\nhello\r\n");
        seen.recv().expect("the handler has read the first chunk");
        client.send("7\r\n, world\r\n0\r\n\r\n");
        client.expect((200, ", world".to_owned()), false);
    });
}

#[test]
fn parts_of_a_form_are_read_while_they_arrive() {
    let (first, seen) = mpsc::channel();
    let read = move |mut form: Multipart| -> Result<String, Rejection> {
        form.set_body_limit(10 << 20);
        let mut part = form.next_part()?.expect("a part");
        part.read_exact(&mut [0; 5])?;
        first.send(()).expect("the client waits");
        let size = io::copy(&mut part, &mut io::sink())?;
        assert!(form.next_part()?.is_none());
        Ok(size.to_string())
    };
    let limits = Limits { body_bytes: 100, ..Limits::default() };
    serve(limits, Router::new().route("/", post(read)), |address| {
        let begin = "--b\r\nContent-Disposition: form-data; name=a; filename=f\r\n\r\nhello";
        let rest = format!("{}\r\n--b--\r\n", "x".repeat(1 << 20));
        let mut client = Client::connect(address);
        client.send_head(&format!(
            "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n",
            begin.len() + rest.len()
        ));
        client.send(begin);
        seen.recv().expect("the handler has read the beginning of the part");
        client.send(&rest);
        client.expect((200, (1 << 20).to_string()), false);
    });
}

#[test]
fn a_body_that_is_too_large_is_a_413_and_closes() {
    let limits = Limits { body_bytes: 8, ..Limits::default() };
    let form = |Form(pairs): Form<Vec<(String, String)>>| pairs.len().to_string();
    let router = Router::new().route("/", post(show)).route("/form", post(form));
    let too_large = || line(413, "the body of the request has more than 8 bytes");
    serve(limits, router, |address| {
        let json = "Content-Type: application/json\r\n";
        let mut client = Client::connect(address);
        client.send_head(&format!("{json}Content-Length: 8\r\n"));
        client.send("[1,2, 3]");
        client.expect((200, "[1, 2, 3]".to_owned()), false);
        // The same connection, with one byte more; none of them is sent.
        client.send_head(&format!("{json}Content-Length: 9\r\n"));
        client.expect(too_large(), true);

        let mut client = Client::connect(address);
        client.send_head(&format!("{json}Transfer-Encoding: chunked\r\n"));
        client.send("5\r\n[1,2,\r\n4\r\n 3 ]\r\n");
        client.expect(too_large(), true);

        let mut client = Client::connect(address);
        client.send("POST /form HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n");
        client.send("Content-Type: application/x-www-form-urlencoded\r\n\r\n");
        client.expect(too_large(), true);
    });
}

#[test]
fn a_body_that_does_not_arrive_has_a_status() {
    let limits = Limits { body_grace: Duration::from_millis(50), ..Limits::default() };
    serve(limits, Router::new().route("/", post(|body: String| body)), |address| {
        let mut client = Client::connect(address);
        client.send_head("Content-Length: 2\r\n");
        client.send("a");
        client.expect(line(408, "the body of the request arrives too slowly"), true);

        let mut client = Client::connect(address);
        client.send_head("Content-Length: 2\r\n");
        client.send("a");
        client.0.get_ref().shutdown(std::net::Shutdown::Write).expect("shut down");
        client.expect(line(400, "the connection ended before the body did"), true);

        let mut client = Client::connect(address);
        client.send_head("Transfer-Encoding: chunked\r\n");
        client.send("x\r\n");
        client.expect(line(400, "the body is not made of chunks"), true);
    });
}

#[test]
fn the_time_of_a_request_ends_the_wait_for_its_body() {
    let (request_timeout, body_grace) = (Duration::from_millis(50), Duration::from_secs(3600));
    let limits = Limits { request_timeout, body_grace, ..Limits::default() };
    serve(limits, Router::new().route("/", post(|body: Vec<u8>| body)), |address| {
        let mut client = Client::connect(address);
        client.send_head("Content-Length: 2\r\n");
        client.expect((503, String::new()), true);
    });
}

#[test]
fn a_connection_that_closes_does_not_wait_for_the_rest_of_a_body() {
    let limits = Limits { body_grace: Duration::from_secs(3600), ..Limits::default() };
    let close = || ([("connection", "close")], "enough");
    serve(limits, Router::new().route("/", post(close)), |address| {
        let mut client = Client::connect(address);
        client.send_head("Content-Length: 2\r\n");
        client.expect((200, "enough".to_owned()), true);
    });
}

#[test]
fn a_rejection_for_the_head_needs_no_body() {
    serve(Limits::default(), Router::new().route("/", post(show)), |address| {
        let mut client = Client::connect(address);
        let unsupported =
            || line(415, "the Content-Type of the body is `a/b`, but must be application/json");
        // A small body is skipped, so the connection stays.
        client.send_head("Content-Type: a/b\r\nContent-Length: 2\r\n");
        client.send("[]");
        client.expect(unsupported(), false);
        // The client waits for 100 Continue, and is not asked to send.
        client.send_head("Content-Type: a/b\r\nExpect: 100-continue\r\nContent-Length: 2\r\n");
        let (status, _, text) = client.receive();
        assert_eq!((status, text), unsupported());
    });
}

/// The router is the same, with and without a socket.
#[test]
fn a_received_request_has_the_same_rejections() {
    let router = Router::new().route("/", post(show));
    let body = "[1, \"2\"]";
    let request = Request::post("/", body).with_header("content-type", "application/json");
    let called = super::read(router.call(request));
    assert_eq!(called.0, 422);
    serve(Limits::default(), router, |address| {
        let mut client = Client::connect(address);
        client.send_head("Content-Type: application/json\r\nContent-Length: 8\r\n");
        client.send(body);
        client.expect(called, false);
    });
}

/// A type as deep as its JSON.
#[derive(Deserialize)]
struct Tree {
    children: Vec<Tree>,
}

/// As [`Tree`], by way of a copy of each level, which takes more stack.
#[derive(Deserialize)]
#[serde(untagged)]
enum Copied {
    Leaf(#[expect(dead_code, reason = "only its type counts")] u8),
    Tree { children: Vec<Copied> },
}

/// serde_json refuses more than 127 levels; that many must fit on the stack of a fiber, also where
/// the place of a wrong shape is searched.
#[test]
fn nested_json_does_not_overflow_the_stack_of_a_fiber() {
    let value = |Json(value): Json<serde_json::Value>| Json(value);
    let tree = |Json(tree): Json<Tree>| tree.children.len().to_string();
    let copied = |Json(copied): Json<Copied>| match copied {
        Copied::Leaf(_) => 0.to_string(),
        Copied::Tree { children } => children.len().to_string(),
    };
    let router = Router::new()
        .route("/value", post(value))
        .route("/tree", post(tree))
        .route("/copied", post(copied));
    let nested = |begin: &str, inner: &str, end: &str, levels: usize| {
        format!("{}{inner}{}", begin.repeat(levels), end.repeat(levels))
    };
    let trees = |inner| nested("{\"children\":[", inner, "]}", 63);
    serve(Limits::default(), router, |address| {
        let mut client = Client::connect(address);
        let mut ask = |path: &str, body: &str| {
            client.send(&format!("POST {path} HTTP/1.1\r\nHost: h\r\n"));
            client.send("Content-Type: application/json\r\n");
            client.send(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
            let (status, _, text) = client.receive();
            (status, text)
        };
        let most = nested("[", "1", "]", 127);
        assert_eq!(ask("/value", &most), (200, most.clone()));
        assert_eq!(ask("/value", &nested("[", "1", "]", 128)).0, 400);
        assert_eq!(ask("/tree", &trees("")).0, 200);
        assert_eq!(ask("/tree", &trees("7")).0, 422);
        assert_eq!(ask("/copied", &trees("7")).0, 200);
        assert_eq!(ask("/copied", &trees("\"x\"")).0, 422);
    });
}
