//! `ramie run http`: rows, checks, refusals, and the end of a server or a load generator.

mod support;

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::TcpListener,
    process::{Child, ChildStderr, Command, Output, Stdio},
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{
    PATIENCE, RAMIE, Server, assert_gone, assert_sentence, children, command_line, drivers,
    has_ring, output, ramie, ramie_under, signal, text,
};

const SMALL: &str = "--connections 5 --requests 203 --body 100";

fn row(arguments: &str) -> Value {
    let output = output(ramie(&format!("run http {arguments} --json")));
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[track_caller]
fn check(row: &Value, on: &str, requests: u64) {
    let number = |field: &str| row[field].as_f64().unwrap_or_else(|| panic!("no {field} in {row}"));
    assert_eq!((&row["workload"], &row["on"]), (&"http".into(), &on.into()));
    assert_eq!(row["ops"], requests);
    let rate = requests as f64 / number("seconds");
    assert!((number("requests_per_s") / rate - 1.0).abs() < 1e-6, "{row}");
    let cpu = number("cpu_s") * 1e6 / requests as f64;
    assert!(cpu > 0.0 && (number("cpu_us_per_request") / cpu - 1.0).abs() < 1e-6, "{row}");
    let latency = ["min", "p50", "p99", "max"].map(|name| row["latency_us"][name].as_f64());
    assert!(latency.iter().all(Option::is_some) && latency.is_sorted(), "{row}");
    let [mean, stdev] = ["mean", "stdev"].map(|name| row["latency_us"][name].as_f64().unwrap());
    assert!(latency[0] <= Some(mean) && Some(mean) <= latency[3] && stdev >= 0.0, "{row}");
}

fn engines() -> Vec<&'static str> {
    let sidecar = has_ring().then_some("sidecar");
    ["fibers", "threads", "hybrid", "processes"].into_iter().chain(sidecar).collect()
}

#[test]
fn every_engine_answers_every_request() {
    for on in engines() {
        for write in ["single", "vectored"] {
            let row = row(&format!("{SMALL} --on {on} --write {write}"));
            check(&row, on, 203);
            assert_eq!(row["write"], write);
        }
    }
}

#[test]
fn both_drivers_send_bodies_larger_than_a_socket_holds() {
    for driver in drivers() {
        for write in ["single", "vectored"] {
            let body = "--connections 3 --requests 20 --body 3000000";
            let row = row(&format!("{body} --driver {driver} --write {write}"));
            check(&row, "fibers", 20);
            assert_eq!((&row["driver"], &row["write"]), (&driver.into(), &write.into()));
        }
    }
    check(&row("--connections 3 --requests 20 --body 3000000 --on threads"), "threads", 20);
}

#[test]
fn the_load_generator_runs_by_polling_too() {
    for on in ["fibers", "processes"] {
        let mut command = ramie(&format!("run http {SMALL} --on {on} --json"));
        command.env("RAMIE_DRIVER", "poll");
        let output = output(command);
        assert!(output.status.success(), "{}", text(&output.stderr));
        check(&serde_json::from_slice(&output.stdout).unwrap(), on, 203);
    }
}

#[test]
fn the_row_has_all_parameters() {
    let row = row(&format!("{SMALL} --work 7"));
    let params = serde_json::json!({ "connections": 5, "requests": 203, "body": 100, "work": 7 });
    assert_eq!((&row["params"], &row["write"]), (&params, &"single".into()));
    let line = text(&output(ramie(&format!("run http {SMALL}"))).stdout);
    assert!(line.starts_with("http 5 203 100 0 single seconds="), "{line}");
    for name in [" requests_per_s=", " latency_us.p99=", " cpu_us_per_request="] {
        assert!(line.contains(name), "{line}");
    }
}

#[test]
fn work_costs_cpu_time_for_each_request() {
    for on in engines() {
        let row = row(&format!("--connections 2 --requests 50 --body 1 --work 500 --on {on}"));
        check(&row, on, 50);
        // The calibration takes the fastest attempt, so the work takes about this long at least.
        assert!(row["cpu_us_per_request"].as_f64().unwrap() > 250.0, "{row}");
    }
}

#[test]
fn there_may_be_fewer_requests_than_connections() {
    for on in ["fibers", "threads", "processes"] {
        check(&row(&format!("--connections 40 --requests 3 --body 1 --on {on}")), on, 3);
    }
}

#[test]
fn connections_are_shared_by_workers_and_processes() {
    assert_eq!(row(&format!("{SMALL} --on hybrid --workers 3"))["workers"], 3);
    let in_processes = row(&format!("{SMALL} --on processes --processes 5"));
    assert_eq!(in_processes["workers"], 5);
    // The default is no more processes than connections.
    let one = row("--connections 1 --requests 9 --body 1 --on processes");
    check(&one, "processes", 9);
    assert_eq!(one["workers"], 1);
}

