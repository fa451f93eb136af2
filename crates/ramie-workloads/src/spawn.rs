//! Spawning and joining: the cost of a strand with almost no work.

use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;

use crate::{
    Cost, WorkloadError,
    count::count,
    strands::{StrandKind, join_all, spawn_all},
    usage::Stopwatch,
};

/// M strands are spawned and joined: the cost of a strand
///
/// Each strand adds 1 to one counter; then all are joined in order. One op is one strand, from
/// spawn to join. All handles are kept until the last spawn. The counter must be M in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Spawn {
    /// Number of strands
    #[arg(long, value_name = "M", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub count: u32,
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

impl Spawn {
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        vec![("count", self.count.into())]
    }

    /// Runs the workload on strands and checks its result.
    pub fn cost<S: StrandKind>(&self) -> Result<Cost, WorkloadError> {
        COUNTER.store(0, Ordering::Relaxed);
        let add_one = || {
            COUNTER.fetch_add(1, Ordering::Relaxed);
        };
        let watch = Stopwatch::start();
        let strands = spawn_all::<S, _, _>(self.count as usize, |_| add_one)
            .map_err(|failure| failure.give_up())?;
        join_all::<S, ()>(strands, |()| ())?;
        let cost = watch.stop();
        // Every strand is joined, so each addition happens before this load.
        let counted = COUNTER.load(Ordering::Relaxed);
        if counted != u64::from(self.count) {
            return Err(WorkloadError::wrong(format!(
                "spawn went wrong: the counter is {counted}, not {}",
                self.count
            )));
        }
        Ok(cost)
    }
}
