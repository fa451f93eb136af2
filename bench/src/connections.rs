//! Ten thousand connections to an echo server on Ramie, and what is left of them.
//!
//! Client and server are processes of their own. The server is looked at from outside, through
//! /proc: its descriptors, its mappings, and what it waits for in the kernel. A baseline is taken
//! after a warm-up; when all connections are closed, the server must be back at it.

use std::{
    fs, io,
    io::{Read, Write},
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use ::tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    http::first_line,
    process::{self, Server},
};

const MESSAGE: usize = 64;
const WARM_UP: usize = 10;
/// How long the server may take to notice that its clients have gone.
const SETTLE_MAX: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct Options {
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Only this driver.
    #[arg(long, value_parser = ["uring", "poll"])]
    driver: Option<String>,
}

/// What a process holds, as /proc shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holdings {
    descriptors: usize,
    mappings: usize,
    /// Ops armed in its rings, and descriptors registered with its epolls.
    in_flight: usize,
}

impl Holdings {
    fn of(pid: u32) -> io::Result<Self> {
        let root = Path::new("/proc").join(pid.to_string());
        let mut in_flight = 0;
        let mut descriptors = 0;
        for entry in fs::read_dir(root.join("fd"))? {
            let entry = entry?;
            descriptors += 1;
            // A descriptor may be closed while they are looked through.
            let target = fs::read_link(entry.path()).unwrap_or_default();
            let target = target.to_string_lossy();
            if target.contains("io_uring") || target.contains("eventpoll") {
                let path = root.join("fdinfo").join(entry.file_name());
                in_flight += waits(&read_when_whole(&path, target.contains("io_uring"))?);
            }
        }
        let mappings = fs::read_to_string(root.join("maps"))?.lines().count();
        Ok(Holdings { descriptors, mappings, in_flight })
    }

    /// Fewer of anything is no leak.
    fn is_back_at(&self, baseline: &Holdings) -> bool {
        self.descriptors <= baseline.descriptors
            && self.mappings <= baseline.mappings
            && self.in_flight <= baseline.in_flight
    }
}

