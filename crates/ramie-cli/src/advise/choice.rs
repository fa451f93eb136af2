//! The rule by which an arm is recommended.
//!
//! 1. Arms above the memory limit are excluded.
//! 2. The arm with the most steps/s is the fastest. Arms within a margin of it count as equally
//!    fast: half of the spread of the fastest, at least 2 % and at most 5 %.
//! 3. Among these, the arm with the least CPU time per step is the cheapest; arms within 5 % of it
//!    count as equally cheap.
//! 4. Among these, the arm that uses the least memory is recommended.
//!
//! The margin is at most 5 %, so the recommended arm is never much slower than the fastest. The
//! runner-up is the arm that the same rule picks among the other engines.
//!
//! The confidence depends on the figure that decided between the recommended arm and the runner-up:
//! it is high if the ranges of the readings do not overlap, low if one median lies in the other's
//! range or if there are fewer than three readings, otherwise medium.

use super::arm::Measured;
use crate::summary::Summary;

const MARGIN_MIN: f64 = 0.02;
const MARGIN_MAX: f64 = 0.05;
/// CPU times within this share of each other count as equal.
const EQUAL_CPU: f64 = 0.05;
/// With fewer readings, the spread means little.
const READINGS_MIN: usize = 3;

/// The quantity that decided between two arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decider {
    Speed,
    Cpu,
    Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Confidence {
    Low,
    Medium,
    High,
}

/// The recommended arm and the runner-up, as indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) best: usize,
    pub(super) second: Option<usize>,
    /// The quantity that decided between them.
    pub(super) decider: Decider,
    pub(super) confidence: Confidence,
}

/// The figures of an arm that the rule looks at.
#[derive(Clone, Copy)]
struct Figures {
    index: usize,
    speed: Summary,
    cpu: Summary,
    memory: Summary,
    readings: usize,
}

/// Whether the arm's memory is above the limit.
pub(super) fn is_above(measured: &Measured, memory_limit: Option<u64>) -> bool {
    let memory = measured.memory().map(|memory| memory.median);
    memory.zip(memory_limit).is_some_and(|(memory, limit)| memory > limit as f64)
}

/// Applies the rule; `None` if no arm is left.
pub(super) fn choose(arms: &[Measured], memory_limit: Option<u64>) -> Option<Choice> {
    let candidates: Vec<Figures> = arms
        .iter()
        .enumerate()
        .filter(|(_, measured)| !is_above(measured, memory_limit))
        .filter_map(|(index, measured)| {
            Some(Figures {
                index,
                speed: measured.steps_per_s()?,
                cpu: measured.cpu_us_per_step()?,
                memory: measured.memory()?,
                readings: measured.readings.len(),
            })
        })
        .collect();
    let best = pick(&candidates)?;
    let on = arms[best.index].arm.on;
    let others = candidates.iter().filter(|figures| arms[figures.index].arm.on != on);
    let second = pick(&others.copied().collect::<Vec<_>>());
    let decider = second.map_or(Decider::Speed, |second| decider(&candidates, best, second));
    let confidence = second.map_or(Confidence::Low, |second| confidence(decider, best, second));
    Some(Choice {
        best: best.index,
        second: second.map(|second| second.index),
        decider,
        confidence,
    })
}

fn least<'a>(
    all: impl Iterator<Item = &'a Figures>,
    quantity: impl Fn(&Figures) -> f64,
) -> Option<&'a Figures> {
    all.min_by(|a, b| quantity(a).total_cmp(&quantity(b)))
}

/// The arms that count as equally fast as the fastest.
fn equally_fast(candidates: &[Figures]) -> Vec<Figures> {
    let Some(fastest) = least(candidates.iter(), |figures| -figures.speed.median) else {
        return Vec::new();
    };
    let Summary { median, least, most } = fastest.speed;
    let margin = ((most - least) / 2.0 / median).clamp(MARGIN_MIN, MARGIN_MAX);
    let is_fast = |figures: &&Figures| figures.speed.median >= median * (1.0 - margin);
    candidates.iter().filter(is_fast).copied().collect()
}

fn equally_cheap(fast: &[Figures]) -> Vec<Figures> {
    let cheapest = least(fast.iter(), |figures| figures.cpu.median);
    let limit = cheapest.map_or(0.0, |cheapest| cheapest.cpu.median * (1.0 + EQUAL_CPU));
    fast.iter().filter(|figures| figures.cpu.median <= limit).copied().collect()
}

fn pick(candidates: &[Figures]) -> Option<Figures> {
    let cheap = equally_cheap(&equally_fast(candidates));
    least(cheap.iter(), |figures| figures.memory.median).copied()
}

fn decider(candidates: &[Figures], best: Figures, second: Figures) -> Decider {
    let has = |all: &[Figures], arm: Figures| all.iter().any(|figures| figures.index == arm.index);
    let fast = equally_fast(candidates);
    match has(&fast, second) {
        false => Decider::Speed,
        true if has(&equally_cheap(&fast), second) && has(&fast, best) => Decider::Memory,
        true => Decider::Cpu,
    }
}

