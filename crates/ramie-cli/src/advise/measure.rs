//! Measuring the arms: a warm-up, then interleaved rounds, within the time that the user has given.
//!
//! Each run of an arm is a process of its own. All arms of a round run before the next round
//! begins, and each round begins with another arm, so that all are affected alike if the machine
//! becomes slower or faster.

use std::time::{Duration, Instant};

use ramie_workloads::{
    Mix,
    mix::{Seconds, iterations_per_ms},
};

use super::{
    arm::{self, Measured, MixArm, MixReading},
    description::Description,
};
use crate::{
    child::{self, ChildError},
    interrupt::Interrupt,
    progress::Progress,
};

/// The share of the time for the rounds; the rest is for neighbouring values.
const FOR_ROUNDS: f64 = 0.7;
/// With less time, no neighbouring values are measured.
const TIPPING_MIN: Duration = Duration::from_secs(10);
const ROUNDS: u32 = 5;
const FEW_ROUNDS: u32 = 3;
/// If a run of five rounds were shorter than this, there are three rounds.
const SHORT: Duration = Duration::from_millis(300);
const RUN_MIN: Duration = Duration::from_millis(60);
const RUN_MAX: Duration = Duration::from_secs(5);
/// A run lasts for this many steps at least.
const STEPS_MIN: u32 = 4;
/// A process counts as hung if it takes this much longer than expected.
const HANG: Duration = Duration::from_secs(15);

/// The measurement of one description.
pub(super) struct Campaign<'a> {
    pub(super) mix: Mix,
    total: Duration,
    started: Instant,
    pub(super) iterations_per_ms: u64,
    interrupt: &'a Interrupt,
    progress: Progress,
    pub(super) arms: Vec<Measured>,
    /// How many rounds are planned; 0 until the first begins.
    pub(super) rounds: u32,
    /// How much longer than its strands an arm's process runs.
    overheads: Vec<Duration>,
}

impl<'a> Campaign<'a> {
    pub(super) fn new(description: &Description, interrupt: &'a Interrupt) -> Self {
        let arms = arm::all(&description.mix);
        Campaign {
            mix: description.mix,
            total: description.seconds.duration(),
            started: Instant::now(),
            iterations_per_ms: iterations_per_ms(),
            interrupt,
            progress: Progress::start(),
            overheads: vec![Duration::ZERO; arms.len()],
            arms,
            rounds: 0,
        }
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.is_requested()
    }

    pub(super) fn spent(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn left(&self) -> Duration {
        self.total.saturating_sub(self.spent())
    }

    pub(super) fn has_time_for_neighbours(&self) -> bool {
        self.total >= TIPPING_MIN
    }

    /// The shortest sensible run of a mix.
    pub(super) fn run_min(mix: &Mix) -> Duration {
        let mean = Duration::from_micros(u64::from(mix.cpu_us) + u64::from(mix.wait_us));
        (mean * STEPS_MIN).clamp(RUN_MIN, RUN_MAX)
    }

    pub(super) fn overhead(&self, arm: MixArm) -> Duration {
        let index = self.arms.iter().position(|measured| measured.arm == arm);
        index.map_or(Duration::ZERO, |index| self.overheads[index])
    }

    /// Runs each arm once, then in rounds. Ends early if the time is over or the user interrupts.
    pub(super) fn measure(&mut self) {
        self.warm_up();
        let share = if self.has_time_for_neighbours() { FOR_ROUNDS } else { 1.0 };
        let end = self.total.mul_f64(share);
        let alive: Vec<usize> =
            (0..self.arms.len()).filter(|index| self.arms[*index].failed.is_none()).collect();
        if alive.is_empty() {
            return;
        }
        let overhead: Duration = alive.iter().map(|index| self.overheads[*index]).sum();
        let run_of = |rounds: u32| {
            let time = end.saturating_sub(self.spent() + overhead * rounds);
            time / (rounds * u32::try_from(alive.len()).unwrap_or(1))
        };
        let rounds = if run_of(ROUNDS) >= SHORT { ROUNDS } else { FEW_ROUNDS };
        let run = run_of(rounds).max(Campaign::run_min(&self.mix)).min(RUN_MAX);
        self.rounds = rounds;
        for round in 0..rounds {
            for turn in 0..alive.len() {
                let index = alive[(turn + round as usize) % alive.len()];
                // The first round is complete, even if it takes longer than the time.
                let is_late = self.spent() + run + self.overheads[index] > end.mul_f64(1.05);
                if self.is_interrupted() || round > 0 && is_late {
                    return;
                }
                self.measure_once(index, run, &format!("round {} of {rounds}", round + 1));
            }
        }
    }

    /// The first run of an arm pays for memory and caches; it also shows how long a process takes.
    fn warm_up(&mut self) {
        let run = (self.total / 100).clamp(Campaign::run_min(&self.mix), RUN_MAX / 10);
        for index in 0..self.arms.len() {
            if self.is_interrupted() || self.arms[index].failed.is_some() {
                continue;
            }
            let started = Instant::now();
            match self.run(self.arms[index].arm, self.mix, run, "warm-up") {
                Ok(_) => self.overheads[index] = started.elapsed().saturating_sub(run),
                Err(ChildError::Failed(why)) => self.arms[index].failed = Some(why),
                Err(ChildError::Interrupted) => {}
            }
        }
    }

    fn measure_once(&mut self, index: usize, run: Duration, stage: &str) {
        if self.arms[index].failed.is_some() {
            return;
        }
        match self.run(self.arms[index].arm, self.mix, run, stage) {
            Ok(reading) => self.arms[index].readings.push(reading),
            Err(ChildError::Failed(why)) => {
                self.arms[index].failed = Some(why);
                self.arms[index].readings.clear();
            }
            Err(ChildError::Interrupted) => {}
        }
    }

    /// Runs a mix on an arm for this time.
    pub(super) fn run(
        &mut self,
        arm: MixArm,
        mix: Mix,
        run: Duration,
        stage: &str,
    ) -> Result<MixReading, ChildError> {
        let share = (self.spent().as_secs_f64() / self.total.as_secs_f64()).min(1.0);
        self.progress.show(share, stage, &arm.name());
        let mix = Mix { seconds: Seconds::nearest(run), ..mix };
        let limit = run * 2 + self.overhead(arm) * 2 + HANG;
        let arguments = arm.arguments(&mix, self.iterations_per_ms);
        let printed = match child::output_on(None, &arguments, limit, self.interrupt) {
            // Ctrl-C reaches the child, too, perhaps earlier.
            Err(ChildError::Failed(why)) if why.ends_with("signal 2") => {
                return Err(ChildError::Interrupted);
            }
            Err(_) if self.is_interrupted() => return Err(ChildError::Interrupted),
            printed => printed?,
        };
        serde_json::from_str(&printed)
            .map_err(|error| ChildError::Failed(format!("it printed no readings: {error}")))
    }
}

impl Drop for Campaign<'_> {
    fn drop(&mut self) {
        self.progress.end();
    }
}