/// Reads a fdinfo. Of a ring whose lock is taken, as it is while its owner is busy in it, the
/// kernel shows nothing: that must not pass for a ring with no ops, so such a read is made again.
fn read_when_whole(path: &Path, is_ring: bool) -> io::Result<String> {
    let end = Instant::now() + SETTLE_MAX;
    loop {
        let info = fs::read_to_string(path)?;
        if !is_ring || info.contains("PollList:") {
            return Ok(info);
        }
        if Instant::now() > end {
            return Err(io::Error::other("a ring is always busy, or this kernel lists no ops"));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Counts the lines of a fdinfo that stand for something waited for: an op of a ring's PollList,
/// or a descriptor in an epoll.
fn waits(info: &str) -> usize {
    let is_wait = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("op=") || line.starts_with("tfd:")
    };
    info.lines().filter(is_wait).count()
}

/// Tells whether the server of every driver was back at its baseline.
pub fn check(options: &Options) -> Result<bool, String> {
    raise_descriptor_limit(options.count)?;
    let mut all_back = true;
    for driver in ["uring", "poll"] {
        if options.driver.as_deref().is_none_or(|wanted| wanted == driver) {
            let count = options.count as usize;
            all_back &= check_driver(driver, count).map_err(|why| format!("{driver}: {why}"))?;
        }
    }
    Ok(all_back)
}

fn raise_descriptor_limit(count: u32) -> Result<(), String> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let needed = u64::from(count) + 100;
    if maximum.is_some_and(|maximum| maximum < needed) {
        return Err(format!("{needed} descriptors are needed: raise the limit, `ulimit -Hn`"));
    }
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .map_err(|error| format!("cannot raise the limit of descriptors: {error}"))
}

fn check_driver(driver: &str, count: usize) -> Result<bool, String> {
    let child = process::ourselves()?
        .arg("echo-server")
        .env("RAMIE_DRIVER", driver)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut server = Server(child);
    let address = first_line(&mut server)?;
    let pid = server.0.id();
    let look = || Holdings::of(pid).map_err(|error| format!("cannot look at the server: {error}"));
    let fresh = look()?;
    converse(&address, WARM_UP, &look)?;
    // The connections of the warm-up are gone when there are no more descriptors than before them.
    let baseline = settle(&look, |now| now.descriptors <= fresh.descriptors)?;
    let start = Instant::now();
    let peak = converse(&address, count, &look)?;
    let time = start.elapsed();
    let after = settle(&look, |now| now.is_back_at(&baseline))?;
    let is_back = after.is_back_at(&baseline);
    println!("{driver}: {count} connections, all open at once, all bytes right, {time:.2?}");
    for (name, at) in [("baseline", baseline), ("peak", peak), ("after", after)] {
        let Holdings { descriptors, mappings, in_flight } = at;
        println!("  {name:<9}{descriptors:>7} fds{mappings:>7} mappings{in_flight:>7} in flight");
    }
    if is_back {
        println!("  -> back at the baseline");
        return Ok(true);
    }
    converse(&address, count, &look)?;
    let again = settle(&look, |now| now.is_back_at(&after))?;
    let kept = if again.is_back_at(&after) { "kept, the same a second time" } else { "it grows" };
    println!("  -> NOT back at the baseline: {kept}");
    Ok(false)
}

/// Looks until it is as wished, or time is up; gives what was seen last.
fn settle(
    look: &impl Fn() -> Result<Holdings, String>,
    is_settled: impl Fn(&Holdings) -> bool,
) -> Result<Holdings, String> {
    let end = Instant::now() + SETTLE_MAX;
    loop {
        let now = look()?;
        if is_settled(&now) || Instant::now() > end {
            return Ok(now);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Opens all connections, looks at the server when it has accepted them, then sends and checks a
/// message on each, and closes them.
fn converse(
    address: &str,
    count: usize,
    look: &impl Fn() -> Result<Holdings, String>,
) -> Result<Holdings, String> {
    let runtime = ::tokio::runtime::Builder::new_current_thread().enable_io().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let full = look()?.descriptors + count;
        let mut streams = Vec::with_capacity(count);
        for number in 0..count {
            let stream = TcpStream::connect(address).await;
            streams.push(stream.map_err(|error| format!("connection {number}: {error}"))?);
        }
        // Each connection has its op armed, too: without that, none of them is seen to go away.
        let is_peak = |now: &Holdings| now.descriptors >= full && now.in_flight >= count;
        let peak = settle(look, is_peak)?;
        if peak.descriptors < full {
            return Err(format!("the server has {} descriptors, not {full}", peak.descriptors));
        }
        if peak.in_flight < count {
            return Err(format!("of {count} waits, the kernel shows {}", peak.in_flight));
        }
        let mut exchanges = JoinSet::new();
        for (number, stream) in streams.into_iter().enumerate() {
            exchanges.spawn(exchange(stream, number));
        }
        while let Some(result) = exchanges.join_next().await {
            result.map_err(|error| error.to_string())??;
        }
        Ok(peak)
    })
}

async fn exchange(mut stream: TcpStream, number: usize) -> Result<(), String> {
    let failed = |error: io::Error| format!("exchange {number}: {error}");
    let sent = message(number);
    let mut received = [0; MESSAGE];
    stream.write_all(&sent).await.map_err(failed)?;
    stream.read_exact(&mut received).await.map_err(failed)?;
    match sent == received {
        true => Ok(()),
        false => Err(format!("exchange {number}: other bytes came back than were sent")),
    }
}

/// A message unlike that of any other connection.
fn message(number: usize) -> [u8; MESSAGE] {
    let mut bytes = [0; MESSAGE];
    for (place, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        let word = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        chunk.copy_from_slice(&word.rotate_left(place as u32 * 7).to_le_bytes());
    }
    bytes
}

/// The server: a fiber for each connection. Runs until it is killed.
pub fn echo() -> Result<(), String> {
    let serve = || -> io::Result<()> {
        let listener = ::ramie::net::TcpListener::bind("127.0.0.1:0")?;
        println!("{}", listener.local_addr()?);
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
    };
    ::ramie::run(serve).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{message, waits};

    #[test]
    fn what_is_waited_for_is_counted() {
        let ring = "SqHead:\t1\nPollList:\n  op=6, task_works=0\n  op=13, task_works=0\n";
        assert_eq!(waits(ring), 2);
        let epoll = "flags:\t02\ntfd:        5 events: 19 data: 5  pos:0 ino:1 sdev:8\n";
        assert_eq!(waits(epoll), 1);
    }

    #[test]
    fn messages_differ() {
        assert_ne!(message(1), message(2));
        assert_ne!(message(0)[..8], message(0)[8..16]);
    }
}
