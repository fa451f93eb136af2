//! The monotonic clock, and a counter that is faster to read.
#![allow(unsafe_code)]

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

/// Reads a counter for the times of many events, in ticks of an unknown and constant length; with
/// [`ticks_are_fast`] about 10 ns, otherwise `CLOCK_MONOTONIC` in ns. Two looks at both clocks
/// convert ticks to ns.
#[must_use]
#[inline]
pub fn ticks(are_fast: bool) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if are_fast {
        // SAFETY: each processor of x86-64 has the instruction, which has no operands. A process
        // that forbids it to itself (`PR_SET_TSC`) ends by a signal.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    let _ = are_fast;
    monotonic_ns()
}

/// Returns whether [`ticks`] may read the time stamp counter: it runs at a constant rate in all
/// states of the processor, and the kernel has not found it unreliable.
#[must_use]
pub fn ticks_are_fast() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::__cpuid;
        const POWER: u32 = 0x8000_0007;
        const IS_INVARIANT: u32 = 1 << 8;
        // The kernel takes another clock source if the counters of the processors differ.
        const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let has_leaf = __cpuid(0x8000_0000).eax >= POWER;
        if !has_leaf || __cpuid(POWER).edx & IS_INVARIANT == 0 {
            return false;
        }
        let source = std::fs::read_to_string(SOURCE).unwrap_or_default();
        matches!(source.trim(), "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
