//! `ramie inspect`: a summary as text and as JSON, and the page: its token, its events, and clients
//! that send garbage, stop reading or are many.

mod support;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    process::{Child, ChildStdout, Command, Stdio},
    time::Instant,
};

use rustix::process::Signal;
use serde_json::Value;
use support::{Folder, PATIENCE, Server, assert_sentence, output, ramie, signal, text};

/// The program, whose sockets lie in the folder.
fn ramie_in(folder: &Folder, arguments: &str) -> Command {
    let mut command = ramie(arguments);
    command.env("XDG_RUNTIME_DIR", &folder.0).env_remove("RAMIE_INSPECT");
    command
}

fn served_in(folder: &Folder) -> Server {
    let mut command = ramie_in(folder, "serve --hello --addr 127.0.0.1:0 --workers 1");
    command.env("RAMIE_INSPECT", "1");
    Server::started(command)
}

/// `ramie inspect --web`, about a server.
struct Page {
    server: Server,
    child: Child,
    /// Open, because its end would be noticed.
    _stdout: BufReader<ChildStdout>,
    host: String,
    token: String,
    _folder: Folder,
}

impl Page {
    fn open(arguments: &str) -> Page {
        let folder = Folder::new("inspect");
        let server = served_in(&folder);
        let pid = server.child.id();
        let mut command = ramie_in(&folder, &format!("inspect {pid} {arguments}"));
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on http://").unwrap_or_else(|| {
            let mut message = String::new();
            child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
            panic!("no URL in {line:?}; stderr: {message}")
        });
        let (host, token) = url.split_once("/?token=").expect(url);
        let (host, token) = (host.to_owned(), token.to_owned());
        Page { server, child, _stdout: stdout, host, token, _folder: folder }
    }

    fn connect(&self) -> TcpStream {
        let port = self.host.rsplit_once(':').unwrap().1;
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes, and returns all that comes back.
    fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect();
        // The server may have answered before it has read all.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert!(!answer.is_empty(), "{error}");
        }
        text(&answer)
    }

    fn request(&self, path: &str) -> String {
        let separator = if path.contains('?') { '&' } else { '?' };
        let query = format!("{separator}token={}", self.token);
        // By HTTP/1.0, so the end of an answer is that of the connection, also of events.
        format!("GET {path}{query} HTTP/1.0\r\nHost: {}\r\n\r\n", self.host)
    }

    fn get(&self, path: &str) -> String {
        self.exchange(&self.request(path))
    }

    fn events(&self) -> Events {
        let mut stream = self.connect();
        stream.write_all(self.request("/events").as_bytes()).unwrap();
        Events(BufReader::new(stream))
    }

    #[track_caller]
    fn assert_refused(&self, request: &str, status: &str) {
        let answer = self.exchange(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
        // Nothing of the process is in it.
        assert!(!answer.contains(&self.token) && !answer.contains("strand 1."), "{answer}");
        assert!(!answer.contains("<script") && answer.len() < 600, "{answer}");
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn head(&mut self) -> String {
        let mut head = String::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                return head;
            }
            head += &format!("{line}\n");
        }
    }

    /// The name and the data of the next event; none at the end.
    fn next(&mut self) -> Option<(String, String)> {
        let name = self.line().strip_prefix("event: ")?.to_owned();
        let data = self.line().strip_prefix("data: ").expect("data").to_owned();
        assert_eq!(self.line(), "");
        Some((name, data))
    }

    fn view(&mut self) -> Value {
        let (name, data) = self.next().expect("an event");
        assert_eq!(name, "view", "{data}");
        serde_json::from_str(&data).unwrap()
    }
}

#[test]
fn a_summary_is_printed_as_text_and_as_json() {
    let folder = Folder::new("inspect");
    let server = served_in(&folder);
    let pid = server.child.id();
    let printed = output(ramie_in(&folder, &format!("inspect {pid}")));
    assert!(printed.status.success() && printed.stderr.is_empty(), "{}", text(&printed.stderr));
    let printed = text(&printed.stdout);
    for part in ["worker 0 (", "waits by place:", "slowest waits:", "fiber 'main' (", "of CPU time"]
    {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }
    assert!(printed.starts_with(&format!("process {pid}: ")), "{printed}");
    let json = output(ramie_in(&folder, &format!("inspect --json {pid}"))).stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert!(json["states"]["waiting"].as_u64() >= Some(2), "{json}");
}

