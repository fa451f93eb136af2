//! Runs each of the examples as a program, on fibers and on threads, and checks its output.

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::Once,
    time::{Duration, Instant},
};

use crate::common::{self, CLOSE_INHERITED};

const STRANDS: [&str; 2] = ["fibers", "threads"];

/// `cargo test` builds the examples beside its test programs; `cargo test --test` does not.
fn example(name: &str) -> PathBuf {
    static BUILD: Once = Once::new();
    let test = env::current_exe().expect("a test is a program");
    let profile = test.ancestors().nth(2).expect("target/profile/deps/test");
    BUILD.call_once(|| {
        if profile.join("examples").join(name).exists() {
            return;
        }
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--package", "ramie", "--examples"]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "the examples build");
    });
    profile.join("examples").join(name)
}

/// Runs an example to its end, which must come within a minute.
fn run(name: &str, strands: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("60").arg(example(name)).args(arguments).env("RAMIE_STRANDS", strands);
    command.stdin(Stdio::null()).output().expect("timeout is there")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("a text")
}

/// Asserts that the example has failed with one line of usage and the exit code for wrong usage.
#[track_caller]
fn assert_usage(output: &Output) {
    let said = common::stderr(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("usage: ") && said.lines().count() == 1, "{said}");
}

/// A server that is killed at the end of its test.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(name: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(example(name));
        command.arg("127.0.0.1:0").envs(variables.iter().copied());
        Self::started(command)
    }

    fn started(mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        let mut process = command.spawn().expect("the example is built");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("its first line");
        let address = line.trim().strip_prefix("listening on ").expect("the address").to_owned();
        Server { process, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option of any socket");
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn echo_echoes_many_connections_on_both_drivers() {
    let with = |strands| common::driver_names().into_iter().map(move |driver| (driver, strands));
    for (driver, strands) in with("fibers").chain(with("threads")) {
        let server = Server::start("echo", &[("RAMIE_DRIVER", driver), ("RAMIE_STRANDS", strands)]);
        let mut streams: Vec<_> = (0..50).map(|_| server.connect()).collect();
        for (n, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&[n as u8; 64]).expect("it reads");
        }
        for (n, stream) in streams.iter_mut().enumerate() {
            let mut back = [0; 64];
            stream.read_exact(&mut back).expect("it writes");
            assert_eq!(back, [n as u8; 64]);
            stream.shutdown(Shutdown::Write).expect("it is connected");
            assert_eq!(stream.read(&mut back).expect("an orderly end"), 0);
        }
    }
}

#[test]
fn echo_continues_after_descriptors_have_run_out() {
    let mut command = Command::new("bash");
    let limited = format!("{CLOSE_INHERITED}; ulimit -n 40; exec \"$0\" 127.0.0.1:0");
    command.args(["-c", &limited]).arg(example("echo"));
    let server = Server::started(command);
    let mut streams: Vec<_> = (0..60).map(|_| server.connect()).collect();
    let mut last = streams.pop().expect("there are sixty");
    last.write_all(b"late").expect("the kernel takes it");
    // The first connection was accepted; the last one is accepted after the others are closed.
    let mut back = [0; 4];
    streams[0].write_all(b"soon").expect("it reads");
    streams[0].read_exact(&mut back).expect("it writes");
    drop(streams);
    last.read_exact(&mut back).expect("it writes");
    assert_eq!(&back, b"late");
}

#[test]
fn drain_accepts_no_connections_and_finishes_open_ones() {
    let with = |strands| common::driver_names().into_iter().map(move |driver| (driver, strands));
    for (driver, strands) in with("fibers").chain(with("threads")) {
        let mut server =
            Server::start("drain", &[("RAMIE_DRIVER", driver), ("RAMIE_STRANDS", strands)]);
        let mut stream = server.connect();
        let mut back = [0; 4];
        let mut echo = |stream: &mut TcpStream| {
            stream.write_all(b"ping").expect("it reads");
            stream.read_exact(&mut back).expect("it writes");
            assert_eq!(&back, b"ping");
        };
        echo(&mut stream);
        let us = server.process.id().to_string();
        assert!(Command::new("kill").arg(&us).status().expect("kill is there").success());
        let limit = Instant::now() + Duration::from_secs(4);
        while TcpStream::connect(&server.address).is_ok() {
            assert!(Instant::now() < limit, "{driver} {strands}: the loop of accepts goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
        echo(&mut stream);
        drop(stream);
        assert!(server.process.wait().expect("our child").success());
    }
}

#[test]
fn servers_report_why_they_cannot_listen() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let in_use = other.local_addr().expect("it is bound").to_string();
    for server in ["echo", "drain", "chat", "prefork"] {
        for (address, why) in [("nowhere", "invalid"), (&in_use, "already in use")] {
            let output = run(server, "fibers", &[address]);
            let said = common::stderr(&output);
            assert!(said.starts_with(&format!("cannot listen on {address}: ")), "{server}: {said}");
            assert!(said.contains(why) && !said.contains("{ "), "{server}: {said}");
            assert_eq!(output.status.code(), Some(1));
        }
    }
}

#[test]
fn chat_sends_each_line_to_all_guests() {
    for strands in STRANDS {
        let server = Server::start("chat", &[("RAMIE_STRANDS", strands)]);
        let hear = |guest: &mut BufReader<TcpStream>| {
            let mut line = String::new();
            guest.read_line(&mut line).expect("a line in time");
            line
        };
        let enter = |name: &str| {
            let mut stream = server.connect();
            writeln!(stream, "{name}").expect("it reads");
            BufReader::new(stream)
        };
        let mut first = enter("Ada");
        assert_eq!(hear(&mut first), "Ada is here\n", "{strands}");
        let mut second = enter("Bea");
        for guest in [&mut first, &mut second] {
            assert_eq!(hear(guest), "Bea is here\n", "{strands}");
        }
        writeln!(second.get_mut(), "good morning").expect("it reads");
        for guest in [&mut first, &mut second] {
            assert_eq!(hear(guest), "Bea: good morning\n", "{strands}");
        }
        first.get_ref().shutdown(Shutdown::Write).expect("it is connected");
        assert_eq!(hear(&mut second), "Ada has left\n", "{strands}");
        assert_eq!(hear(&mut first), "", "{strands}");
    }
}

#[test]
fn grep_finds_each_line_once() {
    let folder = env::temp_dir().join(format!("ramie-grep-{}", std::process::id()));
    fs::create_dir_all(folder.join("deep/er")).expect("a folder");
    for n in 0..100 {
        let place = ["", "deep/", "deep/er/"][n % 3];
        let text = format!("nothing\nneedle {n}\n\nneedle again\n");
        fs::write(folder.join(format!("{place}{n}.txt")), text).expect("a file");
    }
    fs::write(folder.join("binary"), [0xff, 0x00, b'\n', b'n']).expect("a file");
    let path = folder.to_str().expect("plain letters");
    let mut expected: Vec<_> = (0..100)
        .flat_map(|n| {
            let file = format!("{path}/{}{n}.txt", ["", "deep/", "deep/er/"][n % 3]);
            [format!("{file}:2:needle {n}"), format!("{file}:4:needle again")]
        })
        .collect();
    expected.sort();
    for strands in STRANDS {
        let output = run("grep", strands, &["needle", path]);
        let mut lines: Vec<_> = stdout(&output).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, expected, "{strands}: {}", common::stderr(&output));
        assert!(output.status.success());
        assert_eq!(run("grep", strands, &["absent", path]).status.code(), Some(1));
        let nowhere = run("grep", strands, &["needle", "/nowhere"]);
        assert_eq!(nowhere.status.code(), Some(2));
        assert!(common::stderr(&nowhere).contains("/nowhere: No such file"));
        assert_usage(&run("grep", strands, &[]));
        // It also ends if its results cannot be written.
        let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut command = Command::new("timeout");
        command.arg("60").arg(example("grep")).args(["needle", path]).env("RAMIE_STRANDS", strands);
        assert_eq!(command.stdout(full).status().expect("timeout is there").code(), Some(1));
    }
    fs::remove_dir_all(folder).expect("it was there");
}

#[test]
fn pipeline_carries_bytes_from_program_to_program() {
    for strands in STRANDS {
        let output = run("pipeline", strands, &["seq 20000", "grep 7", "sort -rn", "head -n 2"]);
        assert_eq!(stdout(&output), "19997\n19987\n", "{strands}: {}", common::stderr(&output));
        let said = common::stderr(&output);
        assert!(said.contains("seq 20000: 108894 bytes, exit status: 0"), "{said}");
        assert!(said.contains("head -n 2: 12 bytes"), "{said}");
        assert!(run("pipeline", strands, &["cat", "wc -c"]).status.success());
        assert_eq!(run("pipeline", strands, &["seq 1", "false"]).status.code(), Some(1));
        assert_usage(&run("pipeline", strands, &[]));
        assert_usage(&run("pipeline", strands, &["seq 1", " ", "cat"]));
        let missing = run("pipeline", strands, &["seq 1", "/nowhere/program x"]);
        let said = common::stderr(&missing);
        assert!(said.starts_with("cannot start '/nowhere/program x': No such file"), "{said}");
        assert_eq!(missing.status.code(), Some(1));
    }
}

#[test]
fn pipeline_reports_that_its_output_cannot_be_written() {
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = Command::new("timeout");
    command.arg("60").arg(example("pipeline")).arg("seq 3").stdin(Stdio::null()).stdout(full);
    let output = command.output().expect("timeout is there");
    let said = common::stderr(&output);
    assert!(said.contains("its bytes get no further: No space left"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn philosophers_all_eat() {
    for strands in STRANDS {
        let output = run("philosophers", strands, &["20"]);
        let text = stdout(&output);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{strands}: {text} {}", common::stderr(&output));
        assert!(lines[..5].iter().all(|line| line.ends_with(" ate 20 times")), "{text}");
        assert_eq!(lines[5], "forks were used 200 times");
        assert_usage(&run("philosophers", strands, &["x"]));
    }
}

#[test]
fn the_port_scanner_finds_the_open_ports() {
    let listeners: Vec<_> =
        (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let port = |listener: &TcpListener| listener.local_addr().expect("it is bound").port();
    let mut ports: Vec<_> = listeners.iter().map(port).collect();
    ports.sort_unstable();
    let (first, last) = (ports[0].saturating_sub(300).max(1), ports[2]);
    for strands in STRANDS {
        let range = [first.to_string(), last.to_string()];
        let output = run("port_scanner", strands, &["127.0.0.1", &range[0], &range[1]]);
        let text = stdout(&output);
        for port in &ports {
            assert!(text.contains(&format!("{port} is open\n")), "{strands}: {text}");
        }
        let count = last - first + 1;
        assert!(text.ends_with(&format!(" of {count} ports are open\n")), "{strands}: {text}");
        let by_name = run("port_scanner", strands, &["localhost", &range[1], &range[1]]);
        assert!(stdout(&by_name).ends_with(" of 1 ports are open\n"), "{}", stdout(&by_name));
        for wrong in [
            &[][..],
            &["localhost"],
            &["localhost", "1", "last"],
            &["localhost", "0", "9"],
            &["localhost", "9", "1"],
        ] {
            assert_usage(&run("port_scanner", strands, wrong));
        }
    }
}

#[test]
fn a_port_is_not_closed_because_no_descriptor_is_left() {
    let mut command = Command::new("bash");
    let limited = format!("{CLOSE_INHERITED}; ulimit -n 40; exec \"$0\" 127.0.0.1 1 2000");
    command.args(["-c", &limited]);
    let output = command.arg(example("port_scanner")).output().expect("bash is there");
    let said = common::stderr(&output);
    assert!(said.contains("Too many open files") && said.contains("ulimit -n"), "{said}");
    assert_eq!(stdout(&output), "");
}

/// A server that sends a fixed answer to every client, or none. Other clients than the example may
/// connect, such as the port scanner of a test that runs at the same time.
fn page_server(page: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming().flatten() {
            let mut request = BufReader::new(stream);
            while request.read_line(&mut String::new()).is_ok_and(|length| length > 2) {}
            let mut stream = request.into_inner();
            if page.is_empty() {
                silent.push(stream);
            } else {
                let _ = stream.write_all(page);
            }
        }
    });
    address
}

#[test]
fn page_sizes_come_from_the_servers_that_answer_in_time() {
    let (quick, silent) = (page_server(&[b'x'; 5000]), page_server(b""));
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let nobody = nobody.expect("a free port").to_string();
    for strands in STRANDS {
        let text = stdout(&run("page_sizes", strands, &[&quick, &silent, &nobody]));
        let lines: Vec<_> = text.lines().collect();
        let [first, second, third] = lines[..] else { panic!("three lines: {text}") };
        assert_eq!(first, format!("     5000 {quick}"), "{strands}");
        assert_eq!(
            second,
            format!("        - {silent}: cancelled: the time limit has expired"),
            "{strands}"
        );
        assert!(third.contains("refused"), "{strands}: {third}");
        assert_usage(&run("page_sizes", strands, &[]));
    }
}

/// The numbers after two given words on the line that begins with `start`.
fn turns(text: &str, begin: &str) -> (f64, f64) {
    let line = text.lines().find(|line| line.starts_with(begin)).expect(text);
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    (numbers[1], numbers[3])
}

#[test]
fn a_custom_policy_shares_the_turns_among_classes() {
    let output = run("round_robin", "fibers", &[]);
    let text = stdout(&output);
    let (polite, greedy) = turns(&text, "first in");
    assert!(polite * 8.0 < greedy, "{text}");
    let (polite, greedy) = turns(&text, "round robin");
    assert!((polite - greedy).abs() < greedy / 10.0, "{text}");
}
