//! The limits of time, on a clock that the tests move.

use std::{io::Read, sync::mpsc, time::Duration};

use ramie::{Runtime, time::ManualClock};
use ramie_http::{IntoResponse, Limits, Request, Router, get, middleware::request_timeout};

use super::{
    client::{Client, statuses},
    rig::{Rig, Seen},
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SECOND: Duration = Duration::from_secs(1);
/// The server looks at its connections this often, with the limits below.
const TICK: Duration = Duration::from_millis(250);

fn limits() -> Limits {
    Limits {
        idle_timeout: 5 * SECOND,
        head_timeout: 2 * SECOND,
        body_grace: 10 * SECOND,
        body_bytes_per_second: 10,
        request_timeout: 20 * SECOND,
        ..Limits::default()
    }
}

fn start(router: Router) -> (Rig, ManualClock) {
    start_with(router, limits())
}

fn start_with(router: Router, limits: Limits) -> (Rig, ManualClock) {
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).clock(clock.clone());
    (Rig::start_on(runtime, router, limits, |server| server), clock)
}

/// A connection that waits for its second request: the answer to the first shows that.
fn idle(rig: &Rig) -> Client {
    let mut client = rig.connect();
    client.send(GET);
    client.answer();
    client
}

/// Whether the server has closed the connection, or sent something.
fn has_news(client: &Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let has_news = client.stream.peek(&mut [0]).is_ok();
    client.stream.set_nonblocking(false).unwrap();
    has_news
}

