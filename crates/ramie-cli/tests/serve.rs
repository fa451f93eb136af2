//! `ramie serve`: HTTP over real sockets, and the end of the server.

mod support;

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};
use support::{
    PATIENCE, RAMIE, Server, ask, assert_sentence, drivers, is_closed, output, ramie, ramie_under,
    read_answer, signal, text,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n\
                     content-length: 14\r\n\r\nHello, world!\n";

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
    for driver in drivers() {
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
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        assert!(answer.ends_with("Hello, world!\n"));
        assert!(is_closed(&mut stream));
    }
}

#[test]
fn nonsense_is_refused_and_the_answer_arrives() {
    let server = Server::start();
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(100_000));
    for (request, status) in [("nonsense\r\n\r\n", "400"), (long.as_str(), "414")] {
        let mut stream = server.connect();
        let answer = ask(&mut stream, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(is_closed(&mut stream));
    }
    // Other connections are not affected.
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

/// A program inherits the signals that its parent has blocked.
#[test]
fn sigterm_ends_a_server_that_was_started_with_it_blocked() {
    let mut command = Command::new("env");
    command.args(["--block-signal=TERM", RAMIE]);
    command.args(["serve", "--hello", "--addr", "127.0.0.1:0", "--workers", "1"]);
    let mut server = Server::started(command);
    signal(&server.child, Signal::TERM);
    // A server that does not see the signal keeps accepting.
    server.wait_until_closed();
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_request_in_flight_is_finished() {
    let mut server = Server::start();
    let mut stream = server.connect();
    // Once the first request is answered, the beginning of the second has arrived, too.
    let (beginning, end) = GET.split_at(10);
    assert_eq!(ask(&mut stream, &format!("{GET}{beginning}")), HELLO);
    signal(&server.child, Signal::INT);
    server.wait_until_closed();
    let answer = ask(&mut stream, end);
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("Hello, world!\n"));
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

/// `timeout` sends the signal twice in a row.
#[test]
fn the_same_signal_twice_is_one_request_to_end() {
    let mut server = Server::start();
    for _ in 0..2 {
        signal(&server.child, Signal::TERM);
    }
    assert_eq!(server.wait().code(), Some(0));
}

/// The CPU time of a process, in ticks of a hundredth of a second.
fn cpu_time(child: &Child) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let mut fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11);
    let mut ticks = || fields.next().unwrap().parse::<u64>().unwrap();
    Duration::from_millis((ticks() + ticks()) * 10)
}

#[test]
fn running_out_of_descriptors_is_survived_and_reported_once() {
    for workers in [1, 2] {
        let arguments = format!("serve --hello --addr 127.0.0.1:0 --workers {workers}");
        let mut server = Server::started(ramie_under("ulimit -n 40", &arguments));
        let mut streams: Vec<_> = (0..60).map(|_| server.connect()).collect();
        let mut stderr = BufReader::new(server.child.stderr.take().unwrap());
        let mut message = String::new();
        stderr.read_line(&mut message).unwrap();
        assert!(
            message.contains("cannot accept more connections") && message.contains("ulimit -n"),
            "{message}"
        );
        let before = cpu_time(&server.child);
        let mut waiting = streams.pop().unwrap();
        waiting.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        assert!(waiting.read(&mut [0]).is_err());
        drop(waiting);
        let spent = cpu_time(&server.child) - before;
        assert!(spent < Duration::from_millis(200), "{spent:?} to wait for half a second");
        // Accepted connections are served; when they close, the others are accepted.
        assert_eq!(ask(&mut streams[0], GET), HELLO);
        let mut last = streams.pop().unwrap();
        drop(streams);
        assert_eq!(ask(&mut last, GET), HELLO);
        signal(&server.child, Signal::TERM);
        assert_eq!(server.wait().code(), Some(0));
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "with {workers} workers");
    }
}

