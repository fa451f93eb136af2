//! HTTPS by `ramie-http`: the CPU time of a handshake and of a MiB, beside rustls on a memory pipe,
//! which has no protocol above it and hardly a kernel below; and the memory of an idle connection.
//!
//! | server | meaning |
//! |---|---|
//! | `memory` | rustls on a memory pipe: the limit. Only the server's side is timed |
//! | `threads` | rustls on blocking sockets of std, a thread for each connection |
//! | `ramie-http` | the crate with its default limits, on one worker |
//! | `hyper` | hyper on one thread of tokio, with tokio-rustls |
//!
//! All use rustls with the cryptography of `ring`, the same certificate (ECDSA, P-256), and two
//! tickets for each client. A *handshake* is a full one of TLS 1.3 with a request, a small answer,
//! and the end of the connection. A *MiB* is an answer from memory on a connection that is kept.

mod client;
mod pipe;
mod server;
mod settings;
mod verdict;

use std::{
    path::PathBuf,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

pub use self::server::{Kind, serve};
use self::{
    client::{Client, Load},
    settings::Settings,
    verdict::{Cost, Figure, Row},
};
use crate::{
    comparison::{Comparison, PEERS},
    process::{self, KillOnDrop, Times, first_line, two_cpus},
};

/// Connections of the load, each with a thread of the client.
const CONNECTIONS: usize = 16;
/// Connections of the warm-up before the idle ones.
const WARM_UP: usize = 100;
/// Descriptors that are not connections.
const OTHERS: usize = 100;
/// How long the client waits before the server is weighed, because no event reports that the last
/// connection is idle.
const SETTLE: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub struct Options {
    /// Length of each measurement, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    /// Measurements of each server, in turn; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// Idle connections, all open at once (1 to 9,000).
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u16).range(1..=9000))]
    idle: u16,
    /// The folder of the peers that are programs of their own, built by `bench/peers/build`.
    #[arg(long, default_value = PEERS)]
    peers: PathBuf,
}

/// Measures the servers, and prints their figures.
pub fn compare(options: &Options) -> Result<Comparison, String> {
    let [server_cpu, client_cpu] = two_cpus()?;
    let needed = usize::from(options.idle) + WARM_UP + OTHERS;
    // A server inherits the limit.
    if process::raise_descriptor_limit()? < needed {
        return Err(format!(
            "too few descriptors: raise `ulimit -Hn` to {needed}, or lower `--idle`"
        ));
    }
    let settings = Settings::create()?;
    let mut kinds = vec![Kind::Threads, Kind::RamieHttp, Kind::Hyper];
    if !Kind::Hyper.is_there(&options.peers) {
        let folder = options.peers.display();
        eprintln!(
            "SKIPPED: hyper: there is no {folder}/rust-http; build it by `bench/peers/build \
             rust-http`"
        );
        kinds.pop();
    }
    let length = Duration::from_secs(options.seconds.into());
    let mut memory = Vec::new();
    let mut rounds: Vec<Vec<Row>> = kinds.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.rounds {
        memory.push(pipe::measure(&settings, server_cpu, length)?);
        for (kind, rows) in kinds.iter().zip(&mut rounds) {
            let row = Started::new(*kind, options, &settings, server_cpu)
                .and_then(|server| server.measure(client_cpu, length));
            rows.push(row.map_err(|why| format!("{}: {why}", kind.name()))?);
        }
    }
    let mut figures = vec![Figure::median("memory".to_owned(), &memory)];
    for (kind, rows) in kinds.iter().zip(&rounds) {
        let mut figure = Figure::median(kind.name(), rows);
        let idle = Started::new(*kind, options, &settings, server_cpu)
            .and_then(|server| server.weigh_idle(options.idle.into(), client_cpu));
        figure.idle = Some(idle.map_err(|why| format!("{}: {why}", kind.name()))?);
        figures.push(figure);
    }
    Ok(match (verdict::print(&figures), kinds.contains(&Kind::Hyper)) {
        (false, _) => Comparison::Missed,
        (true, true) => Comparison::AllMet,
        (true, false) => Comparison::Incomplete,
    })
}

/// A server in a process of its own, with its address.
struct Started<'a> {
    process: KillOnDrop,
    address: String,
    settings: &'a Settings,
}

impl<'a> Started<'a> {
    fn new(
        kind: Kind,
        options: &Options,
        settings: &'a Settings,
        cpu: usize,
    ) -> Result<Self, String> {
        let command = kind.command(&options.peers, settings.folder())?;
        let child = process::pinned(&[cpu], command).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| format!("cannot start it by `taskset`: {error}"))?;
        let mut process = KillOnDrop(child);
        let address = first_line(&mut process);
        let address = address.map_err(|why| match kind {
            Kind::Hyper => format!("{why}; rebuild it by `bench/peers/build rust-http`"),
            _ => why,
        })?;
        let address = address.replace("listening on ", "");
        Ok(Started { process, address, settings })
    }

    /// Its costs under load from threads on that CPU.
    fn measure(&self, cpu: usize, length: Duration) -> Result<Row, String> {
        let handshakes = self.cost(Load::Handshakes, cpu, length)?;
        let mib = self.cost(Load::Bytes, cpu, length)?;
        Ok(Row { handshakes, mib })
    }

    fn cost(&self, load: Load, cpu: usize, length: Duration) -> Result<Cost, String> {
        // The first second is not measured, because caches and pools fill in it.
        load.run(&self.address, self.settings, cpu, Duration::from_secs(1))?;
        let before = Times::of(self.process.0.id())?;
        let count = load.run(&self.address, self.settings, cpu, length)?;
        let after = Times::of(self.process.0.id())?;
        let user = after.user - before.user;
        Ok(Cost::new(count, user + after.system - before.system, user))
    }

    /// The growth of the process, in bytes, for each connection that was answered and is idle. Then
    /// each must still answer; returns the time of that, too.
    fn weigh_idle(&self, count: usize, cpu: usize) -> Result<(usize, Duration), String> {
        let Started { process, address, settings } = self;
        let pid = process.0.id();
        let in_a_thread = thread::scope(|scope| {
            let all = scope.spawn(|| -> Result<(usize, Duration), String> {
                process::pin_to(cpu);
                let _warm_up = open_all(address, settings, WARM_UP)?;
                thread::sleep(SETTLE);
                let before = process::resident(pid)?;
                let mut clients = open_all(address, settings, count)?;
                thread::sleep(SETTLE);
                let grown = process::resident(pid)?.saturating_sub(before);
                let start = Instant::now();
                clients.iter_mut().try_for_each(|client| client.get_small())?;
                Ok((grown / count, start.elapsed()))
            });
            all.join()
        });
        in_a_thread.map_err(|_| "the client panicked".to_owned())?
    }
}

/// Opens connections, each of which is answered once.
fn open_all(address: &str, settings: &Settings, count: usize) -> Result<Vec<Client>, String> {
    let open = |_| {
        let mut client = Client::connect(address, settings)?;
        client.get_small()?;
        Ok(client)
    };
    (0..count).map(open).collect()
}
