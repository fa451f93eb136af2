//! How long connections, exchanges and handlers live.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use ramie::{cancel, channel};
use ramie_http::{
    Body,
    middleware::{AccessLog, remaining_timeout, request_timeout},
};

use super::{
    handler_that_waits,
    raw::{self, INITIAL_WINDOW_SIZE, RawClient},
    written::Written,
    *,
};

const LARGE: usize = 3 << 20;
/// Fits into one frame, so that the server has handed all of it to hyper at once.
const SMALL: usize = 10_000;

fn router() -> Router {
    Router::new()
        .route("/large", get(|| Body::from(vec![7; LARGE])))
        .route("/small", get(|| Body::from(vec![7; SMALL])))
        .route("/", get(|| "hello"))
}

/// The length of a body, or none if it was cut.
fn length(response: HyperResponse<Incoming>) -> Option<usize> {
    block_on(response.into_body().collect()).ok().map(|body| body.to_bytes().len())
}

#[test]
fn a_stop_sends_bodies_to_their_ends() {
    with_server(router(), Limits::default(), |address, server| {
        let (mut client, driven) = connect(address);
        let large = send(&mut client, request("GET", "/large", full("")));
        server.stop();
        assert_eq!(length(large), Some(LARGE));
        driven.join().unwrap().unwrap();
    });
}

/// The handler learns that the client has done nothing wrong.
#[test]
fn the_end_of_the_grace_is_named_to_handlers() {
    let (sender, reasons) = channel::bounded(1);
    let begun = Arc::new(Event::new());
    let begin = Arc::clone(&begun);
    let handler = move || {
        begin.set();
        fiber::sleep(Duration::from_secs(3600));
        let cancelled = cancel::check_cancelled().unwrap_err();
        cancel::shield(|| sender.send(cancelled.reason().to_owned())).unwrap();
    };
    let router = Router::new().route("/", get(handler));
    let grace = |server: Server| server.grace(Duration::from_millis(50));
    with_settings(router, grace, |address, server| {
        let (mut client, driven) = connect(address);
        let cut = fiber::spawn_local(move || {
            block_on(client.send_request(request("GET", "/", full("")))).is_err()
        });
        begun.wait().unwrap();
        server.stop();
        assert_eq!(reasons.recv().unwrap(), "the server stops");
        assert!(cut.join().unwrap());
        let _ = driven.join().unwrap();
    });
}

/// A client that takes its time is not idle.
#[test]
fn the_idle_timeout_does_not_cut_bodies() {
    let limits = Limits { idle_timeout: Duration::from_millis(40), ..Limits::default() };
    with_server(router(), limits, |address, server| {
        let (mut client, driven) = connect(address);
        let large = send(&mut client, request("GET", "/large", full("")));
        fiber::sleep(Duration::from_millis(200));
        assert_eq!((length(large), server.connections()), (Some(LARGE), 1));
        drop(client);
        driven.join().unwrap().unwrap();
    });
}

/// The window of the stream has no room, so the body cannot be sent.
#[test]
fn a_client_that_takes_no_bytes_is_left() {
    let limits = Limits { write_timeout: Duration::from_millis(50), ..Limits::default() };
    for path in ["/small", "/large"] {
        with_server(router(), limits, |address, server| {
            let mut client = RawClient::connect_with(address, &[(raw::INITIAL_WINDOW_SIZE, 0)]);
            client.get(1, path);
            // The head of the response, and no data.
            while let Some(frame) = client.read() {
                assert_ne!(frame.kind, raw::DATA, "{path}");
            }
            while server.connections() > 0 {
                fiber::yield_now();
            }
        });
    }
}

