//! Clients that flood a connection: the server ends them, its memory stays bounded, and others are
//! served meanwhile.

use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
};

use super::{
    raw::{self, END_HEADERS, END_STREAM, RawClient},
    *,
};

/// A flood that goes on for so many bytes is not limited.
const MOST: usize = 256 << 20;
/// The memory that the process, with all its tests, may need meanwhile.
const MOST_MEMORY: usize = 96 << 20;
const BATCH: usize = 64 << 10;

fn limits() -> Limits {
    // A client that takes no answers is left soon.
    Limits { write_timeout: Duration::from_millis(200), ..Limits::default() }
}

/// The bytes of memory that the process uses.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Sends what `make` makes until the server ends the connection. `make` gets a number for each
/// frame, from 0.
fn flood(router: Router, begin: &[u8], make: impl Fn(u32) -> Vec<u8>) {
    with_server(router, limits(), |address, server| {
        let (mut other, driven) = connect(address);
        assert_eq!(ask(&mut other, "/").1, "hello");
        let before = memory();
        let mut client = RawClient::connect(address);
        client.send(begin).unwrap();
        let mut numbers = 0..;
        let mut sent = 0;
        let ended = loop {
            let mut batch = Vec::new();
            while batch.len() < BATCH {
                batch.extend_from_slice(&make(numbers.next().unwrap()));
            }
            if let Err(error) = client.send(&batch) {
                break error;
            }
            sent += batch.len();
            assert!(sent < MOST, "the flood has no end");
            assert_eq!(ask(&mut other, "/").1, "hello");
        };
        assert!(
            matches!(ended.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
            "{ended}"
        );
        let grown = memory().saturating_sub(before);
        assert!(grown < MOST_MEMORY, "{sent} bytes have cost {grown} bytes");
        drop(client);
        assert_eq!(ask(&mut other, "/").1, "hello");
        drop(other);
        driven.join().unwrap().unwrap();
        while server.connections() > 0 {
            fiber::yield_now();
        }
    });
}

fn hello() -> Router {
    Router::new().route("/", get(|| "hello")).route("/", post(|| "posted"))
}

/// Counts the handlers that run at once, each until it is cancelled.
#[derive(Clone, Default)]
struct Handlers {
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Handlers {
    fn run(&self) {
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(running, Ordering::Relaxed);
        let _ = Event::new().wait();
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn rapid_resets_are_limited() {
    let handlers = Handlers::default();
    let own = handlers.clone();
    let router = hello().route("/wait", get(move || own.run()));
    let head = raw::get_fields("/wait");
    let make = |number: u32| {
        let stream = 2 * number + 1;
        let request = raw::frame(raw::HEADERS, END_HEADERS | END_STREAM, stream, &head);
        [request, raw::frame(raw::RST_STREAM, 0, stream, &8u32.to_be_bytes())].concat()
    };
    flood(router, b"", make);
    let most = handlers.most.load(Ordering::Relaxed);
    assert!(most <= 2 * limits().concurrent_streams as usize, "{most}");
    assert_eq!(handlers.running.load(Ordering::Relaxed), 0);
}

/// As above, but the handlers begin before the resets arrive, and end late.
#[test]
fn handlers_of_reset_streams_are_limited() {
    let limits = Limits { concurrent_streams: 10, ..limits() };
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begun, go_on) = (Arc::new(Event::new()), Arc::new(Event::new()));
    let handler = {
        let (running, most, begun, go_on) =
            (running.clone(), most.clone(), begun.clone(), go_on.clone());
        move || {
            most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            begun.set();
            ramie::cancel::shield(|| go_on.wait()).unwrap();
            running.fetch_sub(1, Ordering::Relaxed);
        }
    };
    with_server(hello().route("/wait", get(handler)), limits, |address, _| {
        let mut client = RawClient::connect(address);
        let mut refused = 0;
        for number in 0..60 {
            let stream = 2 * number + 1;
            begun.reset();
            client.get(stream, "/wait");
            if number < 20 {
                begun.wait().unwrap();
            } else {
                // Both are in use that the server has for reset streams: it refuses by itself.
                while client.read().expect("an open connection").stream != stream {}
                refused += 1;
            }
            client.send(&raw::frame(raw::RST_STREAM, 0, stream, &8u32.to_be_bytes())).unwrap();
        }
        assert_eq!((most.load(Ordering::Relaxed), refused), (20, 40));
        go_on.set();
    });
}

/// A head whose end never comes.
#[test]
fn endless_heads_are_refused() {
    let begin = raw::frame(raw::HEADERS, END_STREAM, 1, &raw::get_fields("/"));
    for fields in [vec![], raw::fields(&[("x", "y")]), raw::fields(&[("x", "y"); 1000])] {
        let make = |_| raw::frame(raw::CONTINUATION, 0, 1, &fields);
        flood(hello(), &begin, make);
    }
}

/// Few bytes that stand for many: each byte repeats a field of 4,000 bytes.
#[test]
fn small_heads_of_large_fields_are_refused() {
    let value = "y".repeat(4000);
    // A literal that is added to the table, with a name of one byte.
    let mut block = raw::get_fields("/");
    block.extend_from_slice(&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
    block.extend_from_slice(value.as_bytes());
    block.extend_from_slice(&[0xbe; 10_000]);
    let make = |number| raw::frame(raw::HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &block);
    flood(hello(), b"", make);
}

/// Frames that the server must answer, by a client that takes no answers.
#[test]
fn floods_of_settings_and_pings_are_limited() {
    let settings = [0, 4, 0, 0, 255, 255];
    for make in [
        raw::frame(raw::SETTINGS, 0, 0, &settings),
        raw::frame(raw::SETTINGS, 0, 0, &[]),
        raw::frame(raw::PING, 0, 0, &[7; 8]),
    ] {
        flood(hello(), b"", |_| make.clone());
    }
}

/// Requests that are answered, by a client that takes no answers.
#[test]
fn a_client_that_takes_no_responses_is_left() {
    let head = raw::get_fields("/");
    let make = |number| raw::frame(raw::HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &head);
    flood(hello(), b"", make);
}

/// Frames of a body that are no bytes.
#[test]
fn floods_of_empty_data_are_limited() {
    let method = raw::fields(&[(":method", "POST")]);
    let head = [method, raw::get_fields("/")[raw::fields(&[(":method", "GET")]).len()..].to_vec()];
    let begin = raw::frame(raw::HEADERS, END_HEADERS, 1, &head.concat());
    flood(hello(), &begin, |_| raw::frame(raw::DATA, 0, 1, &[]));
}
