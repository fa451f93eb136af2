//! Where the recommendation would change: the best arm of each engine, with more and with less CPU
//! time per step.

use std::time::Duration;

use ramie_workloads::Mix;
use serde_json::{Value, json};

use super::{
    arm::{Measured, MixArm},
    choice::choose,
    measure::Campaign,
};
use crate::workload::Engine;

/// The neighbours, by the factor of the CPU time a step, in the order of their measuring.
const FACTORS: [f64; 4] = [4.0, 0.25, 16.0, 1.0 / 16.0];
const CPU_US_MAX: u32 = 1_000_000;
/// The recommendation stays the same at a neighbour if the recommended engine is at most this much
/// slower than the best one there, and takes at most this much more CPU time.
const SLOWER: f64 = 0.06;
const DEARER: f64 = 0.12;

/// The best engine at a neighbour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Neighbour {
    pub(super) cpu_us: u32,
    pub(super) best: Engine,
}

/// The neighbours that were measured, by rising CPU time, and the recommended engine.
#[derive(Debug)]
pub(super) struct Tipping {
    own: Neighbour,
    neighbours: Vec<Neighbour>,
    /// Why there are no neighbours, if there are none.
    missing: Missing,
}

/// Why no neighbour was measured.
#[derive(Clone, Copy, Debug)]
enum Missing {
    Time,
    Interrupted,
}

/// Measures neighbours while there is time.
pub(super) fn measure(campaign: &mut Campaign<'_>, best: usize) -> Tipping {
    let recommended = campaign.arms[best].arm;
    let own = Neighbour { cpu_us: campaign.mix.cpu_us, best: recommended.on };
    let missing = if campaign.is_interrupted() { Missing::Interrupted } else { Missing::Time };
    let mut tipping = Tipping { own, neighbours: Vec::new(), missing };
    if !campaign.has_time_for_neighbours() {
        return tipping;
    }
    let contestants = contestants(&campaign.arms, recommended);
    let mut wanted: Vec<u32> =
        FACTORS.iter().filter_map(|factor| scaled(own.cpu_us, *factor)).collect();
    wanted.dedup();
    for (index, cpu_us) in wanted.iter().enumerate() {
        let rest = u32::try_from(wanted.len() - index).unwrap_or(1);
        tipping.add(campaign, &contestants, *cpu_us, campaign.left() / rest);
    }
    // One more neighbour between two values between which the recommendation changes.
    for (from, to) in tipping.tips() {
        let between = geometric_mean(from.cpu_us, to.cpu_us);
        if between != from.cpu_us && between != to.cpu_us {
            tipping.add(campaign, &contestants, between, campaign.left());
        }
    }
    tipping
}

fn scaled(cpu_us: u32, factor: f64) -> Option<u32> {
    let scaled = (f64::from(cpu_us) * factor).round().clamp(1.0, f64::from(CPU_US_MAX)) as u32;
    (scaled != cpu_us).then_some(scaled)
}

fn geometric_mean(a: u32, b: u32) -> u32 {
    (f64::from(a) * f64::from(b)).sqrt().round() as u32
}

/// The best arm of each engine; the recommended one first.
fn contestants(arms: &[Measured], recommended: MixArm) -> Vec<MixArm> {
    let mut all = vec![recommended];
    for on in Engine::MIX {
        let of_engine: Vec<_> = arms.iter().filter(|arm| arm.arm.on == on).cloned().collect();
        let best = choose(&of_engine, None).map(|choice| of_engine[choice.best].arm);
        all.extend(best.filter(|arm| arm.on != recommended.on));
    }
    all
}

impl Tipping {
    /// Measures one neighbour on all contestants, if that fits into `time`.
    fn add(&mut self, campaign: &mut Campaign<'_>, arms: &[MixArm], cpu_us: u32, time: Duration) {
        let mix = Mix { cpu_us, ..campaign.mix };
        let count = u32::try_from(arms.len()).unwrap_or(1);
        let overhead: Duration = arms.iter().map(|arm| campaign.overhead(*arm)).sum();
        let run = time.saturating_sub(overhead) / count;
        if run < Campaign::run_min(&mix) || self.neighbours.iter().any(|n| n.cpu_us == cpu_us) {
            return;
        }
        let run = run.min(Duration::from_secs(2));
        let mut measured = Vec::new();
        for arm in arms {
            if campaign.is_interrupted() {
                self.missing = Missing::Interrupted;
                return;
            }
            let stage = format!("with {cpu_us} µs of CPU per step");
            if let Ok(reading) = campaign.run(*arm, mix, run, &stage) {
                measured.push(Measured { arm: *arm, readings: vec![reading], failed: None });
            }
        }
        if let Some(best) = best_of(&measured, self.own.best) {
            self.neighbours.push(Neighbour { cpu_us, best });
            self.neighbours.sort_by_key(|neighbour| neighbour.cpu_us);
        }
    }

