//! The monotonic clock.

use rustix::time::{ClockId, clock_gettime};

/// Reads `CLOCK_MONOTONIC`, in ns since some moment before this process began. About 25 ns, by the
/// vDSO.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
