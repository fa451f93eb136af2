//! The workloads: what is run, how its result is checked, and what an operation of it is.
//!
//! Each is written once, over [`Strands`]: a strand is a fiber or an OS thread, and the compiler
//! makes one lean loop for each. `hybrid` is `fibers` with several workers.
//!
//! Those of one task ([`task`]) are about calls that suspend, not about many strands: they run on
//! fibers, on bare coroutines, and as futures.

mod alive;
mod descriptors;
mod feed;
mod futures;
mod gate;
mod messages;
mod need;
mod on;
mod ring;
mod spawn;
mod strands;
mod switch;
mod task;
mod transfer;
mod usage;

use clap::Subcommand;

use self::{
    need::Need,
    strands::{Fibers, Strands, Threads},
    task::Task,
};
pub(crate) use self::{need::room_for_fibers, on::On, strands::most_threads, task::Call};
use crate::{failure::Failure, runtime};

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Workload {
    Feed(feed::Feed),
    Ring(ring::Ring),
    Spawn(spawn::Spawn),
    Alive(alive::Alive),
    Switch(switch::Switch),
    Basic(task::Basic),
    Recurse(task::Recurse),
    Recurse2(task::Recurse2),
    /// G strands write I messages each into a pipe that another strand reads: what does I/O cost?
    ///
    /// One op is one message, written and read. The reader compares every byte with what it must
    /// be. On several workers each has its share of the pairs. The limit on descriptors is raised
    /// as far as that takes no administrator.
    Pipe(transfer::Load),
    /// G strands send I messages each through a socket to another strand: what does I/O cost?
    ///
    /// The sockets are connected Unix streams. One op is one message, sent and received. The
    /// receiver compares every byte with what it must be. On several workers each has its share of
    /// the pairs. The limit on descriptors is raised as far as that takes no administrator.
    Socketpair(transfer::Load),
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

    pub(crate) fn basic(yields: u32, call: Call) -> Self {
        Workload::Basic(task::Basic { yields, call })
    }

    pub(crate) fn recurse(depth: u32) -> Self {
        Workload::Recurse(task::Recurse { depth })
    }

    pub(crate) fn recurse2(depth: u32) -> Self {
        Workload::Recurse2(task::Recurse2 { depth })
    }

    pub(crate) fn pipe(pairs: u32, messages: u32, bytes: u32) -> Self {
        Workload::Pipe(transfer::Load { pairs, messages, bytes })
    }

    pub(crate) fn socketpair(pairs: u32, messages: u32, bytes: u32) -> Self {
        Workload::Socketpair(transfer::Load { pairs, messages, bytes })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Workload::Feed(_) => "feed",
            Workload::Ring(_) => "ring",
            Workload::Spawn(_) => "spawn",
            Workload::Alive(_) => "alive",
            Workload::Switch(_) => "switch",
            Workload::Basic(_) => "basic",
            Workload::Recurse(_) => "recurse",
            Workload::Recurse2(_) => "recurse2",
            Workload::Pipe(_) => "pipe",
            Workload::Socketpair(_) => "socketpair",
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
            Workload::Basic(basic) => vec![("yields", basic.yields.into())],
            Workload::Recurse(task::Recurse { depth })
            | Workload::Recurse2(task::Recurse2 { depth }) => vec![("depth", (*depth).into())],
            Workload::Pipe(load) | Workload::Socketpair(load) => load.numbers(),
        }
    }

    /// What it calls again and again, where that can be chosen.
    pub(crate) fn call(&self) -> Option<Call> {
        if let Workload::Basic(basic) = self { Some(basic.call) } else { None }
    }

    /// The task that it is, if it is one, not many strands.
    fn task(&self) -> Option<Task> {
        match self {
            Workload::Basic(basic) => Some(basic.task()),
            Workload::Recurse(recurse) => Some(recurse.task()),
            Workload::Recurse2(recurse) => Some(recurse.task()),
            _ => None,
        }
    }

    /// About what an op takes, in nanoseconds, of a workload of one task.
    pub(crate) fn task_op_ns(&self, on: On) -> f64 {
        self.task().map_or(0.0, |task| task.op_ns(on))
    }

    /// What it can run on.
    fn runs_on(&self) -> &'static [On] {
        match self.call() {
            Some(Call::Slow) => &[On::Fibers],
            _ => Self::named_runs_on(self.name()),
        }
    }

    /// What the workload of that name can run on, at most.
    pub(crate) fn named_runs_on(name: &str) -> &'static [On] {
        match name {
            "pipe" | "socketpair" => &On::IO,
            "basic" | "recurse" | "recurse2" => &On::TASKS,
            _ => &On::STRANDS,
        }
    }

    fn check_runs_on(&self, on: On) -> Result<(), Failure> {
        let choice = self.runs_on();
        if choice.contains(&on) {
            return Ok(());
        }
        // Only if another call would run there.
        let call = self.call().filter(|_| On::TASKS.contains(&on));
        let call = call.map(|call| format!(" --call {}", call.name())).unwrap_or_default();
        let choice: Vec<_> = choice.iter().map(|on| on.name()).collect();
        Err(Failure::usage(format!(
            "{}{call} does not run on {}; use --on {}",
            self.name(),
            on.name(),
            choice.join(", --on ")
        )))
    }

    /// The command line that asks for it.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let numbers = self.numbers().into_iter();
        let flags = numbers.flat_map(|(flag, value)| [format!("--{flag}"), value.to_string()]);
        let call = self.call().map(|call| format!("--call={}", call.name()));
        std::iter::once(self.name().to_owned()).chain(flags).chain(call).collect()
    }

    /// What its time is divided by.
    pub(crate) fn ops(&self) -> u64 {
        match self {
            Workload::Feed(feed) => feed.ops(),
            Workload::Ring(ring) => ring.hops,
            Workload::Spawn(spawn) => spawn.count.into(),
            Workload::Alive(alive) => alive.count.into(),
            Workload::Switch(switch) => 2 * u64::from(switch.count),
            Workload::Basic(basic) => basic.task().ops(),
            Workload::Recurse(recurse) => recurse.task().ops(),
            Workload::Recurse2(recurse) => recurse.task().ops(),
            Workload::Pipe(load) | Workload::Socketpair(load) => load.ops(),
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
            Workload::Basic(_) | Workload::Recurse(_) | Workload::Recurse2(_) => 1,
            Workload::Pipe(load) | Workload::Socketpair(load) => load.strands(),
        }
    }

    /// How many of them need a stack at the same time, if they are fibers.
    fn stacks(&self) -> u64 {
        match self {
            // A strand that no hop reaches ends at once.
            Workload::Ring(ring) => ring.hops.saturating_add(1).min(ring.size.into()),
            // Each ends before the next one starts.
            Workload::Spawn(_) => 1,
            _ => self.strands(),
        }
    }

    /// Whether each repetition has to run in a process that did nothing before.
    pub(crate) fn wants_fresh_process(&self) -> bool {
        matches!(self, Workload::Alive(_))
    }

    /// What all strands together need, roughly.
    pub(crate) fn need(&self, on: On) -> Need {
        let need = Need::of(on, self.strands(), self.stacks(), self.stack_bytes());
        match (self, self.task()) {
            (Workload::Pipe(load) | Workload::Socketpair(load), _) => need.plus(load.buffers()),
            (_, Some(task)) if on.has_fiber_stacks() => need.plus(task.depth_bytes()),
            _ => need,
        }
    }

    /// The usable bytes of each stack, if they are Ramie's.
    fn stack_bytes(&self) -> usize {
        self.task().map_or_else(runtime::stack_bytes, Task::stack_bytes)
    }

    /// Runs it where there are so many workers: 1 of threads, which need none.
    fn cost_on<S: Strands>(&self, workers: usize) -> Result<Cost, Failure> {
        match self {
            Workload::Feed(feed) => feed.cost::<S>(),
            Workload::Ring(ring) => ring.cost::<S>(),
            Workload::Spawn(spawn) => spawn.cost::<S>(),
            Workload::Alive(alive) => alive.cost::<S>(),
            Workload::Switch(switch) => switch.cost::<S>(),
            Workload::Basic(basic) => basic.task().cost::<S>(),
            Workload::Recurse(recurse) => recurse.task().cost::<S>(),
            Workload::Recurse2(recurse) => recurse.task().cost::<S>(),
            Workload::Pipe(load) => load.cost_of_pipes::<S>(workers),
            Workload::Socketpair(load) => load.cost_of_sockets::<S>(workers),
        }
    }
}

