//! `ramie trace`: processes and files, and those of which there is no trace. (`.ci/trace` reads the
//! traces with Perfetto's own classes.)

mod support;

use std::{
    fs::{self, DirBuilder},
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, symlink},
        net::UnixListener,
    },
    path::PathBuf,
    process::{self, Command},
    thread,
    time::Instant,
};

use rustix::process::Signal;
use support::{
    Folder, PATIENCE, Server, assert_sentence, output, output_of_another_user, ramie, signal, text,
};

/// The program, whose sockets and traces lie in the folder.
fn ramie_in(folder: &Folder, arguments: &str) -> Command {
    let mut command = ramie(arguments);
    command.env("XDG_RUNTIME_DIR", &folder.0).current_dir(&folder.0);
    command.env_remove("RAMIE_INSPECT").env_remove("RAMIE_FLIGHT_RECORDER");
    command
}

/// Checks the file, and the line about it; returns what was printed on stderr.
#[track_caller]
fn assert_written(written: &process::Output, path: &PathBuf) -> String {
    let stderr = text(&written.stderr);
    assert!(written.status.success(), "{stderr}");
    let line = text(&written.stdout);
    assert!(line.contains(" events, ") && line.contains("https://ui.perfetto.dev"), "{line}");
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{line}: {error}"));
    // The first packet has the tag 1 and its length.
    assert!(bytes.len() > 100 && bytes[0] == 0x0a, "{} bytes", bytes.len());
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    stderr
}

#[test]
fn a_server_is_recorded() {
    let folder = Folder::new("trace");
    let mut command = ramie_in(&folder, "serve --hello --addr 127.0.0.1:0 --workers 1");
    command.env("RAMIE_INSPECT", "1");
    let server = Server::started(command);
    let pid = server.child.id();
    let _connection = server.connect();
    let written = output(ramie_in(&folder, &format!("trace {pid} --seconds 1")));
    let stderr = assert_written(&written, &folder.0.join(format!("ramie-{pid}.pftrace")));
    assert_eq!(stderr, "");
    let path = folder.0.join("named");
    let written = output(ramie_in(&folder, &format!("trace {pid} --seconds 1 --output named")));
    assert_written(&written, &path);

    let lost = output(ramie_in(&folder, &format!("trace {pid} --output missing/trace")));
    assert_sentence(&lost, 1, &["cannot write missing/trace: ", "--output"]);
}

#[test]
fn the_file_of_a_flight_recorder_is_converted() {
    let folder = Folder::new("trace");
    let traces = folder.0.join("traces");
    let mut command = ramie_in(&folder, "serve --hello --addr 127.0.0.1:0 --workers 1");
    command.env("RAMIE_FLIGHT_RECORDER", &traces);
    let mut server = Server::started(command);
    let mut stderr = BufReader::new(server.child.stderr.take().unwrap());
    signal(&server.child, Signal::QUIT);
    let mut line = String::new();
    while !line.contains("flight recorder: ") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "no line about the trace");
    }
    let pid = server.child.id();
    let path = fs::read_dir(&traces).unwrap().next().unwrap().unwrap().path();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(&format!("ramie-{pid}-")) && name.ends_with("-1.trace"), "{name}");
    assert!(line.contains(path.to_str().unwrap()), "{line}");
    let written = output(ramie_in(&folder, &format!("trace {}", path.display())));
    let stderr = assert_written(&written, &path.with_extension("pftrace"));
    assert_eq!(stderr, "");

    // A part of it is a trace, too.
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let written = output(ramie_in(&folder, &format!("trace {}", path.display())));
    assert!(assert_written(&written, &path.with_extension("pftrace")).contains("is cut off"));
    fs::write(&path, b"RMTR").unwrap();
    let wrong = output(ramie_in(&folder, &format!("trace {}", path.display())));
    assert_sentence(&wrong, 1, &["ramie-", "not a trace of Ramie"]);
    // Only that of the trace that was read before is there.
    assert_eq!(fs::read_dir(&traces).unwrap().count(), 2);
}

#[test]
fn a_process_without_a_trace_is_named_and_leaves_no_file() {
    let folder = Folder::new("trace");
    // No process has this id: the most is 4194304.
    let none = output(ramie_in(&folder, "trace 4194305"));
    assert_sentence(&none, 1, &["there is no process 4194305"]);
    let own = process::id();
    let without = output(ramie_in(&folder, &format!("trace {own}")));
    assert_sentence(&without, 1, &["has no socket", "RAMIE_INSPECT=1"]);
    let none = output(ramie_in(&folder, "trace missing"));
    assert_sentence(&none, 1, &["cannot read missing: ", "the id of a process"]);
    assert!(fs::read_dir(&folder.0).unwrap().next().is_none());
}

/// Also one of another kind: a wrong argument must not cost the user a file.
#[test]
fn a_failure_leaves_an_earlier_file_alone() {
    let folder = Folder::new("trace");
    let earlier = |name: &str| {
        let path = folder.0.join(name);
        fs::write(&path, "earlier").unwrap();
        path
    };
    let gone = earlier("ramie-4194305.pftrace");
    assert_sentence(&output(ramie_in(&folder, "trace 4194305")), 1, &["no process 4194305"]);
    assert_eq!(fs::read(gone).unwrap(), b"earlier");
    let named = earlier("named");
    let none = output(ramie_in(&folder, "trace missing --output named"));
    assert_sentence(&none, 1, &["cannot read missing: "]);
    assert_eq!(fs::read(named).unwrap(), b"earlier");
    // The name of the output is that of the source.
    let converted = earlier("converted.pftrace");
    for arguments in ["trace converted.pftrace", "trace converted.pftrace --output ./named"] {
        assert_eq!(output(ramie_in(&folder, arguments)).status.code(), Some(1), "{arguments}");
        assert_eq!(fs::read(&converted).unwrap(), b"earlier", "{arguments}");
    }
    let same = output(ramie_in(&folder, "trace converted.pftrace"));
    assert_sentence(&same, 1, &["would be replaced by its conversion", "--output"]);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 3);
}