#[test]
fn a_process_that_cannot_be_inspected_is_named() {
    let own = std::process::id();
    for arguments in [format!("inspect {own}"), format!("inspect {own} --web")] {
        let refused = output(ramie(&arguments));
        assert_sentence(&refused, 1, &["has no socket for dumps", "RAMIE_INSPECT=1"]);
    }
    // More than the most that a process can have as its id.
    assert_sentence(&output(ramie("inspect 4194305 --web")), 1, &["no process 4194305"]);
}

#[test]
fn the_page_has_a_policy_and_loads_nothing_else() {
    let page = Page::open("--web");
    let answer = page.get("/");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    for part in [
        "HTTP/1.1 200 OK",
        "content-security-policy: default-src 'none'; ",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "frame-ancestors 'none'",
    ] {
        assert!(head.contains(part), "no {part:?} in {head}");
    }
    assert!(body.starts_with("<!doctype html>") && body.trim_end().ends_with("</html>"));
    assert!(!body.contains(&page.token));
    // A nonce of its own each time.
    assert_ne!(page.get("/"), answer);
}

#[test]
fn requests_without_the_token_or_with_a_foreign_host_are_refused() {
    let page = Page::open("--web localhost:0");
    let (host, token) = (&page.host, &page.token);
    let wrong = format!("{}{}", &token[1..], &token[..1]);
    for path in ["/", "/events", "/strand/1.1"] {
        for query in ["", "?token=", "?token=x", &format!("?token={wrong}x"), "?t=1"] {
            let request = format!("GET {path}{query} HTTP/1.0\r\nHost: {host}\r\n\r\n");
            page.assert_refused(&request, "403");
        }
        let port = host.rsplit_once(':').unwrap().1;
        for foreign in ["evil.example", &format!("evil.example:{port}"), "localhost:1", ""] {
            let request = format!("GET {path}?token={token} HTTP/1.0\r\nHost: {foreign}\r\n\r\n");
            page.assert_refused(&request, "403");
        }
        page.assert_refused(&format!("GET {path}?token={token} HTTP/1.0\r\n\r\n"), "403");
        page.assert_refused(&format!("GET {path}?token={token} HTTP/1.1\r\n\r\n"), "400");
        let local = format!("GET /?token={token} HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n");
        assert!(page.exchange(&local).starts_with("HTTP/1.1 200 "));
    }
}

#[test]
fn garbage_is_refused_and_does_no_harm() {
    let page = Page::open("--web 127.0.0.1:0");
    page.assert_refused("\r\n\0\u{1}garbage\r\n\r\n", "400");
    page.assert_refused("\u{16}\u{3}\u{1}", "400");
    page.assert_refused(&"x".repeat(100_000), "414");
    let request = page.request("/");
    let many = request.trim_end().to_owned() + &"\r\nX: 1".repeat(65) + "\r\n\r\n";
    page.assert_refused(&many, "431");
    page.assert_refused(&page.request("/secret"), "404");
    page.assert_refused(&page.request("/strand/dump"), "404");
    page.assert_refused(&page.request("/").replacen("GET", "POST", 1), "405");
    // A client that leaves in the middle.
    for part in ["", "GET", "GET / HTTP/1.1\r\nHost: x\r\n"] {
        let mut stream = page.connect();
        stream.write_all(part.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.is_empty());
    }
    assert!(page.get("/").starts_with("HTTP/1.1 200 "));
}

#[test]
fn events_are_live_and_a_strand_has_its_calls() {
    let page = Page::open("--web --interval 0.1");
    let mut events = page.events();
    assert!(events.head().contains("content-type: text/event-stream"));
    let first = events.view();
    assert_eq!(first["process"], page.server.child.id());
    let waiting = first["states"]["waiting"].as_u64().unwrap();
    // A connection is one fiber more.
    let connections: Vec<_> = (0..5).map(|_| page.server.connect()).collect();
    let view = loop {
        let view = events.view();
        if view["states"]["waiting"].as_u64() == Some(waiting + 5) {
            break view;
        }
    };
    assert!(view["rates"].is_object() && view["interval_ms"].as_u64() >= Some(50), "{view}");
    let load = view["workers"][0]["load"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&load), "{view}");
    drop(connections);
    let main = view["slowest"].as_array().unwrap().iter().find(|row| row["name"] == "main");
    let id = main.expect("the strand main")["id"].as_str().unwrap();
    let strand = page.get(&format!("/strand/{id}"));
    assert!(strand.starts_with("HTTP/1.1 200 ") && strand.contains("fiber 'main'"), "{strand}");
    assert!(strand.contains("text/plain") && !strand.contains("worker 0 ("), "{strand}");
    if cfg!(target_arch = "x86_64") {
        assert!(strand.contains("ramie::serve::"), "{strand}");
    }
    let none = page.get("/strand/4000000000.1");
    assert!(none.starts_with("HTTP/1.1 404 ") && none.contains("no such strand"), "{none}");
}