/// A workload, ready to be run again and again.
#[derive(Debug)]
pub(crate) struct Bench {
    workload: Workload,
    ground: Ground,
}

/// What it stands on, made before the time is taken.
#[derive(Debug)]
enum Ground {
    Threads,
    Fibers(ramie::Runtime),
    Coroutines(Task),
    Futures(Task, tokio::runtime::Runtime),
}

impl Bench {
    pub(crate) fn new(workload: Workload, on: On, workers: Option<u32>) -> Result<Self, Failure> {
        workload.check_runs_on(on)?;
        if on.has_fiber_stacks() {
            runtime::check_environment()?;
        }
        let task = workload.task();
        if let Some(task) = task {
            task.check_depth(on)?;
        }
        workload.need(on).check(on)?;
        let ground = match (on, task) {
            (On::Coroutines, Some(task)) => Ground::Coroutines(task),
            (On::Futures, Some(task)) => Ground::Futures(task, futures::runtime()?),
            (On::Fibers | On::Hybrid | On::Sidecar, _) => {
                let workers = workers.map_or(on.default_workers(), |count| count as usize);
                let stack_bytes = workload.stack_bytes();
                Ground::Fibers(runtime::of_fibers(workers, on == On::Sidecar, stack_bytes)?)
            }
            (On::Threads, _) | (_, None) => Ground::Threads,
        };
        Ok(Bench { workload, ground })
    }

    pub(crate) fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The workers of the runtime of fibers, if there is one.
    pub(crate) fn workers(&self) -> Option<usize> {
        if let Ground::Fibers(runtime) = &self.ground { Some(runtime.workers()) } else { None }
    }

    /// Runs it once and checks its result; the runtime's start is not in the cost.
    pub(crate) fn cost(&self) -> Result<Cost, Failure> {
        match &self.ground {
            Ground::Threads => self.workload.cost_on::<Threads>(1),
            Ground::Fibers(runtime) => {
                runtime::run(runtime, || self.workload.cost_on::<Fibers>(runtime.workers()))?
            }
            Ground::Coroutines(task) => task.cost_on_coroutine(),
            Ground::Futures(task, runtime) => futures::cost(*task, runtime),
        }
    }
}
