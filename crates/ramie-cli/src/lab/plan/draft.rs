//! An experiment as its author writes it, and the grids of its points.

use super::{Arm, Experiment, Planned, Point, View, post::Published};
use crate::workload::{Engine, Workload};

/// An experiment with its points, as a literal in the source.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) about: &'static str,
    pub(super) x_noun: &'static str,
    pub(super) points: Vec<Point>,
    pub(super) views: Vec<View>,
    pub(super) published: Vec<Published>,
}

impl Draft {
    pub(super) fn planned(self) -> Planned {
        let Draft { name, title, about, x_noun, points, views, published } = self;
        let (about, x_noun) = (about.to_owned(), x_noun.to_owned());
        let experiment = Experiment { name, title, about, x_noun, views, published };
        Planned { experiment, points }
    }
}

/// Every x on every engine of strands. The engines are next to each other, so a slow drift of the
/// machine affects all three alike.
pub(super) fn grid(
    xs: impl IntoIterator<Item = u64>,
    workload: impl Fn(u64) -> Workload,
) -> Vec<Point> {
    grid_on(&Engine::STRANDS, xs, workload)
}

pub(super) fn grid_on(
    engines: &[Engine],
    xs: impl IntoIterator<Item = u64>,
    workload: impl Fn(u64) -> Workload,
) -> Vec<Point> {
    let arms: Vec<_> = engines.iter().copied().map(Arm::of).collect();
    grid_of(&arms, xs, workload)
}

pub(super) fn grid_of(
    arms: &[Arm],
    xs: impl IntoIterator<Item = u64>,
    workload: impl Fn(u64) -> Workload,
) -> Vec<Point> {
    let at = |x| arms.iter().map(move |arm| (x, *arm));
    let point = |(x, arm)| Point { workload: workload(x), arm, x };
    xs.into_iter().flat_map(at).map(point).collect()
}

pub(super) fn small(x: u64) -> u32 {
    u32::try_from(x).expect("the grid's numbers are small")
}
