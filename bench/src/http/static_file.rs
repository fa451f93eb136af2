//! A file of one MiB by `ramie serve` and by nginx, under wrk: the CPU time of a GiB.
//!
//! # Whose time counts
//! Over loopback the kernel does a part of the work of sending on the CPU of the receiver. If the
//! head of a response is a packet of its own, as nginx sends it by default, the receiver's window
//! stays small, and most of the file is sent by the receiver's acknowledgements: nginx's own time
//! is short, and the sum of both sides is longer. So the target refers to the sum.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use super::{
    LoadOptions,
    load::Load,
    nginx::{self, wait_for},
};
use crate::{
    comparison::Comparison,
    folder::Folder,
    measure::median,
    process::{KillOnDrop, Times, first_line, pinned},
};

#[derive(clap::Args)]
pub struct StaticOptions {
    #[command(flatten)]
    load: LoadOptions,
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Length of the file, in KiB.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    kib: u32,
}

const FILE: &str = "file";

#[derive(Clone, Copy, PartialEq, Eq)]
enum FileServer {
    Ramie,
    Nginx,
    /// With `tcp_nopush`, which sends the head and the file together.
    NginxNopush,
}
use FileServer::{Nginx, NginxNopush, Ramie};

/// The seconds of CPU time of a GiB.
struct Cost {
    server: f64,
    both: f64,
    gib_per_second: f64,
}

/// Measures the servers in turn, and prints their figures.
pub fn compare_static(options: &StaticOptions) -> Result<Comparison, String> {
    let [server_cpu, cpu] = options.load.cpus()?;
    if nginx::program().is_none() {
        eprintln!("SKIPPED: nginx: install it, on Debian by `apt-get install nginx-light`");
        return Ok(Comparison::Incomplete);
    }
    let folder = Folder::create().map_err(|error| format!("no folder for files: {error}"))?;
    let bytes = vec![b'x'; options.kib as usize * 1024];
    fs::write(folder.path().join(FILE), &bytes).map_err(|error| error.to_string())?;
    let load = Load { cpu, connections: options.connections, seconds: options.load.seconds };
    let mut costs = [Ramie, Nginx, NginxNopush].map(|server| (server, Vec::new()));
    for _ in 0..options.load.rounds {
        for (server, costs) in &mut costs {
            let mut started = server.start(&options.load.ramie, folder.path(), server_cpu)?;
            costs.push(measure(&mut started, bytes.len(), &load)?);
        }
    }
    Ok(print(&costs.map(|(server, costs)| (server, Cost::median(&costs)))))
}

impl FileServer {
    fn name(self) -> &'static str {
        match self {
            Ramie => "ramie-serve",
            Nginx => "nginx",
            NginxNopush => "nginx-nopush",
        }
    }

    /// Starts the server on a folder. Returns it with its address.
    fn start(
        self,
        ramie: &Path,
        folder: &Path,
        cpu: usize,
    ) -> Result<(KillOnDrop, String), String> {
        let mut address = None;
        let command = match self {
            Ramie => {
                let mut command = Command::new(ramie);
                command.arg("serve").arg(folder);
                command.args(["--addr", "127.0.0.1:0", "--workers", "1"]);
                command
            }
            Nginx | NginxNopush => {
                let nopush = if self == NginxNopush { "on" } else { "off" };
                let http = format!("sendfile on; tcp_nopush {nopush};");
                let root = format!("root {};", folder.display());
                let nginx = nginx::Nginx::prepare(folder, &http, &root);
                let nginx = nginx.map_err(|error| format!("nginx: {error}"))?;
                address = Some(nginx.address);
                nginx.command
            }
        };
        let child = pinned(&[cpu], command).stdout(Stdio::piped()).spawn();
        let mut server = KillOnDrop(child.map_err(|error| error.to_string())?);
        let address = match address {
            Some(address) => {
                wait_for(address)?;
                address.to_string()
            }
            None => first_line(&mut server)?.replace("listening on ", ""),
        };
        Ok((server, address))
    }
}

fn measure(
    (server, address): &mut (KillOnDrop, String),
    length: usize,
    load: &Load,
) -> Result<Cost, String> {
    let path = format!("/{FILE}");
    load.run(address, &path, Duration::from_secs(1))?;
    let times = |server: &KillOnDrop| {
        let Times { user, system } = Times::of(server.0.id())?;
        Ok::<_, String>([user + system, Times::of_ended_children()?])
    };
    let before = times(server)?;
    let seen = load.run(address, &path, Duration::from_secs(load.seconds.into()))?;
    let after = times(server)?;
    let gib = seen.requests as f64 * length as f64 / (1u64 << 30) as f64;
    let [server, client] = [0, 1].map(|i| (after[i] - before[i]).as_secs_f64() / gib);
    let gib_per_second = seen.requests_per_second * length as f64 / (1u64 << 30) as f64;
    Ok(Cost { server, both: server + client, gib_per_second })
}

impl Cost {
    fn median(costs: &[Cost]) -> Cost {
        Cost {
            server: median(costs, |cost| cost.server),
            both: median(costs, |cost| cost.both),
            gib_per_second: median(costs, |cost| cost.gib_per_second),
        }
    }
}

/// Prints the figures, and whether the first server takes no more than nginx.
fn print(costs: &[(FileServer, Cost)]) -> Comparison {
    println!("{:<14} {:>16} {:>16} {:>8}", "", "server s/GiB", "with wrk s/GiB", "GiB/s");
    for (server, cost) in costs {
        let Cost { server: own, both, gib_per_second } = cost;
        println!("{:<14} {own:>16.4} {both:>16.4} {gib_per_second:>8.2}", server.name());
    }
    let ours = &costs[0].1;
    let mut outcome = Comparison::AllMet;
    for (peer, cost) in &costs[1..] {
        let ratio = ours.both / cost.both;
        let verdict = if ratio <= 1.0 { "met" } else { "MISSED" };
        println!(
            "  -> ramie-serve : {} with wrk {ratio:.2}, target 1.00: {verdict}; the servers alone \
             {:.2}",
            peer.name(),
            ours.server / cost.server
        );
        if ratio > 1.0 {
            outcome = Comparison::Missed;
        }
    }
    outcome
}