#[test]
fn peers_that_exceed_the_timeout_are_closed() {
    for driver in drivers() {
        let mut command = ramie("serve --hello --addr 127.0.0.1:0 --workers 1 --timeout 1");
        command.env("RAMIE_DRIVER", driver);
        let server = Server::started(command);
        let mut silent = server.connect();
        let mut idle = server.connect();
        assert_eq!(ask(&mut idle, GET), HELLO);
        let mut halting = server.connect();
        let begun = Instant::now();
        // A byte at a time does not extend the timeout of one second.
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
fn a_server_that_cannot_print_its_port_fails() {
    let mut command = ramie("serve --hello --addr 127.0.0.1:0");
    command.stdout(File::options().write(true).open("/dev/full").unwrap());
    assert_sentence(&output(command), 1, &["stdout"]);
}

#[test]
fn every_way_to_accept_serves() {
    for how in ["per-worker", "least-loaded", "shared"] {
        for driver in drivers() {
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
    for driver in drivers() {
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
        // Until the process is dead it may still accept a connection, which dies with it.
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

/// A user may kill processes of a service, and so may the kernel when memory is short.
#[test]
fn processes_that_are_killed_again_and_again_do_not_end_the_service() {
    let mut server =
        Server::started(ramie("serve --hello --addr 127.0.0.1:0 --processes 2 --workers 1"));
    // If no process had ever become ready, the supervisor would give up.
    assert_eq!(ask(&mut server.connect(), GET), HELLO);
    let begun = Instant::now();
    let mut killed = Vec::new();
    while killed.len() < 18 {
        assert!(begun.elapsed() < PATIENCE, "{} were there to be killed", killed.len());
        for id in
            processes(&server).into_iter().filter(|id| !killed.contains(id)).collect::<Vec<_>>()
        {
            // The last one gets SIGTERM from this test instead of the supervisor, and exits with 0.
            let how = if killed.len() == 17 { Signal::TERM } else { Signal::KILL };
            rustix::process::kill_process(Pid::from_raw(id).unwrap(), how).unwrap();
            killed.push(id);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // The connection waits in the queue until a process accepts it. A process that is being killed
    // could accept it and die with it, so this waits for new processes.
    while processes(&server).iter().filter(|id| !killed.contains(id)).count() < 2 {
        assert!(begun.elapsed() < PATIENCE, "there are no new ones");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(ask(&mut server.connect(), GET), HELLO);
    signal(&server.child, Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
}

/// Whether the server answers. It may instead close the connection or have ended, but not hang.
fn is_answered(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; HELLO.len()];
    stream.write_all(GET.as_bytes()).is_ok() && stream.read_exact(&mut answer).is_ok()
}

/// With limits from too low to sufficient, the server serves as many connections as it can, or
/// fails with the reason.
#[test]
fn without_memory_connections_are_refused_and_not_the_service() {
    let (mut served, mut refused) = (0, 0);
    for mb in [40, 53, 56, 62, 90, 110, 120, 130, 155, 190, 260, 400, 700, 2000] {
        let limit = mb * 1000;
        let limits = format!("ulimit -c 0; ulimit -v {limit}");
        let mut command =
            ramie_under(&limits, "serve --hello --addr 127.0.0.1:0 --workers 2 --timeout 60");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if let Some(address) = line.trim().strip_prefix("listening on ") {
            let address = address.parse().unwrap();
            // These stay open, so that no memory is left for others.
            let kept: Vec<_> = (0..120).map_while(|_| TcpStream::connect(address).ok()).collect();
            let answered = (0..5).filter(|_| is_answered(address)).count();
            drop(kept);
            served += usize::from(answered > 0);
            assert!(child.try_wait().unwrap().is_none(), "{limit} KiB: it has ended");
            signal(&child, Signal::TERM);
        }
        let output = child.wait_with_output().unwrap();
        let message = text(&output.stderr);
        let code = output.status.code();
        match line.is_empty() {
            false => assert_eq!(code, Some(0), "{limit} KiB: {message}"),
            true => drop(assert_sentence(&output, 1, &["ulimit -v"])),
        }
        refused += usize::from(message.contains("ulimit -v"));
    }
    assert!(served > 0 && refused > 0, "{served} have served, {refused} have refused");
}

#[test]
fn processes_without_memory_end_with_a_sentence() {
    let arguments = "serve --hello --addr 127.0.0.1:0 --processes 2";
    let output = output(ramie_under("ulimit -c 0; ulimit -v 60000", arguments));
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("there is too little memory to serve"), "{message}");
    assert!(message.contains("before any reported that it is ready"), "{message}");
}

#[test]
fn processes_do_not_have_listeners_of_their_own() {
    let arguments = "serve --hello --addr 127.0.0.1:0 --processes 2 --accept per-worker";
    assert_sentence(&output(ramie(arguments)), 2, &["--processes", "least-loaded"]);
}

#[test]
fn a_directory_is_served_and_nothing_beside_it() {
    let folder = std::env::temp_dir().join(format!("ramie-serve-{}", std::process::id()));
    let public = folder.join("public");
    std::fs::create_dir_all(public.join("sub")).unwrap();
    std::fs::write(folder.join("secret.txt"), "secret").unwrap();
    std::fs::write(public.join("page.txt"), "a page").unwrap();
    std::fs::write(public.join(".hidden"), "hidden").unwrap();
    let mut command = Command::new(RAMIE);
    command.arg("serve").arg(&public).args(["--addr", "127.0.0.1:0", "--workers", "1"]);
    let server = Server::started(command);
    let get =
        |path: &str| ask(&mut server.connect(), &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let page = get("/page.txt");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with("\r\n\r\na page"), "{page}");
    assert!(get("/").contains("page.txt"));
    assert!(get("/sub").starts_with("HTTP/1.1 308 "));
    for path in ["/../secret.txt", "/%2e%2e/secret.txt", "/sub/../../secret.txt", "/.hidden", "/no"]
    {
        assert!(get(path).starts_with("HTTP/1.1 404 "), "{path}");
    }
    drop(server);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_cannot_be_served_is_said() {
    for (arguments, code, words) in [
        ("serve /no/such/directory", 1, ["/no/such/directory", "check the path"]),
        ("serve /etc/hostname", 1, ["/etc/hostname", "give the directory"]),
        ("serve", 2, ["a directory", "--hello"]),
        ("serve . --hello", 2, ["DIR", "--hello"]),
    ] {
        assert_sentence(&output(ramie(arguments)), code, &words);
    }
}
