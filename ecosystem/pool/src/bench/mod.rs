//! Queries per second through a pool, beside bb8 on tokio, with the same drivers and one worker
//! each.

mod fibers;
mod tokio;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Strands that ask at the same time, and the connections that they share.
const STRANDS: usize = 64;
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 7;
const TIME: Duration = Duration::from_secs(1);

/// A case: the server's socket, to queries per second.
type Case = (&'static str, fn(&Path) -> f64);

pub fn run(redis: Option<PathBuf>, postgres: Option<PathBuf>) {
    println!(
        "{STRANDS} strands, {CONNECTIONS} connections, one worker, {ROUNDS} rounds of {TIME:?} in \
         turns; median of queries per second (least, most)"
    );
    if let Some(socket) = redis {
        let cases: [Case; 2] =
            [("redis, ramie-pool", fibers::redis), ("redis, bb8 on tokio", tokio::redis)];
        compare(&cases, &socket);
    }
    if let Some(socket) = postgres {
        let cases: [Case; 3] = [
            ("tokio-postgres, ramie-pool", fibers::tokio_postgres),
            ("tokio-postgres, bb8 on tokio", tokio::tokio_postgres),
            ("postgres-protocol, ramie-pool", fibers::postgres),
        ];
        compare(&cases, &socket);
    }
}

fn compare(cases: &[Case], socket: &Path) {
    let mut rates = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, measure), rates) in cases.iter().zip(&mut rates) {
            rates.push(measure(socket));
        }
    }
    for ((name, _), mut rates) in cases.iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        let (least, median, most) = (rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]);
        println!("  {name:30} {median:8.0} ({least:.0}, {most:.0})");
    }
}
