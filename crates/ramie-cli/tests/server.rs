//! `ramie run server`: rows, checks, refusals, and no process left behind.

mod support;

use std::{
    fs,
    process::{Child, Stdio},
    time::Instant,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{
    PATIENCE, assert_gone, assert_sentence, children, command_line, drivers, has_ring, output,
    ramie, ramie_under, signal, text,
};

fn rows(arguments: &str) -> Vec<Value> {
    let output = output(ramie(&format!("run server {arguments} --json")));
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    let rows = text(&output.stdout);
    rows.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

#[track_caller]
fn check(row: &Value, clients: u64, order: &str, on: &str) {
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number in {row}"));
    assert_eq!(
        (&row["workload"], &row["order"], &row["on"]),
        (&"server".into(), &order.into(), &on.into())
    );
    assert_eq!((&row["params"]["clients"], &row["ops"]), (&clients.into(), &clients.into()));
    for waits in ["accept_wait_us", "client_wait_us"] {
        let [mean, max] = ["mean", "max"].map(|part| number(&row[waits][part]));
        assert!(0.0 < mean && mean <= max, "{waits} of {row}");
    }
    // The server accepts all clients within the measured time.
    let accepted_s = number(&row["accept_wait_us"]["mean"]) * clients as f64 * 1e-6;
    assert!(accepted_s <= number(&row["seconds"]), "{row}");
    let percent = number(&row["cpu_s"]) / number(&row["seconds"]) * 100.0;
    assert!((number(&row["server_cpu_percent"]) - percent).abs() < 0.01, "{row}");
    assert!(number(&row["peak_rss_bytes"]) > 1_000_000.0, "{row}");
    assert!(row["threads"].as_u64() >= Some(1), "{row}");
}

#[test]
fn every_engine_serves_clients_in_both_orders() {
    for on in ["fibers", "threads", "hybrid", "sidecar"] {
        if on == "sidecar" && !has_ring() {
            continue;
        }
        for (order, at_once) in [("sequential", 1), ("concurrent", 40)] {
            let row = &rows(&format!("--clients 40 --order {order} --on {on}"))[0];
            check(row, 40, order, on);
            assert_eq!(row["clients_at_once"], at_once, "{row}");
        }
    }
}

#[test]
fn threads_are_those_of_the_server() {
    let row = &rows("--clients 5 --on threads")[0];
    // The accepting thread, the one that waits for the clients' report, that of a connection, and
    // those that have closed theirs and still end.
    assert!((3..=7).contains(&row["threads"].as_u64().unwrap()), "{row}");
    // The workers, and the watchdog.
    assert_eq!(rows("--clients 5 --on fibers")[0]["threads"], 2);
    assert_eq!(rows("--clients 5 --on hybrid --workers 3")[0]["threads"], 4);
}

#[test]
fn clients_are_served_by_polling_too() {
    for driver in drivers() {
        let mut command = ramie("run server --clients 30 --order concurrent --on fibers");
        command.env("RAMIE_DRIVER", driver);
        let output = output(command);
        assert!(output.status.success(), "{driver}: {}", text(&output.stderr));
    }
}

#[test]
fn repetitions_sweeps_csv_and_counters_have_all_clients() {
    let repeated = rows("--clients 10 --repeat 3 --on fibers");
    assert_eq!(repeated.len(), 3);
    repeated.iter().for_each(|row| check(row, 10, "sequential", "fibers"));
    let clients: Vec<_> = rows("--clients 5,10 --order concurrent --on threads")
        .iter()
        .map(|row| row["params"]["clients"].as_u64().unwrap())
        .collect();
    assert_eq!(clients, [5, 10]);
    let csv = text(&output(ramie("run server --clients 10,20 --csv")).stdout);
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 3, "{csv}");
    for column in ["order", "accept_wait_us.max", "server_cpu_percent", "peak_rss_bytes"] {
        assert!(lines[0].split(',').any(|name| name == column), "{column} in {csv}");
    }
    let counters = &rows("--clients 10 --counters --on fibers")[0]["counters"];
    assert!(counters["runs_min"].as_u64() >= Some(1), "{counters}");
    assert!(counters["voluntary_switches"].is_u64(), "{counters}");
}

#[test]
fn runs_are_those_of_connections() {
    // The only connection has the fewest and the most runs, if nothing else is counted.
    for on in ["threads", "fibers", "hybrid"] {
        let counters = &rows(&format!("--clients 1 --counters --on {on}"))[0]["counters"];
        assert!(counters["runs_min"].is_u64(), "{counters}");
        assert_eq!(counters["runs_min"], counters["runs_max"], "on {on}: {counters}");
    }
}

#[test]
fn a_line_of_text_has_the_order_and_the_figures() {
    let line = text(&output(ramie("run server --clients 7")).stdout);
    assert!(line.starts_with("server 7 sequential seconds="), "{line}");
    for figure in [" accept_wait_us.mean=", " server_cpu_percent=", " threads=2 "] {
        assert!(line.contains(figure), "{figure} in {line}");
    }
}

#[test]
fn wrong_numbers_and_combinations_are_refused() {
    for (arguments, parts) in [
        ("", &["missing --clients"][..]),
        ("--clients 0", &["invalid value `0` for --clients", "1 or more"]),
        ("--clients 2 --order random", &["`random` for --order", "sequential, concurrent"]),
        ("--clients 2 --on processes", &["server does not run on processes", "--on sidecar"]),
        ("--clients 2 --on coroutines", &["server does not run on coroutines"]),
        ("--clients 2 --on threads --workers 2", &["--workers", "--on hybrid"]),
    ] {
        assert_sentence(&output(ramie(&format!("run server {arguments}"))), 2, parts);
    }
}

#[test]
fn too_few_descriptors_for_all_at_once_are_announced() {
    let run = "run server --clients 200 --order concurrent --on threads --json";
    let output = output(ramie_under("ulimit -n 120", run));
    // RESERVED and PER_WORKER of the program leave 52.
    assert_sentence(&output, 0, &["at most 52 of 200 clients", "ulimit -Hn"]);
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&row, 200, "concurrent", "threads");
    assert_eq!(row["clients_at_once"], 52);
}