#[test]
fn sweeps_repetitions_and_counters_work() {
    let sweep = "run http --connections 1,4 --requests 30 --body 1 --workers 1,2 --csv --repeat 2";
    let table = text(&output(ramie(sweep)).stdout);
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 2 * 2, "{table}");
    let columns = lines[0].split(',').count();
    assert!(lines[0].contains("requests_per_s,") && lines[0].contains("latency_us.stdev"));
    assert!(lines.iter().all(|line| line.split(',').count() == columns), "{table}");
    let row = row(&format!("{SMALL} --counters"));
    check(&row, "fibers", 203);
    assert!(row["counters"]["runs_max"].as_u64() > Some(1), "{row}");
    for on in ["threads", "processes --processes 2"] {
        let row = self::row(&format!("{SMALL} --on {on} --counters"));
        assert!(row["counters"]["runs_max"].as_u64() > Some(1), "{row}");
        assert!(row["counters"]["minor_faults"].is_u64(), "{row}");
    }
}

#[test]
fn runs_are_those_of_connections() {
    for on in ["fibers", "threads", "hybrid", "processes --processes 1"] {
        // The only connection has the fewest and the most runs, if nothing else is counted.
        let one = "--connections 1 --requests 500 --body 1 --counters --on";
        let counters = &row(&format!("{one} {on}"))["counters"];
        assert!(counters["runs_min"].as_u64() > Some(1), "{counters}");
        assert_eq!(counters["runs_min"], counters["runs_max"], "on {on}: {counters}");
    }
}

#[test]
fn wrong_numbers_and_combinations_are_refused() {
    for (arguments, parts) in [
        ("--connections 1", &["missing", "--requests", "--body"] as &[&str]),
        ("--connections 0 --requests 1 --body 1", &["`0` for --connections"]),
        ("--connections 1 --requests 1 --body 0", &["`0` for --body"]),
        (&format!("{SMALL} --work -1"), &["`-1` for --work"]),
        (&format!("{SMALL} --write both"), &["`both` for --write", "single, vectored"]),
        (&format!("{SMALL} --driver epoll"), &["`epoll` for --driver", "uring, poll"]),
        (&format!("{SMALL} --port 70000"), &["--port", "at most 65535"]),
        (
            &format!("{SMALL} --driver poll --on threads"),
            &["--driver does not apply to --on threads", "--on fibers"],
        ),
        (
            &format!("{SMALL} --driver poll --on sidecar"),
            &["--driver poll does not apply to --on sidecar", "--driver uring"],
        ),
        (
            &format!("{SMALL} --port 5000 --on processes"),
            &["--port does not apply to --on processes", "--on hybrid"],
        ),
        (
            &format!("{SMALL} --on processes --processes 6"),
            &["5 connections are too few for 6 processes"],
        ),
        (&format!("{SMALL} --on processes --workers 2"), &["--workers", "--processes"]),
        (&format!("{SMALL} --on threads --workers 2"), &["--workers", "--on hybrid"]),
        (
            &format!("{SMALL} --on coroutines"),
            &["does not run on", "fibers, --on threads, --on hybrid, --on sidecar, --on processes"],
        ),
    ] {
        assert_sentence(&output(ramie(&format!("run http {arguments}"))), 2, parts);
    }
}

#[test]
fn a_port_that_is_free_or_in_use() {
    let is_in_use = |output: &Output| text(&output.stderr).contains("another program");
    let on_free_port = || {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = other.local_addr().unwrap().port();
        let taken = output(ramie(&format!("run http {SMALL} --port {port}")));
        let address = format!("127.0.0.1:{port}");
        assert_sentence(&taken, 1, &[&address, "another program", "omit --port"]);
        drop(other);
        output(ramie(&format!("run http {SMALL} --port {port} --on threads --json")))
    };
    // Another test may take the port meanwhile.
    let served = (0..20).map(|_| on_free_port()).find(|output| !is_in_use(output));
    let served = served.expect("a port that is free");
    assert!(served.status.success(), "{}", text(&served.stderr));
    check(&serde_json::from_slice(&served.stdout).unwrap(), "threads", 203);
}

#[test]
fn a_port_that_is_not_allowed() {
    match TcpListener::bind("127.0.0.1:1") {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
        _ => return support::skipped("port 1 is allowed or in use here"),
    }
    let refused = output(ramie(&format!("run http {SMALL} --port 1")));
    let parts = ["127.0.0.1:1", "CAP_NET_BIND_SERVICE", "omit --port"];
    assert_sentence(&refused, 1, &parts);
}

