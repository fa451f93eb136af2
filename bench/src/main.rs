//! Measures Ramie beside corosensei, tokio, monoio and OS threads on the same workloads in one run.

mod cases;
mod comparison;
mod connections;
mod effects;
mod files;
mod folder;
mod handover;
mod http;
mod limits;
mod measure;
mod one_task;
mod peer_line;
mod peers;
mod process;
mod rings;
mod submitter;
mod tls;
mod traffic;
mod transfer;
mod verdict;
mod workload;

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::{
    cases::{CASES, Case},
    comparison::Comparison,
    peers::Peer,
    workload::Workload,
};

/// Measures Ramie beside its peers, and prints the ratios.
///
/// Exit codes: 0 if all targets are met; 1 if one is missed, or something goes wrong; 2 if the
/// arguments are wrong; 3 if something is not measured, because a program is missing.
#[derive(Parser)]
struct Arguments {
    /// Only the cases whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
    /// A tenth of the work: for a try, not for publication.
    #[arg(long)]
    quick: bool,
    /// Runs of each peer, in turn; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Loads HTTP servers by wrk: Ramie's, loops over a bare ring and a bare epoll set, and peers.
    /// Exits with 3 if there is no wrk, or if a peer is missing.
    Http(http::Options),
    /// Loads `ramie serve` and nginx with a file of one MiB by wrk, and compares the CPU time of a
    /// GiB. Exits with 3 if there is no wrk or no nginx.
    Static(http::StaticOptions),
    /// Loads a server by wrk and by the load generator of `ramie run http`, in turn. Exits with 3
    /// if there is no wrk.
    Generators(http::GeneratorOptions),
    /// Compares the server's CPU time per request in `ramie run http` with that of a loop over a
    /// bare ring, under the same load generator.
    RunHttp(http::RunHttpOptions),
    /// Compares handshakes and bytes of TLS by `ramie-http` with rustls on a memory pipe by their
    /// CPU time, and measures the memory of idle connections. Exits with 3 if all targets are
    /// met, but a peer is missing.
    Tls(tls::Options),
    /// Opens 10,000 connections to an echo server and checks for leaks; measures the memory of idle
    /// connections of an HTTP server.
    Connections(connections::Options),
    /// Reads, hashes and copies a large file by 64 fibers, and measures the lateness of a ticker
    /// meanwhile.
    Files(files::Options),
    /// Measures when it pays that a sidecar or a kernel thread submits a worker's ops.
    Submitter(submitter::Options),
    /// Hands a value there and back between two workers, compared with bare means of the kernel.
    Handover(handover::Options),
    /// Runs one peer in Rust once and prints the line that the programs in `peers/` print.
    Peer(peer_line::Options),
    /// Runs one sample in this process; the bench starts itself with this command.
    #[command(hide = true)]
    Sample { peer: Peer, workload: Workload },
    /// Serves HTTP.
    #[command(hide = true)]
    HttpServer {
        kind: http::Kind,
        #[command(flatten)]
        service: http::Service,
    },
    /// Serves HTTPS, with the certificate in a folder.
    #[command(hide = true)]
    TlsServer { kind: tls::Kind, folder: PathBuf },
    /// Waits until a server accepts connections, and prints its address.
    #[command(hide = true)]
    Announce { address: SocketAddr },
    /// Echoes on Ramie.
    #[command(hide = true)]
    EchoServer { addresses: usize },
    /// Sends messages on many connections.
    #[command(hide = true)]
    ConnectionsClient { protocol: connections::Protocol, addresses: String, count: usize },
}

/// The exit code of a command that leaves something out, because a program is missing.
const SKIPPED: u8 = 3;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Some(Command::Sample { peer, workload }) => {
            measure::run_sample(peer, workload).map(|()| true)
        }
        Some(Command::Peer(options)) => return peer_line::run(&options),
        Some(Command::Http(_) | Command::Generators(_) | Command::Static(_))
            if !http::has_wrk() =>
        {
            eprintln!(
                "SKIPPED: NOTHING was measured, because there is no wrk; install it, on Debian by \
                 `apt-get install wrk`"
            );
            return ExitCode::from(SKIPPED);
        }
        Some(Command::Http(options)) => return end_comparison(http::compare(&options)),
        Some(Command::Static(options)) => return end_comparison(http::compare_static(&options)),
        Some(Command::Tls(options)) => return end_comparison(tls::compare(&options)),
        Some(Command::TlsServer { kind, folder }) => tls::serve(kind, &folder).map(|()| true),
        Some(Command::Generators(options)) => http::compare_generators(&options),
        Some(Command::RunHttp(options)) => http::compare_run_http(&options),
        Some(Command::Connections(options)) => connections::check(&options),
        Some(Command::Files(options)) => files::check(&options),
        Some(Command::Handover(options)) => handover::compare(&options),
        Some(Command::HttpServer { kind, service }) => {
            kind.serve(service).map(|()| true).map_err(|error| error.to_string())
        }
        Some(Command::Announce { address }) => http::announce(address).map(|()| true),
        Some(Command::EchoServer { addresses }) => connections::echo(addresses).map(|()| true),
        Some(Command::ConnectionsClient { protocol, addresses, count }) => {
            connections::run_client(protocol, &addresses, count).map(|()| true)
        }
        Some(Command::Submitter(options)) => submitter::compare(&options),
        None => run_cases(&arguments),
    };
    end(outcome)
}

/// Prints the error, if there is one.
fn end(outcome: Result<bool, String>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn end_comparison(outcome: Result<Comparison, String>) -> ExitCode {
    match outcome {
        Ok(Comparison::Incomplete) => ExitCode::from(SKIPPED),
        other => end(other.map(|outcome| outcome == Comparison::AllMet)),
    }
}

/// Returns whether all targets are met.
fn run_cases(arguments: &Arguments) -> Result<bool, String> {
    let wanted = arguments.only.as_deref().unwrap_or_default();
    let chosen: Vec<_> = CASES.iter().filter(|case| case.name.contains(wanted)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        return Err(format!("no case matches `{wanted}`; the cases are: {}", names.join(", ")));
    }
    let has_go = has_go(&chosen);
    let mut missed = Vec::new();
    for case in chosen {
        let workload = if arguments.quick { case.workload.quick() } else { case.workload };
        let is_there = |peer: &Peer| has_go || !matches!(peer, Peer::Go | Peer::Go2);
        let peers: Vec<Peer> = case.peers.iter().copied().filter(is_there).collect();
        let figures = measure::measure(case, &peers, workload, usize::from(arguments.rounds))?;
        let verdicts = verdict::judge(case, &figures);
        let misses = verdicts.iter().filter(|verdict| !verdict.is_met());
        missed.extend(misses.map(|verdict| format!("{}: {verdict}", case.name)));
        match arguments.json {
            true => verdict::print_json(case, &figures, &verdicts),
            false => verdict::print(case, &figures, &verdicts),
        }
    }
    if !missed.is_empty() {
        eprintln!("{} targets missed:\n  {}", missed.len(), missed.join("\n  "));
    }
    Ok(missed.is_empty())
}

/// Builds Go's program if a case needs it; prints a line if that fails.
fn has_go(cases: &[&Case]) -> bool {
    if !cases.iter().any(|case| case.peers.contains(&Peer::Go)) {
        return false;
    }
    let built = traffic::build_go();
    if let Err(why) = &built {
        eprintln!("skipped: Go, because {why}");
    }
    built.is_ok()
}
