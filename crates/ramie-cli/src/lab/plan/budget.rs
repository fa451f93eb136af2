//! The time budget: an estimate for each point, the points that do not fit, and the end.
//!
//! Before a point has been measured, its time is estimated from typical costs of an operation, with
//! a margin. Afterwards the estimate is its measured time.

use std::time::{Duration, Instant};

use super::{On, Point, Selection};
use crate::{
    lab::figure::thousands,
    workload::{self, Engine, Workload, safe_threads, task_op_ns},
};

/// The times of a selection.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Nothing is measured that would end later than this. Points may take longer than expected, so
    /// the lab as a whole takes up to a fifth longer.
    measuring: Duration,
    /// No process may run longer than this after the start of the lab.
    hard_end: Duration,
    /// A point with a longer estimate is skipped.
    point_max: Duration,
}

impl Limits {
    fn of(selection: Selection, has_peers: bool) -> Self {
        let [measuring, hard_end, point_max] = match selection {
            Selection::Quick => [100, 114, 25],
            // Its points take no time, so it runs to its end on a busy machine, too.
            Selection::Tiny | Selection::Sample => [900, 960, 25],
            Selection::Preset(_) => [360, 420, 30],
            Selection::Full => [1500, 1740, 30],
        }
        .map(Duration::from_secs);
        let factor = if has_peers { WITH_PEERS } else { 1 };
        Limits { measuring: measuring * factor, hard_end: hard_end * factor, point_max }
    }
}

/// With peers a lab may take this multiple of its time.
const WITH_PEERS: u32 = 3;
/// A process counts as hung if it runs for `HANG_MIN` plus this multiple of its estimate.
const HANG_FACTOR: u32 = 8;
const HANG_MIN: Duration = Duration::from_secs(8);
/// Repetitions in one process, for points whose estimate is at most `SHORT`: there the first one
/// takes a third longer than the others, because caches and stacks are cold. Of longer points it
/// takes at most a hundredth longer, so one more round is worth more than two more repetitions.
const REPEATS: u32 = 3;
const SHORT: Duration = Duration::from_millis(50);
/// Fewer rounds give no spread.
pub(crate) const ROUNDS_MIN: u32 = 3;

#[derive(Debug)]
pub(crate) struct Budget {
    started: Instant,
    /// The time that earlier sessions of the same lab have spent.
    before: Duration,
    limits: Limits,
    threads_max: u64,
}

impl Budget {
    pub(crate) fn start(selection: Selection, has_peers: bool, before: Duration) -> Self {
        let limits = Limits::of(selection, has_peers);
        Budget { started: Instant::now(), before, limits, threads_max: safe_threads() }
    }

    /// The time since the lab began, without the pauses between its sessions.
    pub(crate) fn spent(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    /// The share of the measuring time that has passed, from 0 to 1.
    pub(crate) fn share_spent(&self) -> f64 {
        (self.spent().as_secs_f64() / self.limits.measuring.as_secs_f64()).min(1.0)
    }

    /// The time above which a point must wait until all others have `ROUNDS_MIN` rounds, because
    /// otherwise not all of them would get these. `times` are those of the points in the first
    /// round, which is over.
    pub(crate) fn long(&self, times: impl IntoIterator<Item = Duration>) -> Duration {
        longest(times, ROUNDS_MIN - 1, self.limits.measuring.saturating_sub(self.spent()))
    }

    pub(crate) fn has_room_for(&self, time: Duration) -> bool {
        self.spent() + time <= self.limits.measuring
    }

    /// How long a process that starts now may run if its estimate is `time`.
    pub(crate) fn limit(&self, time: Duration) -> Duration {
        self.limits.hard_end.saturating_sub(self.spent()).min(HANG_MIN + time * HANG_FACTOR)
    }

    /// The reason not to measure a point at all, if there is one.
    pub(crate) fn reason_to_skip(&self, point: &Point) -> Option<String> {
        let on = point.arm.on.model();
        if on == Engine::Threads && point.workload.strands() > self.threads_max {
            return Some(format!(
                "more than about {} threads are not safe on this system",
                thousands(self.threads_max)
            ));
        }
        if !workload::need(&point.workload, on).is_comfortable() {
            return Some("it needs most of the available memory or address space".to_owned());
        }
        let time = estimate(point);
        if time > self.limits.point_max || !self.has_room_for(time) {
            return Some("it does not fit into the lab's time".to_owned());
        }
        None
    }
}

/// The longest time of which points fit, with all shorter ones, this number of times.
fn longest(times: impl IntoIterator<Item = Duration>, rounds: u32, room: Duration) -> Duration {
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_unstable();
    let mut left = room;
    let fits = |time: &Duration| {
        let rest = left.checked_sub(*time * rounds);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    times.into_iter().take_while(fits).last().unwrap_or_default()
}

/// The number of repetitions of a point in one process.
pub(crate) fn repeats(point: &Point) -> u32 {
    let is_peer = matches!(point.arm.on, On::Peer(_));
    let is_short = !is_peer && estimate(point) <= SHORT && !point.workload.wants_fresh_process();
    if is_short { REPEATS } else { 1 }
}

/// The time that a point takes on a typical machine, its process included.
pub(crate) fn estimate(point: &Point) -> Duration {
    let (workload, on) = (&point.workload, point.arm.on.model());
    let (strands, ops) = (workload.strands() as f64, workload.ops() as f64);
    let is_threads = on == Engine::Threads;
    let of_a_task = task_op_ns(workload, on);
    let each_op_ns = match (workload, on) {
        (Workload::Feed(feed), Engine::Threads) if feed.yield_every.is_some() => 1_000.0,
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
        (Workload::Mix(_), _) => 0.0,
        (Workload::Http(http), _) => 12_000.0 + 1e3 * f64::from(http.work),
        (Workload::Server(_), Engine::Threads) => 120_000.0,
        (Workload::Server(_), _) => 60_000.0,
    };
    let each_strand_ns = match (workload, is_threads) {
        // Each reading takes two processes.
        (Workload::Alive(_), true) => 2.0 * 150_000.0,
        (Workload::Alive(_), false) => 2.0 * 5_000.0,
        (Workload::Spawn(_), false) => 300.0,
        (_, true) => 60_000.0,
        (_, false) => 5_000.0,
    };
    let process_s = match workload {
        Workload::Mix(mix) => 0.2 + mix.seconds.as_f64(),
        _ => 0.01,
    };
    let process_s = match point.arm.on {
        On::Peer(peer) if peer.is_java() => process_s + 0.5,
        _ => process_s,
    };
    Duration::from_secs_f64(process_s + (each_op_ns * ops + each_strand_ns * strands) * 1e-9)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::longest;

    #[test]
    fn the_longest_points_give_way_if_time_is_short() {
        let times = || [30, 1, 10, 2].map(Duration::from_secs);
        let within = |room| longest(times(), 2, Duration::from_secs(room)).as_secs();
        assert_eq!([86, 85, 26, 25, 6, 5, 1].map(within), [30, 10, 10, 2, 2, 1, 0]);
        assert_eq!(longest([], 2, Duration::from_secs(1)), Duration::ZERO);
    }
}
