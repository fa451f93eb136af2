//! The monotonic clock.

use rustix::time::{ClockId, clock_gettime};

/// Reads `CLOCK_MONOTONIC`, in ns since some moment before this process began. About 25 ns, by the
/// vDSO.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Reads `CLOCK_MONOTONIC_COARSE`, in ms modulo 2^32. About 5 ns; the clock moves in steps of 1 to
/// 10 ms, with the kernel's tick.
#[must_use]
pub fn coarse_ms() -> u32 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    (now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000) as u32
}
