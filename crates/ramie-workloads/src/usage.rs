//! Time and memory of a run, as the kernel counts them.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::{
    param::page_size,
    time::{ClockId, Timespec, clock_gettime},
};

/// The cost of one repetition.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Wall time, from before the first spawn to after the last join.
    pub time: Duration,
    /// User and system time of the process over the same interval.
    pub cpu_s: f64,
    /// Memory, for the workloads that measure it.
    pub memory: Option<Memory>,
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

/// Runs from before the first spawn to after the last join.
#[derive(Debug)]
pub struct Stopwatch {
    wall: Instant,
    cpu_s: f64,
}

impl Stopwatch {
    /// Starts the clocks.
    pub fn start() -> Self {
        Stopwatch { cpu_s: cpu_seconds(), wall: Instant::now() }
    }

    /// Reads the clocks.
    pub fn stop(&self) -> Cost {
        let time = self.wall.elapsed();
        Cost { time, cpu_s: cpu_seconds() - self.cpu_s, memory: None }
    }
}

/// User and system time of all threads of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ProcessCPUTime);
    tv_sec as f64 + tv_nsec as f64 * 1e-9
}

/// The resident memory of this process in bytes; `None` if there is no procfs.
pub fn resident_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
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