/// A connection counts for the limits as long as something runs for it.
#[test]
fn handlers_do_not_outlive_their_connection() {
    let (begun, cancelled) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let go_on = Arc::new(Event::new());
    let handler = {
        let (begun, cancelled, go_on) = (begun.clone(), cancelled.clone(), go_on.clone());
        move || {
            begun.set();
            if Event::new().wait().is_err() {
                cancelled.set();
            }
            // What a handler has to do before it ends.
            cancel::shield(|| go_on.wait()).unwrap();
        }
    };
    let limits = Limits { connections: 1, ..Limits::default() };
    with_server(Router::new().route("/", get(handler)), limits, |address, server| {
        let mut client = RawClient::connect(address);
        client.get(1, "/");
        begun.wait().unwrap();
        drop(client);
        cancelled.wait().unwrap();
        for _ in 0..1000 {
            fiber::yield_now();
        }
        let open = server.connections();
        go_on.set();
        assert_eq!(open, 1);
        while server.connections() > 0 {
            fiber::yield_now();
        }
    });
}

/// A client that gets a response before it has sent its body learns that this is no error.
#[test]
fn a_body_that_nobody_reads_is_no_error() {
    let router = Router::new().route("/", post(|| "unread"));
    with_server(router, Limits::default(), |address, _| {
        let head = raw::head_fields("POST", "/");
        let mut client = RawClient::connect(address);
        for number in 0..20 {
            let stream = 2 * number + 1;
            client.send(&raw::frame(raw::HEADERS, raw::END_HEADERS, stream, &head)).unwrap();
            if number % 2 == 1 {
                client.send(&raw::frame(raw::DATA, 0, stream, b"hello")).unwrap();
            }
            let reset = loop {
                let frame = client.read().expect("an open connection");
                if frame.kind == raw::RST_STREAM {
                    break frame;
                }
            };
            assert_eq!((reset.stream, &reset.payload[..]), (stream, &[0; 4][..]));
            client.send(&raw::frame(raw::DATA, raw::END_STREAM, stream, b"hello")).unwrap();
        }
    });
}

/// Bytes whose memory is seen to be released.
struct Watched(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// Such a client may do so for as long as it likes, because other requests go on.
#[test]
fn a_client_that_leaves_the_end_of_a_body_does_not_keep_the_body() {
    const STREAMS: u32 = 30;
    const BODY: usize = 200_000;
    let released = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&released);
    let body = move || Body::from(Bytes::from_owner(Watched(vec![1; BODY], Arc::clone(&own))));
    let router = Router::new().route("/", get(|| "hello")).route("/body", get(body));
    with_server(router, Limits::default(), |address, _| {
        let window = u32::try_from(BODY).unwrap() - 10;
        let mut client = RawClient::connect_with(address, &[(INITIAL_WINDOW_SIZE, window)]);
        client.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.send(&raw::frame(raw::WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes())).unwrap();
        (0..STREAMS).for_each(|stream| client.get(2 * stream + 1, "/body"));
        let mut left = STREAMS as usize * (BODY - 10);
        while left > 0 {
            let frame = client.read().unwrap();
            left -= if frame.kind == raw::DATA { frame.payload.len() } else { 0 };
        }
        let begin = Instant::now();
        while released.load(Ordering::SeqCst) < STREAMS as usize {
            assert!(begin.elapsed() < Duration::from_secs(20), "{released:?} of {STREAMS}");
            fiber::yield_now();
        }
        // Other requests are answered meanwhile.
        client.get(2 * STREAMS + 3, "/");
        while client.read().unwrap().stream != 2 * STREAMS + 3 {}
    });
}

