//! OS threads.

use ramie_workloads::{OnThreads, Workload};

use crate::{peers::sample, workload::Sample};

pub fn run(workload: Workload) -> Option<Sample> {
    match workload {
        Workload::Feed(feed) => Some(sample(feed.cost::<OnThreads>())),
        Workload::Ring(ring) => Some(sample(ring.cost::<OnThreads>(1))),
        Workload::Spawn(spawn) => Some(sample(spawn.cost::<OnThreads>())),
        _ => None,
    }
}
