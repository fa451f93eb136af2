//! HTTP/2: hyper's client and curl against a server; and hyper's client over HTTP/1.1.

mod bodies;
mod floods;
mod http1;
mod limits;
mod lives;
mod programs;
mod raw;
#[path = "../common/written.rs"]
mod written;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{
    Request as HyperRequest, Response as HyperResponse,
    body::{Bytes, Incoming},
    client::conn::http2::{self, SendRequest},
};
use ramie::{
    fiber::{self, JoinHandle},
    future::block_on,
    net::TcpStream,
    sync::{Barrier, Event},
};
use ramie_futures::{Io, LocalFibers};
use ramie_http::{
    Limits, Request, Router, Server, ServerHandle, StatusCode, extract::Peer, get, post,
};

type ClientBody = BoxBody<Bytes, std::convert::Infallible>;
type Client = SendRequest<ClientBody>;
type Driven = JoinHandle<hyper::Result<()>>;

fn full(bytes: impl Into<Bytes>) -> ClientBody {
    Full::new(bytes.into()).boxed()
}

/// Stops a server also when the test has failed.
struct StopAtEnd(ServerHandle);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn with_server(router: Router, limits: Limits, f: impl FnOnce(SocketAddr, &ServerHandle)) {
    with_settings(router, |server| server.limits(limits), f);
}

fn with_settings(
    router: Router,
    set: impl FnOnce(Server) -> Server,
    f: impl FnOnce(SocketAddr, &ServerHandle),
) {
    ramie::run(|| {
        let server = set(Server::bind("127.0.0.1:0").unwrap());
        let (address, stop) = (server.local_addr().unwrap(), StopAtEnd(server.handle()));
        let serving = fiber::spawn(move || server.serve(router));
        f(address, &stop.0);
        drop(stop);
        serving.join().unwrap().unwrap();
    });
}

fn connect(address: SocketAddr) -> (Client, Driven) {
    let stream = Io::new(TcpStream::connect(address).unwrap());
    let (client, connection) = block_on(http2::handshake(LocalFibers, stream)).unwrap();
    (client, fiber::spawn_local(|| block_on(connection)))
}

/// A server with a client of it.
fn with_client(router: Router, limits: Limits, f: impl FnOnce(&mut Client)) {
    with_server(router, limits, |address, _| {
        let (mut client, driven) = connect(address);
        f(&mut client);
        drop(client);
        driven.join().unwrap().unwrap();
    });
}

fn request(method: &str, path: &str, body: ClientBody) -> HyperRequest<ClientBody> {
    HyperRequest::builder().method(method).uri(format!("http://a.test{path}")).body(body).unwrap()
}

fn send(client: &mut Client, request: HyperRequest<ClientBody>) -> HyperResponse<Incoming> {
    block_on(client.send_request(request)).unwrap()
}

fn text(response: HyperResponse<Incoming>) -> String {
    let body = block_on(response.into_body().collect()).unwrap().to_bytes();
    String::from_utf8(body.into()).unwrap()
}

fn ask(client: &mut Client, path: &str) -> (StatusCode, String) {
    let response = send(client, request("GET", path, full("")));
    (response.status(), text(response))
}

#[test]
fn handlers_of_one_connection_run_in_parallel() {
    let all = Arc::new(Barrier::new(50));
    let router = Router::new().route("/", get(move || all.wait().is_leader().to_string()));
    with_client(router, Limits::default(), |client| {
        let asked: Vec<_> = (0..50)
            .map(|_| {
                let mut client = client.clone();
                fiber::spawn_local(move || ask(&mut client, "/").1)
            })
            .collect();
        let leaders = asked.into_iter().map(|asked| asked.join().unwrap());
        assert_eq!(leaders.filter(|text| text == "true").count(), 1);
    });
}

