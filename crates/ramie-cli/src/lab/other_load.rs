//! The load of other processes during the lab, which makes the figures worse.

use std::fs;

/// CPU time in ticks, as the kernel counts it.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    all: u64,
    busy: u64,
    /// Of this process and of its children that have ended.
    own: u64,
}

/// Measures the CPU time of other processes and of a virtual machine's host.
#[derive(Debug)]
pub(super) struct OtherLoad {
    start: Option<Ticks>,
}

impl OtherLoad {
    pub(super) fn watch() -> Self {
        OtherLoad { start: now() }
    }

    /// The share of all CPU time that they have taken since; `None` if the kernel reports none.
    pub(super) fn share(&self) -> Option<f64> {
        let (start, end) = (self.start?, now()?);
        share_between(start, end)
    }
}

fn share_between(start: Ticks, end: Ticks) -> Option<f64> {
    let all = end.all.checked_sub(start.all).filter(|all| *all > 0)?;
    let busy = end.busy.saturating_sub(start.busy);
    let others = busy.saturating_sub(end.own.saturating_sub(start.own));
    Some(others as f64 / all as f64)
}

fn now() -> Option<Ticks> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let own = fs::read_to_string("/proc/self/stat").ok()?;
    parse(&stat, &own)
}

/// Reads proc(5): `cpu user nice system idle iowait irq softirq steal …`, and in the other file,
/// behind the name, utime, stime, cutime and cstime as the 12th to the 15th word.
fn parse(stat: &str, own: &str) -> Option<Ticks> {
    let words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let times: Vec<u64> = words.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let all = times.iter().sum();
    let idle: u64 = times.get(3..5)?.iter().sum();
    let words = own.rsplit_once(") ")?.1.split(' ').skip(11).take(4);
    let own: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    (own.len() == 4).then(|| Ticks { all, busy: all - idle, own: own.iter().sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_of_other_processes_excludes_our_own() {
        let own = |own: u64| format!("7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 {own} 1 2 3 20 0");
        let start = parse("cpu  100 0 50 1000 10 0 5 5 0 0\ncpu0 1", &own(10)).unwrap();
        let end = parse("cpu  250 0 100 1700 10 0 5 105 0 0\ncpu0 1", &own(210)).unwrap();
        // Of 1,000 ticks 300 were busy, and 200 of them were our own.
        assert_eq!(share_between(start, end), Some(0.1));
        assert_eq!(share_between(start, start), None);
        assert!(parse("cpu", &own(1)).is_none() && parse("cpu  1 2 3 4 5 6 7 8", "no").is_none());
        assert!(now().is_some());
    }
}
