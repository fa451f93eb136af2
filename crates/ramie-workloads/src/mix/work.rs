//! The computed part of a step: iterations of a generator whose result can be checked.
//!
//! An iteration is one step of a linear congruential generator, `x -> A * x + C` modulo 2^64. Each
//! waits for the one before it, so the time is proportional to the number of iterations on any
//! compiler. The state after any number of iterations is known in closed form ([`jump`]), so a
//! checksum of all computed work costs the check almost nothing.
//!
//! The work is a number of iterations and not a time on a clock, because a thread that is preempted
//! while it watches a clock would compute less than a fiber.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

const A: u64 = 6_364_136_223_846_793_005;
const C: u64 = 1_442_695_040_888_963_407;

/// Computes `iterations` iterations from `state`, and returns the state after them.
#[inline(never)]
pub fn compute(mut state: u64, iterations: u64) -> u64 {
    for _ in 0..iterations {
        state = state.wrapping_mul(A).wrapping_add(C);
    }
    black_box(state)
}

/// The state that [`compute`] reaches, by repeated squaring.
pub(crate) fn jump(state: u64, mut iterations: u64) -> u64 {
    let (mut factor, mut summand) = (1_u64, 0_u64);
    let (mut a, mut c) = (A, C);
    while iterations > 0 {
        if iterations & 1 == 1 {
            factor = factor.wrapping_mul(a);
            summand = summand.wrapping_mul(a).wrapping_add(c);
        }
        c = a.wrapping_add(1).wrapping_mul(c);
        a = a.wrapping_mul(a);
        iterations >>= 1;
    }
    state.wrapping_mul(factor).wrapping_add(summand)
}

/// How many iterations one millisecond of CPU time is, on this machine.
///
/// The fastest of many short attempts counts, because anything that disturbs one makes it slower.
/// All arms of a comparison must use the same number.
pub fn iterations_per_ms() -> u64 {
    const ATTEMPTS: u32 = 60;
    const ITERATIONS: u64 = 200_000;
    let time = |_| {
        let start = Instant::now();
        compute(1, ITERATIONS);
        start.elapsed()
    };
    let fastest = (0..ATTEMPTS).map(time).min().unwrap_or(Duration::from_millis(1));
    let per_ms = ITERATIONS as f64 / (fastest.as_secs_f64() * 1e3);
    (per_ms as u64).max(1)
}

/// The plan of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) iterations: u64,
    pub(super) wait: Duration,
    /// A number of the step's own.
    pub(super) random: u64,
}

/// The steps of all strands. They depend on nothing but the parameters, the number of the strand
/// and the number of the step, so every arm gets the same ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) cpu_us: u32,
    pub(super) wait_us: u32,
    pub(super) jitter_percent: u32,
    pub(super) iterations_per_ms: u64,
}

impl Steps {
    #[inline]
    pub(super) fn step(&self, strand: u64, number: u64) -> Step {
        let random = scramble(strand.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
        let cpu_ns = self.jittered(self.cpu_us, random & 0xffff_ffff);
        let wait_ns = self.jittered(self.wait_us, random >> 32);
        let iterations = u128::from(cpu_ns) * u128::from(self.iterations_per_ms) / 1_000_000;
        Step {
            iterations: u64::try_from(iterations).unwrap_or(u64::MAX),
            wait: Duration::from_nanos(wait_ns),
            random,
        }
    }

    /// `us` in nanoseconds, evenly distributed between `1 - jitter` and `1 + jitter` times that.
    fn jittered(&self, us: u32, random: u64) -> u64 {
        let ns = u64::from(us) * 1000;
        let half = ns * u64::from(self.jitter_percent) / 100;
        ns - half + random % (2 * half + 1)
    }

    /// The iterations of the first `count` steps of a strand.
    pub(super) fn iterations(&self, strand: u64, count: u64) -> u64 {
        if self.jitter_percent == 0 {
            return count.wrapping_mul(self.step(strand, 0).iterations);
        }
        (0..count)
            .fold(0, |sum: u64, number| sum.wrapping_add(self.step(strand, number).iterations))
    }
}

/// Scrambles a number (the finalizer of splitmix64).
pub(super) fn scramble(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Duration, Steps, compute, iterations_per_ms, jump};

    const STEPS: Steps =
        Steps { cpu_us: 10, wait_us: 200, jitter_percent: 0, iterations_per_ms: 1_000_000 };

    #[test]
    fn a_jump_reaches_what_was_computed() {
        for iterations in [0, 1, 2, 3, 7, 64, 1000, 99_999] {
            assert_eq!(jump(42, iterations), compute(42, iterations));
            assert_ne!(jump(42, iterations), compute(42, iterations + 1));
        }
    }

    #[test]
    fn steps_without_jitter_are_all_the_same_work() {
        for (strand, number) in [(0, 0), (0, 1), (7, 3)] {
            let step = STEPS.step(strand, number);
            assert_eq!((step.iterations, step.wait), (10_000, Duration::from_micros(200)));
        }
        assert_eq!(STEPS.iterations(3, 5), 50_000);
    }

    #[test]
    fn jitter_keeps_the_mean_and_its_bounds() {
        let steps = Steps { jitter_percent: 50, ..STEPS };
        let all: Vec<_> = (0..10_000).map(|number| steps.step(3, number)).collect();
        assert!(all.iter().all(|step| (5_000..=15_000).contains(&step.iterations)));
        assert!(all.iter().all(|step| (100..=300).contains(&step.wait.as_micros())));
        let sum = steps.iterations(3, 10_000);
        assert!((99_000_000..101_000_000).contains(&sum), "{sum}");
        assert_eq!(sum, all.iter().map(|step| step.iterations).sum());
        assert_ne!(steps.step(3, 0), steps.step(4, 0));
    }

    #[test]
    fn calibration_finds_some_iterations() {
        assert!(iterations_per_ms() > 100);
    }
}