#[test]
fn more_clients_than_the_listener_queues_are_announced() {
    let queue = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let queue: u64 = queue.trim().parse().unwrap();
    if queue > 10_000 {
        return support::skipped("the queue of a listener is too long here to fill it");
    }
    let clients = queue + 10;
    let run = format!("run server --clients {clients} --order concurrent --on fibers --json");
    let output = output(ramie(&run));
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    check(&row, clients, "concurrent", "fibers");
    let message = text(&output.stderr);
    let limits = ["net.core.somaxconn", "the hard limit on descriptors"];
    assert!(limits.iter().any(|limit| message.contains(limit)), "{message}");
    assert!(row["clients_at_once"].as_u64() <= Some(queue), "{row}");
}

#[test]
fn too_few_descriptors_for_one_client() {
    let output = output(ramie_under("ulimit -n 60", "run server --clients 2"));
    assert_sentence(&output, 1, &["1 client needs 69 descriptors", "60 at most", "ulimit -Hn"]);
}

#[test]
fn clients_for_which_there_is_no_address_space() {
    let run = "run server --clients 4000 --order concurrent --on threads";
    let output = output(ramie_under("ulimit -v 600000", run));
    assert_sentence(&output, 1, &["the clients", "4000 fibers need about", "`ulimit -v`"]);
}

/// A server that would run for minutes; killed when dropped.
struct Running(Child);

impl Running {
    /// Waits until the clients' process runs; returns its id.
    fn start(on: &str) -> (Self, u32) {
        let mut command = ramie(&format!("run server --clients 10000000 --on {on}"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (server, start) = (Running(child), Instant::now());
        loop {
            let is_client = |id: &u32| command_line(*id).contains(" clients 127.0.0.1:");
            if let Some(client) = children(server.0.id()).into_iter().find(is_client) {
                return (server, client);
            }
            assert!(start.elapsed() < PATIENCE, "the clients do not start");
            std::thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn clients_that_die_end_the_server() {
    for on in ["fibers", "threads"] {
        let (mut server, clients) = Running::start(on);
        kill_process(Pid::from_raw(clients as i32).unwrap(), Signal::KILL).unwrap();
        let mut message = String::new();
        let mut stderr = server.0.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut stderr, &mut message).unwrap();
        let id = format!("the clients' process (id {clients}) was killed by signal 9");
        assert!(message.contains(&id) && message.lines().count() == 1, "{message}");
        assert_eq!(server.0.wait().unwrap().code(), Some(1), "{message}");
    }
}

#[test]
fn clients_do_not_outlive_the_server() {
    for end in [Signal::TERM, Signal::KILL] {
        let (mut server, clients) = Running::start("fibers");
        signal(&server.0, end);
        assert!(!server.0.wait().unwrap().success());
        assert_gone(&[clients]);
    }
}
