//! The same bytes in any pieces have the same outcome.
//!
//! Server and clients are fibers of one worker, so that the server mostly sees each piece alone.
//! Proptest prints the smallest input that fails; with its seed in `PROPTEST_RNG_SEED` the same
//! inputs come again.

use std::io::{Read, Write};

use proptest::{
    prelude::*,
    test_runner::{Config, RngSeed, TestRunner},
};
use ramie::{
    fiber,
    net::{Shutdown, TcpStream},
};
use ramie_http::{Limits, Server, ServerHandle};

use super::rig::Seen;

/// Runs `f` with a function that sends pieces, and returns all that the server has sent.
fn with_server(f: impl FnOnce(&dyn Fn(&[&[u8]]) -> Outcome) + Send + 'static) {
    let run = move || {
        let seen = Seen::default();
        let limits = Limits { body_bytes: 1000, ..Limits::default() };
        let server = Server::bind("127.0.0.1:0").unwrap().limits(limits).tolerates_half_close();
        let (address, handle) = (server.local_addr().unwrap(), server.handle());
        let router = seen.router();
        let serving = fiber::spawn(move || server.serve(router));
        // A failure must end the server, too, because the runtime waits for it.
        let stop = Stop(handle);
        f(&|pieces| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            for piece in pieces {
                // The server may have refused what came before, and closed the connection.
                if stream.write_all(piece).is_err() {
                    break;
                }
                fiber::yield_now();
                fiber::yield_now();
            }
            let _ = stream.shutdown(Shutdown::Write);
            let mut answers = Vec::new();
            stream.read_to_end(&mut answers).unwrap();
            Outcome { answers: without_dates(&answers), seen: seen.take() }
        });
        drop(stop);
        serving.join().unwrap().unwrap();
    };
    ramie::Runtime::builder().workers(1).build().unwrap().run(run);
}

struct Stop(ServerHandle);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What the client and the handler have seen.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    answers: String,
    seen: Vec<String>,
}

fn without_dates(answers: &[u8]) -> String {
    let text = String::from_utf8_lossy(answers);
    let lines = text.split_inclusive("\r\n").filter(|line| !line.starts_with("date: "));
    lines.collect()
}

/// Requests of which some are valid, some malformed, and some incomplete.
const REQUESTS: [&str; 24] = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /?x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
     3;x=\"y\"\r\nabc\r\n0\r\nX: y\r\n\r\n",
    "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\n\r\n\r\n",
    "GET / HTTP/1.1\nHost: a\n\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/2.0\r\n\r\n",
    "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\nx",
    "\x16\x03\x01\x00",
    "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n",
    "GET / HTTP/1.1\r\nHost",
];

/// Valid requests, then others, cut at these places.
fn traffic() -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    let request = prop_oneof![2 => 0..5_usize, 3 => 0..REQUESTS.len()];
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..12);
    (prop::collection::vec(request, 1..4), cuts).prop_map(|(requests, cuts)| {
        let bytes: Vec<u8> = requests.into_iter().flat_map(|at| REQUESTS[at].bytes()).collect();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        cuts.dedup();
        (bytes, cuts)
    })
}

fn pieces<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let starts = [&[0], cuts].concat();
    let ends = [cuts, &[bytes.len()]].concat();
    let pieces = starts.into_iter().zip(ends).map(|(start, end)| &bytes[start..end]);
    pieces.filter(|piece| !piece.is_empty()).collect()
}

#[test]
fn the_pieces_of_requests_do_not_matter() {
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| std::process::id().into());
    println!("PROPTEST_RNG_SEED={seed}");
    let config = Config { rng_seed: RngSeed::Fixed(seed), cases: 400, ..Config::default() };
    with_server(move |send| {
        let check = |(bytes, cuts): (Vec<u8>, Vec<usize>)| {
            let whole = send(&[&bytes]);
            let cut = send(&pieces(&bytes, &cuts));
            prop_assert_eq!(whole, cut, "{:?} cut at {:?}", bytes.escape_ascii().to_string(), cuts);
            Ok(())
        };
        if let Err(failure) = TestRunner::new(config).run(&traffic(), check) {
            panic!("{failure}\nPROPTEST_RNG_SEED={seed}");
        }
    });
}

#[test]
fn each_request_in_single_bytes_is_the_same() {
    with_server(|send| {
        for request in REQUESTS {
            let bytes = [REQUESTS[0], request].concat().into_bytes();
            let single: Vec<_> = bytes.chunks(1).collect();
            assert_eq!(send(&[&bytes]), send(&single), "{request:?}");
        }
    });
}
