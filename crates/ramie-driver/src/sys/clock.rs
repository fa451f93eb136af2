//! The monotonic clock.

use rustix::time::{ClockId, clock_gettime};

/// Tells the monotonic clock in nanoseconds: that of `std::time::Instant`, read in user space.
#[inline]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
