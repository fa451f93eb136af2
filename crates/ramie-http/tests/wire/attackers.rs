//! Many attackers at once, and the good clients beside them.
//!
//! The ignored tests are the full ones: 1,000 attackers of each kind, and the 99th percentile of
//! the latency of 50 good clients, which stays below three times its value without attackers.
//! `cargo test --release -p ramie-http --test wire attackers -- --ignored --nocapture
//! --test-threads 1`

use std::{
    fs,
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ramie_http::{IntoResponse, Limits, Request, Router};

use super::{client::Client, rig::Rig};

const GOOD: usize = 50;
/// How often each good client asks.
const ASKED: usize = 100;
/// How long an attacker pauses between two bytes.
const PAUSE: Duration = Duration::from_millis(400);
/// The larger of the bodies, which fits into no buffer of the kernel.
const LARGE: usize = 16 << 20;

/// An attack: one connection that does harm until the server ends it.
type Attack = fn(&Rig, &AtomicBool);

/// Sends a head, a byte now and then, and never its end.
fn slow_head(rig: &Rig, is_over: &AtomicBool) {
    trickle(rig, "GET / HTTP/1.1\r\nHost: a\r\nX: ", is_over);
}

/// Announces a body, and sends a byte of it now and then.
fn slow_body(rig: &Rig, is_over: &AtomicBool) {
    trickle(rig, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n", is_over);
}

fn trickle(rig: &Rig, begin: &str, is_over: &AtomicBool) {
    let mut client = rig.connect();
    client.send(begin);
    // Otherwise all attackers would send at the same time.
    let port = client.stream.local_addr().unwrap().port();
    let pause = PAUSE + Duration::from_millis(u64::from(port % 200));
    client.stream.set_read_timeout(Some(pause)).unwrap();
    // The pause of an attacker is its read timeout, which ends early when the server ends it.
    while !is_over.load(Ordering::Relaxed) {
        client.send("x");
        match client.stream.read(&mut [0; 1000]) {
            Ok(0) => return,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Asks for much, and reads nothing.
fn slow_read(rig: &Rig, is_over: &AtomicBool) {
    let mut client = rig.connect();
    // With a small window, the server's kernel takes less of the response, too.
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 4096).unwrap();
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    // The server resets the connection. Until then, there is no error to be seen.
    while !is_over.load(Ordering::Relaxed) && client.stream.take_error().unwrap().is_none() {
        thread::park_timeout(PAUSE);
    }
}

fn router() -> Router {
    let large: &'static [u8] = vec![b'x'; LARGE].leak();
    Router::new().fallback(move |mut request: Request| match request.path() {
        "/large" => large.into_response(),
        _ => {
            let read = std::io::copy(request.body_mut(), &mut std::io::sink());
            format!("{read:?}").into_response()
        }
    })
}

/// Limits that end an attacker after this time.
fn limits(time: Duration) -> Limits {
    Limits { head_timeout: time, body_grace: time, write_timeout: time, ..Limits::default() }
}

fn good_request(client: &mut Client) -> Duration {
    let begin = Instant::now();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.answer().text(), "Ok(5)");
    begin.elapsed()
}

/// The 99th percentile of the latency of good clients, each with a connection of its own.
fn percentile_of_good_clients(rig: &Rig) -> Duration {
    let mut clients: Vec<_> = (0..GOOD).map(|_| rig.connect()).collect();
    percentile_of(&mut clients)
}

fn percentile_of(clients: &mut [Client]) -> Duration {
    let mut latencies: Vec<_> = thread::scope(|scope| {
        let ask =
            |client: &mut Client| (0..ASKED).map(|_| good_request(client)).collect::<Vec<_>>();
        let ask_beside = |client| scope.spawn(move || ask(client));
        let asking: Vec<_> = clients.iter_mut().map(ask_beside).collect();
        asking.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

/// The median of three measurements, because the machine has other work to do.
fn median_of(mut measure: impl FnMut() -> Duration) -> Duration {
    let mut measured = [(); 3].map(|()| measure());
    measured.sort_unstable();
    measured[1]
}

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

struct Observed {
    quiet: Duration,
    attacked: Duration,
    /// How much more memory the process has with its attackers, whose own threads count, too.
    grown: usize,
}

/// Lets `count` attackers loose; each begins again when the server has ended it.
fn observe(name: &str, attack: Attack, count: usize) -> Observed {
    let rig = Rig::start(router(), limits(Duration::from_secs(4)));
    let quiet = median_of(|| percentile_of_good_clients(&rig));
    let before = resident();
    let is_over = Arc::new(AtomicBool::new(false));
    let (attacked, grown) = thread::scope(|scope| {
        let attack_again = || {
            while !is_over.load(Ordering::Relaxed) {
                attack(&rig, &is_over);
            }
        };
        for _ in 0..count {
            let small = thread::Builder::new().stack_size(64 << 10);
            small.spawn_scoped(scope, attack_again).unwrap();
        }
        while rig.handle.connections() < count * 9 / 10 {
            thread::yield_now();
        }
        // That all begin at once is a load of its own, which every client causes.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(1) {
            percentile_of_good_clients(&rig);
        }
        let attacked = median_of(|| percentile_of_good_clients(&rig));
        let grown = resident().saturating_sub(before);
        is_over.store(true, Ordering::Relaxed);
        (attacked, grown)
    });
    println!("{name} by {count}: p99 {quiet:?} quiet, {attacked:?} attacked, {grown} bytes more");
    Observed { quiet, attacked, grown }
}

/// Lets `count` clients connect again and again to a server that has as many connections as it may
/// have. Returns how many were refused.
fn overload(count: usize) -> (Observed, usize) {
    let limits = Limits { connections: GOOD, ..Limits::default() };
    let rig = Rig::start(router(), limits);
    let mut good: Vec<_> = (0..GOOD).map(|_| rig.connect()).collect();
    let quiet = median_of(|| percentile_of(&mut good));
    let before = resident();
    let (is_over, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (attacked, grown) = thread::scope(|scope| {
        let connect_again = || {
            while !is_over.load(Ordering::Relaxed) {
                let mut answer = Vec::new();
                let _ = rig.connect().stream.read_to_end(&mut answer);
                if answer.starts_with(b"HTTP/1.1 503 ") {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        for _ in 0..count {
            let small = thread::Builder::new().stack_size(64 << 10);
            small.spawn_scoped(scope, connect_again).unwrap();
        }
        while refused.load(Ordering::Relaxed) < count {
            thread::yield_now();
        }
        let attacked = median_of(|| percentile_of(&mut good));
        let grown = resident().saturating_sub(before);
        is_over.store(true, Ordering::Relaxed);
        (attacked, grown)
    });
    let refused = refused.into_inner();
    println!(
        "{count} clients too many: p99 {quiet:?} quiet, {attacked:?} overloaded, {grown} bytes \
         more, {refused} refused"
    );
    (Observed { quiet, attacked, grown }, refused)
}

/// Lets each of `count` attackers work until the server ends it, and expects that it does.
fn end_all(attack: Attack, count: usize) {
    let rig = Rig::start(router(), limits(Duration::from_millis(700)));
    let never = AtomicBool::new(false);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| attack(&rig, &never));
        }
    });
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    good_request(&mut rig.connect());
}

#[test]
fn limits_end_each_attacker() {
    end_all(slow_head, 70);
    end_all(slow_body, 70);
    end_all(slow_read, 60);
}

#[test]
fn good_clients_are_served_beside_attackers() {
    // The memory is that of the whole process, so it is judged only where no other test runs.
    for (name, attack) in [("slow heads", slow_head as Attack), ("slow bodies", slow_body)] {
        observe(name, attack, 100);
    }
}

#[test]
fn good_clients_are_served_beside_refused_ones() {
    assert!(overload(50).1 >= 50);
}

/// Each attacker may have a stack, a buffer and what it has sent, and no more.
fn full(name: &str, attack: Attack) {
    judge(&observe(name, attack, 1000));
}

fn judge(observed: &Observed) {
    assert!(observed.grown < 200 << 20, "{} bytes more", observed.grown);
    assert!(
        observed.attacked < observed.quiet * 3,
        "{:?} instead of {:?}",
        observed.attacked,
        observed.quiet
    );
}

#[test]
#[ignore = "measures latencies, with 1,000 attackers"]
fn a_thousand_slow_heads() {
    full("slow heads", slow_head);
}

#[test]
#[ignore = "measures latencies, with 1,000 attackers"]
fn a_thousand_slow_bodies() {
    full("slow bodies", slow_body);
}

#[test]
#[ignore = "measures latencies, with 1,000 attackers"]
fn a_thousand_slow_readers() {
    full("slow readers", slow_read);
}

#[test]
#[ignore = "measures latencies, with 1,000 clients that are refused"]
fn a_thousand_clients_too_many() {
    judge(&overload(1000).0);
}
