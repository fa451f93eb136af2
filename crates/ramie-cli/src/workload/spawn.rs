//! Spawning and joining: what a strand costs that does next to nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;

use super::{
    Cost,
    strands::{Strands, join_all, spawn_all},
    usage::Stopwatch,
};
use crate::{arguments::count, failure::Failure};

/// M strands are spawned and joined: what does a strand cost?
///
/// Each adds 1 to one counter; then all are joined in order. One op is one strand, from spawn to
/// joined. All handles are kept until then. The counter must be M in the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub(crate) struct Spawn {
    /// How many strands
    #[arg(long, value_name = "M", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub(crate) count: u32,
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

impl Spawn {
    pub(super) fn numbers(&self) -> Vec<(&'static str, u64)> {
        vec![("count", self.count.into())]
    }

    pub(super) fn cost<S: Strands>(&self) -> Result<Cost, Failure> {
        COUNTER.store(0, Ordering::Relaxed);
        let add_one = || {
            COUNTER.fetch_add(1, Ordering::Relaxed);
        };
        let watch = Stopwatch::start();
        let strands = spawn_all::<S, _, _>(self.count as usize, |_| add_one)
            .map_err(|shortfall| shortfall.give_up())?;
        join_all::<S, ()>(strands, |()| ())?;
        let cost = watch.stop();
        // Joined: every addition happened before.
        let counted = COUNTER.load(Ordering::Relaxed);
        if counted != u64::from(self.count) {
            return Err(Failure::other(format!(
                "spawn went wrong: the counter is {counted}, not {}; please report this",
                self.count
            )));
        }
        Ok(cost)
    }
}