    /// The pairs of neighbouring values next to which the recommendation changes: the last that
    /// keeps it and the first that does not, below and above.
    fn tips(&self) -> Vec<(Neighbour, Neighbour)> {
        let tip = |side: Vec<Neighbour>| {
            let mut last = self.own;
            for neighbour in side {
                if neighbour.best != self.own.best {
                    return Some((last, neighbour));
                }
                last = neighbour;
            }
            None
        };
        let own = self.own.cpu_us;
        let below = self.neighbours.iter().rev().filter(|n| n.cpu_us < own).copied().collect();
        let above = self.neighbours.iter().filter(|n| n.cpu_us > own).copied().collect();
        tip(below).into_iter().chain(tip(above)).collect()
    }

    pub(super) fn is_measured(&self) -> bool {
        !self.neighbours.is_empty()
    }

    pub(super) fn sentence(&self) -> String {
        let (Some(first), Some(last)) = (self.neighbours.first(), self.neighbours.last()) else {
            return match self.missing {
                Missing::Time => "not measured, because the time was too short; raise --seconds",
                Missing::Interrupted => "not measured, because of the interrupt",
            }
            .to_owned();
        };
        let sentences = self.tips().into_iter().map(|(from, to)| {
            let at = geometric_mean(from.cpu_us, to.cpu_us);
            let word = if to.cpu_us > from.cpu_us { "from" } else { "below" };
            let wins = if to.best == Engine::Hybrid { "wins" } else { "win" };
            format!("{word} about {at} µs of CPU per step, {} {wins}", to.best.all())
        });
        let sentences: Vec<_> = sentences.collect();
        if sentences.is_empty() {
            let least = first.cpu_us.min(self.own.cpu_us);
            let most = last.cpu_us.max(self.own.cpu_us);
            return format!("not between {least} and {most} µs of CPU per step");
        }
        sentences.join("; ")
    }

    pub(super) fn json(&self) -> Value {
        let of = |n: &Neighbour| json!({ "cpu_us": n.cpu_us, "best": n.best });
        json!({
            "sentence": self.sentence(),
            "measured": self.neighbours.iter().map(of).collect::<Vec<_>>(),
        })
    }
}

/// The best engine at a neighbour; the recommended one unless another is clearly better.
fn best_of(measured: &[Measured], recommended: Engine) -> Option<Engine> {
    let choice = choose(measured, None)?;
    let best = &measured[choice.best];
    let own = measured.iter().find(|measured| measured.arm.on == recommended)?;
    let speeds = [own, best].map(|arm| arm.steps_per_s().map_or(0.0, |speed| speed.median));
    let cpus = [own, best].map(|arm| arm.cpu_us_per_step().map_or(0.0, |cpu| cpu.median));
    let holds = speeds[0] >= speeds[1] * (1.0 - SLOWER) && cpus[0] <= cpus[1] * (1.0 + DEARER);
    Some(if holds { recommended } else { best.arm.on })
}

#[cfg(test)]
mod tests {
    use super::{Engine, Neighbour, Tipping};

    fn sentence(neighbours: &[(u32, Engine)]) -> String {
        let own = Neighbour { cpu_us: 10, best: Engine::Fibers };
        let neighbours = neighbours.iter().map(|&(cpu_us, best)| Neighbour { cpu_us, best });
        let missing = super::Missing::Time;
        Tipping { own, neighbours: neighbours.collect(), missing }.sentence()
    }

    #[test]
    fn it_tips_between_the_last_value_that_holds_and_the_first_that_does_not() {
        use Engine::{Fibers, Hybrid, Threads};
        let expected = "not measured, because the time was too short; raise --seconds";
        assert_eq!(sentence(&[]), expected);
        assert_eq!(
            sentence(&[(3, Fibers), (40, Fibers)]),
            "not between 3 and 40 µs of CPU per step"
        );
        assert_eq!(sentence(&[(40, Fibers)]), "not between 10 and 40 µs of CPU per step");
        assert_eq!(
            sentence(&[(1, Fibers), (40, Fibers), (160, Threads)]),
            "from about 80 µs of CPU per step, threads win"
        );
        assert_eq!(
            sentence(&[(1, Hybrid), (3, Fibers), (40, Threads), (160, Fibers)]),
            "below about 2 µs of CPU per step, the hybrid wins; from about 20 µs of CPU per step, \
             threads win"
        );
    }
}
