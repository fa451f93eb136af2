//! `ramie serve --hello` beside a tokio server with the same parser and answer, under wrk.

mod load;
mod tokio_server;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

pub use tokio_server::serve as serve_on_tokio;

use self::load::Load;
use crate::{
    measure::median,
    process::{self, Server},
};

#[derive(clap::Args)]
pub struct Options {
    /// The program `ramie`, built at the root by `cargo build --release --bins`.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/ramie"))]
    ramie: PathBuf,
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
}

/// What one server did under one run of wrk.
struct Round {
    requests_per_second: f64,
    cpu_us_per_request: f64,
}

/// Tells whether wrk saw no error.
pub fn compare(options: &Options) -> Result<bool, String> {
    if !load::has_wrk() {
        println!("skipped: install wrk");
        return Ok(true);
    }
    let &[server_cpu, wrk_cpu, ..] = process::cpus()?.as_slice() else {
        return Err("one CPU is not enough for a server and wrk beside it".to_owned());
    };
    if !options.ramie.exists() {
        let path = options.ramie.display();
        return Err(format!("no {path}: run `cargo build --release --bins` at the root"));
    }
    let load = Load { cpu: wrk_cpu, connections: options.connections, seconds: options.seconds };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        ours.push(measure(pinned(server_cpu, &options.ramie).args(RAMIE_ARGUMENTS), &load)?);
        let ourselves = process::ourselves()?;
        let ourselves = Path::new(ourselves.get_program());
        theirs.push(measure(pinned(server_cpu, ourselves).arg("tokio-server"), &load)?);
    }
    print(&ours, &theirs);
    Ok(true)
}

const RAMIE_ARGUMENTS: [&str; 6] = ["serve", "--hello", "--addr", "127.0.0.1:0", "--workers", "1"];

/// taskset replaces itself by the program, so that the child is the program.
fn pinned(cpu: usize, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(cpu.to_string()).arg(program);
    command
}

fn measure(server: &mut Command, load: &Load) -> Result<Round, String> {
    let child = server.stdout(Stdio::piped()).spawn().map_err(|error| format!("{error}"))?;
    let mut server = Server(child);
    let address = first_line(&mut server)?.replace("listening on ", "");
    // Connections, caches and pools of the first second are not what is compared.
    load.run(&address, Duration::from_secs(1))?;
    let before = process::cpu_time(server.0.id())?;
    let seen = load.run(&address, Duration::from_secs(u64::from(load.seconds)))?;
    let cpu = process::cpu_time(server.0.id())? - before;
    Ok(Round {
        requests_per_second: seen.requests_per_second,
        cpu_us_per_request: cpu.as_secs_f64() * 1e6 / seen.requests as f64,
    })
}

/// Waits for a server to say where it listens.
pub fn first_line(server: &mut Server) -> Result<String, String> {
    let stdout = server.0.stdout.take().ok_or("the server's output is not piped")?;
    let mut line = String::new();
    let count = BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
    match count {
        0 => Err("the server ended before it listened".to_owned()),
        _ => Ok(line.trim().to_owned()),
    }
}

fn print(ours: &[Round], theirs: &[Round]) {
    println!("{:<8}{:>14}{:>22}", "server", "requests/s", "CPU us per request");
    for (name, rounds) in [("ramie", ours), ("tokio", theirs)] {
        let rate = median(rounds, |round| round.requests_per_second);
        let cpu = median(rounds, |round| round.cpu_us_per_request);
        println!("{name:<8}{rate:>14.0}{cpu:>22.2}");
    }
}