#[test]
fn streams_that_are_not_read_and_too_many_clients_do_no_harm() {
    let page = Page::open("--web --interval 0.1");
    let begun = |events: &mut Events| events.line().starts_with("HTTP/1.1 200 ");
    let mut streams: Vec<_> = (0..8).map(|_| page.events()).collect();
    assert!(streams.iter_mut().all(begun));
    // Nobody reads them any more.
    assert!(page.get("/events").starts_with("HTTP/1.1 503 "));
    let silent: Vec<_> = (0..24).map(|_| page.connect()).collect();
    let start = Instant::now();
    // All places are taken until the first silent client has had its time.
    while !page.exchange_or_nothing().starts_with("HTTP/1.1 200 ") {
        assert!(start.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    drop((silent, streams));
    let start = Instant::now();
    while !begun(&mut page.events()) {
        assert!(start.elapsed() < PATIENCE, "no stream begins");
    }
}

impl Page {
    /// Asks for the page; empty if the server closes the connection at once.
    fn exchange_or_nothing(&self) -> String {
        let mut stream = self.connect();
        let _ = stream.write_all(self.request("/").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        text(&answer)
    }
}

#[test]
fn the_end_of_the_process_is_an_event_and_exit_code_1() {
    let mut page = Page::open("--web --interval 0.1");
    let mut events = page.events();
    events.head();
    events.view();
    signal(&page.server.child, Signal::TERM);
    page.server.wait();
    let pid = page.server.child.id();
    let ended = format!("process {pid} has ended");
    loop {
        match events.next().expect("an event about the end") {
            (name, data) if name == "ended" => break assert_eq!(data, ended),
            // While the process ends, it may not answer.
            (name, _) => assert!(name == "view" || name == "problem", "{name}"),
        }
    }
    assert_eq!(page.child.wait().unwrap().code(), Some(1));
    let mut message = String::new();
    page.child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert_eq!(message, format!("ramie: {ended}\n"));
}

#[test]
fn a_signal_stops_the_page_with_exit_code_0() {
    for signalled in [Signal::TERM, Signal::INT] {
        let mut page = Page::open("--web");
        let mut events = page.events();
        events.head();
        events.view();
        signal(&page.child, signalled);
        assert_eq!(page.child.wait().unwrap().code(), Some(0));
        while events.next().is_some() {}
    }
}

#[test]
fn addresses_of_other_machines_need_a_flag() {
    let folder = Folder::new("inspect");
    let server = served_in(&folder);
    let pid = server.child.id();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = output(ramie_in(&folder, &format!("inspect {pid} --web {address}")));
        assert_sentence(&refused, 2, &[address, "no login", "--allow-remote"]);
    }
    let taken = server.address;
    let refused = output(ramie_in(&folder, &format!("inspect {pid} --web {taken}")));
    assert_sentence(&refused, 1, &["cannot listen on", "port 0"]);
    let page = Page::open("--web 0.0.0.0:0 --allow-remote");
    let port = page.host.rsplit_once(':').unwrap().1;
    let request = page.request("/").replace(&page.host, &format!("192.0.2.1:{port}"));
    assert!(page.exchange(&request).starts_with("HTTP/1.1 200 "));
    page.assert_refused(&request.replace("192.0.2.1", "evil.example"), "403");
}

#[test]
fn wrong_arguments_are_refused() {
    let wrong = |arguments: &str, parts: &[&str]| {
        assert_sentence(&output(ramie(arguments)), 2, parts);
    };
    wrong("inspect", &["missing <PID>"]);
    wrong("inspect x", &["invalid value `x` for PID"]);
    wrong("inspect 1 --web 8080", &["invalid value `8080` for --web", "ADDRESS:PORT"]);
    wrong("inspect 1 --json --web", &["--json", "--web", "exclude each other"]);
    wrong("inspect 1 --allow-remote", &["missing --web"]);
    wrong("inspect 1 --interval 0", &["invalid value `0` for --interval", "0.1 to 3600"]);
    wrong("top", &["missing <PID>"]);
    wrong("top 1 --interval -1", &["invalid value `-1` for --interval"]);
}

#[cfg(not(feature = "top"))]
#[test]
fn top_without_its_feature_names_the_command_that_builds_it() {
    let refused = output(ramie("top 4711"));
    assert_sentence(&refused, 1, &["--features top -- top 4711", "ramie inspect 4711"]);
}
