//! Behind nginx as a reverse proxy: a request that nginx passes on as one is one for the server.
//!
//! Odd requests go to the server directly and through nginx. nginx writes a line for each request
//! and says whether it has passed it on; the handler must not have seen more. Behind each request
//! comes another one on the same connection of nginx, whose response must be its own: if the two
//! had disagreed about the end of the odd request, it would not be.
//!
//! `.ci/nginx` installs nginx and runs this test.

use std::{
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use ramie_http::Limits;

use super::{
    client::find,
    rig::{Rig, Seen, seeing},
};

/// A running nginx, with its files. Two sockets, because nginx may read a body before it passes it
/// on, or pass it on as it arrives.
struct Nginx {
    process: Child,
    folder: PathBuf,
}

const MODES: [&str; 2] = ["on", "off"];

impl Nginx {
    fn start(upstream: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ramie-http-nginx-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("nginx.conf"), configuration(&folder, upstream)).unwrap();
        let log = fs::File::create(folder.join("error.log")).unwrap();
        let process = Command::new(program())
            .arg("-p")
            .arg(&folder)
            .args(["-e", "stderr", "-c", "nginx.conf"])
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("nginx that starts");
        let mut nginx = Nginx { process, folder };
        nginx.wait_until_it_listens();
        nginx
    }

    fn wait_until_it_listens(&mut self) {
        for _ in 0..1000 {
            if MODES.iter().all(|mode| UnixStream::connect(self.socket(mode)).is_ok()) {
                return;
            }
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", self.read("error.log"));
            std::thread::park_timeout(Duration::from_millis(10));
        }
        panic!("nginx does not listen: {}", self.read("error.log"));
    }

    fn socket(&self, mode: &str) -> PathBuf {
        self.folder.join(format!("{mode}.sock"))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// Sends bytes through nginx; all that it answers.
    fn exchange(&self, mode: &str, bytes: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(self.socket(mode)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // nginx may refuse the request before it has read all.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answers = Vec::new();
        let _ = stream.read_to_end(&mut answers);
        answers
    }

    /// How many requests nginx has passed on, since it began.
    fn passed(&self) -> usize {
        self.read("access.log").lines().filter(|line| !line.starts_with("- ")).count()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nginx/usr/sbin");
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin".into(), unpacked]);
    let found = folders.iter().map(|folder| folder.join("nginx")).find(|path| path.exists());
    found.expect("nginx, which .ci/nginx installs")
}

fn configuration(folder: &Path, upstream: &str) -> String {
    let server = |mode: &str| {
        format!(
            "server {{
                listen unix:{}/{mode}.sock;
                location / {{
                    proxy_pass http://upstream;
                    proxy_http_version 1.1;
                    proxy_set_header Connection '';
                    proxy_set_header Host $http_host;
                    proxy_request_buffering {mode};
                    proxy_ignore_client_abort on;
                    proxy_next_upstream off;
                }}
            }}",
            folder.display()
        )
    };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};\n", folder.display()))
        .concat();
    format!(
        "daemon off;
        master_process off;
        pid {folder}/nginx.pid;
        events {{ worker_connections 128; }}
        http {{
            {temporary}
            log_format passed '$upstream_addr $upstream_status $request';
            access_log {folder}/access.log passed;
            underscores_in_headers on;
            ignore_invalid_headers off;
            merge_slashes off;
            keepalive_timeout 1s;
            client_header_timeout 1s;
            client_body_timeout 1s;
            lingering_close off;
            upstream upstream {{ server {upstream}; keepalive 1; }}
            {servers}
        }}",
        folder = folder.display(),
        servers = MODES.map(server).concat(),
    )
}

