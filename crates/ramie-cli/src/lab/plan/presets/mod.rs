//! The presets: the experiments of five posts, at their own parameters as far as this machine can.
//!
//! A preset is data: [`Draft`]s with published figures, and a [`Post`] with claims. To add an
//! experiment, add its draft to the list of its preset.

mod fibers_vs_threads;
mod loom;
mod mirage;
mod quasar;
mod uringmachine;

use clap::ValueEnum;

use super::{
    Arm, Planned, Quantity,
    draft::Draft,
    post::{Claim, Post, Published, Relation},
};
use crate::workload::Engine;

/// A post whose experiments can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// Clipsham, "Getting more fiber in your diet", 2011
    FibersVsThreads,
    /// Sheinfeld, "Fibers from out of (user) space – Hands on", 2018
    Quasar,
    /// Rosner, "Threads vs Fibers - Can't We Be Friends?", 2025
    Uringmachine,
    /// Madhavapeddy, "Delimited Continuations vs Lwt for Threads", 2011
    Mirage,
    /// Idris, "Experimenting w/ Fibers in Project Loom preview", 2019
    Loom,
}

impl Preset {
    pub(crate) const ALL: [Preset; 5] = [
        Preset::FibersVsThreads,
        Preset::Quasar,
        Preset::Uringmachine,
        Preset::Mirage,
        Preset::Loom,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Preset::FibersVsThreads => "fibers-vs-threads",
            Preset::Quasar => "quasar",
            Preset::Uringmachine => "uringmachine",
            Preset::Mirage => "mirage",
            Preset::Loom => "loom",
        }
    }

    pub(super) fn post(self) -> Post {
        match self {
            Preset::FibersVsThreads => fibers_vs_threads::post(),
            Preset::Quasar => quasar::post(),
            Preset::Uringmachine => uringmachine::post(),
            Preset::Mirage => mirage::post(),
            Preset::Loom => loom::post(),
        }
    }

    pub(super) fn experiments(self) -> Vec<Planned> {
        let drafts = match self {
            Preset::FibersVsThreads => fibers_vs_threads::experiments(),
            Preset::Quasar => quasar::experiments(),
            Preset::Uringmachine => uringmachine::experiments(),
            Preset::Mirage => mirage::experiments(),
            Preset::Loom => loom::experiments(),
        };
        drafts.into_iter().map(Draft::planned).collect()
    }
}

const FIBERS: Arm = Arm::of(Engine::Fibers);
const THREADS: Arm = Arm::of(Engine::Threads);
const FUTURES: Arm = Arm::of(Engine::Futures);

fn hybrid(workers: u32) -> Arm {
    Arm { workers: Some(workers), ..Arm::of(Engine::Hybrid) }
}

/// A claim about the time of an experiment at one x.
fn claim(experiment: &str, place: &str, x: u64, relation: Relation) -> Claim {
    let (experiment, place) = (experiment.to_owned(), place.to_owned());
    Claim { experiment, quantity: Quantity::Seconds, place, x, relation }
}

fn ahead(winner: Arm, loser: Arm, published: Option<f64>) -> Relation {
    Relation::Ahead { winner, loser, published }
}

/// A series of a post, on a machine of a year.
fn published(
    name: &str,
    (machine, year): (&str, u32),
    quantity: Quantity,
    points: impl IntoIterator<Item = (u64, f64)>,
) -> Published {
    let (name, machine) = (name.to_owned(), machine.to_owned());
    Published { name, machine, year, quantity, points: points.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_name_points_of_their_experiments() {
        for preset in Preset::ALL {
            let planned = preset.experiments();
            for claim in preset.post().claims {
                let of = planned.iter().find(|each| each.experiment.name == claim.experiment);
                let of = of.unwrap_or_else(|| panic!("no experiment of {claim:?}"));
                let (arms, xs) = match claim.relation {
                    Relation::Ahead { winner, loser, .. } => (vec![winner, loser], vec![claim.x]),
                    Relation::Even { arms, .. } => (arms.to_vec(), vec![claim.x]),
                    Relation::Linear { arm, from } => (vec![arm], vec![from, claim.x]),
                    Relation::Possible { arm } | Relation::Impossible { arm } => {
                        (vec![arm], vec![claim.x])
                    }
                };
                for (arm, x) in arms.iter().flat_map(|arm| xs.iter().map(move |x| (*arm, *x))) {
                    assert!(of.points.iter().any(|p| p.arm == arm && p.x == x), "{claim:?}");
                }
            }
        }
    }

    #[test]
    fn published_figures_belong_to_a_point_and_a_view() {
        for preset in Preset::ALL {
            for Planned { experiment, points } in preset.experiments() {
                for series in &experiment.published {
                    let quantity = series.quantity;
                    let has_view = experiment.views.iter().any(|view| view.quantity == quantity);
                    assert!(has_view, "{}: {}", experiment.name, series.name);
                    for (x, _) in &series.points {
                        let has = points.iter().any(|point| point.x == *x);
                        assert!(has, "{}: {} at {x}", experiment.name, series.name);
                    }
                }
            }
        }
    }

    #[test]
    fn each_point_can_run_on_its_arm() {
        for preset in Preset::ALL {
            for Planned { points, .. } in preset.experiments() {
                for point in points {
                    let name = point.workload.name();
                    assert!(Engine::choice_for(name).contains(&point.arm.on.model()), "{point:?}");
                }
            }
        }
    }
}
