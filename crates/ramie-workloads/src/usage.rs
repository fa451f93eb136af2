//! Time and memory of a run, as the kernel counts them.

use std::{
    fs,
    sync::{Condvar, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use rustix::{
    param::page_size,
    process::{Resource, getrlimit},
    time::{ClockId, Timespec, clock_gettime},
};

/// The cost of one repetition.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Wall time, from before the first spawn to after the last join.
    pub time: Duration,
    /// User and system time of the process over the same interval.
    pub cpu_s: f64,
    /// Memory, for the workloads that measure it.
    pub memory: Option<Memory>,
    /// The number of operations, for the workloads that run for a time instead of a number of
    /// operations.
    pub ops: Option<u64>,
    /// Figures beyond time, CPU time and memory, by the names that they have in the output.
    pub figures: Vec<(&'static str, Figure)>,
}

/// A figure of a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// A whole number.
    Count(u64),
    /// One number.
    Number(f64),
    /// Numbers that belong together, such as percentiles, by their names.
    Group(Vec<(&'static str, f64)>),
}

/// Memory while all strands are parked.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Resident memory of the process in KiB.
    pub rss_kb: u64,
    /// The growth of the resident memory since before the first spawn, in bytes.
    pub grown_bytes: u64,
    /// The growth of the resident memory, divided by the number of strands.
    pub rss_bytes_per_strand: f64,
    /// The growth of the page tables, divided by the number of strands.
    pub pte_bytes_per_strand: f64,
}

/// What to call at both ends of each measured interval, outside of it.
#[derive(Clone, Copy, Debug)]
pub struct IntervalHooks {
    /// Called before the clocks start.
    pub before: fn(),
    /// Called after the clocks were read.
    pub after: fn(),
    /// Called on each OS thread that is a strand, before it ends.
    pub thread_end: fn(),
    /// Called on each fiber that is no part of the workload, when it starts.
    pub helper: fn(),
}

static HOOKS: OnceLock<IntervalHooks> = OnceLock::new();

/// Calls the hook for a fiber that is no part of the workload, if hooks are set.
pub(crate) fn note_helper() {
    if let Some(hooks) = HOOKS.get() {
        (hooks.helper)();
    }
}

/// How many threads will call the hook at their end and have not done so.
static HOOKED_THREADS: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// The hook at the end of a thread. It counts among the hooked threads until it is dropped.
pub(crate) struct ThreadEnd(fn());

impl ThreadEnd {
    /// `None` if no hooks are set.
    pub(crate) fn new() -> Option<Self> {
        let hooks = HOOKS.get()?;
        *HOOKED_THREADS.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Some(ThreadEnd(hooks.thread_end))
    }

    pub(crate) fn call(&self) {
        (self.0)();
    }
}

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let (count, fewer) = &HOOKED_THREADS;
        *count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        fewer.notify_all();
    }
}

/// Waits until the hook at the end of threads has returned on all threads that were strands. A
/// workload that detaches its threads may return before.
pub fn await_thread_ends() {
    let (count, fewer) = &HOOKED_THREADS;
    let left = count.lock().unwrap_or_else(PoisonError::into_inner);
    drop(fewer.wait_while(left, |left| *left > 0));
}

/// Sets the hooks of this process, once.
pub fn hook_intervals(hooks: IntervalHooks) {
    let _ = HOOKS.set(hooks);
}

/// Runs from before the first spawn to after the last join.
#[derive(Debug)]
pub struct Stopwatch {
    wall: Instant,
    cpu_s: f64,
}

impl Stopwatch {
    /// Starts the clocks.
    pub fn start() -> Self {
        if let Some(hooks) = HOOKS.get() {
            (hooks.before)();
        }
        Stopwatch { cpu_s: cpu_seconds(), wall: Instant::now() }
    }

    /// Reads the clocks.
    pub fn stop(&self) -> Cost {
        let time = self.wall.elapsed();
        let cpu_s = cpu_seconds() - self.cpu_s;
        if let Some(hooks) = HOOKS.get() {
            (hooks.after)();
        }
        Cost { time, cpu_s, memory: None, ops: None, figures: Vec::new() }
    }
}

/// User and system time of all threads of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ProcessCPUTime);
    tv_sec as f64 + tv_nsec as f64 * 1e-9
}

/// The mapped and the resident bytes of this process; `None` if there is no procfs.
fn mapped_and_resident() -> Option<(u64, u64)> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let mut fields = statm.split_whitespace().map(str::parse::<u64>);
    let mut next_bytes = || Some(fields.next()?.ok()? * page_size() as u64);
    Some((next_bytes()?, next_bytes()?))
}

/// The resident memory of this process in bytes; `None` if there is no procfs.
pub fn resident_bytes() -> Option<u64> {
    mapped_and_resident().map(|(_, resident)| resident)
}

/// The bytes that this process can still map; `None` if `ulimit -v` sets no limit.
pub fn address_space_left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let mapped = mapped_and_resident().map_or(0, |(mapped, _)| mapped);
    Some(limit.saturating_sub(mapped))
}

/// The peak of this process's resident memory in bytes; `None` if there is no procfs.
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(kib_field(&status, "VmHWM:")? * 1024)
}

/// Starts the peak of this process's resident memory anew, if the kernel allows it.
pub(crate) fn restart_peak_resident() {
    // If it fails, the peak is that since the start of the process.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The memory of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    pub(crate) rss_bytes: u64,
    pub(crate) page_table_bytes: u64,
}

impl Footprint {
    /// Reads procfs; `None` if there is no procfs.
    pub(crate) fn now() -> Option<Self> {
        let rss_bytes = resident_bytes()?;
        let status = fs::read_to_string("/proc/self/status").ok()?;
        Some(Footprint { rss_bytes, page_table_bytes: kib_field(&status, "VmPTE:")? * 1024 })
    }
}

/// The number of KiB in a line of procfs, such as `VmPTE:      64 kB`.
pub fn kib_field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().trim_end_matches("kB").trim().parse().ok()
}
