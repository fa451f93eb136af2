//! The sum of a mix over its strands; shares of several processes can be merged.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Mix;
use crate::{Cost, Figure, WorkloadError, durations::Durations};

/// The result of a mix, or of one process's share of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tally {
    /// All completed steps.
    pub steps: u64,
    /// The steps in the counted time, and the parts of those that are partly in it.
    pub steps_in_time: f64,
    /// From the start of the first step to the end of the last.
    pub time: Duration,
    /// User and system time over the same interval.
    pub cpu_s: f64,
    /// The peak of the resident memory, of all processes that ran the strands.
    pub rss_bytes: u64,
    /// How much later than planned steps went on.
    pub lateness: Durations,
}

impl Tally {
    /// Adds the share of another process that ran at the same time.
    #[must_use]
    pub fn merged(mut self, other: &Tally) -> Self {
        self.steps += other.steps;
        self.steps_in_time += other.steps_in_time;
        self.time = self.time.max(other.time);
        self.cpu_s += other.cpu_s;
        self.rss_bytes += other.rss_bytes;
        self.lateness.add(&other.lateness);
        self
    }

    /// The row of the mix.
    ///
    /// # Errors
    /// If no step was completed in time, or if the lateness of some steps is missing.
    pub fn into_cost(self, mix: &Mix) -> Result<Cost, WorkloadError> {
        if self.lateness.count() != self.steps {
            return Err(WorkloadError::wrong(format!(
                "mix went wrong: {} steps were made and the lateness of {} was measured",
                self.steps,
                self.lateness.count()
            )));
        }
        if self.steps_in_time < 1.0 {
            return Err(WorkloadError::new(format!(
                "no step was complete after {} s; raise --seconds, or ask for less",
                mix.seconds
            )));
        }
        let lateness = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)]
            .map(|(name, quantile)| (name, self.lateness.quantile_us(quantile)));
        Ok(Cost {
            time: self.time,
            cpu_s: self.cpu_s,
            memory: None,
            ops: Some(self.steps),
            figures: vec![
                ("steps_per_s", Figure::Number(self.steps_in_time / mix.counted().as_secs_f64())),
                ("cpu_us_per_step", Figure::Number(self.cpu_s * 1e6 / self.steps as f64)),
                ("lateness_us", Figure::Group(lateness.into())),
                ("rss_bytes", Figure::Count(self.rss_bytes)),
            ],
        })
    }
}
