//! The value of a summary: counts of strands, and those that have waited longest.

use std::time::Duration;

#[cfg(feature = "serde")]
use serde::Serialize;

#[cfg(feature = "serde")]
use super::dump::ms;
use super::dump::{SourceLocation, StrandDump, StrandName, WorkerStatus};

/// The strands of a process, counted by state and by wait; made by [`summary`](super::summary()).
///
/// `Display` writes it as text, and [`to_json`](Summary::to_json) as JSON.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct Summary {
    /// The id of the process.
    pub process: u32,
    /// The time at which the summary was made, by the monotonic clock of the system. Two summaries
    /// have an interval between them.
    #[cfg_attr(feature = "serde", serde(rename = "at_us", serialize_with = "us"))]
    pub at: Duration,
    /// The workers: first those of runtimes, then threads that are strands.
    pub workers: Vec<WorkerSummary>,
    /// All strands, by state.
    pub states: StateCounts,
    /// The places at which strands wait, those with the most strands first; 100 at most.
    pub places: Vec<WaitPlace>,
    /// The number of strands that wait at further places.
    pub waiting_elsewhere: u64,
    /// The strands that have waited longest, the longest wait first; 50 at most. The field
    /// [`StrandDump::worker`] is the place in [`workers`](Self::workers).
    pub slowest: Vec<StrandDump>,
    /// The names of strands that hold locks or are joined, according to [`slowest`](Self::slowest),
    /// and that are not in there.
    pub awaited: Vec<StrandName>,
    /// The stalls that the watchdog has reported last, the newest first; 32 at most. They include
    /// those of runtimes that have ended.
    pub stalls: Vec<StallSummary>,
    /// Strands that were spawned since the process began.
    pub spawned: u64,
    /// Strands that have ended since then.
    pub ended: u64,
    /// Switches since then: strands that a worker has started or resumed.
    pub resumed: u64,
    /// How long the summary took.
    #[cfg_attr(feature = "serde", serde(rename = "took_ms", serialize_with = "ms"))]
    pub took: Duration,
}

/// A worker of a runtime, or the small worker of a thread that is a strand, in a summary.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct WorkerSummary {
    /// The index of the worker in its runtime; none for a thread outside of one.
    pub index: Option<usize>,
    /// The name of its thread.
    pub thread_name: Option<String>,
    /// The id of its thread, as `/proc` has it.
    pub thread_id: i32,
    /// Whether the worker has counted its strands.
    pub status: WorkerStatus,
    /// The number of fibers that have started here and not ended.
    pub fibers: usize,
    /// The number of its strands that wait for their turn.
    pub runnable: u64,
    /// The number of its strands that wait for an event.
    pub waiting: u64,
    /// The length of its run queue when it answered or, if it has not, at its last poll; a row of
    /// closures without a stack counts as one. None for a thread outside of a runtime.
    pub run_queue: Option<u64>,
    /// The CPU time of its thread; none for a thread outside of a runtime. See
    /// [`load_since`](Self::load_since).
    #[cfg_attr(feature = "serde", serde(rename = "cpu_us", serialize_with = "maybe_us"))]
    pub cpu: Option<Duration>,
}

/// Strands, counted by state ([`StrandState`](super::StrandState)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct StateCounts {
    /// Strands that were spawned and wait for their first turn.
    pub not_started: u64,
    /// Strands that run, and threads that run code of the program outside of calls of this crate.
    pub running: u64,
    /// Strands that wait for their turn.
    pub runnable: u64,
    /// Strands that wait for an event.
    pub waiting: u64,
}

/// The strands that wait for the same kind of event at the same place.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct WaitPlace {
    /// The purpose of the wait, such as "a Mutex" or "data from a socket".
    pub purpose: &'static str,
    /// The call that waits.
    pub location: SourceLocation,
    /// The number of strands that wait there.
    pub strands: u64,
    /// The longest of these waits until now.
    #[cfg_attr(feature = "serde", serde(rename = "longest_ms", serialize_with = "ms"))]
    pub longest: Duration,
}

/// A stall that the watchdog has reported.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct StallSummary {
    /// The time since the report.
    #[cfg_attr(feature = "serde", serde(rename = "ago_ms", serialize_with = "ms"))]
    pub ago: Duration,
    /// The fiber: `fiber 'name'`, or `fiber` and its id.
    pub fiber: String,
    /// The index of the worker in its runtime.
    pub worker: usize,
    /// How long the fiber had run when the stall was reported or, if it has ended, in all.
    #[cfg_attr(feature = "serde", serde(rename = "lasted_ms", serialize_with = "ms"))]
    pub lasted: Duration,
    /// Whether the fiber has suspended since.
    pub has_ended: bool,
    /// The cause, in one line.
    pub cause: String,
    /// The closure of the fiber, as the compiler names it.
    pub closure: &'static str,
}

impl StateCounts {
    /// Returns the number of all strands.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.not_started + self.running + self.runnable + self.waiting
    }
}

impl WorkerSummary {
    /// Returns the share of the interval between two summaries in which the worker's thread ran on
    /// a CPU, from 0 to 1. `None` if either has no CPU time, if they are of different threads, or
    /// if no time has passed.
    ///
    /// # Examples
    /// ```standalone_crate
    /// use ramie::{fiber, inspect};
    /// use std::time::Duration;
    ///
    /// ramie::Runtime::builder().workers(1).build()?.run(|| {
    ///     let before = inspect::summary();
    ///     fiber::sleep(Duration::from_millis(20));
    ///     let now = inspect::summary();
    ///     let interval = now.at - before.at;
    ///     let load = now.workers[0].load_since(&before.workers[0], interval).unwrap();
    ///     assert!((0.0..1.0).contains(&load), "{load}");
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn load_since(&self, earlier: &WorkerSummary, interval: Duration) -> Option<f64> {
        if self.thread_id != earlier.thread_id || interval.is_zero() {
            return None;
        }
        let used = self.cpu?.checked_sub(earlier.cpu?)?;
        // The two clocks are not read at the same moment.
        Some((used.as_secs_f64() / interval.as_secs_f64()).min(1.0))
    }
}

#[cfg(feature = "serde")]
fn us<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(duration.as_micros() as u64)
}

#[cfg(feature = "serde")]
fn maybe_us<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_micros() as u64).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(thread_id: i32, cpu_ms: Option<u64>) -> WorkerSummary {
        WorkerSummary {
            index: Some(0),
            thread_name: None,
            thread_id,
            status: WorkerStatus::Complete,
            fibers: 0,
            runnable: 0,
            waiting: 0,
            run_queue: None,
            cpu: cpu_ms.map(Duration::from_millis),
        }
    }

    #[test]
    fn a_load_is_the_share_of_the_interval_on_a_cpu() {
        let second = Duration::from_secs(1);
        let load = |now: WorkerSummary| now.load_since(&worker(1, Some(500)), second);
        assert_eq!(load(worker(1, Some(750))), Some(0.25));
        assert_eq!(load(worker(1, Some(1750))), Some(1.0));
        // Another thread, a thread without a time, and one that has begun anew.
        assert_eq!(load(worker(2, Some(750))), None);
        assert_eq!(load(worker(1, None)), None);
        assert_eq!(load(worker(1, Some(1))), None);
        let same = worker(1, Some(1));
        assert_eq!(same.load_since(&same, Duration::ZERO), None);
    }
}
