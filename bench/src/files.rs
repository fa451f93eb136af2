//! Measures whether work on files holds up the worker. Many fibers of one worker read, hash and
//! copy a large file, while a ticker on the same worker records its lateness.
//!
//! A control ticks on a thread of its own, which shows the lateness that the machine alone causes.
//! The copy is checked, and both files are removed.

use std::{
    fs,
    hash::{DefaultHasher, Hasher},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use ::ramie::{Driver, Runtime, fiber, fs::File, time};

const PERIOD: Duration = Duration::from_millis(1);
const PART: usize = 64 * 1024;
const MIB: u64 = 1 << 20;

#[derive(clap::Args)]
pub struct Options {
    /// Size of the file.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(64..))]
    mib: u64,
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    fibers: u64,
    /// The folder of the two files.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Only this driver.
    #[arg(long, value_parser = ["uring", "poll"])]
    driver: Option<String>,
    /// The ticker's p99.9 must not be later than this.
    #[arg(long, default_value_t = 20)]
    target_ms: u64,
}

/// A file that is removed when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(directory: &Path, name: &str) -> Self {
        Scratch(directory.join(format!("ramie-bench-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The results of one run.
struct Outcome {
    time: Duration,
    hash: u64,
    ticks: Vec<Duration>,
    control: Vec<Duration>,
}

/// Returns whether the ticker was in time on every driver.
pub fn check(options: &Options) -> Result<bool, String> {
    check_all(options).map_err(|error| error.to_string())
}

fn check_all(options: &Options) -> io::Result<bool> {
    let source = Scratch::new(&options.directory, "source");
    let copy = Scratch::new(&options.directory, "copy");
    let size = options.mib * MIB / options.fibers / PART as u64 * PART as u64 * options.fibers;
    let expected = make(&source.0, size, options.fibers)?;
    let mut is_met = true;
    for (name, driver) in [("uring", Driver::Uring), ("poll", Driver::Poll)] {
        if options.driver.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        for (state, is_cold) in [("cold", true), ("cached", false)] {
            if is_cold {
                forget(&source.0)?;
            }
            let outcome = measure(driver, &source.0, &copy.0, size, options.fibers)?;
            let copied = hash_of(&copy.0, size, options.fibers)?;
            if outcome.hash != expected || copied != expected {
                return Err(io::Error::other(format!("{name}, {state}: other bytes")));
            }
            is_met &= report(&format!("{name}, {state}"), outcome, size, options.target_ms);
        }
    }
    Ok(is_met)
}

/// Creates the file, with a different content in each part; returns its hash.
fn make(path: &Path, size: u64, fibers: u64) -> io::Result<u64> {
    let mut file = fs::File::create(path)?;
    let mut part = vec![0; PART];
    for number in 0..size / PART as u64 {
        for (place, word) in part.chunks_exact_mut(8).enumerate() {
            let mixed = (number << 32 | place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word.copy_from_slice(&mixed.to_le_bytes());
        }
        file.write_all(&part)?;
    }
    file.sync_all()?;
    hash_of(path, size, fibers)
}

/// Hashes slice by slice as the fibers do, and adds the hashes up.
fn hash_of(path: &Path, size: u64, fibers: u64) -> io::Result<u64> {
    let file = fs::File::open(path)?;
    let mut part = vec![0; PART];
    let mut sum = 0_u64;
    for slice in 0..fibers {
        let mut hasher = DefaultHasher::new();
        for at in parts(slice, size, fibers) {
            file.read_exact_at(&mut part, at)?;
            hasher.write(&part);
        }
        sum = sum.wrapping_add(hasher.finish());
    }
    Ok(sum)
}

/// The offsets of one fiber's parts.
fn parts(slice: u64, size: u64, fibers: u64) -> impl Iterator<Item = u64> {
    let length = size / fibers;
    (slice * length..(slice + 1) * length).step_by(PART)
}

/// Asks the kernel to drop the file from its cache.
fn forget(path: &Path) -> io::Result<()> {
    let file = fs::File::open(path)?;
    file.sync_all()?;
    Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?)
}

fn measure(
    driver: Driver,
    source: &Path,
    copy: &Path,
    size: u64,
    fibers: u64,
) -> io::Result<Outcome> {
    let runtime = Runtime::builder().driver(driver).workers(1).build();
    let runtime = runtime.map_err(|error| io::Error::other(error.to_string()))?;
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let control = threads.spawn(|| tick_on_thread(&is_over));
        let outcome = runtime.run(|| work(source, copy, size, fibers));
        is_over.store(true, Ordering::Relaxed);
        let control = control.join().expect("the control does not panic");
        outcome.map(|outcome| Outcome { control, ..outcome })
    })
}

fn work(source: &Path, copy: &Path, size: u64, fibers: u64) -> io::Result<Outcome> {
    let (source, copy) = (&File::open(source)?, &File::create(copy)?);
    let (is_over, hash) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let start = Instant::now();
    let ticks = fiber::scope(|s| {
        let ticker = s.spawn(move || tick_on_fiber(is_over));
        let work = |slice| move || read_hash_copy(source, copy, parts(slice, size, fibers));
        let workers: Vec<_> = (0..fibers).map(|slice| s.spawn(work(slice))).collect();
        for worker in workers {
            let part = worker.join().expect("no worker panics")?;
            hash.fetch_add(part, Ordering::Relaxed);
        }
        is_over.store(true, Ordering::Relaxed);
        io::Result::Ok(ticker.join().expect("the ticker does not panic"))
    })?;
    let (time, hash) = (start.elapsed(), hash.load(Ordering::Relaxed));
    Ok(Outcome { time, hash, ticks, control: Vec::new() })
}

fn read_hash_copy(source: &File, copy: &File, parts: impl Iterator<Item = u64>) -> io::Result<u64> {
    let mut part = vec![0; PART];
    let mut hasher = DefaultHasher::new();
    for at in parts {
        source.read_exact_at(&mut part, at)?;
        hasher.write(&part);
        copy.write_all_at(&part, at)?;
    }
    Ok(hasher.finish())
}

/// The lateness of each tick. A missed tick counts as late, too, so none is left out.
fn tick_on_fiber(is_over: &AtomicBool) -> Vec<Duration> {
    let mut late = Vec::new();
    let mut next = time::Instant::now() + PERIOD;
    while !is_over.load(Ordering::Relaxed) {
        fiber::sleep_until(next);
        late.push(time::Instant::now().saturating_duration_since(next));
        next += PERIOD;
    }
    late
}

fn tick_on_thread(is_over: &AtomicBool) -> Vec<Duration> {
    let mut late = Vec::new();
    let mut next = Instant::now() + PERIOD;
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        late.push(Instant::now().saturating_duration_since(next));
        next += PERIOD;
    }
    late
}

fn report(name: &str, outcome: Outcome, size: u64, target_ms: u64) -> bool {
    let Outcome { time, ticks, control, .. } = outcome;
    let rate = size as f64 / MIB as f64 / time.as_secs_f64();
    println!("{name}: read, hashed and copied in {time:.2?}, {rate:.0} MiB/s");
    let p999 = line("ticker", ticks);
    line("control", control);
    let is_met = p999 <= Duration::from_millis(target_ms);
    println!("  -> {} (p99.9 <= {target_ms} ms)", if is_met { "met" } else { "MISSED" });
    is_met
}

fn line(name: &str, mut late: Vec<Duration>) -> Duration {
    late.sort();
    let at = |share: f64| late.get((late.len() as f64 * share) as usize).copied();
    let [half, p99, p999] = [0.5, 0.99, 0.999].map(|share| at(share).unwrap_or_default());
    let max = late.last().copied().unwrap_or_default();
    let count = late.len();
    println!(
        "  {name:<8} {count:>6} ticks, late: p50 {half:.2?}, p99 {p99:.2?}, p99.9 {p999:.2?}, \
         max {max:.2?}"
    );
    p999
}
