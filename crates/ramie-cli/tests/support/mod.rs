//! Starts the program and checks its output.
#![allow(dead_code)] // Each test file uses a part of it.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const RAMIE: &str = env!("CARGO_BIN_EXE_ramie");

/// Long enough for a loaded machine. No test waits this long unless something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn ramie(arguments: &str) -> Command {
    let mut command = Command::new(RAMIE);
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    command
}

/// A shell script that closes inherited descriptors, so that a limit on descriptors means the same
/// everywhere.
const CLOSE_INHERITED: &str = "for fd in /proc/self/fd/*; do fd=${fd##*/}; \
     [ \"$fd\" -le 2 ] || eval \"exec $fd>&-\"; done";

/// The program under a shell that has set a limit, such as `ulimit -n 24`.
pub(crate) fn ramie_under(limit: &str, arguments: &str) -> Command {
    let mut command = Command::new("bash");
    let script = format!("{CLOSE_INHERITED}; {limit}; exec \"$0\" {arguments}");
    command.arg("-c").arg(script).arg(RAMIE);
    command.stdin(Stdio::null());
    command
}

/// Prints that a test, or a part of it, is skipped. The line bypasses libtest, because libtest
/// hides the output of tests that pass.
pub(crate) fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a thread"));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Runs a command as a user without rights. None, which is reported as skipped: only root can, and
/// that user may be unable to start the program.
pub(crate) fn output_of_another_user(mut command: Command) -> Option<Output> {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        skipped("only root can become another user");
        return None;
    }
    command.uid(65534).stdout(Stdio::piped()).stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => Some(child.wait_with_output().unwrap()),
        Err(error) => {
            skipped(&format!("another user cannot start {RAMIE}: {error}"));
            None
        }
    }
}

/// Whether this machine allows io_uring. If not, prints that the test is skipped.
pub(crate) fn has_ring() -> bool {
    let has_ring = text(&output(ramie("doctor")).stdout).contains("driver  uring");
    if !has_ring {
        skipped("no io_uring here");
    }
    has_ring
}

/// The drivers that this machine has, as `RAMIE_DRIVER` names them.
pub(crate) fn drivers() -> Vec<&'static str> {
    if has_ring() { vec!["uring", "poll"] } else { vec!["poll"] }
}

pub(crate) fn output(mut command: Command) -> Output {
    command.output().expect("the program can be started")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asserts that the program printed one sentence on stderr and ended with `code`; returns it.
#[track_caller]
pub(crate) fn assert_sentence(output: &Output, code: i32, parts: &[&str]) -> String {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert_eq!(message.lines().count(), 1, "one sentence, not: {message}");
    assert!(message.starts_with("ramie: "), "{message}");
    for wrong in ["panicked", "RUST_BACKTRACE", "Custom {", "error: "] {
        assert!(!message.contains(wrong), "{message}");
    }
    for part in parts {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
    message
}

/// A new folder for one test, which removes itself.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("ramie-test-{name}-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("the folder for temporary files can be written to");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("the program still runs");
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::started(ramie("serve --hello --addr 127.0.0.1:0 --workers 1"))
    }

    pub(crate) fn started(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").and_then(|text| text.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let mut message = String::new();
            let _ = child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut message));
            panic!("no address in {line:?}; stderr: {message}");
        };
        Server { child, address }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the server accepts");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Waits until the server has seen a signal and no longer listens.
    pub(crate) fn wait_until_closed(&self) {
        let start = Instant::now();
        while TcpStream::connect(self.address).is_ok() {
            assert!(start.elapsed() < PATIENCE, "the server has not seen the signal");
            std::thread::yield_now();
        }
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("the server is our child")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request and reads one answer: its head, then as many bytes as that announces.
pub(crate) fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("the server reads");
    read_answer(stream, request.starts_with("HEAD"))
}

/// The next answer, without its date, which changes.
pub(crate) fn read_answer(stream: &mut TcpStream, is_head: bool) -> String {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("the server answers");
        answer.push(byte[0]);
    }
    let head = text(&answer);
    let is_date = |line: &&str| line.starts_with("date: ");
    let head: String = head.split_inclusive('\n').filter(|line| !is_date(line)).collect();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|length| length.parse().ok()).expect("a length");
    let mut body = vec![0; if is_head { 0 } else { length }];
    stream.read_exact(&mut body).expect("the body comes, too");
    head + &text(&body)
}

/// Whether the server has closed the connection properly.
pub(crate) fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Ok(0))
}

/// The processes whose parent is this one.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

pub(crate) fn command_line(process: u32) -> String {
    text(&fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default()).replace('\0', " ")
}

/// Waits until none of the processes is there, or only as a zombie of a process that is not ours.
#[track_caller]
pub(crate) fn assert_gone(processes: &[u32]) {
    let start = Instant::now();
    let is_running = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while processes.iter().any(is_running) {
        assert!(start.elapsed() < PATIENCE, "some of {processes:?} are left");
        std::thread::yield_now();
    }
}
