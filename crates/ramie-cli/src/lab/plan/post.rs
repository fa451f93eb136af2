//! A post whose experiments are measured again: its source, its figures, and its conclusions in a
//! form that the figures of this machine can be held against.

use serde::{Deserialize, Serialize};

use super::{Arm, Quantity};

/// A published article with measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Post {
    /// The name of the preset.
    pub(crate) name: String,
    pub(crate) author: String,
    pub(crate) title: String,
    pub(crate) year: u32,
    pub(crate) machine: String,
    pub(crate) claims: Vec<Claim>,
    /// The parts of the post that are not measured here, with the reason, as sentences.
    pub(crate) cut: Vec<String>,
}

/// Something that the figures of the post show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// The name of the experiment.
    pub(crate) experiment: String,
    pub(crate) quantity: Quantity,
    /// Where it holds, as the beginning of a clause: `at 10 nutrients`.
    pub(crate) place: String,
    pub(crate) x: u64,
    pub(crate) relation: Relation,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Relation {
    /// The first arm was ahead of the second one, by this factor if the post has figures.
    Ahead { winner: Arm, loser: Arm, published: Option<f64> },
    /// The two arms differed by this factor at most.
    Even { arms: [Arm; 2], published: f64 },
    /// The cost of an arm grew with x: from this x to that of the claim.
    Linear { arm: Arm, from: u64 },
    /// An arm ran at all.
    Possible { arm: Arm },
    /// An arm failed.
    Impossible { arm: Arm },
}

/// Figures of a post beside those of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Published {
    /// The arm of the post, such as `UringMachine ×2`.
    pub(crate) name: String,
    pub(crate) machine: String,
    pub(crate) year: u32,
    pub(crate) quantity: Quantity,
    pub(crate) points: Vec<(u64, f64)>,
}
