//! The user memory of an idle connection of `ramie serve --hello`: the growth of the process per
//! connection, once each connection has been answered and is idle. Then each must still answer.

use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    WARM_UP,
    client::{Client, Protocol},
    processes, shares,
};
use crate::process::{self, KillOnDrop, first_line};

/// The target, in bytes per connection.
const TARGET: usize = 6 * 1024;
/// The server admits 100,000 connections by default.
const PER_SERVER: usize = 90_000;

/// A server, with its connections of the warm-up, and the other connections.
struct Idle {
    server: KillOnDrop,
    before: usize,
    /// Kept, because they are closed when it is dropped.
    warm_up: Client,
    client: Client,
}

/// Opens `count` connections to servers of which each may hold `each`. Returns whether the target
/// is met.
pub fn weigh(ramie: &Path, driver: &str, count: usize, each: usize) -> Result<bool, String> {
    if !ramie.exists() {
        println!("{driver}: idle connections: skipped, there is no {}", ramie.display());
        return Ok(true);
    }
    let each = each.saturating_sub(WARM_UP).clamp(1, PER_SERVER);
    let all = shares(count, each).into_iter().map(|share| Idle::open(ramie, driver, share));
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    for idle in &mut all {
        idle.client.expect("open")?;
    }
    ask(&mut all)?;
    // No event reports that the last fiber waits again; its answer has been written.
    thread::sleep(Duration::from_millis(100));
    let grown = all
        .iter()
        .map(|idle| Ok(process::resident(idle.server.0.id())?.saturating_sub(idle.before)));
    let memory = grown.sum::<Result<usize, String>>()? / count;
    let start = Instant::now();
    ask(&mut all)?;
    let verdict = if memory <= TARGET { "met" } else { "MISSED" };
    println!(
        "{driver}: {count} idle connections of `ramie serve`, {}, {memory} bytes of memory each; \
         then all answered within {:.2?}",
        processes(all.len()),
        start.elapsed()
    );
    println!("  -> target {TARGET}: {verdict}");
    for Idle { warm_up, client, .. } in all {
        client.finish()?;
        warm_up.finish()?;
    }
    Ok(memory <= TARGET)
}

/// Has one request answered on each connection.
fn ask(all: &mut [Idle]) -> Result<(), String> {
    all.iter_mut().try_for_each(|idle| idle.client.order())?;
    all.iter_mut().try_for_each(|idle| idle.client.expect("right"))
}

impl Idle {
    /// Starts a server, and lets a client open its connections.
    fn open(ramie: &Path, driver: &str, count: usize) -> Result<Self, String> {
        let child = Command::new(ramie)
            .args(["serve", "--hello", "--addr", "127.0.0.1:0", "--workers", "1"])
            // The server must not close them meanwhile.
            .args(["--timeout", "3600"])
            .env("RAMIE_DRIVER", driver)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut server = KillOnDrop(child);
        let address = first_line(&mut server)?.replace("listening on ", "");
        let mut warm_up = Client::start(Protocol::Http, &address, WARM_UP)?;
        warm_up.expect("open")?;
        warm_up.order()?;
        warm_up.expect("right")?;
        let before = process::resident(server.0.id())?;
        let client = Client::start(Protocol::Http, &address, count)?;
        Ok(Idle { server, before, warm_up, client })
    }
}
