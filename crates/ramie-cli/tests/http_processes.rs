//! The processes of `ramie run http`, with the test as the process that starts them: the
//! connections stay open until the clocks have stopped, and a server that fails ends.

mod support;

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdout, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::ioctl_fionread,
    process::{Pid, Resource, Rlimit, prlimit},
};
use serde_json::Value;
use support::{PATIENCE, Server, drivers, ramie};

/// A process that is killed when dropped.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(arguments: &str, driver: &str, input: impl Into<Stdio>) -> Self {
        let mut command = ramie(arguments);
        command.env("RAMIE_DRIVER", driver);
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Process { child, output }
    }

    /// The next line of its output; empty if it has ended.
    #[track_caller]
    fn line(&mut self) -> String {
        let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        let mut watched = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        let has_printed =
            !self.output.buffer().is_empty() || poll(&mut watched, Some(&limit)) == Ok(1);
        assert!(has_printed, "it prints nothing");
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The number of its open sockets.
    fn sockets(&self) -> usize {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap();
        let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }
}

#[test]
fn the_load_generator_keeps_its_connections_until_the_clocks_have_stopped() {
    let server = Server::start();
    let (input, mut to_generator) = io::pipe().unwrap();
    let unread = input.try_clone().unwrap();
    let arguments =
        format!("load-generator --connections 3 --requests 50 --body 14 {}", server.address);
    let mut generator = Process::start(&arguments, "poll", input);
    assert_eq!(generator.line(), "ready");
    to_generator.write_all(b"!").unwrap();
    let report: Value = serde_json::from_str(&generator.line()).unwrap();
    assert_eq!(report["requests"], 50);
    assert!(generator.sockets() >= 3, "it has closed connections");
    to_generator.write_all(b"!").unwrap();
    assert!(generator.child.wait().unwrap().success());
    // If it had not waited for the byte, the byte would be in the pipe still.
    assert_eq!(ioctl_fionread(&unread), Ok(0));
}

/// Starts a server as `--on processes` does; returns its address, too.
fn start_member(driver: &str, connections: u32) -> (Process, String) {
    let load = format!("--connections {connections} --requests 9 --body 1");
    let arguments = format!("run http {load} --on fibers --member --iterations-per-ms 1");
    let mut member = Process::start(&arguments, driver, Stdio::piped());
    let line = member.line();
    let address = line.strip_prefix("ready ").unwrap_or_else(|| panic!("{line}"));
    (member, address.to_owned())
}

/// Sends a request and reads its answer.
fn ask(connection: &mut TcpStream) {
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let (mut answer, mut part) = (Vec::<u8>::new(), [0; 4096]);
    while !answer.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let bytes = connection.read(&mut part).unwrap();
        assert_ne!(bytes, 0, "the server closed the connection");
        answer.extend(&part[..bytes]);
    }
}

#[test]
fn a_server_stops_its_clocks_before_its_connections_close() {
    for driver in drivers() {
        let (mut member, address) = start_member(driver, 1);
        let mut connection = TcpStream::connect(address).unwrap();
        ask(&mut connection);
        member.write(b"!");
        ask(&mut connection);
        drop(member.child.stdin.take());
        assert_eq!(member.line(), "stopped", "{driver}");
        drop(connection);
        let report: Value = serde_json::from_str(&member.line()).unwrap();
        assert_eq!(report["share"]["answers"], 2, "{driver}: {report}");
        assert!(member.child.wait().unwrap().success());
    }
}

#[test]
fn a_server_that_cannot_accept_prints_why_and_ends() {
    let (mut member, address) = start_member("poll", 2);
    let mut first = TcpStream::connect(&address).unwrap();
    // Its runtime has all its descriptors when it answers.
    ask(&mut first);
    // The member keeps its descriptors and gets no new one.
    let of_member = format!("/proc/{}/fd", member.child.id());
    let limit = (0_u64..).find(|number| fs::read_link(format!("{of_member}/{number}")).is_err());
    let id = Pid::from_child(&member.child);
    prlimit(Some(id), Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    let _second = TcpStream::connect(&address).unwrap();
    // Its standard input is open, so it ends on its own.
    assert_eq!(member.line(), "");
    let mut message = String::new();
    member.child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(message.contains("the server cannot accept connections ("), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert_eq!(member.child.wait().unwrap().code(), Some(1));
}
