//! HTTP servers under wrk: the crate `ramie-http`, `ramie serve --hello`, which uses it, a bare
//! handler on fibers, the limits (loops over a bare ring and a bare epoll set) and peers. The bare
//! handler, the limits, and the peers that are runtimes use the same parser and answer.

mod blocking;
mod epoll;
mod foreign;
mod generator;
mod generators;
mod load;
mod nginx;
mod owned_buffers;
mod ramie_http;
mod request;
mod ring;
mod run_http;
mod server;
mod static_file;
mod tokio;
mod verdict;

use std::{
    io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use self::{
    foreign::{Programs, Source},
    load::Load,
};
pub use self::{
    generators::{GeneratorOptions, compare_generators},
    load::has_wrk,
    nginx::announce,
    request::Service,
    run_http::{RunHttpOptions, compare_run_http},
    server::Kind,
    static_file::{StaticOptions, compare_static},
};
use crate::{
    comparison::{Comparison, PEERS},
    folder::Folder,
    measure::median,
    process::{self, KillOnDrop, Times, first_line, pinned, two_cpus},
};

/// The options of all commands that load HTTP servers.
#[derive(clap::Args)]
pub struct LoadOptions {
    /// The program `ramie`, built at the root by `cargo build --release --bins`.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/ramie"))]
    ramie: PathBuf,
    /// Length of each measurement.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    /// Measurements of each server or generator, in turn; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
}

impl LoadOptions {
    fn programs(&self) -> Programs<'_> {
        Programs { ramie: &self.ramie, peers: Path::new(PEERS) }
    }

    /// The CPU of the server and that of the generator. Fails without the program.
    fn cpus(&self) -> Result<[usize; 2], String> {
        if !self.ramie.exists() {
            let path = self.ramie.display();
            return Err(format!("no {path}: run `cargo build --release --bins` at the root"));
        }
        two_cpus()
    }
}

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    load: LoadOptions,
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Only these servers, with commas between them.
    #[arg(long, value_delimiter = ',')]
    servers: Vec<Kind>,
    /// The folder of the peers that are programs of their own, built by `bench/peers/build`.
    #[arg(long, default_value = PEERS)]
    peers: PathBuf,
}

/// The figures of one server under one run of wrk.
struct Round {
    requests_per_second: f64,
    /// CPU time per request in us: the whole, and the part outside the kernel.
    cpu: f64,
    user: f64,
}

/// A server's medians.
#[derive(Clone)]
struct ServerFigure {
    kind: Kind,
    requests_per_second: f64,
    cpu: f64,
    user: f64,
}

/// Measures the servers and prints their figures. Without `--servers`, those whose programs are
/// missing are left out.
///
/// Fails if wrk sees an error.
pub fn compare(options: &Options) -> Result<Comparison, String> {
    let mut kinds = match options.servers.as_slice() {
        [] => Kind::all(),
        some => some.to_vec(),
    };
    let programs = Programs { peers: &options.peers, ..options.load.programs() };
    let missing = programs.missing(&kinds);
    for program in &missing {
        program.report();
        kinds.retain(|kind| !program.kinds.contains(kind));
    }
    if !missing.is_empty() && !options.servers.is_empty() {
        eprintln!("NOTHING was measured");
        return Ok(Comparison::Incomplete);
    }
    let figures = measure_all(&kinds, &programs, options)?;
    Ok(match (verdict::print(&figures), missing.is_empty()) {
        (false, _) => Comparison::Missed,
        (true, false) => Comparison::Incomplete,
        (true, true) => Comparison::AllMet,
    })
}

/// Measures the servers in turn.
fn measure_all(
    kinds: &[Kind],
    programs: &Programs,
    options: &Options,
) -> Result<Vec<ServerFigure>, String> {
    let has_program = kinds.iter().any(|kind| kind.is_the_program());
    let [server_cpu, cpu] = if has_program { options.load.cpus()? } else { two_cpus()? };
    // A second worker shares the generator's CPU if there is no third.
    let second_cpu = process::cpus()?.get(2).copied().unwrap_or(cpu);
    let load = Load { cpu, connections: options.connections, seconds: options.load.seconds };
    let folder = Folder::create().map_err(|error| format!("no folder for files: {error}"))?;
    let mut rounds: Vec<Vec<Round>> = kinds.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.load.rounds {
        for (kind, rounds) in kinds.iter().zip(&mut rounds) {
            let cpus = &[server_cpu, second_cpu][..kind.workers()];
            let mut command = pinned(cpus, kind.command(programs, Service::HELLO)?);
            if matches!(kind.source(), Source::Nginx) {
                command.current_dir(folder.path());
            }
            let round = measure(&mut command, kind.path(), &load);
            rounds.push(round.map_err(|why| format!("{}: {why}", kind.name()))?);
        }
    }
    Ok(kinds.iter().zip(&rounds).map(|(kind, r)| ServerFigure::of(*kind, r)).collect())
}

impl ServerFigure {
    fn of(kind: Kind, rounds: &[Round]) -> Self {
        ServerFigure {
            kind,
            requests_per_second: median(rounds, |round| round.requests_per_second),
            cpu: median(rounds, |round| round.cpu),
            user: median(rounds, |round| round.user),
        }
    }
}

fn measure(server: &mut Command, path: &str, load: &Load) -> Result<Round, String> {
    let child = server.stdout(Stdio::piped()).spawn().map_err(|error| format!("{error}"))?;
    let mut server = KillOnDrop(child);
    let address = first_line(&mut server)?.replace("listening on ", "");
    // The first second is not measured, because connections, caches and pools fill in it.
    load.run(&address, path, Duration::from_secs(1))?;
    let before = Times::of(server.0.id())?;
    let seen = load.run(&address, path, Duration::from_secs(u64::from(load.seconds)))?;
    let after = Times::of(server.0.id())?;
    let per_request = |time: Duration| time.as_secs_f64() * 1e6 / seen.requests as f64;
    let user = after.user - before.user;
    Ok(Round {
        requests_per_second: seen.requests_per_second,
        cpu: per_request(user + after.system - before.system),
        user: per_request(user),
    })
}

/// Listens at a free port and prints it.
fn listen() -> io::Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    Ok(listener)
}
