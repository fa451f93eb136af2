//! `ramie serve`: HTTP over real sockets, and how it ends.

mod support;

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};
use support::{
    Server, ask, assert_sentence, is_closed, output, ramie, ramie_under, read_answer, signal,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\n\
                     Hello, world!\n";

#[test]
fn a_connection_is_kept_alive() {
    let server = Server::start();
    let mut stream = server.connect();
    for _ in 0..3 {
        assert_eq!(ask(&mut stream, GET), HELLO);
    }
    assert!(ask(&mut stream, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 200 "));
    assert!(ask(&mut stream, "PUT / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert_eq!(ask(&mut stream, GET), HELLO);
}

#[test]
fn both_drivers_serve() {
    for driver in ["uring", "poll"] {
        let mut command = ramie("serve --hello --addr 127.0.0.1:0 --workers 2");
        command.env("RAMIE_DRIVER", driver);
        let mut server = Server::started(command);
        let mut streams: Vec<_> = (0..50).map(|_| server.connect()).collect();
        for stream in &mut streams {
            assert_eq!(ask(stream, GET), HELLO);
        }
        signal(&server.child, Signal::TERM);
        assert_eq!(server.wait().code(), Some(0), "{driver}");
    }
}

#[test]
fn pipelined_requests_are_all_answered() {
    let server = Server::start();
    let mut stream = server.connect();
    stream.write_all(GET.repeat(500).as_bytes()).unwrap();
    for _ in 0..500 {
        assert_eq!(read_answer(&mut stream, false), HELLO);
    }
}

#[test]
fn a_connection_is_closed_when_asked_to() {
    let server = Server::start();
    for request in
        ["GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"]
    {
        let mut stream = server.connect();
        let answer = ask(&mut stream, request);
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
        assert!(answer.ends_with("Hello, world!\n"));
        assert!(is_closed(&mut stream));
    }
}

#[test]
fn nonsense_is_refused_and_the_answer_arrives() {
    let server = Server::start();
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(100_000));
    for (request, status) in [("nonsense\r\n\r\n", "400"), (long.as_str(), "431")] {
        let mut stream = server.connect();
        let answer = ask(&mut stream, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(is_closed(&mut stream));
    }
    // One bad guest does not spoil the house.
    assert_eq!(ask(&mut server.connect(), GET), HELLO);
}

#[test]
fn sigterm_closes_idle_connections_and_ends_with_0() {
    let mut server = Server::start();
    let mut fresh = server.connect();
    let mut idle = server.connect();
    assert_eq!(ask(&mut idle, GET), HELLO);
    signal(&server.child, Signal::TERM);
    assert!(is_closed(&mut idle));
    assert!(matches!(fresh.read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_request_in_flight_is_finished() {
    let mut server = Server::start();
    let mut stream = server.connect();
    // Once the first is answered, the server has the second's beginning, too.
    let (beginning, end) = GET.split_at(10);
    assert_eq!(ask(&mut stream, &format!("{GET}{beginning}")), HELLO);
    signal(&server.child, Signal::INT);
    server.wait_until_closed();
    let answer = ask(&mut stream, end);
    assert!(answer.contains("Connection: close\r\n") && answer.ends_with("Hello, world!\n"));
    assert!(is_closed(&mut stream));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_interrupt_ends_with_130() {
    let mut server = Server::start();
    let mut stream = server.connect();
    assert_eq!(ask(&mut stream, &format!("{GET}GET /")), HELLO);
    signal(&server.child, Signal::TERM);
    server.wait_until_closed();
    signal(&server.child, Signal::INT);
    assert_eq!(server.wait().code(), Some(130));
}

/// As `timeout` sends it.
#[test]
fn the_same_signal_twice_is_one_request_to_end() {
    let mut server = Server::start();
    for _ in 0..2 {
        signal(&server.child, Signal::TERM);
    }
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn running_out_of_descriptors_is_survived_and_said_once() {
    let command = ramie_under("ulimit -n 40", "serve --hello --addr 127.0.0.1:0 --workers 1");
    let mut server = Server::started(command);
    let mut streams: Vec<_> = (0..60).map(|_| server.connect()).collect();
    let mut stderr = BufReader::new(server.child.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    assert!(
        said.contains("cannot accept more connections") && said.contains("ulimit -n"),
        "{said}"
    );
    // Those that were accepted are served; when they go, the others get their turn.
    assert_eq!(ask(&mut streams[0], GET), HELLO);
    let mut last = streams.pop().unwrap();
    drop(streams);
    assert_eq!(ask(&mut last, GET), HELLO);
    signal(&server.child, Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn peers_that_keep_it_waiting_are_let_go() {
    for driver in ["uring", "poll"] {
        let mut command = ramie("serve --hello --addr 127.0.0.1:0 --workers 1 --timeout 1");
        command.env("RAMIE_DRIVER", driver);
        let server = Server::started(command);
        let mut silent = server.connect();
        let mut idle = server.connect();
        assert_eq!(ask(&mut idle, GET), HELLO);
        let mut halting = server.connect();
        let begun = Instant::now();
        // A byte at a time earns it no more than the second that the others have.
        let halted = (0..600).any(|_| {
            let mut byte = [0];
            halting.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            halting.write_all(b"a").is_err() || halting.read(&mut byte).is_ok()
        });
        assert!(halted && begun.elapsed() >= Duration::from_millis(900), "{driver}");
        assert!(is_closed(&mut silent) && is_closed(&mut idle), "{driver}");
    }
}

#[test]
fn without_a_way_to_tell_the_port_there_is_no_service() {
    let mut command = ramie("serve --hello --addr 127.0.0.1:0");
    command.stdout(File::options().write(true).open("/dev/full").unwrap());
    assert_sentence(&output(command), 1, &["stdout"]);
}

#[test]
fn connections_come_to_workers_in_each_way() {
    for how in ["per-worker", "least-loaded", "shared"] {
        for driver in ["uring", "poll"] {
            let arguments = format!("serve --hello --addr 127.0.0.1:0 --workers 2 --accept {how}");
            let mut command = ramie(&arguments);
            command.env("RAMIE_DRIVER", driver);
            let mut server = Server::started(command);
            let mut streams: Vec<_> = (0..20).map(|_| server.connect()).collect();
            for stream in &mut streams {
                assert_eq!(ask(stream, GET), HELLO);
            }
            signal(&server.child, Signal::TERM);
            assert!(is_closed(&mut streams[0]));
            assert_eq!(server.wait().code(), Some(0), "{how} {driver}");
        }
    }
}

/// The processes of a supervisor.
fn processes(server: &Server) -> Vec<i32> {
    let id = server.child.id();
    let list = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    list.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

#[test]
fn processes_that_crash_or_restart_refuse_no_connection() {
    for driver in ["uring", "poll"] {
        let mut command = ramie("serve --hello --addr 127.0.0.1:0 --processes 2 --workers 2");
        command.env("RAMIE_DRIVER", driver);
        let mut server = Server::started(command);
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let all_answered = || {
            for _ in 0..100 {
                assert!(ask(&mut server.connect(), request).ends_with("Hello, world!\n"));
            }
        };
        all_answered();
        let first = processes(&server);
        assert_eq!(first.len(), 2);
        let one = Pid::from_raw(first[0]).unwrap();
        rustix::process::kill_process(one, Signal::KILL).unwrap();
        // Until it is dead it may accept a connection yet, and take that along.
        while processes(&server).contains(&first[0]) {
            std::thread::yield_now();
        }
        all_answered();
        signal(&server.child, Signal::HUP);
        while processes(&server).iter().any(|id| first.contains(id)) {
            all_answered();
        }
        all_answered();
        signal(&server.child, Signal::TERM);
        assert_eq!(server.wait().code(), Some(0), "{driver}");
        server.wait_until_closed();
    }
}

#[test]
fn processes_do_not_have_listeners_of_their_own() {
    let arguments = "serve --hello --addr 127.0.0.1:0 --processes 2 --accept per-worker";
    assert_sentence(&output(ramie(arguments)), 2, &["--processes", "least-loaded"]);
}
