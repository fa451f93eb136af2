//! The names of strands that others wait for: holders of locks, and strands that are joined.

use super::{StrandDump, StrandName};
use crate::core::{
    strand::IdSet,
    worker::{AskersTurn, name_of_strand},
};

/// The number of strands between two looks at the clock.
const STRIDE: usize = 512;

/// The names of the strands for which these strands wait, except for those that are `known`.
pub(super) fn awaited_by(
    strands: &[StrandDump],
    mut known: IdSet,
    turn: &mut AskersTurn,
) -> Vec<StrandName> {
    let mut names = Vec::new();
    for part in strands.chunks(STRIDE) {
        turn.yield_if_long();
        for id in part.iter().filter_map(|strand| strand.wait.as_ref()?.target.strand()) {
            if known.insert(id) {
                // A look takes some microseconds.
                turn.yield_if_long();
                names.extend(name_of_strand(id).map(|name| StrandName { id, name }));
            }
        }
    }
    names
}
