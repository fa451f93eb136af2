//! The number of threads that is safe on this system.

use std::fs;

use ramie_workloads::most_threads;

use crate::failure::Failure;

/// The number of threads that leaves enough for other programs.
pub(crate) fn safe_threads() -> u64 {
    let sysctl = |path: &str| -> Option<u64> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let of_system = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    // Half of the system's threads are left to other programs.
    let shared = of_system.into_iter().filter_map(sysctl).min().map_or(u64::MAX, |max| max / 2);
    shared.min(most_threads() as u64)
}

/// Fails if `threads` threads are more than [`safe_threads`].
pub(super) fn check(threads: u64) -> Result<(), Failure> {
    let safe = safe_threads();
    if threads <= safe {
        return Ok(());
    }
    Err(Failure::other(format!(
        "{threads} threads are not safe on this system, at most {safe} are (half of what \
         kernel.pid_max and kernel.threads-max allow, and a quarter of vm.max_map_count); ask for \
         fewer, or use --on fibers"
    )))
}
