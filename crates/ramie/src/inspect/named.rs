//! Dumps of the strands with a text in their names.

use std::mem;

use super::{Backtrace, Dump, StrandState};
use crate::core::{
    strand::{IdMap, IdSet},
    worker::{AskersTurn, WorkerFacts, name_of_strand},
};

/// The number of strands between two looks at the clock.
const STRIDE: usize = 512;

impl Dump {
    /// Leaves out the strands whose names do not contain the text, unless they are ancestors of
    /// others whose names do. Ends early, with fewer names, if nobody wants the dump any more.
    pub(super) fn keep_named(
        &mut self,
        text: &str,
        turn: &mut AskersTurn,
        is_unwanted: impl Fn() -> bool,
    ) {
        let mut places = IdMap::with_capacity_and_hasher(self.strands.len(), Default::default());
        let mut found = Vec::new();
        for (place, strand) in self.strands.iter_mut().enumerate() {
            if place % STRIDE == 0 {
                turn.yield_if_long();
                if is_unwanted() {
                    break;
                }
            }
            // A dump of all strands omits these names, because a look takes some microseconds.
            if strand.state == StrandState::NotStarted {
                turn.yield_if_long();
                strand.name = name_of_strand(strand.id);
            }
            places.insert(strand.id, place);
            if strand.name.as_ref().is_some_and(|name| name.contains(text)) {
                found.push(place);
            }
        }
        let mut is_kept = vec![false; self.strands.len()];
        for (count, place) in found.into_iter().enumerate() {
            if count % STRIDE == 0 {
                turn.yield_if_long();
            }
            let mut next = Some(place);
            // Also ends if parents form a ring, because the facts are not of one moment.
            while let Some(place) = next.filter(|place| !mem::replace(&mut is_kept[*place], true)) {
                let parent = self.strands[place].parent;
                next = parent.and_then(|parent| places.get(&parent).copied());
            }
        }
        let strands = mem::take(&mut self.strands);
        let all = strands.len();
        for (place, strand) in strands.into_iter().enumerate() {
            if place % STRIDE == 0 {
                turn.yield_if_long();
            }
            if is_kept[place] {
                self.strands.push(strand);
            }
        }
        self.left_out = (all - self.strands.len()) as u64;
    }

    pub(super) fn ids(&self) -> IdSet {
        self.strands.iter().map(|strand| strand.id).collect()
    }

    /// Adds the backtraces of the answers of a later survey.
    pub(super) fn add_backtraces(&mut self, workers: &[WorkerFacts], turn: &mut AskersTurn) {
        let places: IdMap<_> =
            self.strands.iter().enumerate().map(|(place, strand)| (strand.id, place)).collect();
        for facts in workers.iter().flat_map(|worker| &worker.strands) {
            let (Some(frames), Some(place)) = (&facts.frames, places.get(&facts.id)) else {
                continue;
            };
            turn.yield_if_long();
            self.strands[*place].backtrace = Backtrace::of(frames);
        }
        self.backtraces_left_out = workers.iter().map(|worker| worker.tally.left_out).sum();
    }
}