#[test]
fn too_few_descriptors_ports_threads_or_memory() {
    let run = "run http --connections 1000 --requests 1 --body 1";
    for on in ["fibers", "threads"] {
        let output = output(ramie_under("ulimit -n 300", &format!("{run} --on {on}")));
        let parts = ["1000 connections need", "300 at most", "ulimit -Hn"];
        assert_sentence(&output, 1, &parts);
    }
    let members =
        output(ramie_under("ulimit -n 300", &format!("{run} --on processes --processes 2")));
    assert_sentence(&members, 1, &["process 1 of 2", "500 connections need", "300 at most"]);
    let many = output(ramie("run http --connections 65000 --requests 1 --body 1"));
    assert_sentence(&many, 1, &["65000 connections", "ip_local_port_range", "ask for"]);
    let huge = output(ramie("run http --connections 1000 --requests 1 --body 4294967295"));
    assert_sentence(&huge, 1, &["of memory"]);
}

#[test]
fn the_load_generator_checks_answers_of_other_servers() {
    let server = Server::start();
    let load = |body: u32| {
        let arguments = format!(
            "load-generator --connections 3 --requests 50 --body {body} {}",
            server.address
        );
        let mut command = ramie(&arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // If it fails before, nobody reads the byte.
        let _ = child.stdin.as_mut().unwrap().write_all(b"!");
        child.wait_with_output().unwrap()
    };
    let good = load(14);
    assert!(good.status.success(), "{}", text(&good.stderr));
    let printed = text(&good.stdout);
    let report: Value = serde_json::from_str(printed.strip_prefix("ready\n").unwrap()).unwrap();
    assert_eq!(report["requests"], 50);
    assert_sentence(&load(15), 1, &["a body of 14 bytes instead of 15"]);
    // The port of a listener of std is free at once, that of a server on io_uring is not.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = format!("load-generator --connections 3 --requests 5 --body 1 {address}");
    assert_sentence(&output(ramie(&refused)), 1, &["cannot open 3 connections", "refused"]);
}

/// A run that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// A run on `on` that would take minutes, once requests are answered.
    fn start(on: &str) -> (Self, Vec<u32>) {
        // A shell that starts the tests in the background has them ignore SIGINT.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,TERM", RAMIE, "run", "http"]);
        let arguments = "--connections 4 --requests 100000000 --body 1 --on";
        command.args(arguments.split(' ')).arg(on).stdin(Stdio::null());
        if on == "processes" {
            command.args(["--processes", "3"]);
        }
        let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let run = Running(run);
        let count = if on == "processes" { 4 } else { 1 };
        let start = Instant::now();
        loop {
            let children = children(run.0.id());
            if children.len() == count && children.iter().any(|id| uses_cpu(*id)) {
                return (run, children);
            }
            assert!(start.elapsed() < PATIENCE, "its processes do not start");
            std::thread::yield_now();
        }
    }

    fn stderr(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.0.stderr.take().unwrap())
    }
}

/// Whether a load generator has sent requests for some time.
fn uses_cpu(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let ticks = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(12)?.parse().ok());
    command_line(process).contains("load-generator") && ticks > Some(2_u64)
}

fn kill(process: u32) {
    kill_process(Pid::from_raw(process as i32).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_load_generator_that_dies_is_named() {
    for on in ["fibers", "threads", "processes"] {
        let (mut run, children) = Running::start(on);
        let is_generator = |id: &&u32| command_line(**id).contains("load-generator");
        kill(*children.iter().find(is_generator).unwrap());
        let mut message = String::new();
        run.stderr().read_to_string(&mut message).unwrap();
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.contains("the load generator (id ") && message.contains("signal 9"));
        assert_eq!(run.0.wait().unwrap().code(), Some(1));
        assert_gone(&children);
    }
}

#[test]
fn a_server_that_dies_is_named() {
    let (mut run, children) = Running::start("processes");
    let server = *children.iter().find(|id| command_line(**id).contains("--member")).unwrap();
    kill(server);
    let mut message = String::new();
    run.stderr().read_to_string(&mut message).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains(&format!("(id {server}) was killed by signal 9")), "{message}");
    assert_eq!(run.0.wait().unwrap().code(), Some(1));
    assert_gone(&children);
}

#[test]
fn a_signal_ends_all_processes_with_one_sentence() {
    for (on, end) in [("fibers", Signal::INT), ("processes", Signal::TERM)] {
        let (mut run, children) = Running::start(on);
        signal(&run.0, end);
        let mut message = String::new();
        run.stderr().read_line(&mut message).unwrap();
        assert!(message.contains("stopped by a signal"), "{message}");
        assert_eq!(run.0.wait().unwrap().code(), Some(130));
        assert_gone(&children);
    }
    let (mut run, children) = Running::start("processes");
    signal(&run.0, Signal::KILL);
    assert!(!run.0.wait().unwrap().success());
    assert_gone(&children);
}
