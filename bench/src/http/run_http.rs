//! The server of `ramie run http` beside a loop over a bare ring and the bare handler on fibers:
//! the CPU time of a request, under one load generator, at the same body and connections.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    Kind, LoadOptions, Service,
    foreign::Programs,
    generator::{Generator, Requests},
};
use crate::{
    measure::median,
    process::{self, KillOnDrop, Times, first_line, pinned},
};

#[derive(clap::Args)]
pub struct RunHttpOptions {
    #[command(flatten)]
    load: LoadOptions,
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Length of the body of an answer, in bytes.
    #[arg(long, default_value_t = Service::HELLO.body)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    body: u32,
}

/// How much more CPU time than the best bare ring a request may take, in us: as much as that of a
/// whole server.
const LIMIT_US: f64 = 1.0;
/// Requests that show how many a measurement needs.
const FIRST_REQUESTS: u64 = 50_000;
/// The row of the program's own server.
const RUN_HTTP: &str = "run http --on fibers";
/// All of them receive and answer alike.
const BARE: [Kind; 3] = [Kind::RawSingle, Kind::RawMultishot, Kind::Ramie];

/// One run of one server.
struct Cost {
    requests_per_second: f64,
    cpu_us: f64,
}

/// Returns whether `ramie run http` is within its limit.
pub fn compare_run_http(options: &RunHttpOptions) -> Result<bool, String> {
    let LoadOptions { ramie, seconds, rounds } = &options.load;
    let programs = options.load.programs();
    let cpus = options.load.cpus()?;
    let mut requests =
        Requests { connections: options.connections, count: FIRST_REQUESTS, body: options.body };
    let first = of_bare(Kind::RawSingle, &programs, cpus, &requests)?;
    requests.count = (first.requests_per_second * f64::from(*seconds)) as u64;
    let mut costs: Vec<Vec<Cost>> = (0..=BARE.len()).map(|_| Vec::new()).collect();
    for _ in 0..*rounds {
        for (kind, costs) in BARE.iter().zip(&mut costs) {
            costs.push(of_bare(*kind, &programs, cpus, &requests)?);
        }
        costs[BARE.len()].push(of_run_http(ramie, cpus, &requests)?);
    }
    Ok(print(&costs))
}

/// A server of the bench.
fn of_bare(
    kind: Kind,
    programs: &Programs,
    [server_cpu, load_cpu]: [usize; 2],
    requests: &Requests,
) -> Result<Cost, String> {
    let service = Service { body: requests.body, ..Service::HELLO };
    let mut command = pinned(&[server_cpu], kind.command(programs, service)?);
    let child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let mut server = KillOnDrop(child);
    let address = first_line(&mut server)?.replace("listening on ", "");
    let mut generator = Generator::start(programs.ramie, load_cpu, &address, requests)?;
    let before = Times::of(server.0.id())?;
    let report = generator.run()?;
    let after = Times::of(server.0.id())?;
    let cpu = (after.user + after.system).saturating_sub(before.user + before.system);
    let count = report.requests as f64;
    Ok(Cost {
        requests_per_second: count / report.time.as_secs_f64(),
        cpu_us: cpu.as_secs_f64() * 1e6 / count,
    })
}

/// The program's own server, which starts the generator itself.
fn of_run_http(
    ramie: &Path,
    [server_cpu, load_cpu]: [usize; 2],
    requests: &Requests,
) -> Result<Cost, String> {
    let mut run = Command::new(ramie);
    run.args(["run", "http", "--on", "fibers", "--driver", "uring", "--json"]).args([
        format!("--connections={}", requests.connections),
        format!("--requests={}", requests.count),
        format!("--body={}", requests.body),
    ]);
    let mut command = pinned(&[server_cpu], run);
    let child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let mut server = KillOnDrop(child);
    move_generator(server.0.id(), load_cpu)?;
    let line = first_line(&mut server)?;
    let row: serde_json::Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    let number = |name: &str| row[name].as_f64().ok_or_else(|| format!("no {name} in {line}"));
    Ok(Cost {
        requests_per_second: number("requests_per_s")?,
        cpu_us: number("cpu_us_per_request")?,
    })
}

/// Moves the generator that a server has started to another CPU, all its threads.
fn move_generator(server: u32, cpu: usize) -> Result<(), String> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            let command = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if command.split(|byte| *byte == 0).any(|word| word == b"load-generator") {
                // A thread that it starts later inherits the CPU.
                return process::pin_all_threads(child, cpu);
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err("`ramie run http` has started no load generator".to_owned())
}

/// Prints the medians, and returns whether the program's own server is within its limit.
fn print(costs: &[Vec<Cost>]) -> bool {
    println!(
        "{:<22}{:>12}{:>20}{:>18}",
        "server", "requests/s", "CPU us per request", "least to most"
    );
    let names = BARE.iter().map(|kind| kind.name()).chain([RUN_HTTP.to_owned()]);
    let mut medians = Vec::new();
    for (name, costs) in names.zip(costs) {
        let cpu = median(costs, |cost| cost.cpu_us);
        let all = || costs.iter().map(|cost| cost.cpu_us);
        let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
        let rate = median(costs, |cost| cost.requests_per_second);
        println!("{name:<22}{rate:>12.0}{cpu:>20.2}{:>18}", format!("{least:.2} to {most:.2}"));
        medians.push(cpu);
    }
    let [raw_single, raw_multishot, handler, ours] = medians[..] else { return false };
    let raw = raw_single.min(raw_multishot);
    let is_met = ours <= raw + LIMIT_US;
    println!(
        "  -> {RUN_HTTP}: {ours:.2} us = {raw:.2} (the best bare ring) {:+.2} (a handler on \
         fibers) {:+.2} (the whole protocol and its checks); target {:.2}: {}",
        handler - raw,
        ours - handler,
        raw + LIMIT_US,
        if is_met { "met" } else { "MISSED" }
    );
    is_met
}