#[test]
fn a_request_whose_time_is_up_is_logged_as_it_is_answered() {
    let written = Written::default();
    let log = AccessLog::json(written.clone());
    let late = || {
        fiber::sleep(Duration::from_secs(60));
        "late"
    };
    let router = Router::new().route("/", get(late)).layer(log.layer());
    let limits = Limits { request_timeout: Duration::from_millis(50), ..Limits::default() };
    with_client(router, limits, |client| {
        assert_eq!(send(client, request("GET", "/", full(""))).status(), 503);
    });
    let text = written.lines().join("\n");
    assert!(text.contains(r#""status":503,"bytes":0"#), "{text}");
}

/// The time of the second request is up while the handler of the first one, whose client has reset
/// it before, still runs: the reset counts.
#[test]
fn a_request_whose_client_has_reset_it_is_logged_as_unanswered_also_when_its_time_is_up() {
    let written = Written::default();
    let log = AccessLog::json(written.clone());
    let (late, waiting) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let (is_late, begins) = (Arc::clone(&late), Arc::clone(&waiting));
    let reset = move || {
        begins.set();
        assert!(Event::new().wait().is_err(), "nothing sets it");
        cancel::shield(|| is_late.wait().unwrap());
        "reset"
    };
    let router = Router::new()
        .route("/reset", get(reset))
        .route("/late", get(|| format!("{:?}", Event::new().wait())))
        .layer(log.layer());
    let limits = Limits { request_timeout: Duration::from_secs(1), ..Limits::default() };
    with_server(router, limits, |address, _| {
        let mut client = RawClient::connect(address);
        client.get(1, "/reset");
        waiting.wait().unwrap();
        client.send(&raw::frame(raw::RST_STREAM, 0, 1, &8u32.to_be_bytes())).unwrap();
        client.get(3, "/late");
        while client.read().unwrap().stream != 3 {}
        late.set();
    });
    let text = written.lines().join("\n");
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains(r#""status":503,"bytes":0"#), "{text}");
    assert!(lines[1].contains(r#""status":499,"bytes":0"#), "{text}");
}

/// As over HTTP/1.1, and as the documentation of `remaining_timeout` says.
#[test]
fn the_request_timeout_is_no_limit_that_handlers_pass_on() {
    let left = || format!("{:?}", remaining_timeout());
    let router = Router::new().route("/", get(left));
    with_client(router, Limits::default(), |client| {
        let response = send(client, request("GET", "/", full("")));
        let body = block_on(response.into_body().collect()).unwrap().to_bytes();
        assert_eq!(body, "None");
    });
}

/// A route whose handler waits, with a time of its own.
fn waits(wait: Duration, limit: Duration) -> Router {
    let handler = move || {
        fiber::sleep(wait);
        "done"
    };
    Router::new().route("/", get(handler)).layer(request_timeout(limit))
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_route_may_have_a_longer_time() {
    let written = Written::default();
    let log = AccessLog::json(written.clone());
    let router = Router::new()
        .nest("/longer", waits(Duration::from_millis(300), LONG))
        .nest("/late", waits(LONG, Duration::from_millis(150)))
        .route("/usual", get(|| fiber::sleep(LONG)))
        .layer(log.layer());
    let limits = Limits { request_timeout: Duration::from_millis(50), ..Limits::default() };
    with_client(router, limits, |client| {
        let begin = Instant::now();
        for _ in 0..2 {
            assert_eq!(ask(client, "/longer"), (StatusCode::OK, "done".into()));
            assert_eq!(ask(client, "/usual").0, StatusCode::SERVICE_UNAVAILABLE);
            let begin = Instant::now();
            assert_eq!(ask(client, "/late").0, StatusCode::SERVICE_UNAVAILABLE);
            assert!(begin.elapsed() >= Duration::from_millis(150));
        }
        // The server's limit also counts while the connection waits for a longer one.
        assert!(begin.elapsed() < LONG / 2);
    });
    let text = written.lines().join("\n");
    let statuses = |line: &str| line.split_once("status\":").unwrap().1[..3].to_owned();
    let statuses: Vec<_> = text.lines().map(statuses).collect();
    assert_eq!(statuses, ["200", "503", "503", "200", "503", "503"]);
}

/// While the connection waits for the time of another request, which is longer than the test.
#[test]
fn a_route_may_have_a_shorter_time() {
    let (handler, begun, go_on) = handler_that_waits();
    let shorter = waits(LONG, Duration::from_millis(20));
    let router = Router::new().route("/", get(handler)).nest("/shorter", shorter);
    with_client(router, Limits::default(), |client| {
        let usual = fiber::spawn_local({
            let mut client = client.clone();
            move || ask(&mut client, "/")
        });
        begun.wait().unwrap();
        let begin = Instant::now();
        assert_eq!(ask(client, "/shorter").0, StatusCode::SERVICE_UNAVAILABLE);
        assert!(begin.elapsed() < LONG / 2);
        go_on.set();
        assert_eq!(usual.join().unwrap(), (StatusCode::OK, "done".into()));
    });
}
