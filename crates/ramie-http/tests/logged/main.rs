//! What a server writes to the crate `log`. A program of its own, because a process has one logger.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Mutex,
};

use ramie_http::{
    Limits, Request, Router, Server,
    extract::{Extension, MatchedPath},
    get,
    middleware::RequestId,
};

/// The lines, with their levels.
struct Lines(Mutex<Vec<String>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl log::Log for Lines {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("ramie_http")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{}: {}", record.level(), record.args());
            self.0.lock().unwrap().push(line);
        }
    }

    fn flush(&self) {}
}

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Sends a text and reads up to the end of the connection; returns the client's address, too.
fn talk(server: SocketAddr, text: &str) -> (SocketAddr, String) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    (stream.local_addr().unwrap(), response)
}

/// Serves while `client` runs on a thread of its own.
fn serve(limits: Limits, client: fn(SocketAddr)) {
    ramie::run(|| {
        let server = Server::bind("127.0.0.1:0").unwrap().limits(limits);
        let (address, handle) = (server.local_addr().unwrap(), server.handle());
        let client = std::thread::spawn(move || {
            let result = std::panic::catch_unwind(|| client(address));
            handle.stop();
            result
        });
        server.serve(Router::new().route("/", get(|| "hello"))).unwrap();
        client.join().unwrap().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn send_requests(server: SocketAddr) {
    let (_, response) = talk(server, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert_eq!(LINES.take(), [""; 0]);

    let (client, response) = talk(server, "GET / HTTP/1.1\r\nHost : h\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    let reason = response.lines().last().unwrap();
    let line = format!("DEBUG: a request of {client} is refused: 400 Bad Request: {reason}");
    assert_eq!(LINES.take(), [line]);
}

fn connect_twice(server: SocketAddr) {
    let mut first = TcpStream::connect(server).unwrap();
    first.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    first.read_exact(&mut [0]).unwrap();
    let (client, response) = talk(server, "");
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    let why = "as many are open as `Limits::connections` allows";
    assert_eq!(LINES.take(), [format!("DEBUG: a connection of {client} is refused: {why}")]);
}

/// A client could fill the log otherwise: a handler with an `Option` expects that there is none.
fn ask_for_what_nothing_provides() {
    type Options = (Option<Extension<u32>>, Option<RequestId>);
    let none = |user: Option<Extension<u32>>, id: Option<RequestId>| {
        assert_eq!((user, id), Options::default());
    };
    let no_path = |path: Option<MatchedPath>| assert_eq!(path, None);
    let router = Router::new()
        .route("/optional", get(none))
        .route("/needed", get(|Extension(user): Extension<u32>| user.to_string()))
        .fallback(no_path);
    assert_eq!(router.call(Request::get("/optional")).status(), 200);
    assert_eq!(router.call(Request::get("/other")).status(), 200);
    assert_eq!(LINES.take(), [""; 0]);
    assert_eq!(router.call(Request::get("/needed")).status(), 500);
    assert_eq!(LINES.take(), ["ERROR: no middleware has left a `u32` in the request"]);
}

#[test]
fn what_is_refused_is_logged_with_its_reason() {
    log::set_logger(&LINES).expect("this process has no other");
    log::set_max_level(log::LevelFilter::Debug);
    ask_for_what_nothing_provides();
    serve(Limits::default(), send_requests);
    serve(Limits { connections: 1, ..Limits::default() }, connect_twice);
}
