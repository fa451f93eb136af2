//! The load of other processes during a measurement, which makes the figures worse.

use std::fs;

/// CPU time in ticks, as the kernel counts it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    all: u64,
    busy: u64,
    /// Used by the host of a virtual machine.
    steal: u64,
    /// Used by this process and by its children that have ended.
    own: u64,
}

/// Shares of the CPU time between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Load {
    /// Used by other processes of this system.
    pub(crate) others: f64,
    /// Used by the host of a virtual machine.
    pub(crate) steal: f64,
}

impl Ticks {
    /// `None` if the kernel reports none.
    pub(crate) fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let own = fs::read_to_string("/proc/self/stat").ok()?;
        Ticks::parse(&stat, &own)
    }

    /// `None` if no time has passed.
    pub(crate) fn until(self, end: Ticks) -> Option<Load> {
        let all = end.all.checked_sub(self.all).filter(|all| *all > 0)? as f64;
        let busy = end.busy.saturating_sub(self.busy);
        let steal = end.steal.saturating_sub(self.steal);
        let others = busy.saturating_sub(end.own.saturating_sub(self.own) + steal);
        Some(Load { others: others as f64 / all, steal: steal as f64 / all })
    }

    /// Reads proc(5): `cpu user nice system idle iowait irq softirq steal …`, and in the other
    /// file, behind the name, utime, stime, cutime and cstime as the 12th to the 15th word.
    fn parse(stat: &str, own: &str) -> Option<Ticks> {
        let words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let times: Vec<u64> = words.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let all = times.iter().sum();
        let idle: u64 = times.get(3..5)?.iter().sum();
        let steal = *times.get(7)?;
        let words = own.rsplit_once(") ")?.1.split(' ').skip(11).take(4);
        let own: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        (own.len() == 4).then(|| Ticks { all, busy: all - idle, steal, own: own.iter().sum() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_of_other_processes_excludes_our_own() {
        let own = |own: u64| format!("7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 {own} 1 2 3 20 0");
        let start = Ticks::parse("cpu  100 0 50 1000 10 0 5 5 0 0\ncpu0 1", &own(10)).unwrap();
        let end = Ticks::parse("cpu  350 0 100 1600 10 0 5 105 0 0\ncpu0 1", &own(210)).unwrap();
        // Of 1,000 ticks 400 were busy: 200 of them our own, 100 of the host.
        assert_eq!(start.until(end), Some(Load { others: 0.1, steal: 0.1 }));
        assert_eq!(start.until(start), None);
        for (stat, own) in [("cpu", own(1)), ("cpu  1 2 3 4 5 6 7 8", "no".to_owned())] {
            assert!(Ticks::parse(stat, &own).is_none());
        }
        assert!(Ticks::now().is_some());
    }
}