fn confidence(decider: Decider, best: Figures, second: Figures) -> Confidence {
    let [a, b] = [best, second].map(|figures| match decider {
        Decider::Speed => figures.speed,
        Decider::Cpu => figures.cpu,
        Decider::Memory => figures.memory,
    });
    let contains = |range: Summary, value: f64| (range.least..=range.most).contains(&value);
    if best.readings.min(second.readings) < READINGS_MIN {
        Confidence::Low
    } else if a.least > b.most || b.least > a.most {
        Confidence::High
    } else if contains(a, b.median) || contains(b, a.median) {
        Confidence::Low
    } else {
        Confidence::Medium
    }
}

impl Decider {
    pub(super) fn name(self) -> &'static str {
        match self {
            Decider::Speed => "steps per second",
            Decider::Cpu => "CPU time per step, at equal steps per second",
            Decider::Memory => "memory, at equal steps per second and CPU time per step",
        }
    }
}

impl Confidence {
    pub(super) fn name(self) -> &'static str {
        match self {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        }
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            Confidence::Low => "the spreads overlap widely, or there are few readings",
            Confidence::Medium => "the spreads overlap, but the medians lie outside",
            Confidence::High => "the spreads do not overlap",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::arm::*, *};
    use crate::workload::Engine;

    /// An arm with three readings of these steps/s, CPU us a step, and MiB.
    fn arm(on: Engine, speeds: [f64; 3], cpu: f64, mib: f64) -> Measured {
        let reading = |steps_per_s| MixReading {
            steps_per_s,
            cpu_us_per_step: cpu,
            lateness_us: Percentiles { p50: 1.0, p99: 2.0, p999: 3.0 },
            rss_bytes: mib * f64::from(1 << 20),
        };
        let arm = MixArm { on, workers: None };
        Measured { arm, readings: speeds.map(reading).into(), failed: None }
    }

    #[test]
    fn much_faster_wins_whatever_it_costs() {
        let arms = [
            arm(Engine::Fibers, [100.0, 101.0, 102.0], 5.0, 5.0),
            arm(Engine::Threads, [150.0, 151.0, 152.0], 15.0, 50.0),
        ];
        let choice = choose(&arms, None).unwrap();
        assert_eq!((choice.best, choice.second), (1, Some(0)));
        assert_eq!((choice.decider, choice.confidence), (Decider::Speed, Confidence::High));
    }

    #[test]
    fn at_equal_speed_the_cheaper_wins_and_then_the_smaller() {
        let arms = [
            arm(Engine::Threads, [100.0, 100.5, 101.0], 12.0, 50.0),
            arm(Engine::Fibers, [99.0, 99.5, 100.0], 5.0, 5.0),
            arm(Engine::Processes, [99.0, 99.5, 100.0], 4.9, 10.0),
        ];
        let choice = choose(&arms, None).unwrap();
        assert_eq!((choice.best, choice.second), (1, Some(2)));
        assert_eq!((choice.decider, choice.confidence), (Decider::Memory, Confidence::High));
        let choice = choose(&arms[..2], None).unwrap();
        assert_eq!((choice.best, choice.decider), (1, Decider::Cpu));
    }

    #[test]
    fn a_wide_spread_is_no_excuse_for_a_slow_arm() {
        let arms = [
            arm(Engine::Fibers, [90.0, 92.0, 94.0], 1.0, 1.0),
            arm(Engine::Threads, [60.0, 100.0, 140.0], 15.0, 50.0),
        ];
        let choice = choose(&arms, None).unwrap();
        assert_eq!((choice.best, choice.confidence), (1, Confidence::Low));
    }

    #[test]
    fn arms_above_the_memory_limit_are_out() {
        let arms = [
            arm(Engine::Fibers, [100.0; 3], 5.0, 5.0),
            arm(Engine::Threads, [150.0; 3], 15.0, 50.0),
        ];
        let choice = choose(&arms, Some(20 << 20)).unwrap();
        assert_eq!((choice.best, choice.second), (0, None));
        assert_eq!(choice.confidence, Confidence::Low);
        assert_eq!(choose(&arms, Some(1 << 20)), None);
    }

    #[test]
    fn another_width_of_the_same_engine_is_no_runner_up() {
        let mut wide = arm(Engine::Hybrid, [110.0; 3], 5.0, 5.0);
        wide.arm.workers = Some(4);
        let arms = [
            wide,
            arm(Engine::Hybrid, [100.0; 3], 5.0, 5.0),
            arm(Engine::Threads, [60.0; 3], 15.0, 50.0),
        ];
        let choice = choose(&arms, None).unwrap();
        assert_eq!((choice.best, choice.second), (0, Some(2)));
    }
}
