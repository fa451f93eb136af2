//! Two strands yield to each other: the cost of a switch.

use clap::Args;

use crate::{
    Cost, WorkloadError,
    count::count,
    strands::{StrandKind, join_all, spawn_all},
    usage::Stopwatch,
};

/// Two strands yield to each other N times each: the cost of a switch
///
/// The strands do nothing else. One op is one yield. On fibers each yield resumes the other one.
/// Threads (sched_yield) and fibers of a hybrid may run on two CPUs, and a yield then has no other
/// strand to switch to. Both strands must have yielded N times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Switch {
    /// Number of yields of each strand
    #[arg(long, value_name = "N", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub count: u32,
}

impl Switch {
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        vec![("count", self.count.into())]
    }

    /// Runs the workload on strands and checks its result.
    pub fn cost<S: StrandKind>(&self) -> Result<Cost, WorkloadError> {
        let count = u64::from(self.count);
        let watch = Stopwatch::start();
        let strands = spawn_all::<S, _, _>(2, |_| move || yield_times::<S>(count))
            .map_err(|failure| failure.give_up())?;
        let mut is_right = true;
        join_all::<S, u64>(strands, |yields| is_right &= yields == count)?;
        let cost = watch.stop();
        if !is_right {
            return Err(WorkloadError::wrong(
                "switch went wrong: a strand yielded too often or too rarely",
            ));
        }
        Ok(cost)
    }
}

fn yield_times<S: StrandKind>(count: u64) -> u64 {
    let mut yields = 0;
    while yields < count {
        S::yield_now();
        yields += 1;
    }
    yields
}
