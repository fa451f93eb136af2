//! Server-sent events over sockets.

use std::{io, time::Duration};

use ramie::{
    channel, fiber,
    sync::{Event, mpsc},
};
use ramie_http::{
    Limits, Request, Router, StatusCode, get,
    sse::{LastEventId, Sse, SseEvent},
};

use super::sockets::{Client, serve};

fn routes_to(handler: impl Fn() -> Sse + Send + Sync + 'static) -> Router {
    Router::new().route("/", get(handler))
}

#[test]
fn events_are_sent_while_they_are_made() {
    let (go, going) = channel::unbounded::<&str>();
    let going = ramie::sync::Mutex::new(Some(going));
    let router = routes_to(move || {
        let going = going.lock().unwrap().take().expect("one request");
        Sse::from_events(going)
    });
    // Shorter than a stream lasts, which it does not limit.
    let limits = Limits { request_timeout: Duration::from_millis(300), ..Limits::default() };
    serve(limits, router, |address| {
        let mut client = Client::get(address, "/");
        // The head arrives before there is an event.
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        for field in ["content-type: text/event-stream", "cache-control: no-cache"] {
            assert!(head.contains(&format!("\r\n{field}\r\n")), "{head}");
        }
        fiber::sleep(Duration::from_millis(700));
        for data in ["one", "two\nlines"] {
            go.send(data).expect("the handler receives");
            let expected = format!("data: {}\n\n", data.replace('\n', "\ndata: "));
            assert_eq!(client.chunk(), expected);
        }
        drop(go);
        assert_eq!(client.chunk(), "");
    });
}

#[test]
fn a_closure_is_cancelled_when_its_client_goes_away() {
    let (ended, end) = mpsc::channel();
    let router = routes_to(move || {
        let ended = ended.clone();
        Sse::new(move |events| {
            events.send("first")?;
            assert!(Event::new().wait().is_err(), "nothing sets it");
            let sent = events.send("second");
            ended.send(sent.is_err()).expect("the test waits");
            sent
        })
    });
    serve(Limits::default(), router, |address| {
        let mut client = Client::get(address, "/");
        client.head();
        assert_eq!(client.chunk(), "data: first\n\n");
        drop(client);
        assert!(end.recv().expect("the closure ends"));
    });
}

#[test]
fn a_channel_serves_many_and_notices_who_is_gone() {
    let (senders, subscribed) = mpsc::channel();
    let router = routes_to(move || {
        let (sender, events) = Sse::channel();
        senders.send(sender).expect("the test waits");
        events
    });
    serve(Limits::default(), router, |address| {
        let mut clients = [0, 1].map(|_| Client::get(address, "/"));
        let senders = [0, 1].map(|_| subscribed.recv().expect("a sender"));
        senders.iter().for_each(|sender| sender.send("to all").expect("a client"));
        for client in &mut clients {
            client.head();
            assert_eq!(client.chunk(), "data: to all\n\n");
        }
        drop(clients);
        for sender in senders {
            let error = loop {
                match sender.send("nobody reads this") {
                    Ok(()) => fiber::sleep(Duration::from_millis(1)),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    });
}

#[test]
fn comments_keep_a_silent_stream_open() {
    let (senders, subscribed) = mpsc::channel();
    let router = routes_to(move || {
        let (sender, events) = Sse::channel();
        senders.send(sender).expect("the test waits");
        events.keep_alive(Duration::from_millis(1))
    });
    serve(Limits::default(), router, |address| {
        let mut client = Client::get(address, "/");
        client.head();
        for _ in 0..3 {
            assert_eq!(client.chunk(), ":\n\n");
        }
        drop(subscribed.recv().expect("a sender"));
        while !client.chunk().is_empty() {}
    });
}

#[test]
fn an_error_or_a_panic_of_a_closure_closes_the_connection() {
    let fails = || Sse::new(|_| Err(io::Error::other("no more events")));
    let panics = || Sse::new(|_| panic!("of a test"));
    let invalid = || Sse::new(|events| events.send(SseEvent::new("data").with_id("a\nb")));
    let router = Router::new()
        .route("/fails", get(fails))
        .route("/panics", get(panics))
        .route("/invalid", get(invalid));
    serve(Limits::default(), router, |address| {
        for target in ["/fails", "/panics", "/invalid"] {
            let mut client = Client::get(address, target);
            assert!(client.head().starts_with("HTTP/1.1 200 "), "{target}");
            // Not the last chunk, so the client notices.
            assert_eq!(client.rest(), 0, "{target}");
        }
    });
}

#[test]
fn the_last_id_of_a_client_is_an_argument() {
    let show = |last: LastEventId| last.0;
    let router = Router::new().route("/", get(show));
    let text = |value: &str| {
        let response = router.call(Request::get("/").with_header("last-event-id", value));
        (response.status(), response.into_body().into_bytes(100).expect("a body"))
    };
    assert_eq!(text("a 7"), (StatusCode::OK, "a 7".into()));
    assert_eq!(text("").0, StatusCode::BAD_REQUEST);
    assert_eq!(router.call(Request::get("/")).status(), StatusCode::BAD_REQUEST);
}