#[test]
fn a_link_in_the_place_of_the_file_is_not_followed_and_a_device_is_written() {
    let folder = Folder::new("trace");
    let mut command = ramie_in(&folder, "serve --hello --addr 127.0.0.1:0 --workers 1");
    command.env("RAMIE_INSPECT", "1");
    let server = Server::started(command);
    let pid = server.child.id();
    let target = folder.0.join("target");
    fs::write(&target, "of another program").unwrap();
    let path = folder.0.join(format!("ramie-{pid}.pftrace"));
    symlink(&target, &path).unwrap();
    assert_written(&output(ramie_in(&folder, &format!("trace {pid} --seconds 1"))), &path);
    assert_eq!(fs::read(target).unwrap(), b"of another program");
    assert!(path.symlink_metadata().unwrap().is_file());
    let null = format!("trace {pid} --seconds 1 --output /dev/null");
    assert!(output(ramie_in(&folder, &null)).status.success());
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn a_process_of_another_user_is_named() {
    let path = format!("/tmp/ramie-test-{}", process::id());
    let command = ramie(&format!("trace {} --output {path}", process::id()));
    let Some(refused) = output_of_another_user(command) else { return };
    assert_sentence(&refused, 1, &["belongs to user 0", "as that user, or as root"]);
    assert!(fs::metadata(path).is_err());
}

/// Yields are not recorded.
#[test]
fn a_trace_without_events_is_marked() {
    let folder = Folder::new("trace");
    let mut command = ramie_in(&folder, "run switch --count 4000000000");
    let mut busy = command.env("RAMIE_INSPECT", "1").spawn().unwrap();
    let arguments = format!("trace {} --seconds 1", busy.id());
    let start = Instant::now();
    // It has no socket at first, and then the events of its start.
    let mut stderr = String::new();
    while !stderr.contains("no worker recorded an event") && start.elapsed() < PATIENCE {
        stderr = text(&output(ramie_in(&folder, &arguments)).stderr);
    }
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(stderr.contains("ran fibers that did not wait; `ramie dump`"), "{stderr}");
}

#[test]
fn a_signal_leaves_no_file() {
    for (wanted, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = Folder::new("trace");
        // A server of its own, because the other one refuses a second trace until it has noticed
        // the end of the first.
        let mut command = ramie_in(&folder, "serve --hello --addr 127.0.0.1:0 --workers 1");
        command.env("RAMIE_INSPECT", "1");
        let server = Server::started(command);
        let has_part = || {
            let names = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
            names.into_iter().any(|name| name.to_str().unwrap().ends_with(".part"))
        };
        let mut command = ramie_in(&folder, &format!("trace {} --seconds 600", server.child.id()));
        let mut tracing = command.spawn().unwrap();
        let start = Instant::now();
        while !has_part() {
            assert!(start.elapsed() < PATIENCE, "no file is begun");
            thread::yield_now();
        }
        signal(&tracing, wanted);
        assert_eq!(tracing.wait().unwrap().code(), Some(code));
        assert!(!has_part(), "{wanted:?}");
    }
}

/// Asks this process for a trace, which gives that answer.
fn answered(answer: &[u8]) -> process::Output {
    let folder = Folder::new("trace");
    let sockets = folder.0.join("ramie");
    DirBuilder::new().mode(0o700).create(&sockets).unwrap();
    let path = sockets.join(format!("{}.sock", process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let answer = answer.to_owned();
    let answering = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        assert_eq!(request, "trace 7\n");
        stream.write_all(&answer).unwrap();
    });
    let start = Instant::now();
    let output = output(ramie_in(&folder, &format!("trace {} --seconds 7", process::id())));
    assert!(start.elapsed() < PATIENCE);
    answering.join().unwrap();
    output
}

#[test]
fn answers_without_a_trace_are_refused() {
    assert_sentence(&answered(b"error unknown request\n"), 1, &["refuses: unknown request"]);
    assert_sentence(&answered(b"ok 4\nfour"), 1, &["`ok 4` instead of a trace", "of the version"]);
    assert_sentence(&answered(b"ok trace\n"), 1, &["sent no trace", "try again"]);
    assert_sentence(&answered(b"ok trace\nGIF89a"), 1, &["not a trace of Ramie"]);
    assert_sentence(&answered(b"HTTP/1.1 200 OK\n"), 1, &["not one of Ramie", "HTTP/1.1"]);
}

#[test]
fn wrong_arguments_are_refused() {
    let wrong = |arguments: &str, parts: &[&str]| {
        assert_sentence(&output(ramie(arguments)), 2, parts);
    };
    wrong("trace", &["missing", "PID|FILE"]);
    wrong("trace 0", &["invalid value `0` for PID|FILE", "1 or more"]);
    wrong("trace -1", &["invalid value `-1` for PID|FILE"]);
    wrong("trace 1 --seconds 0", &["invalid value `0` for --seconds", "1 or more"]);
    wrong("trace 1 --seconds 601", &["invalid value `601` for --seconds", "at most 600"]);
    wrong("trace 1 2", &["unknown argument 2: only one PID|FILE is allowed"]);
    let parts = ["--seconds", "for a process", "`missing` is a file", "omit --seconds"];
    wrong("trace missing --seconds 5", &parts);
    wrong("trace missing --timeout 5", &["--timeout", "for a process", "omit --timeout"]);
}
