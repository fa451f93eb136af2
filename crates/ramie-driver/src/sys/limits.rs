//! Settings of the kernel and the administrator: limits, release, sysctls, seccomp.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A resource limit; none means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The present limit, which can be raised up to `hard`.
    pub soft: Option<u64>,
    /// The limit that only the administrator can raise.
    pub hard: Option<u64>,
}

fn limit(resource: Resource) -> Limit {
    let Rlimit { current, maximum } = getrlimit(resource);
    Limit { soft: current, hard: maximum }
}

/// Returns the number of descriptors that the process may have open (`ulimit -n`).
pub fn nofile_limit() -> Limit {
    limit(Resource::Nofile)
}

/// Returns the number of bytes that the process may lock (`ulimit -l`, which prints KiB).
pub fn memlock_limit() -> Limit {
    limit(Resource::Memlock)
}

/// Raises the soft limit of open descriptors to the hard one; returns the limit that now holds.
///
/// # Errors
/// Those of setrlimit(2).
pub fn raise_nofile_limit() -> io::Result<Limit> {
    let Limit { hard, .. } = nofile_limit();
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard })?;
    Ok(nofile_limit())
}

/// Returns the number of CPUs on which this thread may run; at least 1.
pub fn available_cpus() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count().max(1) as usize)
}

/// Returns the kernel's release, such as `6.12.3`.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Reads a sysctl by its path below `/proc/sys`, such as `vm/max_map_count`.
pub fn sysctl(path: &str) -> Option<u64> {
    read_small(&format!("/proc/sys/{path}"))?.trim().parse().ok()
}

/// Returns this thread's seccomp mode: 0 none, 1 strict, 2 filtered.
pub fn seccomp_mode() -> Option<u32> {
    let status = read_small("/proc/thread-self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp:"))?;
    line.trim().parse().ok()
}

/// Reads a small file of /proc or /sys without std, whose calls go through libc.
pub fn read_small(path: &str) -> Option<String> {
    use rustix::fs::{Mode, OFlags, open};
    let fd = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = Vec::new();
    let mut part = [0; 1024];
    loop {
        match rustix::io::read(&fd, &mut part).ok()? {
            0 => return String::from_utf8(text).ok(),
            count => text.extend_from_slice(&part[..count]),
        }
    }
}
