//! The pool of connections with real servers, and beside bb8 on tokio.
//!
//! `ramie-ecosystem-pool check` shows that slow queries wait together and that cancelled ones never
//! give another fiber their answer, `bench` measures queries per second, and `canary` must find a
//! wrong answer. Start it by `ecosystem/pool/servers`.

#[cfg(feature = "bench")]
mod bench;
mod exchange;
mod postgres;
mod random;
mod redis_server;
mod slow;

use std::{env, path::PathBuf, process::ExitCode};

use ramie_adapters::redis::RedisManager;

/// The socket of a server. Without it its part is skipped, in CI an error.
fn socket(variable: &str) -> Option<PathBuf> {
    let socket = env::var_os(variable).map(PathBuf::from);
    if socket.is_none() {
        println!("skipped: {variable} is not set; start this program by ecosystem/pool/servers");
        assert!(env::var_os("CI").is_none(), "no server");
    }
    socket
}

fn redis() -> Option<RedisManager> {
    socket("POOL_REDIS").map(redis_server::manager)
}

fn postgres() -> Option<postgres::Postgres> {
    socket("POOL_POSTGRES").map(postgres::Postgres::new)
}

/// The queries to PostgreSQL that are cancelled, unless an argument sets another number. Each new
/// connection is a new process there.
const CANCELLED_AT_POSTGRES: u64 = 5_000;

fn check(cancelled_at_postgres: u64) {
    if let Some(redis) = redis() {
        println!("redis");
        slow::check(redis.clone());
        random::check(redis, 100_000);
    }
    if let Some(postgres) = postgres() {
        println!("postgresql");
        slow::check(postgres.clone());
        random::check(postgres, cancelled_at_postgres);
    }
}

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some("check") => match env::args().nth(2).map(|count| count.parse()) {
            None => check(CANCELLED_AT_POSTGRES),
            Some(Ok(cancelled)) => check(cancelled),
            Some(Err(_)) => {
                eprintln!("check takes the number of queries to PostgreSQL that are cancelled");
                return ExitCode::FAILURE;
            }
        },
        // With this client, because the others refuse a connection that was interrupted.
        Some("canary") => postgres().into_iter().for_each(random::canary),
        #[cfg(feature = "bench")]
        Some("bench") => bench::run(socket("POOL_REDIS"), socket("POOL_POSTGRES")),
        _ => {
            eprintln!("unknown command; expected check, canary or bench");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
