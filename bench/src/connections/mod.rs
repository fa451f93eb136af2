//! Ten thousand connections, or a hundred thousand, to an echo server on Ramie: which resources
//! remain after them, and the cost of an idle connection of an HTTP server.
//!
//! Clients and servers are processes of their own, as many of each as the limit on descriptors
//! requires. The servers are inspected from outside, through /proc: their descriptors, their
//! mappings, and their waits in the kernel. A baseline is taken after a warm-up. When all
//! connections are closed, each server must be back at its baseline.

mod client;
mod idle;
mod resources;

use std::{
    fs,
    io::{self, Read, Write},
    net::SocketAddr,
    path::PathBuf,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

pub use self::client::{Protocol, run as run_client};
use self::{client::Client, resources::Resources};
use crate::process::{self, KillOnDrop, first_line};

const MESSAGE: usize = 64;
const WARM_UP: usize = 10;
/// How long a server may take to notice that its clients have connected or closed.
const SETTLE_MAX: Duration = Duration::from_secs(10);
/// Descriptors that are not connections.
const OTHERS: usize = 100;
/// The memory limit of a connection, in bytes: a fiber, two sockets, their slots.
const MEMORY_EACH: u64 = 16 << 10;

#[derive(clap::Args)]
pub struct Options {
    /// Connections, all open at once.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Idle connections of `ramie serve`, all open at once.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    idle: u32,
    /// Only this driver.
    #[arg(long, value_parser = ["uring", "poll"])]
    driver: Option<String>,
    /// The program `ramie`, whose idle connections are measured; skipped if it does not exist.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/ramie"))]
    ramie: PathBuf,
}

/// Returns whether the servers of every driver returned to their baselines, and no idle connection
/// takes too much memory.
pub fn check(options: &Options) -> Result<bool, String> {
    let count = options.count as usize;
    let idle = options.idle as usize;
    let each = connections_each()?;
    check_settings(count.max(idle) as u64)?;
    let is_wanted = |driver: &&str| options.driver.as_deref().is_none_or(|one| one == *driver);
    let drivers = || ["uring", "poll"].into_iter().filter(is_wanted);
    let mut all_well = true;
    // First, because the ports of closed connections cannot be reused for a minute.
    for driver in drivers() {
        let weighed = idle::weigh(&options.ramie, driver, idle, each);
        all_well &= weighed.map_err(|why| format!("{driver}: {why}"))?;
    }
    for driver in drivers() {
        let checked = check_driver(driver, count, each);
        all_well &= checked.map_err(|why| format!("{driver}: {why}"))?;
    }
    Ok(all_well)
}

/// Returns the number of connections that one process may hold.
fn connections_each() -> Result<usize, String> {
    let each = process::raise_descriptor_limit()?.saturating_sub(OTHERS);
    if each > WARM_UP {
        Ok(each)
    } else {
        Err("too few descriptors: raise `ulimit -Hn`".to_owned())
    }
}

/// The setting of the machine that is too low, and how to raise it.
fn check_settings(count: u64) -> Result<(), String> {
    // Both ends are files; the connection tracker, if there is one, counts each connection once.
    for (name, needed) in
        [("fs.file-max", 2 * count + 10_000), ("net.netfilter.nf_conntrack_max", count + 1_000)]
    {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let Ok(text) = fs::read_to_string(path) else { continue };
        if text.trim().parse::<u64>().is_ok_and(|allowed| allowed < needed) {
            let now = text.trim();
            return Err(format!(
                "{name} is {now}, which is too low; as root, run `sysctl -w {name}={needed}`"
            ));
        }
    }
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = available.and_then(|rest| rest.trim().strip_suffix(" kB"));
    let needed = (count * MEMORY_EACH) >> 20;
    match available.and_then(|text| text.parse::<u64>().ok()).map(|kib| kib >> 10) {
        Some(mib) if mib < needed => Err(format!(
            "{count} connections need {needed} MiB of memory, but {mib} MiB are available"
        )),
        _ => Ok(()),
    }
}

/// Divides connections evenly between processes, of which each may hold `each`.
fn shares(count: usize, each: usize) -> Vec<usize> {
    let processes = count.div_ceil(each);
    (0..processes)
        .map(|process| count / processes + usize::from(process < count % processes))
        .collect()
}

fn processes(count: usize) -> String {
    if count == 1 { "one process".to_owned() } else { format!("{count} processes") }
}

/// A server, and the client that fills it.
struct Pair {
    server: KillOnDrop,
    addresses: String,
    count: usize,
    baseline: Resources,
}

fn check_driver(driver: &str, count: usize, each: usize) -> Result<bool, String> {
    let pairs = shares(count, each).into_iter().map(|share| Pair::start(driver, share));
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    let peak = fill(&pairs)?;
    let time = start.elapsed();
    println!(
        "{driver}: {count} connections to {}, all open at once, all bytes right twice, {time:.2?}",
        processes(pairs.len())
    );
    let after = pairs.iter().map(Pair::settled).collect::<Result<Vec<_>, _>>()?;
    let baselines: Vec<_> = pairs.iter().map(|pair| pair.baseline).collect();
    for (name, all) in [("baseline", &baselines), ("peak", &peak), ("after", &after)] {
        let Resources { descriptors, mappings, in_flight } = resources::sum(all);
        println!("  {name:<9}{descriptors:>7} fds{mappings:>7} mappings{in_flight:>7} in flight");
    }
    let is_back = |(pair, after): (&Pair, &Resources)| after.is_back_at(&pair.baseline);
    if pairs.iter().zip(&after).all(is_back) {
        println!("  -> back at the baseline");
        return Ok(true);
    }
    fill(&pairs)?;
    let again =
        pairs.iter().zip(&after).map(|(pair, after)| pair.settle(|now| now.is_back_at(after)));
    let again = again.collect::<Result<Vec<_>, _>>()?;
    let is_same = again.iter().zip(&after).all(|(again, after)| again.is_back_at(after));
    let kept = if is_same { "kept, the same a second time" } else { "it grows" };
    println!("  -> NOT back at the baseline: {kept}");
    Ok(false)
}

/// Opens all connections, inspects the servers when they have accepted them, sends and checks two
/// messages on each, and closes them.
fn fill(pairs: &[Pair]) -> Result<Vec<Resources>, String> {
    let clients =
        pairs.iter().map(|pair| Client::start(Protocol::Echo, &pair.addresses, pair.count));
    let mut clients = clients.collect::<Result<Vec<_>, _>>()?;
    clients.iter_mut().try_for_each(|client| client.expect("open"))?;
    let full = |pair: &Pair| {
        let full = pair.baseline.descriptors + pair.count;
        pair.settle(move |now| now.descriptors >= full)
    };
    let peak = pairs.iter().map(full).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..2 {
        clients.iter_mut().try_for_each(Client::order)?;
        clients.iter_mut().try_for_each(|client| client.expect("right"))?;
    }
    clients.into_iter().try_for_each(Client::finish)?;
    Ok(peak)
}

impl Pair {
    /// Starts a server, and takes its baseline after a warm-up.
    fn start(driver: &str, count: usize) -> Result<Self, String> {
        let child = process::ourselves()?
            .args(["echo-server", &client::addresses_for(count).to_string()])
            .env("RAMIE_DRIVER", driver)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut server = KillOnDrop(child);
        let addresses = first_line(&mut server)?;
        let fresh = look(&server)?;
        let mut pair = Pair { server, addresses, count: WARM_UP, baseline: fresh };
        fill(std::slice::from_ref(&pair))?;
        // The connections of the warm-up are gone when there are no more descriptors than before.
        pair.baseline = pair.settle(|now| now.descriptors <= fresh.descriptors)?;
        pair.count = count;
        Ok(pair)
    }

    fn settled(&self) -> Result<Resources, String> {
        self.settle(|now| now.is_back_at(&self.baseline))
    }

    /// Repeats the inspection until it is as wished, or time is up; returns the last result.
    fn settle(&self, is_settled: impl Fn(&Resources) -> bool) -> Result<Resources, String> {
        let end = Instant::now() + SETTLE_MAX;
        loop {
            let now = look(&self.server)?;
            if is_settled(&now) || Instant::now() > end {
                return Ok(now);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn look(server: &KillOnDrop) -> Result<Resources, String> {
    Resources::of(server.0.id()).map_err(|error| format!("cannot look at the server: {error}"))
}

/// The server: a fiber for each connection, at `addresses` loopback addresses. Runs until killed.
pub fn echo(addresses: usize) -> Result<(), String> {
    let serve = || -> io::Result<()> {
        let first = ::ramie::net::TcpListener::bind((client::loopback(0), 0))?;
        let port = first.local_addr()?.port();
        let mut names = first.local_addr()?.to_string();
        for number in 1..addresses {
            let address = SocketAddr::new(client::loopback(number), port);
            let listener = ::ramie::net::TcpListener::bind(address)?;
            names = format!("{names},{address}");
            ::ramie::fiber::spawn(move || accept_all(&listener));
        }
        println!("{names}");
        accept_all(&first)
    };
    ::ramie::run(serve).map_err(|error| error.to_string())
}

fn accept_all(listener: &::ramie::net::TcpListener) -> io::Result<()> {
    for stream in listener.incoming() {
        let mut stream = stream?;
        ::ramie::fiber::spawn(move || -> io::Result<()> {
            let mut buffer = [0; MESSAGE];
            loop {
                match stream.read(&mut buffer)? {
                    0 => return Ok(()),
                    count => stream.write_all(&buffer[..count])?,
                }
            }
        });
    }
    Ok(())
}
