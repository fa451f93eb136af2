//! The arms: the ways to run the work that are compared.

use std::thread;

use ramie_workloads::Mix;
use serde::Deserialize;

use crate::{
    summary::Summary,
    workload::{Engine, safe_threads},
};

/// An engine, and the number of its workers or processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MixArm {
    pub(super) on: Engine,
    /// `None` for threads.
    pub(super) workers: Option<u32>,
}

/// The row of one run, as `ramie run mix --json` prints it.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct MixReading {
    pub(super) steps_per_s: f64,
    pub(super) cpu_us_per_step: f64,
    pub(super) lateness_us: Percentiles,
    pub(super) rss_bytes: f64,
}

/// Of the lateness, in µs.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

/// An arm and its readings.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) arm: MixArm,
    pub(super) readings: Vec<MixReading>,
    /// Why there are no more readings.
    pub(super) failed: Option<String>,
}

impl MixArm {
    pub(super) fn name(self) -> String {
        match self.workers {
            Some(workers) if workers > 1 => format!("{} × {workers}", self.on.name()),
            _ => self.on.name().to_owned(),
        }
    }

    /// The arm as a phrase, such as `a hybrid of 2 workers`.
    pub(super) fn phrase(self) -> String {
        match (self.on, self.workers) {
            (Engine::Hybrid, Some(workers)) => format!("a hybrid: fibers on {workers} workers"),
            (Engine::Processes, Some(processes)) => {
                format!("{processes} processes, each with fibers on one worker")
            }
            (Engine::Fibers, _) => "fibers on one worker".to_owned(),
            (on, _) => on.name().to_owned(),
        }
    }

    /// The arguments of `ramie` that measure a mix on this arm.
    pub(super) fn arguments(self, mix: &Mix, iterations_per_ms: u64) -> Vec<String> {
        let mut all = vec!["run".to_owned()];
        all.extend(ramie_workloads::Workload::Mix(*mix).arguments());
        all.extend(["--on".to_owned(), self.on.name().to_owned()]);
        let flag = if self.on == Engine::Processes { "--processes" } else { "--workers" };
        if let Some(workers) = self.workers {
            all.extend([flag.to_owned(), workers.to_string()]);
        }
        all.extend(["--json", "--fresh", "--iterations-per-ms"].map(str::to_owned));
        all.push(iterations_per_ms.to_string());
        all
    }
}

impl Measured {
    fn new(arm: MixArm, failed: Option<String>) -> Self {
        Measured { arm, readings: Vec::new(), failed }
    }

    pub(super) fn steps_per_s(&self) -> Option<Summary> {
        Summary::of(self.readings.iter().map(|reading| reading.steps_per_s))
    }

    pub(super) fn cpu_us_per_step(&self) -> Option<Summary> {
        Summary::of(self.readings.iter().map(|reading| reading.cpu_us_per_step))
    }

    pub(super) fn memory(&self) -> Option<Summary> {
        Summary::of(self.readings.iter().map(|reading| reading.rss_bytes))
    }

    pub(super) fn lateness(&self, part: impl Fn(&Percentiles) -> f64) -> Option<Summary> {
        Summary::of(self.readings.iter().map(|reading| part(&reading.lateness_us)))
    }
}

/// The arms for a mix on this machine. An arm that is not safe here has the reason.
pub(super) fn all(mix: &Mix) -> Vec<Measured> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    all_for(mix, u32::try_from(cpus).unwrap_or(u32::MAX), safe_threads())
}

fn all_for(mix: &Mix, cpus: u32, safe_threads: u64) -> Vec<Measured> {
    let of = |on, workers| MixArm { on, workers };
    let mut widths = vec![2, cpus / 2, cpus, cpus.saturating_mul(2)];
    widths.retain(|width| *width >= 2);
    widths.sort_unstable();
    widths.dedup();
    let mut arms = vec![of(Engine::Fibers, Some(1)), of(Engine::Threads, None)];
    arms.extend(widths.into_iter().map(|width| of(Engine::Hybrid, Some(width))));
    if mix.concurrency >= 2 {
        arms.push(of(Engine::Processes, Some(cpus.max(2).min(mix.concurrency))));
    }
    let reason = |arm: MixArm| {
        let threads = mix.threads(arm.on == Engine::Threads);
        (threads > safe_threads)
            .then(|| format!("{threads} threads are not safe here, at most {safe_threads} are"))
    };
    arms.into_iter().map(|arm| Measured::new(arm, reason(arm))).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use ramie_workloads::mix::{Seconds, WaitFor};

    use super::*;

    pub(in crate::advise) const MIX: Mix = Mix {
        concurrency: 100,
        cpu_us: 5,
        wait_us: 200,
        wait: WaitFor::Timer,
        jitter: 0,
        seconds: Seconds::from_secs(1),
        blocking: false,
    };

    #[test]
    fn hybrids_are_as_wide_as_the_machine_makes_sense() {
        let names = |cpus| -> Vec<String> {
            all_for(&MIX, cpus, 1000).iter().map(|measured| measured.arm.name()).collect()
        };
        assert_eq!(names(1), ["fibers", "threads", "hybrid × 2", "processes × 2"]);
        assert_eq!(names(2), ["fibers", "threads", "hybrid × 2", "hybrid × 4", "processes × 2"]);
        assert_eq!(
            names(8)[2..],
            ["hybrid × 2", "hybrid × 4", "hybrid × 8", "hybrid × 16", "processes × 8"]
        );
    }

    #[test]
    fn too_many_threads_are_not_measured() {
        let unsafe_arms = |mix: &Mix| -> Vec<Engine> {
            let all = all_for(mix, 2, 99);
            all.iter().filter(|arm| arm.failed.is_some()).map(|arm| arm.arm.on).collect()
        };
        assert_eq!(unsafe_arms(&MIX), [Engine::Threads]);
        // Each strand has a holder of a lock, which is a thread.
        let blocking = Mix { wait: WaitFor::Lock, blocking: true, ..MIX };
        assert_eq!(unsafe_arms(&blocking).len(), 5);
    }
}