/// Advances the clock until the server has news for this client; the number of steps. From the
/// `expected` step on, a server that a busy machine delays gets more time for each.
fn steps_until_news(client: &Client, clock: &ManualClock, step: Duration, expected: u32) -> u32 {
    for steps in 0..1000 {
        // The server needs some turns between two steps to arm its next timer.
        for _ in 0..if steps < expected { 5 } else { 100 } {
            if has_news(client) {
                return steps;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        clock.advance(step);
    }
    panic!("the server lets this client wait for ever");
}

#[test]
fn an_idle_connection_is_closed_without_a_response() {
    let (rig, clock) = start(Seen::default().router());
    let mut client = idle(&rig);
    let steps = steps_until_news(&client, &clock, TICK, 20);
    assert!((20..=23).contains(&steps), "{steps}");
    client.expect_close();
}

#[test]
fn a_head_that_is_late_is_408_however_it_trickles() {
    let (rig, clock) = start(Seen::default().router());
    let mut client = idle(&rig);
    client.send("GET / HTTP/1.1\r\nX: ");
    let mut steps = 0;
    while !has_news(&client) {
        client.send("y");
        std::thread::park_timeout(Duration::from_millis(20));
        clock.advance(TICK);
        steps += 1;
        assert!(steps < 20, "a head that trickles may take for ever");
    }
    let answers = client.answers_until_close();
    assert_eq!(statuses(&answers), [408]);
    assert!(answers[0].closes() && steps >= 8, "{steps}");
}

#[test]
fn a_body_that_is_late_is_408() {
    let (rig, clock) = start(Seen::default().router());
    let mut client = rig.connect();
    let expect = "Content-Length: 5\r\nExpect: 100-continue";
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{expect}\r\n\r\nhe"));
    let steps = steps_until_news(&client, &clock, SECOND, 9);
    assert!((9..=13).contains(&steps), "{steps}");
    let answers = client.answers_until_close();
    assert_eq!(statuses(&answers), [408]);
    assert!(answers[0].closes());
}

/// Each byte of a body earns a tenth of a second here; a client that sends one each second is slow.
#[test]
fn a_body_that_trickles_is_408() {
    let (rig, clock) = start(Seen::default().router());
    let mut client = rig.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    let mut steps = 0;
    while !has_news(&client) {
        client.send("x");
        std::thread::park_timeout(Duration::from_millis(20));
        clock.advance(SECOND);
        steps += 1;
        assert!(steps < 30, "a body that trickles may take for ever");
    }
    let answers = client.answers_until_close();
    assert_eq!((statuses(&answers), steps >= 9), (vec![408], true), "{steps}");
}

/// The limit on a handler is 503 and close, because the state of its request is not known.
#[test]
fn a_handler_that_is_late_is_503() {
    let (sender, begun) = mpsc::channel();
    let handler = move |request: Request| {
        if request.path() == "/late" {
            sender.send(()).unwrap();
            ramie::fiber::sleep(Duration::from_secs(1000));
        }
        "done"
    };
    let (rig, clock) = start(Router::new().fallback(handler));
    let mut client = idle(&rig);
    client.send(GET.replacen('/', "/late", 1) + GET);
    begun.recv().unwrap();
    let steps = steps_until_news(&client, &clock, TICK, 80);
    assert!((80..=83).contains(&steps), "{steps}");
    let answers = client.answers_until_close();
    assert_eq!(statuses(&answers), [503]);
    assert!(answers[0].closes());
}

/// A time of its own counts for one request; the next one on the connection has the server's again.
#[test]
fn a_route_may_have_a_longer_or_a_shorter_time() {
    let (sender, begun) = mpsc::channel();
    let wait = move |seconds: u32| {
        let sender = sender.clone();
        get(move || {
            sender.send(()).unwrap();
            ramie::fiber::sleep(seconds * SECOND);
            "done"
        })
    };
    let longer = Router::new().route("/", wait(30)).layer(request_timeout(100 * SECOND));
    let late = Router::new().route("/", wait(1000)).layer(request_timeout(30 * SECOND));
    let shorter = Router::new().route("/", wait(1000)).layer(request_timeout(5 * SECOND));
    let router = Router::new()
        .route("/usual", wait(1000))
        .nest("/longer", longer)
        .nest("/late", late)
        .nest("/shorter", shorter);
    let (rig, clock) = start(router);
    for paths in [
        &[("/longer", 120, 200), ("/usual", 80, 503)][..],
        &[("/late", 120, 503)],
        &[("/shorter", 20, 503)],
    ] {
        let mut client = rig.connect();
        for &(path, expected, status) in paths {
            client.send(GET.replacen('/', path, 1));
            begun.recv().unwrap();
            let steps = steps_until_news(&client, &clock, TICK, expected);
            assert!((expected..=expected + 3).contains(&steps), "{path}: {steps}");
            assert_eq!(client.answer().status, status, "{path}");
        }
        client.expect_close();
    }
}

/// The response to the first request is sent when the second one is about to be handled, which
/// does not give its handler more time.
#[test]
fn a_handler_is_late_behind_a_response_that_was_sent_before() {
    let (sender, begun) = mpsc::channel();
    let handler = move |request: Request| {
        if request.path() == "/late" {
            sender.send(()).unwrap();
            ramie::fiber::sleep(Duration::from_secs(1000));
        }
        "done"
    };
    let (rig, clock) = start(Router::new().fallback(handler));
    let mut client = idle(&rig);
    client.send(GET.to_owned() + "POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    begun.recv().unwrap();
    let steps = steps_until_news(&client, &clock, TICK, 80);
    assert!((80..=83).contains(&steps), "{steps}");
    assert_eq!(client.answer().status, 503);
    client.expect_close();
}

/// A client that has its response and sends the rest of its request slowly is left, also where
/// bodies may arrive at any speed.
#[test]
fn the_rest_of_a_body_has_its_time() {
    for body_bytes_per_second in [0, 10, 1_000_000] {
        let limits = Limits { body_bytes_per_second, ..limits() };
        let (rig, clock) = start_with(Router::new().fallback(|| "unread"), limits);
        let mut client = rig.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
        assert_eq!(client.answer().status, 200);
        let mut steps = 0;
        while !has_news(&client) {
            client.send("x");
            std::thread::park_timeout(Duration::from_millis(20));
            clock.advance(SECOND);
            steps += 1;
            assert!(steps < 30, "the rest of a body may take for ever");
        }
        assert!((9..=13).contains(&steps), "{steps}");
        client.expect_close();
    }
}

/// A client that goes on sending after it was refused does not hold the connection.
#[test]
fn a_refused_client_that_sends_on_is_left() {
    let (rig, clock) = start(Seen::default().router());
    let mut client = rig.connect();
    client.send("nonsense\r\n\r\n");
    assert_eq!(client.answer().status, 400);
    let mut steps = 0;
    while rig.handle.connections() > 0 {
        client.send("x");
        std::thread::park_timeout(Duration::from_millis(5));
        clock.advance(SECOND / 2);
        steps += 1;
        assert!(steps < 40, "the connection stays for ever");
    }
}

/// The limit on a write is one on a pause, not on the time that a large response takes.
#[test]
fn a_client_that_reads_steadily_gets_a_large_response() {
    const BODY: usize = 64 << 20;
    let clock = ManualClock::new();
    let runtime = Runtime::builder().workers(1).clock(clock.clone());
    let router = Router::new().fallback(|| vec![b'x'; BODY]);
    let limits = Limits { write_timeout: 4 * SECOND, ..limits() };
    let rig = Rig::start_on(runtime, router, limits, |server| server);
    let mut client = rig.connect();
    client.send(GET);
    let mut piece = vec![0; 1 << 20];
    for megabyte in 0..BODY >> 20 {
        let read = client.stream.read_exact(&mut piece);
        assert!(read.is_ok(), "{read:?} behind {megabyte} MiB");
        clock.advance(TICK);
        // The server looks at its connections once, however far the clock has gone meanwhile.
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// While the handler works, no limit of the wire ends its request.
#[test]
fn limits_of_the_wire_do_not_end_a_handler() {
    let clock = ManualClock::new();
    let advance = clock.clone();
    let handler = move |mut request: Request| {
        let mut text = String::new();
        let read = request.body_mut().read_to_string(&mut text);
        advance.advance(15 * SECOND);
        (format!("{read:?}")).into_response()
    };
    let runtime = Runtime::builder().workers(1).clock(clock);
    let router = Router::new().fallback(handler);
    let rig = Rig::start_on(runtime, router, limits(), |server| server);
    let mut client = rig.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(client.answer().text(), "Ok(2)");
    client.send(GET);
    assert_eq!(client.answer().text(), "Ok(0)");
}
