//! Many strands parked at once: the memory of one strand.

use clap::Args;

use crate::{
    Cost, Memory, WorkloadError,
    count::count,
    gate::Gate,
    strands::{StrandKind, join_all, spawn_all},
    usage::{Footprint, Stopwatch},
};

/// M strands are parked at once: the memory of a strand
///
/// When all are parked, the process's memory is read; then they are unparked in order and joined.
/// One op is one strand, from spawn to join. Memory per strand is the growth of the process since
/// the first spawn, divided by M: resident bytes (rss) and page tables (pte). Every repetition runs
/// in a new process. One more process runs first, because it pays for memory that a virtual machine
/// does not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Alive {
    /// Number of strands
    #[arg(long, value_name = "M", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub count: u32,
}

impl Alive {
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        vec![("count", self.count.into())]
    }

    /// Runs the workload on strands and checks its result.
    pub fn cost<S: StrandKind>(&self) -> Result<Cost, WorkloadError> {
        let count = self.count as usize;
        let before = Footprint::now();
        let watch = Stopwatch::start();
        let gate = Gate::<S>::new(count);
        let spawned = spawn_all::<S, _, _>(count, |_| {
            let mut ticket = gate.ticket();
            move || {
                ticket.arrive();
                ticket.pass();
            }
        });
        let strands = spawned.map_err(|failure| {
            gate.open(failure.peers());
            failure.give_up()
        })?;
        gate.wait();
        let after = Footprint::now();
        gate.open(strands.iter().map(S::peer));
        join_all::<S, ()>(strands, |()| ())?;
        let memory = before.zip(after).map(|(before, after)| self.memory(before, after));
        Ok(Cost { memory, ..watch.stop() })
    }

    fn memory(&self, before: Footprint, after: Footprint) -> Memory {
        let each = |more: u64, less: u64| (more as f64 - less as f64) / f64::from(self.count);
        Memory {
            rss_kb: after.rss_bytes / 1024,
            grown_bytes: after.rss_bytes.saturating_sub(before.rss_bytes),
            rss_bytes_per_strand: each(after.rss_bytes, before.rss_bytes),
            pte_bytes_per_strand: each(after.page_table_bytes, before.page_table_bytes),
        }
    }
}
