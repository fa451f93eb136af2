//! `ramie dump`: dumps of running programs, the list of them, and processes that give none.

mod support;

use std::{
    fs::{self, DirBuilder},
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::DirBuilderExt,
        net::{UnixListener, UnixStream},
        process::CommandExt,
    },
    process::{self, Command, Stdio},
    thread,
    time::Instant,
};

use rustix::process::Signal;
use support::{
    Folder, PATIENCE, Server, assert_sentence, children, output, output_of_another_user, ramie,
    signal, text,
};

/// The program, whose sockets lie in the folder.
fn ramie_in(folder: &Folder, arguments: &str) -> Command {
    let mut command = ramie(arguments);
    command.env("XDG_RUNTIME_DIR", &folder.0).env_remove("RAMIE_INSPECT");
    command
}

fn served_in(folder: &Folder, arguments: &str) -> Server {
    let mut command = ramie_in(folder, &format!("serve --hello --addr 127.0.0.1:0 {arguments}"));
    command.env("RAMIE_INSPECT", "1");
    Server::started(command)
}

/// The processes that `ramie dump` lists.
fn listed_in(folder: &Folder) -> Vec<u32> {
    let list = output(ramie_in(folder, "dump --json")).stdout;
    let list: Vec<serde_json::Value> = serde_json::from_slice(&list).unwrap();
    list.iter().map(|row| row["pid"].as_u64().unwrap() as u32).collect()
}

#[test]
fn a_server_is_listed_and_dumped() {
    let folder = Folder::new("dump");
    let mut server = served_in(&folder, "--workers 1");
    let pid = server.child.id();
    let _connection = server.connect();

    let dump = output(ramie_in(&folder, &format!("dump {pid}")));
    let printed = text(&dump.stdout);
    assert!(dump.status.success() && dump.stderr.is_empty(), "{}", text(&dump.stderr));
    assert!(printed.contains("\nworker 0 ("), "{printed}");
    assert!(printed.contains("fiber 'main'") && printed.contains("spawned at "), "{printed}");

    let dump = output(ramie_in(&folder, &format!("dump --json {pid}")));
    let json: serde_json::Value = serde_json::from_slice(&dump.stdout).unwrap();
    let strands = json["strands"].as_array().unwrap();
    assert!(strands.iter().any(|strand| strand["state"] == "waiting"), "{json}");

    let dump = output(ramie_in(&folder, &format!("dump --backtraces {pid}")));
    let printed = text(&dump.stdout);
    assert!(printed.contains("calls, the innermost first:"), "{printed}");
    assert!(printed.contains("ramie::serve::"), "{printed}");

    let mut by_name = ramie_in(&folder, &format!("dump {pid} --name"));
    by_name.arg("mai");
    let printed = text(&output(by_name).stdout);
    assert_eq!(printed.matches("spawned at ").count(), 1, "{printed}");
    assert!(printed.contains("with other names left out"), "{printed}");
    assert!(printed.contains("fiber 'main' (1.1) waits for"), "{printed}");

    let list = text(&output(ramie_in(&folder, "dump")).stdout);
    let is_row = |row: &&str| row.trim_start().starts_with(&format!("{pid} "));
    let row = list.lines().find(is_row).expect(&list);
    assert!(row.contains("serve --hello"), "{list}");
    assert!(listed_in(&folder).contains(&pid));

    signal(&server.child, Signal::TERM);
    assert!(server.wait().success());
    assert!(fs::read_dir(folder.0.join("ramie")).unwrap().next().is_none());
    assert!(!listed_in(&folder).contains(&pid));
    let none = output(ramie_in(&folder, "dump"));
    // Other processes may be in the other directories of this user.
    if none.stdout.is_empty() {
        assert_sentence(&none, 0, &["no process of this user", "RAMIE_INSPECT=1"]);
    }
}

#[test]
fn a_server_tells_its_figures() {
    let folder = Folder::new("metrics");
    let server = served_in(&folder, "--workers 1");
    let pid = server.child.id();
    let answer = output(ramie_in(&folder, &format!("metrics {pid}")));
    let printed = text(&answer.stdout);
    assert!(answer.status.success() && answer.stderr.is_empty(), "{}", text(&answer.stderr));
    assert!(printed.starts_with("# HELP ramie_"), "{printed}");
    let value = |name: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}: {printed}")).parse::<u64>().unwrap()
    };
    assert!(value("ramie_strands") > 0 && value("ramie_strands_spawned_total") > 0);
    assert!(printed.contains("\nramie_worker_fibers{worker=\"0\","), "{printed}");
    let own = std::process::id();
    assert_sentence(&output(ramie_in(&folder, &format!("metrics {own}"))), 1, &["no socket"]);
}

