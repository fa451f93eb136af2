//! The load generator of `ramie run http` beside wrk: both load one and the same server in turn.

use std::{process::Stdio, time::Duration};

use super::{
    Kind, LoadOptions, Service,
    generator::{Generator, Requests},
    load::{Load, Seen},
};
use crate::{
    measure::median,
    process::{KillOnDrop, first_line, pinned},
};

#[derive(clap::Args)]
pub struct GeneratorOptions {
    #[command(flatten)]
    load: LoadOptions,
    /// More than a few, so that the server always has a request.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// CPU time that the server computes for each request, in microseconds. Without it the one
    /// thread of wrk is the bottleneck, so its requests/s are its own.
    #[arg(long, default_value_t = 40)]
    work: u32,
    /// The server. Those that are programs of their own compute nothing.
    #[arg(long, default_value = "raw-epoll")]
    server: Kind,
}

/// By how much the figures may differ.
const REQUESTS_LIMIT: f64 = 0.05;
/// The width of a bucket of the generator's histogram at most, which has two significant digits.
const BUCKET: f64 = 1.0 / 128.0;

/// Returns whether both generators see the same server.
pub fn compare_generators(options: &GeneratorOptions) -> Result<bool, String> {
    let LoadOptions { ramie, seconds, rounds: count } = &options.load;
    let [server_cpu, load_cpu] = options.load.cpus()?;
    if !options.server.has_services() && options.work > 0 {
        return Err(format!("{} computes nothing: add --work 0", options.server.name()));
    }
    let service = Service { work: options.work, ..Service::HELLO };
    let serve = options.server.command(&options.load.programs(), service)?;
    let server = pinned(&[server_cpu], serve).stdout(Stdio::piped()).spawn();
    let mut server = KillOnDrop(server.map_err(|error| error.to_string())?);
    let address = first_line(&mut server)?.replace("listening on ", "");
    let wrk = Load { cpu: load_cpu, connections: options.connections, seconds: *seconds };
    let time = Duration::from_secs(u64::from(*seconds));
    // The first second is not measured, because connections, caches and pools fill in it.
    let mut requests =
        wrk.run(&address, "/", Duration::from_secs(1))?.requests * u64::from(*seconds);
    let mut rounds = Vec::new();
    for round in 0..*count {
        let ours = |count| {
            let Service { body, .. } = service;
            let requests = Requests { connections: options.connections, count, body };
            let report = Generator::start(ramie, load_cpu, &address, &requests)?.run()?;
            Ok::<_, String>(Seen {
                requests: report.requests,
                requests_per_second: report.requests as f64 / report.time.as_secs_f64(),
                p99_us: report.latencies.quantile_us(0.99),
            })
        };
        // Each is the first one in every other round.
        let pair = if round % 2 == 0 {
            let first = wrk.run(&address, "/", time)?;
            requests = first.requests;
            [first, ours(requests)?]
        } else {
            let first = ours(requests)?;
            [wrk.run(&address, "/", time)?, first]
        };
        println!("round {}: wrk {}, ramie {}", round + 1, figures(&pair[0]), figures(&pair[1]));
        rounds.push(pair);
    }
    Ok(print_verdict(&rounds))
}

fn figures(seen: &Seen) -> String {
    format!("{:.0} requests/s, p99 {:.0} us", seen.requests_per_second, seen.p99_us)
}

/// Prints the medians and by how much they differ.
fn print_verdict(rounds: &[[Seen; 2]]) -> bool {
    let [wrk, ours] = [0, 1].map(|side| Seen {
        requests: 0,
        requests_per_second: median(rounds, |round| round[side].requests_per_second),
        p99_us: median(rounds, |round| round[side].p99_us),
    });
    println!("medians: wrk {}, ramie {}", figures(&wrk), figures(&ours));
    let rate = ours.requests_per_second / wrk.requests_per_second - 1.0;
    let p99 = ours.p99_us / wrk.p99_us - 1.0;
    let is_met = |is_met: bool| if is_met { "met" } else { "MISSED" };
    let has_rate = rate.abs() <= REQUESTS_LIMIT;
    // The end of a bucket lies up to a bucket beyond the duration.
    let has_p99 = p99.abs() <= BUCKET;
    println!("requests/s: {:+.1} %, target within 5 %: {}", rate * 100.0, is_met(has_rate));
    println!(
        "p99: {:+.1} %, target within a bucket of the histogram ({:.1} %): {}",
        p99 * 100.0,
        BUCKET * 100.0,
        is_met(has_p99)
    );
    has_rate && has_p99
}
