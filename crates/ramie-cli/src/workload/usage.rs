//! Time and memory of a run, as the kernel counts them.

use std::{fs, time::Instant};

use rustix::{
    param::page_size,
    time::{ClockId, Timespec, clock_gettime},
};

use super::Cost;

/// Runs from before the first spawn to after the last join.
pub(super) struct Stopwatch {
    wall: Instant,
    cpu_s: f64,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Stopwatch { cpu_s: cpu_seconds(), wall: Instant::now() }
    }

    pub(super) fn stop(&self) -> Cost {
        let seconds = self.wall.elapsed().as_secs_f64();
        Cost { seconds, cpu_s: cpu_seconds() - self.cpu_s, memory: None }
    }
}

/// User and system time of all threads of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ProcessCPUTime);
    tv_sec as f64 + tv_nsec as f64 * 1e-9
}

/// The memory of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Footprint {
    pub(super) rss_bytes: u64,
    pub(super) page_table_bytes: u64,
}

impl Footprint {
    /// Reads procfs; `None` if there is no procfs.
    pub(super) fn now() -> Option<Self> {
        let statm = fs::read_to_string("/proc/self/statm").ok()?;
        let resident: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
        let status = fs::read_to_string("/proc/self/status").ok()?;
        Some(Footprint {
            rss_bytes: resident * page_size() as u64,
            page_table_bytes: kib_field(&status, "VmPTE:")? * 1024,
        })
    }
}

pub(super) fn kib_field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().trim_end_matches("kB").trim().parse().ok()
}
