//! The fiber that notices when its worker is blocked.
//!
//! It sleeps for a millisecond again and again. If it comes back much later, another fiber has kept
//! the worker, or the machine has kept its thread from a CPU. The kernel counts the latter
//! (`schedstat`), so that does not count. A host that takes the CPU away from a virtual machine is
//! not counted by the kernel, so a section that fails is tried again.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

const NAP: Duration = Duration::from_millis(1);

/// What a ticker has seen.
#[derive(Default)]
pub(super) struct Ticks {
    pub(super) count: u64,
    /// The longest time that the worker was not to be had.
    pub(super) longest: Duration,
}

/// Ticks until it is told to end. It must run on the worker's thread.
pub(super) fn tick(ends: &AtomicBool) -> Ticks {
    let schedstat = File::open("/proc/thread-self/schedstat").ok();
    let waited = || schedstat.as_ref().map_or(Duration::ZERO, waited_for_cpu);
    let mut ticks = Ticks::default();
    let (mut before, mut waited_before) = (Instant::now(), waited());
    while !ends.load(Ordering::Relaxed) {
        ramie::fiber::sleep(NAP);
        let (now, waited_now) = (Instant::now(), waited());
        let excused = NAP + waited_now.saturating_sub(waited_before);
        ticks.longest = ticks.longest.max((now - before).saturating_sub(excused));
        ticks.count += 1;
        (before, waited_before) = (now, waited_now);
    }
    ticks
}

/// How long the thread was ready to run and had no CPU: the second number.
fn waited_for_cpu(schedstat: &File) -> Duration {
    let mut text = [0; 64];
    let length = schedstat.read_at(&mut text, 0).unwrap_or(0);
    let text = str::from_utf8(&text[..length]).unwrap_or_default();
    let nanoseconds = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