/// Odd requests: the kept inputs of the fuzzers, and combinations of framing fields and bodies.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = |name: &str| {
        let mut files: Vec<_> =
            fs::read_dir(folder.join(name)).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        files.into_iter().map(|file| fs::read(file).unwrap())
    };
    let mut all: Vec<Vec<u8>> = files("head").collect();
    let head =
        |line: &[u8], fields: &[u8]| [line, b" HTTP/1.1\r\nHost: a\r\n", fields, b"\r\n"].concat();
    for body in files("chunked") {
        all.push([head(b"POST /", b"Transfer-Encoding: chunked\r\n"), body].concat());
    }
    for target in files("targets") {
        all.push(head(&[b"GET ", &target[..]].concat(), b""));
    }
    for value in files("value") {
        for name in [&b"Transfer-Encoding: "[..], b"Content-Length: ", b"Connection: ", b"Host: "] {
            let field = [name, &value, b"\r\n"].concat();
            all.push([&head(b"POST /", &field)[..], b"5\r\nhello\r\n0\r\n\r\n"].concat());
        }
    }
    for lengths in ["", "Content-Length: 5\r\n", "Content-Length: 5\r\nContent-Length: 5\r\n"] {
        for coding in
            ["", "chunked", "Chunked", "x, chunked", "chunked, x", " chunked", "\tchunked"]
        {
            for separator in [": ", ":", " : ", "\t: ", ":\u{b}", ":\r\n ", "\0: "] {
                let coding = match coding {
                    "" => String::new(),
                    coding => format!("Transfer-Encoding{separator}{coding}\r\n"),
                };
                let fields = format!("{lengths}{coding}");
                all.push([&head(b"POST /", fields.as_bytes())[..], b"0\r\n\r\n"].concat());
            }
        }
    }
    all
}

const INSIDE: &[u8] = b"GET /inside HTTP/1.1\r\nHost: a\r\n\r\n";

/// What the handler sees of a request that is sent directly.
fn seen_directly(rig: &Rig, seen: &Seen, bytes: &[u8]) -> usize {
    let mut client = rig.connect();
    client.send(bytes);
    client.end();
    // Responses to HEAD are among them, so the answers are not taken apart.
    let _ = client.stream.read_to_end(&mut Vec::new());
    complete(seen)
}

/// A handler whose client goes away sees that when it likes, maybe during a later request.
fn complete(seen: &Seen) -> usize {
    seen.take().iter().filter(|line| !line.starts_with("incomplete")).count()
}

#[test]
#[ignore = "needs nginx; .ci/nginx runs it"]
fn what_nginx_passes_on_as_one_request_is_one() {
    let (rig, seen) = seeing(Limits::default());
    let nginx = Nginx::start(&rig.address.to_string());
    let (mut count, mut refused_by_us) = (0, 0);
    for mode in MODES {
        for request in corpus() {
            for bytes in [request.clone(), [&request[..], INSIDE].concat()] {
                let text = bytes.escape_ascii().to_string();
                let directly = seen_directly(&rig, &seen, &bytes);
                assert!(directly <= 2, "directly seen as {directly}: {text}");
                let before = nginx.passed();
                nginx.exchange(mode, &bytes);
                check_canary(&nginx, mode, count, &text);
                // The canary is one of the requests that nginx has passed on.
                let passed = nginx.passed() - before - 1;
                let seen = complete(&seen) - 1;
                assert!(seen <= passed, "{passed} passed on, {seen} seen, {mode}: {text}");
                refused_by_us += passed - seen;
                count += 1;
            }
        }
    }
    println!("{count} requests, {refused_by_us} of which nginx passes on and the server refuses");
    assert!(count > 500);
}

/// The next request on nginx's connection to the server gets its own response.
#[track_caller]
fn check_canary(nginx: &Nginx, mode: &str, number: usize, text: &str) {
    let canary = format!("/canary-{number}");
    let request = format!("GET {canary} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let answer = nginx.exchange(mode, request.as_bytes());
    let own = format!("\r\n\r\nGET {canary} ");
    assert!(
        answer.starts_with(b"HTTP/1.1 200 ") && find(&answer, own.as_bytes()).is_some(),
        "{} behind {text}, {mode}",
        answer.escape_ascii()
    );
}

/// A server that takes the body of a request for the next request.
fn serve_without_bodies(stream: std::net::TcpStream) {
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read) = (&stream).read(&mut piece) {
        received.extend_from_slice(&piece[..read]);
        while let Some(end) = find(&received, b"\r\n\r\n") {
            let head: Vec<u8> = received.drain(..end + 4).collect();
            let text = String::from_utf8_lossy(&head).into_owned();
            let words: Vec<_> = text.split(' ').take(2).collect();
            let body = format!("{} ", words.join(" "));
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = (&stream).write_all((head + &body).as_bytes());
        }
        if read == 0 {
            break;
        }
    }
}

#[test]
#[ignore = "must fail, which shows that the test above can"]
fn a_server_that_ignores_bodies_is_noticed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nginx = Nginx::start(&listener.local_addr().unwrap().to_string());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(|| serve_without_bodies(stream));
        }
    });
    for number in 0..20 {
        let length = INSIDE.len();
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        nginx.exchange("off", &[head.as_bytes(), INSIDE].concat());
        check_canary(&nginx, "off", number, &head);
    }
}