#[test]
fn handlers_see_the_request_as_one_of_http_1() {
    fn describe(Peer(peer): Peer, request: Request) -> String {
        let header = |name| request.header_str(name).unwrap_or("none").to_owned();
        let (host, cookie) = (header("host"), header("cookie"));
        let (path, query) = (request.path(), request.query());
        format!("{:?} {path} {query:?} {host} {cookie} {}", request.version(), peer.ip())
    }
    with_client(Router::new().route("/{any}", get(describe)), Limits::default(), |client| {
        let mut asked = request("GET", "/x?y=1", full(""));
        for cookie in ["a=1", "b=2"] {
            asked.headers_mut().append("cookie", cookie.parse().unwrap());
        }
        let told = text(send(client, asked));
        assert_eq!(told, r#"HTTP/2.0 /x Some("y=1") a.test a=1; b=2 127.0.0.1"#);
        assert_eq!(ask(client, "/a/b").0, StatusCode::NOT_FOUND);
        assert_eq!(send(client, request("PUT", "/x", full(""))).headers()["allow"], "GET, HEAD");
    });
}

/// Another host than the one by which a proxy has routed the request must not reach a handler.
#[test]
fn a_host_repeats_the_authority_or_is_refused() {
    let host = |request: Request| request.header_str("host").unwrap_or("none").to_owned();
    with_client(Router::new().route("/", get(host)), Limits::default(), |client| {
        for (hosts, status) in [
            (vec![], StatusCode::OK),
            (vec!["a.test"], StatusCode::OK),
            (vec!["other"], StatusCode::BAD_REQUEST),
            (vec!["a.test", "a.test"], StatusCode::BAD_REQUEST),
        ] {
            let mut asked = request("GET", "/", full(""));
            for host in &hosts {
                asked.headers_mut().append("host", host.parse().unwrap());
            }
            let response = send(client, asked);
            assert_eq!(response.status(), status, "{hosts:?}");
            if status == StatusCode::OK {
                assert_eq!(text(response), "a.test");
            }
        }
    });
}

#[test]
fn a_late_handler_is_answered_with_503() {
    let router = Router::new()
        .route("/", get(|| "on time"))
        .route("/late", get(|| format!("{:?}", Event::new().wait().is_err())));
    let limits = Limits { request_timeout: Duration::from_millis(50), ..Limits::default() };
    with_client(router, limits, |client| {
        for _ in 0..3 {
            assert_eq!(ask(client, "/late"), (StatusCode::SERVICE_UNAVAILABLE, String::new()));
            assert_eq!(ask(client, "/"), (StatusCode::OK, "on time".into()));
        }
    });
}

#[test]
fn a_panic_of_a_handler_ends_its_stream_only() {
    let router = Router::new()
        .route("/", get(|| "fine"))
        .route("/panic", get(|| -> &'static str { panic!("on purpose") }));
    with_client(router, Limits::default(), |client| {
        assert_eq!(ask(client, "/panic").0, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(ask(client, "/").1, "fine");
    });
}

#[test]
fn responses_instead_of_handlers_have_the_id_of_the_request() {
    let router = Router::new()
        .route("/late", get(|| format!("{:?}", Event::new().wait().is_err())))
        .route("/panic", get(|| -> &'static str { panic!("on purpose") }))
        .layer(ramie_http::middleware::request_id);
    let limits = Limits { request_timeout: Duration::from_millis(50), ..Limits::default() };
    with_client(router, limits, |client| {
        for (path, status) in [("/late", 503), ("/panic", 500)] {
            let mut asked = request("GET", path, full(""));
            asked.headers_mut().insert("x-request-id", "a7".parse().unwrap());
            let response = send(client, asked);
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()["x-request-id"], "a7");
        }
    });
}

#[test]
fn a_reset_cancels_the_handler() {
    let (begun, cancelled) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let handler = {
        let (begun, cancelled) = (Arc::clone(&begun), Arc::clone(&cancelled));
        move || {
            begun.set();
            if Event::new().wait().is_err() {
                cancelled.set();
            }
        }
    };
    with_client(Router::new().route("/", get(handler)), Limits::default(), |client| {
        let asked = client.send_request(request("GET", "/", full("")));
        let mut asked = Box::pin(asked);
        // Polls the request until the handler runs.
        let mut begun = Box::pin(wait_for(Arc::clone(&begun)));
        block_on(std::future::poll_fn(|context| {
            assert!(asked.as_mut().poll(context).is_pending());
            begun.as_mut().poll(context)
        }));
        drop(asked);
        cancelled.wait().unwrap();
    });
}

/// A future of an event.
async fn wait_for(event: Arc<Event>) {
    let (sender, receiver) = ramie::sync::oneshot::channel();
    fiber::spawn_local(move || sender.send(event.wait()));
    receiver.await.unwrap().unwrap();
}

/// A handler, the event that it sets, and the one for which it waits then.
fn handler_that_waits()
-> (impl Fn() -> &'static str + Send + Sync + 'static, Arc<Event>, Arc<Event>) {
    let (begun, go_on) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let handler = {
        let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
        move || {
            begun.set();
            go_on.wait().unwrap();
            "done"
        }
    };
    (handler, begun, go_on)
}

#[test]
fn a_stop_answers_what_runs_and_ends_the_connection() {
    let (handler, begun, go_on) = handler_that_waits();
    with_server(Router::new().route("/", get(handler)), Limits::default(), |address, server| {
        let (client, driven) = connect(address);
        let asked = fiber::spawn_local({
            let mut client = client.clone();
            move || ask(&mut client, "/")
        });
        begun.wait().unwrap();
        server.stop();
        go_on.set();
        assert_eq!(asked.join().unwrap(), (StatusCode::OK, "done".into()));
        // The client's handle is alive, so only the server ends the connection.
        driven.join().unwrap().unwrap();
        assert!(client.is_closed());
    });
}

#[test]
fn idle_connections_end() {
    let limits = Limits { idle_timeout: Duration::from_millis(100), ..Limits::default() };
    with_server(Router::new().route("/", get(|| "hello")), limits, |address, server| {
        let (mut client, driven) = connect(address);
        assert_eq!(ask(&mut client, "/").1, "hello");
        driven.join().unwrap().unwrap();
        // One that sends nothing but the beginning of a preface.
        let mut stream = TcpStream::connect(address).unwrap();
        std::io::Write::write_all(&mut stream, b"PRI * HTTP/2.0\r\n\r\n").unwrap();
        let mut rest = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut rest);
        drop(stream);
        while server.connections() > 0 {
            fiber::yield_now();
        }
    });
}

#[test]
fn large_heads_are_refused() {
    let limits = Limits { head_bytes: 4 << 10, fields: 10, ..Limits::default() };
    with_client(Router::new().route("/", post(|| "fine")), limits, |client| {
        let mut asked = request("POST", "/", full(""));
        for number in 0..11 {
            let name = hyper::header::HeaderName::try_from(format!("x-{number}")).unwrap();
            asked.headers_mut().insert(name, "a".parse().unwrap());
        }
        let many = send(client, asked);
        assert_eq!(many.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        let mut asked = request("POST", "/", full(""));
        asked.headers_mut().insert("x-large", "a".repeat(5 << 10).parse().unwrap());
        let large = send(client, asked);
        assert_eq!(large.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        assert_eq!(text(send(client, request("POST", "/", full("")))), "fine");
    });
}