#[test]
fn a_workload_is_dumped() {
    let folder = Folder::new("dump");
    let mut command = ramie_in(&folder, "run ring --size 500 --hops 4294967295");
    command.env("RAMIE_INSPECT", "1").stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (pid, start) = (child.id(), Instant::now());
    // While the runtime starts, there is no socket, and then there are no workers.
    let is_dumped = || {
        let dump = output(ramie_in(&folder, &format!("dump {pid}")));
        text(&dump.stdout).contains("worker 0")
    };
    let mut is_over = is_dumped();
    while !is_over && start.elapsed() < PATIENCE {
        is_over = is_dumped();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_over, "the workload has no worker");
}

#[test]
fn each_process_of_a_prefork_server_has_its_own_socket() {
    let folder = Folder::new("dump");
    let mut server = served_in(&folder, "--processes 2");
    let supervisor = server.child.id();
    let (start, members) = (Instant::now(), children(supervisor));
    while !members.iter().all(|member| listed_in(&folder).contains(member)) {
        assert!(start.elapsed() < PATIENCE, "{members:?} are not all listed");
    }
    assert_eq!(members.len(), 2);
    for pid in members {
        let dump = output(ramie_in(&folder, &format!("dump {pid}")));
        assert!(text(&dump.stdout).contains("worker 0"), "{}", text(&dump.stderr));
    }
    let none = output(ramie_in(&folder, &format!("dump {supervisor}")));
    assert_sentence(&none, 1, &["has no socket"]);
    signal(&server.child, Signal::TERM);
    assert!(server.wait().success());
}

#[test]
fn a_process_that_does_not_exist_is_named() {
    let folder = Folder::new("dump");
    // No process has this id: the most is 4194304.
    let none = output(ramie_in(&folder, "dump 4194305"));
    assert_sentence(&none, 1, &["there is no process 4194305", "`ramie dump`"]);
    // A process that has ended, and for which nobody has waited.
    let mut ended = Command::new("true").spawn().unwrap();
    let pid = ended.id();
    let start = Instant::now();
    while !fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
        assert!(start.elapsed() < PATIENCE);
        thread::yield_now();
    }
    let none = output(ramie_in(&folder, &format!("dump {pid}")));
    assert_sentence(&none, 1, &[&format!("there is no process {pid}")]);
    ended.wait().unwrap();
}

#[test]
fn a_process_without_a_socket_is_named_with_the_remedy() {
    let folder = Folder::new("dump");
    let without = output(ramie_in(&folder, &format!("dump {}", process::id())));
    let remedy = ["has no socket for dumps", "RAMIE_INSPECT=1", "Builder::inspect(true)"];
    assert_sentence(&without, 1, &remedy);
}

#[test]
fn a_process_of_another_user_is_named() {
    let command = ramie(&format!("dump {}", process::id()));
    let Some(refused) = output_of_another_user(command) else { return };
    assert_sentence(&refused, 1, &["belongs to user 0", "as that user, or as root"]);
}

#[test]
fn a_process_that_is_stopped_is_named() {
    let folder = Folder::new("dump");
    let server = served_in(&folder, "--workers 1");
    let pid = server.child.id();
    signal(&server.child, Signal::STOP);
    let start = Instant::now();
    while !fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ") {
        assert!(start.elapsed() < PATIENCE);
        thread::yield_now();
    }
    let stopped = output(ramie_in(&folder, &format!("dump {pid}")));
    assert_sentence(&stopped, 1, &["is stopped", &format!("kill -CONT {pid}")]);
    signal(&server.child, Signal::CONT);
    assert!(output(ramie_in(&folder, &format!("dump {pid}"))).status.success());
}

/// Dumps this process, which answers a request with `answer` and then waits for `ramie` to end.
fn answered(answer: Option<&str>) -> process::Output {
    let parts: &[&[u8]] = &[answer.unwrap_or_default().as_bytes()];
    answered_to("", "dump text\n", if answer.is_some() { parts } else { &[] })
}

