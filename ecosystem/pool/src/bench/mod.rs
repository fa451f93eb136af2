//! Queries per second through a pool, beside bb8 on tokio, with the same drivers and one worker
//! each; and a thousand slow queries at once, whose target is 1.3 times the time of one. PostgreSQL
//! runs a process per connection, so it needs the processors for a while when a thousand wake up
//! together; the same queries from tokio show how long.

mod fibers;
mod tokio;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{postgres::Postgres, redis_server, slow};

/// Strands that ask at the same time, and the connections that they share.
const STRANDS: usize = 64;
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 15;
const TIME: Duration = Duration::from_secs(1);

/// A case: the server's socket, to queries per second.
type Case = (&'static str, fn(&Path) -> f64);

pub fn run(redis: Option<PathBuf>, postgres: Option<PathBuf>) {
    println!(
        "{STRANDS} strands, {CONNECTIONS} connections, one worker, {ROUNDS} rounds of {TIME:?} in \
         turns; median of queries per second (least, most), and of the client's CPU time per query"
    );
    if let Some(socket) = redis {
        let cases: [Case; 2] =
            [("redis, ramie-pool", fibers::redis), ("redis, bb8 on tokio", tokio::redis)];
        compare(&cases, &socket);
        slow_at_once("ramie-pool", &slow::attempts(redis_server::manager(socket), ROUNDS));
    }
    if let Some(socket) = postgres {
        let cases: [Case; 3] = [
            ("tokio-postgres, ramie-pool", fibers::tokio_postgres),
            ("tokio-postgres, bb8 on tokio", tokio::tokio_postgres),
            ("postgres-protocol, ramie-pool", fibers::postgres),
        ];
        compare(&cases, &socket);
        slow_at_once("bb8 on tokio", &tokio::slow_postgres(&socket, ROUNDS));
        slow_at_once("ramie-pool", &slow::attempts(Postgres::new(socket), ROUNDS));
    }
}

/// Prints the median of the attempts.
fn slow_at_once(client: &str, ratios: &[f64]) {
    let (least, median, most) = spread(&mut ratios.to_vec());
    println!("  slow queries at once, {client:12} {median:.2} times one ({least:.2}, {most:.2})");
}

fn compare(cases: &[Case], socket: &Path) {
    let mut rates = vec![Vec::new(); cases.len()];
    let mut costs = rates.clone();
    for _ in 0..ROUNDS {
        for (case, (_, measure)) in cases.iter().enumerate() {
            let start = cpu_time();
            let rate = measure(socket);
            let cost = (cpu_time() - start).as_secs_f64() * 1e6 / (rate * TIME.as_secs_f64());
            rates[case].push(rate);
            costs[case].push(cost);
        }
    }
    for (case, (name, _)) in cases.iter().enumerate() {
        let (least, median, most) = spread(&mut rates[case]);
        let (_, cost, _) = spread(&mut costs[case]);
        println!("  {name:30} {median:8.0} ({least:.0}, {most:.0}) {cost:8.1} µs");
    }
}

fn spread(figures: &mut [f64]) -> (f64, f64, f64) {
    figures.sort_by(f64::total_cmp);
    (figures[0], figures[ROUNDS / 2], figures[ROUNDS - 1])
}

/// The CPU time of the main thread, on which all cases run. Unlike the rate, it depends little on
/// other programs.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("the times of the thread");
    let time = text.split(' ').next().and_then(|time| time.parse().ok());
    Duration::from_nanos(time.expect("a number"))
}
