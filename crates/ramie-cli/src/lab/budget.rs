//! The time budget: an estimate for each point, the points that do not fit, and the end.
//!
//! Before a point has been measured, its time is estimated from typical costs of an operation, with
//! a margin. Afterwards the estimate is its measured time.

use std::{
    fs,
    time::{Duration, Instant},
};

use super::{figure::thousands, plan::Point};
use crate::workload::{self, Engine, Workload, most_threads, task_op_ns};

/// Nothing is measured that would end later than this. Points may take longer than expected, so the
/// lab as a whole takes up to about two minutes.
const MEASURING: Duration = Duration::from_secs(95);
/// No process may run longer than this after the start of the lab.
const HARD_END: Duration = Duration::from_secs(112);
/// A point with a longer estimate is skipped.
const POINT_MAX: Duration = Duration::from_secs(25);
/// A process counts as hung if it runs for `HANG_MIN` plus this multiple of its estimate.
const HANG_FACTOR: u32 = 8;
const HANG_MIN: Duration = Duration::from_secs(3);
/// Repetitions in one process, for points whose estimate is at most `SHORT`.
const REPEATS: u32 = 3;
const SHORT: Duration = Duration::from_millis(350);

#[derive(Debug)]
pub(super) struct Budget {
    started: Instant,
    threads_max: u64,
}

impl Budget {
    pub(super) fn start() -> Self {
        Budget { started: Instant::now(), threads_max: threads_max() }
    }

    pub(super) fn spent(&self) -> Duration {
        self.started.elapsed()
    }

    /// The share of the measuring time that has passed, from 0 to 1.
    pub(super) fn share_spent(&self) -> f64 {
        (self.spent().as_secs_f64() / MEASURING.as_secs_f64()).min(1.0)
    }

    pub(super) fn has_room_for(&self, time: Duration) -> bool {
        self.spent() + time <= MEASURING
    }

    /// How long a process that starts now may run if its estimate is `time`.
    pub(super) fn limit(&self, time: Duration) -> Duration {
        HARD_END.saturating_sub(self.spent()).min(HANG_MIN + time * HANG_FACTOR)
    }

    /// The reason not to measure a point at all, if there is one.
    pub(super) fn reason_to_skip(&self, point: &Point) -> Option<String> {
        if point.on == Engine::Threads && point.workload.strands() > self.threads_max {
            return Some(format!(
                "more than about {} threads are not safe on this system",
                thousands(self.threads_max)
            ));
        }
        if !workload::need(&point.workload, point.on).is_comfortable() {
            return Some("it needs most of the available memory or address space".to_owned());
        }
        let time = estimate(point);
        if time > POINT_MAX || !self.has_room_for(time) {
            return Some("it does not fit into the lab's time".to_owned());
        }
        None
    }
}

/// The number of repetitions of a point in one process.
pub(super) fn repeats(point: &Point) -> u32 {
    let is_short = estimate(point) <= SHORT && !point.workload.wants_fresh_process();
    if is_short { REPEATS } else { 1 }
}

/// The time that a point takes on a typical machine, its process included.
pub(super) fn estimate(point: &Point) -> Duration {
    let (workload, on) = (&point.workload, point.on);
    let (strands, ops) = (workload.strands() as f64, workload.ops() as f64);
    let is_threads = on == Engine::Threads;
    let of_a_task = task_op_ns(workload, on);
    let each_op_ns = match (workload, on) {
        (Workload::Feed(_), Engine::Threads) => 2.0,
        (Workload::Ring(_), Engine::Threads) => 12_000.0,
        (Workload::Ring(_), Engine::Hybrid) => 3_000.0,
        (Workload::Switch(_), Engine::Threads) => 600.0,
        (Workload::Feed(_) | Workload::Ring(_) | Workload::Switch(_), _) => 40.0,
        (Workload::Spawn(_) | Workload::Alive(_), _) => 0.0,
        (Workload::Basic(_) | Workload::Recurse(_) | Workload::Recurse2(_), _) => of_a_task,
        (Workload::Pipe(_), Engine::Threads) => 2_000.0,
        (Workload::Socketpair(_), Engine::Threads) => 4_000.0,
        (Workload::Pipe(_), _) => 1_000.0,
        (Workload::Socketpair(_), _) => 2_000.0,
    };
    let each_strand_ns = match (workload, is_threads) {
        // Each reading takes two processes.
        (Workload::Alive(_), true) => 2.0 * 150_000.0,
        (Workload::Alive(_), false) => 2.0 * 5_000.0,
        (Workload::Spawn(_), false) => 300.0,
        (_, true) => 60_000.0,
        (_, false) => 5_000.0,
    };
    let process_s = 0.01;
    Duration::from_secs_f64(process_s + (each_op_ns * ops + each_strand_ns * strands) * 1e-9)
}

/// The number of threads that leaves enough for other programs.
fn threads_max() -> u64 {
    let sysctl = |path: &str| -> Option<u64> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let of_system = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    // Half of the system's threads are left to other programs.
    let shared = of_system.into_iter().filter_map(sysctl).min().map_or(u64::MAX, |max| max / 2);
    shared.min(most_threads() as u64)
}
