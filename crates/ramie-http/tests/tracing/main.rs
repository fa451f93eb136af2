//! Spans of requests: each line of a handler has the span of its own request.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use ramie::{Runtime, fiber, net::TcpStream, sync::Event};
use ramie_http::{
    Body, Request, Router, Server,
    extract::Path,
    get,
    middleware::{request_id, trace_requests, trace_requests_with, traceparent_header},
};
use ramie_tracing::{PerFiber, trace_context::TraceParent};
use tracing::info;
use tracing_subscriber::{layer::SubscriberExt, registry, util::SubscriberInitExt};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The lines that a subscriber has written.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All lines of this process that have the path, without their indentation. The subscriber is that
/// of the process, as in a program, because connections are detached fibers.
fn lines_of(path: &str) -> Vec<String> {
    let text = String::from_utf8(LINES.0.lock().unwrap().clone()).expect("text");
    let path = format!("path=\"{path}\"");
    text.lines().filter(|line| line.contains(&path)).map(|line| line.trim().to_owned()).collect()
}

static LINES: LazyLock<Lines> = LazyLock::new(|| {
    let lines = Lines::default();
    let writer = lines.clone();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .with_target(false)
        .without_time();
    PerFiber::new(registry().with(layer)).init();
    lines
});

/// The value of a field of the span in a line.
#[track_caller]
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let behind = line.split_once(&format!("{name}=")).expect(line).1;
    behind.split([' ', '}']).next().expect("a value").trim_matches('"')
}

fn get_over_socket(address: SocketAddr, target: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

/// Serves on one worker, so that the fibers of the connections share its thread.
fn serve(router: Router, client: impl FnOnce(SocketAddr) + Send) {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    runtime.run(|| {
        let server = Server::bind("127.0.0.1:0").expect("a port");
        let (address, handle) = (server.local_addr().expect("an address"), server.handle());
        fiber::scope(|scope| {
            let serving = scope.spawn(move || server.serve(router));
            // Joined, so that the server stops also if the client has failed.
            let client = scope.spawn(move || client(address)).join();
            handle.stop();
            serving.join().expect("no panic").expect("no error of the listeners");
            client.expect("the client has failed");
        });
    });
}

/// The text of a line, behind its span.
fn text_of(line: &str) -> &str {
    line.rsplit_once(": ").expect("a text").1
}

#[test]
fn concurrent_requests_log_in_their_own_spans() {
    LazyLock::force(&LINES);
    let (a, b) = (Arc::new(Event::new()), Arc::new(Event::new()));
    // Each waits for the other, so their spans are open at the same time.
    let handler = move |Path(name): Path<String>| {
        info!("{name} begins");
        let (own, other) = if name == "a" { (&a, &b) } else { (&b, &a) };
        own.set();
        other.wait().expect("the other request");
        fiber::scope(|scope| scope.spawn(|| info!("{name} in a strand")).join().unwrap());
        info!("{name} ends");
        Body::from_writer(move |out| {
            info!("{name} is sent");
            out.write_all(b"done")
        })
    };
    let router = Router::new().route("/{name}", get(handler)).layer(trace_requests);
    serve(router, |address| {
        fiber::scope(|scope| {
            for target in ["/a", "/b"] {
                let get = move || get_over_socket(address, target);
                scope.spawn(move || assert!(get().contains("\r\n\r\n4\r\ndone\r\n0\r\n\r\n")));
            }
        });
    });
    let traces = ["a", "b"].map(|name| {
        let lines = lines_of(&format!("/{name}"));
        let texts: Vec<_> = lines.iter().map(|line| text_of(line)).collect();
        let expected =
            ["begins", "in a strand", "ends", "is sent"].map(|rest| format!("{name} {rest}"));
        assert_eq!(texts, expected, "{lines:#?}");
        for line in &lines {
            assert_eq!(line.matches("request{").count(), 1, "{line}");
            assert!(line.contains("route=\"/{name}\""), "{line}");
            assert_eq!(field(line, "trace_id"), field(&lines[0], "trace_id"), "{line}");
        }
        assert_eq!(field(&lines[3], "status"), "200");
        field(&lines[0], "trace_id").to_owned()
    });
    assert_ne!(traces[0], traces[1]);
}

/// The header that a handler would send to another service, as it is seen in a strand of its scope.
fn sent_header() -> String {
    let header = || traceparent_header().expect("the request has a trace").1;
    let header = fiber::scope(|scope| scope.spawn(header).join().expect("no panic"));
    info!("sends it");
    header.to_str().expect("text").to_owned()
}

fn answered(router: &Router, target: &str, caller: Option<&str>) -> TraceParent {
    let request = Request::get(target).with_header("x-request-id", "a7");
    let request = caller
        .into_iter()
        .fold(request, |request, caller| request.with_header("traceparent", caller));
    let body = ramie::run(|| router.call(request)).into_body().into_bytes(100).expect("a body");
    TraceParent::from_bytes(&body).expect("a valid header")
}

#[test]
fn the_trace_of_the_caller_goes_on() {
    LazyLock::force(&LINES);
    let router =
        Router::new().route("/caller", get(sent_header)).layer(trace_requests).layer(request_id);
    let caller: TraceParent = CALLER.parse().unwrap();
    let sent = answered(&router, "/caller", Some(CALLER));
    assert_eq!((sent.trace_id(), sent.is_sampled()), (caller.trace_id(), true));
    assert_ne!(sent.parent_id(), caller.parent_id());
    let lines = lines_of("/caller");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(field(&lines[0], "trace_id"), &CALLER[3..35]);
    assert_eq!(field(&lines[0], "parent_id"), &CALLER[36..52]);
    assert_eq!(field(&lines[0], "span_id"), format!("{:016x}", sent.parent_id()));
    assert_eq!(field(&lines[0], "request_id"), "a7");
    assert!(traceparent_header().is_none());
}

#[test]
fn a_request_without_a_valid_caller_begins_a_trace() {
    LazyLock::force(&LINES);
    let router = Router::new().route("/new", get(sent_header)).layer(trace_requests);
    let sent = [None, Some("00-0-0-01"), None].map(|caller| answered(&router, "/new", caller));
    assert!(sent[0].trace_id() != sent[1].trace_id() && sent[1].trace_id() != sent[2].trace_id());
    let lines = lines_of("/new");
    assert_eq!(lines.len(), 3);
    for (line, sent) in lines.iter().zip(sent) {
        assert_eq!(field(line, "trace_id"), format!("{:032x}", sent.trace_id()));
        assert!(!line.contains("parent_id="), "{line}");
    }
}

#[test]
fn a_program_prepares_the_span() {
    LazyLock::force(&LINES);
    let prepare = |span: &tracing::Span, caller: Option<TraceParent>| {
        span.record("request_id", caller.is_some());
    };
    // The layer of a nested router, which knows the route.
    let nested =
        Router::new().route("/{id}", get(|| info!("handled"))).layer(trace_requests_with(prepare));
    let router = Router::new().nest("/prepared", nested);
    let request = Request::get("/prepared/7").with_header("traceparent", CALLER);
    ramie::run(|| router.call(request));
    let lines = lines_of("/prepared/7");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(field(&lines[0], "request_id"), "true");
    assert!(lines[0].contains("route=\"/prepared/{id}\""), "{lines:#?}");
}
