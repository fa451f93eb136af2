//! Fibers on one worker.

use ramie_workloads::{OnFibers, Workload};

use crate::{peers::sample, workload::Sample};

pub fn run(workload: Workload) -> Option<Sample> {
    let runtime = ::ramie::Runtime::builder().workers(1).build().expect("a runtime");
    runtime.run(|| match workload {
        Workload::Feed(feed) => Some(sample(feed.cost::<OnFibers>())),
        Workload::Ring(ring) => Some(sample(ring.cost::<OnFibers>(1))),
        Workload::Spawn(spawn) => Some(sample(spawn.cost::<OnFibers>())),
        Workload::Alive(alive) => Some(sample(alive.cost::<OnFibers>())),
        Workload::Switch(switch) => Some(sample(switch.cost::<OnFibers>())),
        _ => workload.task().map(|task| sample(task.cost::<OnFibers>())),
    })
}
