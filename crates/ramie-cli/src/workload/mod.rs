//! The workloads: what is run, how its result is checked, and what an operation of it is.
//!
//! Each is written once, over [`Strands`]: a strand is a fiber or an OS thread, and the compiler
//! makes one lean loop for each. `hybrid` is `fibers` with several workers.

mod alive;
mod feed;
mod gate;
mod need;
mod ring;
mod spawn;
mod strands;
mod switch;
mod usage;

use std::{num::NonZero, thread};

use clap::{Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use self::{
    need::Need,
    strands::{Fibers, Strands, Threads},
};
pub(crate) use self::{need::room_for_fibers, strands::most_threads};
use crate::{failure::Failure, runtime};

/// What each strand is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum On {
    /// Fibers, on one worker unless --workers says otherwise
    Fibers,
    /// OS threads
    Threads,
    /// Fibers over several workers
    Hybrid,
}

impl On {
    pub(crate) const ALL: [On; 3] = [On::Fibers, On::Threads, On::Hybrid];

    pub(crate) fn name(self) -> &'static str {
        match self {
            On::Fibers => "fibers",
            On::Threads => "threads",
            On::Hybrid => "hybrid",
        }
    }

    fn default_workers(self) -> usize {
        match self {
            On::Hybrid => thread::available_parallelism().map_or(2, NonZero::get).max(2),
            On::Fibers | On::Threads => 1,
        }
    }
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Workload {
    Feed(feed::Feed),
    Ring(ring::Ring),
    Spawn(spawn::Spawn),
    Alive(alive::Alive),
    Switch(switch::Switch),
}

/// What one repetition cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Wall time, from before the first spawn to after the last join.
    pub(crate) seconds: f64,
    /// User and system time of the process over the same interval.
    pub(crate) cpu_s: f64,
    /// Memory, where the workload is about it.
    pub(crate) memory: Option<Memory>,
}

/// Memory while all strands are parked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) rss_kb: u64,
    pub(crate) rss_bytes_per_strand: f64,
    pub(crate) pte_bytes_per_strand: f64,
}

impl Workload {
    pub(crate) fn feed(people: u32, nutrients: u32) -> Self {
        Workload::Feed(feed::Feed { people, nutrients })
    }

    pub(crate) fn ring(size: u32, hops: u64) -> Self {
        Workload::Ring(ring::Ring { size, hops })
    }

    pub(crate) fn spawn(count: u32) -> Self {
        Workload::Spawn(spawn::Spawn { count })
    }

    pub(crate) fn alive(count: u32) -> Self {
        Workload::Alive(alive::Alive { count })
    }

    pub(crate) fn switch(count: u32) -> Self {
        Workload::Switch(switch::Switch { count })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Workload::Feed(_) => "feed",
            Workload::Ring(_) => "ring",
            Workload::Spawn(_) => "spawn",
            Workload::Alive(_) => "alive",
            Workload::Switch(_) => "switch",
        }
    }

    /// The numbers, by the names of their flags.
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        match self {
            Workload::Feed(feed) => feed.numbers(),
            Workload::Ring(ring) => ring.numbers(),
            Workload::Spawn(spawn) => spawn.numbers(),
            Workload::Alive(alive) => alive.numbers(),
            Workload::Switch(switch) => switch.numbers(),
        }
    }

    /// The command line that asks for it.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let numbers = self.numbers().into_iter();
        let flags = numbers.flat_map(|(flag, value)| [format!("--{flag}"), value.to_string()]);
        std::iter::once(self.name().to_owned()).chain(flags).collect()
    }

    /// What its time is divided by.
    pub(crate) fn ops(&self) -> u64 {
        match self {
            Workload::Feed(feed) => feed.ops(),
            Workload::Ring(ring) => ring.hops,
            Workload::Spawn(spawn) => spawn.count.into(),
            Workload::Alive(alive) => alive.count.into(),
            Workload::Switch(switch) => 2 * u64::from(switch.count),
        }
    }

    /// How many strands there are.
    pub(crate) fn strands(&self) -> u64 {
        match self {
            Workload::Feed(feed) => feed.people.into(),
            Workload::Ring(ring) => ring.size.into(),
            Workload::Spawn(spawn) => spawn.count.into(),
            Workload::Alive(alive) => alive.count.into(),
            Workload::Switch(_) => 2,
        }
    }

    /// How many of them need a stack at the same time, if they are fibers.
    fn stacks(&self) -> u64 {
        match self {
            // A strand that no hop reaches ends at once.
            Workload::Ring(ring) => ring.hops.saturating_add(1).min(ring.size.into()),
            // Each ends before the next one starts.
            Workload::Spawn(_) => 1,
            Workload::Feed(_) | Workload::Alive(_) | Workload::Switch(_) => self.strands(),
        }
    }

    /// Whether each repetition has to run in a process that did nothing before.
    pub(crate) fn wants_fresh_process(&self) -> bool {
        matches!(self, Workload::Alive(_))
    }

    /// What all strands together need, roughly.
    pub(crate) fn need(&self, on: On) -> Need {
        Need::of(on, self.strands(), self.stacks())
    }

    fn cost_on<S: Strands>(&self) -> Result<Cost, Failure> {
        match self {
            Workload::Feed(feed) => feed.cost::<S>(),
            Workload::Ring(ring) => ring.cost::<S>(),
            Workload::Spawn(spawn) => spawn.cost::<S>(),
            Workload::Alive(alive) => alive.cost::<S>(),
            Workload::Switch(switch) => switch.cost::<S>(),
        }
    }
}

/// A workload, ready to be run again and again.
#[derive(Debug)]
pub(crate) struct Bench {
    workload: Workload,
    /// None: on threads.
    runtime: Option<ramie::Runtime>,
}

impl Bench {
    pub(crate) fn new(workload: Workload, on: On, workers: Option<u32>) -> Result<Self, Failure> {
        if on != On::Threads {
            runtime::check_environment()?;
        }
        workload.need(on).check(on)?;
        let runtime = match on {
            On::Threads => None,
            On::Fibers | On::Hybrid => {
                let workers = workers.map_or(on.default_workers(), |count| count as usize);
                Some(runtime::of_fibers(workers)?)
            }
        };
        Ok(Bench { workload, runtime })
    }

    pub(crate) fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The workers of the runtime; none on threads.
    pub(crate) fn workers(&self) -> Option<usize> {
        self.runtime.as_ref().map(ramie::Runtime::workers)
    }

    /// Runs it once and checks its result; the runtime's start is not in the cost.
    pub(crate) fn cost(&self) -> Result<Cost, Failure> {
        match &self.runtime {
            None => self.workload.cost_on::<Threads>(),
            Some(runtime) => runtime::run(runtime, || self.workload.cost_on::<Fibers>())?,
        }
    }
}
