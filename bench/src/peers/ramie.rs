//! Fibers on one worker.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use ::ramie::fiber;
use ramie_workloads::{OnFibers, Spawn, Workload};

use crate::{peers::sample, workload::Sample};

pub fn run(workload: Workload) -> Option<Sample> {
    let runtime = ::ramie::Runtime::builder().workers(1).build().expect("a runtime");
    runtime.run(|| match workload {
        Workload::Feed(feed) => Some(sample(feed.cost::<OnFibers>())),
        Workload::Ring(ring) => Some(sample(ring.cost::<OnFibers>(1))),
        Workload::Spawn(Spawn { count }) => Some(spawn(count.into())),
        Workload::Alive(alive) => Some(sample(alive.cost::<OnFibers>())),
        Workload::Switch(switch) => Some(sample(switch.cost::<OnFibers>())),
        _ => workload.task().map(|task| sample(task.cost::<OnFibers>())),
    })
}

/// A loop of its own, as each peer has one: the library's loop reports how many strands could be
/// spawned if the system refuses one, which takes four more instructions a strand.
fn spawn(count: u64) -> Sample {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let start = Instant::now();
    let add = || {
        DONE.fetch_add(1, Relaxed);
    };
    let fibers: Vec<_> = (0..count).map(|_| fiber::spawn(add)).collect();
    for fiber in fibers {
        fiber.join().expect("no panic");
    }
    let sample = Sample::timed(start.elapsed());
    assert_eq!(DONE.load(Relaxed), count);
    sample
}
