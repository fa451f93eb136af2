//! More connections than the server serves.

use std::{thread, time::Duration};

use ramie_http::{Limits, Router};

use super::{
    client::{Client, statuses},
    rig::Rig,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn served(client: &mut Client) {
    client.send(GET);
    assert_eq!(client.answer().status, 200);
}

/// Expects that each of many clients receives the whole refusal, though it has sent a request
/// that the server does not read.
fn are_refused(rig: &Rig) {
    for length in [0, 1, 60_000] {
        for _ in 0..20 {
            let mut client = rig.connect();
            client.send(format!(
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{}",
                "x".repeat(length)
            ));
            // On a long way, a reset overtakes the refusal.
            let answers = client.answers_until_close();
            assert_eq!(statuses(&answers), [503]);
            assert_eq!(answers[0].field("retry-after"), Some("1"));
            assert!(answers[0].closes());
            let error = client.stream.take_error().unwrap();
            assert!(error.is_none(), "{length} bytes: {error:?}");
        }
    }
}

#[test]
fn more_connections_than_allowed_get_503() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let rig = Rig::start(Router::new().fallback(|| "served"), limits);
    let (mut first, mut second) = (rig.connect(), rig.connect());
    served(&mut first);
    served(&mut second);
    are_refused(&rig);
    served(&mut first);
    drop(second);
    wait_for(|| rig.handle.connections() == 1);
    served(&mut rig.connect());
}

#[test]
fn more_connections_of_an_address_than_allowed_get_503() {
    let limits = Limits { connections_per_address: 1, ..Limits::default() };
    let rig = Rig::start(Router::new().fallback(|| "served"), limits);
    let mut first = rig.connect();
    served(&mut first);
    are_refused(&rig);
    served(&mut first);
}

/// Refused clients that do not close their connections take no place of others, and the server
/// keeps few of them.
#[test]
fn refused_clients_that_stay_are_left() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let rig = Rig::start(Router::new().fallback(|| "served"), limits);
    let mut first = rig.connect();
    served(&mut first);
    let mut staying: Vec<_> = (0..300).map(|_| rig.connect()).collect();
    for client in &mut staying {
        client.send("GET / HTTP/1.1\r\n");
    }
    let refused = staying.iter_mut().map(is_refused).filter(|is_refused| *is_refused).count();
    // Those beyond the number that the server keeps may lose their response.
    assert!(refused >= 100, "{refused} of 300 were refused with a response");
    served(&mut first);
}

fn is_refused(client: &mut Client) -> bool {
    client.try_answer(false).is_ok_and(|answer| answer.status == 503)
}

/// Waits for an event that has no signal.
fn wait_for(is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        thread::yield_now();
        thread::park_timeout(Duration::from_millis(1));
    }
    panic!("it does not become true");
}
