//! Time: how long a point will take, which points do not fit, when to stop.
//!
//! Before a point has been measured its time is estimated from what an op costs on an ordinary
//! machine, rather too much than too little; afterwards its own time is the estimate.

use std::{
    fs,
    time::{Duration, Instant},
};

use super::{figure::thousands, plan::Point};
use crate::workload::{On, Workload, most_threads};

/// Nothing is measured that would end later than this. Points may take longer than expected, so the
/// lab as a whole takes up to about two minutes.
const MEASURING: Duration = Duration::from_secs(95);
/// No process may run past this.
const HARD_END: Duration = Duration::from_secs(112);
/// The longest that one point may be expected to run.
const POINT_MAX: Duration = Duration::from_secs(25);
/// A process that takes so many times longer than expected, and longer than `PATIENCE`, hangs.
const SLOWNESS: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(3);
/// Repetitions in one process, for points that are expected to take no longer than `SHORT`.
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

    /// How much of the measuring is over, from 0 to 1.
    pub(super) fn share_spent(&self) -> f64 {
        (self.spent().as_secs_f64() / MEASURING.as_secs_f64()).min(1.0)
    }

    pub(super) fn has_room_for(&self, time: Duration) -> bool {
        self.spent() + time <= MEASURING
    }

    /// How long a process that starts now, and is expected to take `time`, may run.
    pub(super) fn limit(&self, time: Duration) -> Duration {
        HARD_END.saturating_sub(self.spent()).min(PATIENCE + time * SLOWNESS)
    }

    /// Says why a point should not even be tried, if so.
    pub(super) fn objection(&self, point: &Point) -> Option<String> {
        if point.on == On::Threads && point.workload.strands() > self.threads_max {
            return Some(format!(
                "only about {} threads are safe to have on this system",
                thousands(self.threads_max)
            ));
        }
        if !point.workload.need(point.on).is_comfortable() {
            return Some("it would take most of the memory or address space there is".to_owned());
        }
        let time = estimate(point);
        if time > POINT_MAX || !self.has_room_for(time) {
            return Some("it would not fit into the lab's time".to_owned());
        }
        None
    }
}

/// How often a point is repeated in one process.
pub(super) fn repeats(point: &Point) -> u32 {
    let is_short = estimate(point) <= SHORT && !point.workload.wants_fresh_process();
    if is_short { REPEATS } else { 1 }
}

/// How long a point will take, its process included, on an ordinary machine.
pub(super) fn estimate(point: &Point) -> Duration {
    let (workload, on) = (&point.workload, point.on);
    let (strands, ops) = (workload.strands() as f64, workload.ops() as f64);
    let is_threads = on == On::Threads;
    let of_a_task = workload.task_op_ns(on);
    let each_op_ns = match (workload, on) {
        (Workload::Feed(_), On::Threads) => 2.0,
        (Workload::Ring(_), On::Threads) => 12_000.0,
        (Workload::Ring(_), On::Hybrid) => 3_000.0,
        (Workload::Switch(_), On::Threads) => 600.0,
        (Workload::Feed(_) | Workload::Ring(_) | Workload::Switch(_), _) => 40.0,
        (Workload::Spawn(_) | Workload::Alive(_), _) => 0.0,
        (Workload::Basic(_) | Workload::Recurse(_) | Workload::Recurse2(_), _) => of_a_task,
        (Workload::Pipe(_), On::Threads) => 2_000.0,
        (Workload::Socketpair(_), On::Threads) => 4_000.0,
        (Workload::Pipe(_), _) => 1_000.0,
        (Workload::Socketpair(_), _) => 2_000.0,
    };
    let each_strand_ns = match (workload, is_threads) {
        // Two processes.
        (Workload::Alive(_), true) => 2.0 * 150_000.0,
        (Workload::Alive(_), false) => 2.0 * 5_000.0,
        (Workload::Spawn(_), false) => 300.0,
        (_, true) => 60_000.0,
        (_, false) => 5_000.0,
    };
    let process_s = 0.01;
    Duration::from_secs_f64(process_s + (each_op_ns * ops + each_strand_ns * strands) * 1e-9)
}

/// How many threads may be tried without getting in other programs' way.
fn threads_max() -> u64 {
    let sysctl = |path: &str| -> Option<u64> { fs::read_to_string(path).ok()?.trim().parse().ok() };
    let of_system = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    // Half of them are left to others.
    let shared = of_system.into_iter().filter_map(sysctl).min().map_or(u64::MAX, |max| max / 2);
    shared.min(most_threads() as u64)
}
