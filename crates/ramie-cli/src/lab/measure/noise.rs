//! The noise of the machine, checked before the first round and after each: a control loop that
//! always does the same, the CPU time of others, and the clock of the wall.

use std::{
    hint::black_box,
    time::{Instant, SystemTime},
};

use crate::{
    lab::results::{Noise, Summary},
    other_load::Ticks,
};

/// The control loop takes this many samples of about a millisecond.
const SAMPLES: usize = 25;
const STEPS: u64 = if cfg!(debug_assertions) { 40_000 } else { 700_000 };
/// A smaller difference between two clocks is their drift, or the time between reading them.
const JUMP_MIN: f64 = 0.5;

/// Watches the machine from one check to the next.
#[derive(Debug)]
pub(super) struct NoiseCheck {
    ticks: Option<Ticks>,
    clocks: Clocks,
}

impl NoiseCheck {
    pub(super) fn start() -> Self {
        NoiseCheck { ticks: Ticks::now(), clocks: Clocks::now() }
    }

    /// Runs the control loop, and reads the load and the clocks since the last check.
    pub(super) fn check(&mut self, round: u32, at_s: f64) -> Noise {
        let last = std::mem::replace(self, NoiseCheck::start());
        let load = last.ticks.zip(self.ticks).and_then(|(from, to)| from.until(to));
        let control = Summary::of((0..SAMPLES).map(|_| control_ns())).expect("some samples");
        let watched = self.clocks.steady.duration_since(last.clocks.steady);
        Noise {
            round,
            at_s,
            watched_s: watched.as_secs_f64(),
            control_ns: control.median,
            slowest_control_ns: control.most,
            others: load.map(|load| load.others),
            steal: load.map(|load| load.steal),
            clock_jump_s: last.clocks.jump_until(self.clocks),
        }
    }
}

/// A chain of multiplications, each of which waits for the one before.
fn control_ns() -> f64 {
    let started = Instant::now();
    let mut x = black_box(1_u64);
    for step in 0..STEPS {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
    }
    black_box(x);
    started.elapsed().as_secs_f64() * 1e9
}

/// The clock of the wall, which somebody may set, beside one that nobody sets. All times are taken
/// by the second.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    wall: SystemTime,
    steady: Instant,
}

impl Clocks {
    fn now() -> Self {
        Clocks { wall: SystemTime::now(), steady: Instant::now() }
    }

    /// By how many seconds the clock of the wall was set forward, or back; 0 if it was not set.
    fn jump_until(self, later: Clocks) -> f64 {
        let steady = later.steady.saturating_duration_since(self.steady);
        let wall = match later.wall.duration_since(self.wall) {
            Ok(forward) => forward.as_secs_f64(),
            Err(back) => -back.duration().as_secs_f64(),
        };
        let jump = wall - steady.as_secs_f64();
        if jump.abs() < JUMP_MIN { 0.0 } else { jump }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_is_set_is_noticed() {
        let start = Clocks::now();
        let later = |wall: i64, steady: u64| {
            let shift = Duration::from_secs(wall.unsigned_abs());
            let wall = if wall < 0 { start.wall - shift } else { start.wall + shift };
            start.jump_until(Clocks { wall, steady: start.steady + Duration::from_secs(steady) })
        };
        assert_eq!([later(10, 10), later(3610, 10), later(-3590, 10)], [0.0, 3600.0, -3600.0]);
    }

    #[test]
    fn a_check_measures_the_time_since_the_last_one() {
        let mut check = NoiseCheck::start();
        let noise = check.check(1, 2.0);
        assert_eq!((noise.round, noise.at_s, noise.clock_jump_s), (1, 2.0, 0.0));
        assert!(noise.control_ns > 0.0 && noise.slowest_control_ns >= noise.control_ns);
    }
}
