//! The resources that a server holds, measured from outside.

use std::{
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// How long a ring may be too busy to be inspected.
const BUSY_MAX: Duration = Duration::from_secs(10);
/// A table that grows past the allocator's threshold is a mapping of its own, and this number of
/// them may stay. Leaked stacks would be thousands.
const TABLES: usize = 4;

/// The resources that a process holds, as /proc shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    pub descriptors: usize,
    pub mappings: usize,
    /// Ops armed in its rings, and descriptors registered with its epolls.
    pub in_flight: usize,
}

impl Resources {
    pub fn of(pid: u32) -> io::Result<Self> {
        let root = Path::new("/proc").join(pid.to_string());
        let mut in_flight = 0;
        let mut descriptors = 0;
        for entry in fs::read_dir(root.join("fd"))? {
            let entry = entry?;
            descriptors += 1;
            // A descriptor may be closed while the others are inspected.
            let target = fs::read_link(entry.path()).unwrap_or_default();
            let target = target.to_string_lossy();
            if target.contains("io_uring") || target.contains("eventpoll") {
                let path = root.join("fdinfo").join(entry.file_name());
                in_flight += waits(&read_when_whole(&path, target.contains("io_uring"))?);
            }
        }
        let mappings = fs::read_to_string(root.join("maps"))?.lines().count();
        Ok(Resources { descriptors, mappings, in_flight })
    }

    /// Whether no resource has grown; fewer than in the baseline are no leak.
    pub fn is_back_at(&self, baseline: &Resources) -> bool {
        self.descriptors <= baseline.descriptors
            && self.mappings <= baseline.mappings + TABLES
            && self.in_flight <= baseline.in_flight
    }
}

/// Reads a fdinfo. If the ring's lock is taken, because its owner is busy in it, the kernel shows
/// nothing. That must not be mistaken for a ring without ops, so such a read is repeated.
fn read_when_whole(path: &Path, is_ring: bool) -> io::Result<String> {
    let end = Instant::now() + BUSY_MAX;
    loop {
        let info = fs::read_to_string(path)?;
        if !is_ring || info.contains("PollList:") {
            return Ok(info);
        }
        if Instant::now() > end {
            return Err(io::Error::other("a ring is always busy, or this kernel lists no ops"));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Counts the lines of a fdinfo that stand for a wait: an op of a ring's PollList, or a descriptor
/// in an epoll.
fn waits(info: &str) -> usize {
    let is_wait = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("op=") || line.starts_with("tfd:")
    };
    info.lines().filter(is_wait).count()
}

/// The resources that several processes hold together.
pub fn sum(all: &[Resources]) -> Resources {
    let sum = |count: fn(&Resources) -> usize| all.iter().map(count).sum();
    Resources {
        descriptors: sum(|one| one.descriptors),
        mappings: sum(|one| one.mappings),
        in_flight: sum(|one| one.in_flight),
    }
}

#[cfg(test)]
mod tests {
    use super::waits;

    #[test]
    fn what_is_waited_for_is_counted() {
        let ring = "SqHead:\t1\nPollList:\n  op=6, task_works=0\n  op=13, task_works=0\n";
        assert_eq!(waits(ring), 2);
        let epoll = "flags:\t02\ntfd:        5 events: 19 data: 5  pos:0 ino:1 sdev:8\n";
        assert_eq!(waits(epoll), 1);
    }
}
