//! A graceful stop, in each state of a connection.

use std::{
    io::{Read, Write},
    sync::{Arc, mpsc},
    time::Duration,
};

use ramie::{
    Runtime,
    cancel::{self, Cancelled},
    sync::Event,
};
use ramie_http::{Body, IntoResponse, Limits, Request, Router};

use super::{
    client::{Lost, statuses},
    rig::{Rig, seeing},
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn an_idle_connection_is_closed() {
    let (rig, _) = seeing(Limits::default());
    let mut client = rig.connect();
    client.send(GET);
    assert_eq!(client.answer().status, 200);
    rig.handle.stop();
    client.expect_close();
    rig.join();
}

/// The first request of a new connection may be on its way when the server stops.
#[test]
fn a_new_connection_is_served_once() {
    let (rig, seen) = seeing(Limits::default());
    let mut client = rig.connect();
    while rig.handle.connections() == 0 {
        std::thread::yield_now();
    }
    rig.handle.stop();
    client.send(GET.repeat(2));
    let answers = client.answers_until_close();
    assert_eq!((statuses(&answers), answers[0].closes()), (vec![200], true));
    rig.join();
    assert_eq!(seen.take().len(), 1);
}

#[test]
fn a_head_that_has_begun_is_answered() {
    let (rig, _) = seeing(Limits::default());
    let mut client = rig.connect();
    client.send(GET);
    client.answer();
    // The server has the beginning of the second request, because it answers the first one behind
    // it.
    client.send(GET.to_owned() + "GET / HTTP/1.1\r\n");
    client.answer();
    rig.handle.stop();
    client.send("Host: a\r\n\r\n");
    let answers = client.answers_until_close();
    assert_eq!((statuses(&answers), answers[0].closes()), (vec![200], true));
    rig.join();
}

#[test]
fn a_body_that_has_begun_is_read() {
    let (rig, _) = seeing(Limits::default());
    let mut client = rig.connect();
    let expect = "Content-Length: 5\r\nExpect: 100-continue";
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{expect}\r\n\r\n"));
    assert_eq!(client.answer().status, 100);
    rig.handle.stop();
    client.send("hello");
    let answers = client.answers_until_close();
    assert_eq!(answers[0].text(), "POST / hello");
    rig.join();
}

#[test]
fn a_handler_that_runs_may_finish() {
    let go_on = Arc::new(Event::new());
    let (sender, begun) = mpsc::channel();
    let wait = Arc::clone(&go_on);
    let handler = move || {
        sender.send(()).unwrap();
        wait.wait().unwrap();
        "finished"
    };
    let rig = Rig::start(Router::new().fallback(handler), Limits::default());
    let mut client = rig.connect();
    client.send(GET.repeat(2));
    begun.recv().unwrap();
    rig.handle.stop();
    go_on.set();
    let answers = client.answers_until_close();
    assert_eq!((answers[0].text(), statuses(&answers)), ("finished", vec![200]));
    rig.join();
}

/// The head of the response was sent before the stop, so it could not announce the close.
#[test]
fn a_response_that_has_begun_is_sent_to_its_end() {
    let go_on = Arc::new(Event::new());
    let (sender, begun) = mpsc::channel();
    let wait = Arc::clone(&go_on);
    let handler = move |_: Request| {
        let (wait, sender) = (Arc::clone(&wait), sender.clone());
        Body::from_writer(move |out| {
            out.write_all(b"one ")?;
            out.flush()?;
            sender.send(()).unwrap();
            wait.wait().unwrap();
            out.write_all(b"two")
        })
        .into_response()
    };
    let rig = Rig::start(Router::new().fallback(handler), Limits::default());
    let mut client = rig.connect();
    client.send(GET);
    begun.recv().unwrap();
    rig.handle.stop();
    go_on.set();
    let answers = client.answers_until_close();
    assert_eq!((answers.len(), answers[0].text()), (1, "one two"));
    rig.join();
}

/// The server waits for the rest of a body that nobody reads as long as it always does; the grace
/// ends that, too.
#[test]
fn the_rest_of_a_body_does_not_outlast_the_grace() {
    let grace = |server: ramie_http::Server| server.grace(Duration::from_millis(50));
    let rig = Rig::start_with(Router::new().fallback(|| "unread"), Limits::default(), grace);
    let mut client = rig.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    assert_eq!(client.answer().text(), "unread");
    rig.handle.stop();
    let lost = client.try_answer(false);
    assert!(matches!(lost, Err(Lost::Closed | Lost::Reset)), "{lost:?}");
    rig.join();
}

/// Requests that take longer than the grace are cancelled, and their connections closed.
#[test]
fn what_takes_longer_than_the_grace_is_cut() {
    let (sender, begun) = mpsc::channel();
    let handler = move || {
        sender.send(()).unwrap();
        ramie::fiber::sleep(Duration::from_secs(3600));
        "late"
    };
    let grace = |server: ramie_http::Server| server.grace(Duration::from_millis(50));
    let rig = Rig::start_with(Router::new().fallback(handler), Limits::default(), grace);
    let mut client = rig.connect();
    client.send(GET);
    begun.recv().unwrap();
    rig.handle.stop();
    let lost = client.try_answer(false);
    assert!(matches!(lost, Err(Lost::Closed | Lost::Cut | Lost::Reset)), "{lost:?}");
    rig.join();
}

/// A body that the server has cut is not the client's fault. The read either waits while the server
/// cuts the connection, or comes later.
#[test]
fn a_body_that_the_grace_cuts_is_cancelled() {
    for comes_later in [false, true] {
        let (sender, errors) = mpsc::channel();
        let is_cut = Arc::new(Event::new());
        let go_on = Arc::clone(&is_cut);
        let handler = move |mut body: Body| {
            let mut buffer = [0];
            body.read_exact(&mut buffer).unwrap();
            sender.send(None).unwrap();
            if comes_later {
                cancel::shield(|| go_on.wait()).unwrap();
            }
            let error = body.read(&mut buffer).unwrap_err();
            let cancelled = Cancelled::of(&error).map(|cancelled| cancelled.reason().to_owned());
            sender.send(Some(cancelled.unwrap_or(error.to_string()))).unwrap();
        };
        let grace = |server: ramie_http::Server| server.grace(Duration::from_millis(50));
        let router = Router::new().fallback(handler);
        let rig = Rig::start_on(Runtime::builder().workers(2), router, Limits::default(), grace);
        let mut client = rig.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx");
        assert_eq!(errors.recv().unwrap(), None);
        rig.handle.stop();
        let lost = client.try_answer(false);
        assert!(matches!(lost, Err(Lost::Closed | Lost::Cut | Lost::Reset)), "{lost:?}");
        is_cut.set();
        assert_eq!(errors.recv().unwrap().as_deref(), Some("the server stops"));
        rig.join();
    }
}