/// The same with further arguments, which make that request, and an answer of several parts.
fn answered_to(arguments: &str, expected: &str, parts: &[&[u8]]) -> process::Output {
    let folder = Folder::new("dump");
    let sockets = folder.0.join("ramie");
    DirBuilder::new().mode(0o700).create(&sockets).unwrap();
    let path = sockets.join(format!("{}.sock", process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let arguments = format!("dump {} --timeout 1 {arguments}", process::id());
    thread::scope(|s| {
        s.spawn(|| {
            let mut stream: UnixStream = listener.accept().unwrap().0;
            let mut request = String::new();
            BufReader::new(&stream).read_line(&mut request).unwrap();
            assert_eq!(request, expected);
            parts.iter().for_each(|part| stream.write_all(part).unwrap());
            if parts.is_empty() {
                drop(BufReader::new(&stream).read_line(&mut request));
            }
        });
        output(ramie_in(&folder, &arguments))
    })
}

#[test]
fn a_process_that_does_not_answer_is_named() {
    assert_sentence(&answered(None), 1, &["did not answer within 1 s", "--timeout", "debugger"]);
}

#[test]
fn an_answer_that_is_cut_off_is_noticed() {
    let cut = answered(Some("ok 20\nfour"));
    assert_eq!(text(&cut.stdout), "four");
    assert_sentence(&cut, 1, &["is cut off after 4 of 20 bytes", "try again"]);
    assert_sentence(&answered(Some("")), 1, &["without an answer", "has ended"]);
    assert_sentence(&answered(Some("ok 2")), 1, &["an answer that is not one of Ramie"]);
    assert_sentence(&answered(Some("HTTP/1.1 200 OK\n")), 1, &["not one of Ramie", "HTTP/1.1"]);
    assert_sentence(&answered(Some("error no memory\n")), 1, &["refuses: no memory"]);
}

#[test]
fn a_whole_answer_is_printed_as_it_is() {
    let whole = answered(Some("ok 4\nfour"));
    assert!(whole.status.success() && whole.stderr.is_empty());
    assert_eq!(text(&whole.stdout), "four");
}

/// The process may belong to another user, and `ramie` may be run by root.
#[test]
fn an_answer_does_not_control_the_terminal() {
    // An escape sequence, the same by one character, a reversal of the line, half a character, and
    // a byte that is no character.
    let head = "fiber '\u{1b}[2J\u{9b}31m\r\u{202e}é'\n\n  at";
    let parts = [head.as_bytes(), b" x\xc2", b"\x9by \x9b", b"\xe2\x80"];
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let first = format!("ok {length}\n");
    let parts = [&[first.as_bytes()], &parts[..]].concat();
    let shown = answered_to("", "dump text\n", &parts);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let expected = "fiber '\\u{1b}[2J\\u{9b}31m\\r\\u{202e}é'\n\n  at x\\u{9b}y \u{fffd}\u{fffd}";
    assert_eq!(std::str::from_utf8(&shown.stdout).unwrap(), expected);

    for answer in ["error \u{1b}[2J\u{9b}\n", "HTTP \u{1b}[2J\u{9b}\n"] {
        let refused = answered(Some(answer));
        assert_sentence(&refused, 1, &["\\u{1b}[2J\\u{9b}"]);
    }
}

#[test]
fn json_does_not_control_the_terminal_and_keeps_its_values() {
    let json = "{\"name\":\"\u{9b}31m\u{202e}é\"}\n";
    let answer = format!("ok {}\n{json}", json.len());
    let shown = answered_to("--json", "dump json\n", &[answer.as_bytes()]);
    assert_eq!(text(&shown.stdout), "{\"name\":\"\\u009b31m\\u202eé\"}\n");
    let [before, now] = [json.as_bytes(), &shown.stdout[..]]
        .map(|json| serde_json::from_slice::<serde_json::Value>(json).unwrap());
    assert_eq!(before, now);
}

#[test]
fn a_command_line_does_not_control_the_terminal() {
    let folder = Folder::new("dump");
    let mut command = ramie_in(&folder, "serve --hello --addr 127.0.0.1:0 --workers 1");
    command.env("RAMIE_INSPECT", "1").arg0("ramie\u{1b}[2J");
    let server = Server::started(command);
    let list = text(&output(ramie_in(&folder, "dump")).stdout);
    let row = format!("{}  ramie\\u{{1b}}[2J serve --hello", server.child.id());
    assert!(list.contains(&row) && !list.contains('\u{1b}'), "{list:?}");
}

#[test]
fn wrong_arguments_are_refused() {
    let wrong = |arguments: &str, parts: &[&str]| {
        assert_sentence(&output(ramie(arguments)), 2, parts);
    };
    wrong("dump serve", &["invalid value `serve` for PID", "whole number"]);
    wrong("dump -1", &["invalid value `-1` for PID"]);
    wrong("dump 0", &["invalid value `0` for PID", "1 or more"]);
    wrong("dump 1 2", &["unknown argument 2: only one PID is allowed"]);
    wrong("dump --name main", &["missing", "PID"]);
    wrong(&format!("dump 1 --name {}", "x".repeat(257)), &["for --name", "at most 256 bytes"]);
    wrong("dump 1 --timeout 0", &["invalid value `0` for --timeout"]);
}

#[test]
fn a_server_prints_a_dump_on_sigquit_and_goes_on() {
    let folder = Folder::new("dump");
    let mut server = Server::started(ramie_in(&folder, "serve --hello --addr 127.0.0.1:0"));
    let pid = server.child.id();
    let mut stderr = BufReader::new(server.child.stderr.take().unwrap());
    signal(&server.child, Signal::QUIT);
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line, format!("ramie: dump of process {pid}, on SIGQUIT\n"));
    while !line.contains("waits for a connection") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "the dump has no listener");
    }
    drop(server.connect());
    signal(&server.child, Signal::TERM);
    assert!(server.wait().success());
}
