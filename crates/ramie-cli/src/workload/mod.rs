//! The workloads: how each runs, how its result is checked, and which operation it counts.
//!
//! The workloads of many strands are generic over [`Strands`]: a strand is a fiber or an OS thread,
//! and the compiler generates a separate loop for each. `hybrid` is `fibers` with several workers.
//!
//! The workloads of one task ([`task`]) measure calls that suspend. They run on a fiber, as a bare
//! coroutine, and as futures.

mod alive;
mod descriptors;
mod engine;
mod feed;
mod futures;
mod gate;
mod messages;
mod requirements;
mod ring;
mod spawn;
mod strands;
mod switch;
mod task;
mod transfer;
mod usage;

use clap::Subcommand;

pub(crate) use self::{
    engine::Engine, requirements::room_for_fibers, strands::most_threads, task::Call,
};
use self::{
    requirements::Requirements,
    strands::{Fibers, Strands, Threads},
    task::Task,
};
use crate::{failure::Failure, runtime};

/// A workload and its parameters.
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
    /// G strands write I messages each into a pipe that another strand reads: the cost of I/O
    ///
    /// One op is one message, written and read. The reader compares every byte with the expected
    /// one. Several workers share the pairs evenly. The soft limit on descriptors is raised if the
    /// hard limit allows it.
    Pipe(transfer::Load),
    /// G strands send I messages each through a socket to another strand: the cost of I/O
    ///
    /// The sockets are connected Unix streams. One op is one message, sent and received. The
    /// receiver compares every byte with the expected one. Several workers share the pairs evenly.
    /// The soft limit on descriptors is raised if the hard limit allows it.
    Socketpair(transfer::Load),
}

/// The cost of one repetition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Wall time, from before the first spawn to after the last join.
    pub(crate) seconds: f64,
    /// User and system time of the process over the same interval.
    pub(crate) cpu_s: f64,
    /// Memory, for the workloads that measure it.
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

    /// The parameters, by the names of their flags.
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

    /// The call that the task makes in a loop, if it can be chosen.
    pub(crate) fn call(&self) -> Option<Call> {
        if let Workload::Basic(basic) = self { Some(basic.call) } else { None }
    }

    /// The task, if the workload is one task rather than many strands.
    fn task(&self) -> Option<Task> {
        match self {
            Workload::Basic(basic) => Some(basic.task()),
            Workload::Recurse(recurse) => Some(recurse.task()),
            Workload::Recurse2(recurse) => Some(recurse.task()),
            _ => None,
        }
    }

    /// A rough estimate of one op of a workload of one task, in nanoseconds.
    pub(crate) fn task_op_ns(&self, on: Engine) -> f64 {
        self.task().map_or(0.0, |task| task.op_ns(on))
    }

    /// The engines that can run this workload with its parameters.
    fn runs_on(&self) -> &'static [Engine] {
        match self.call() {
            Some(Call::Slow) => &[Engine::Fibers],
            _ => Self::named_runs_on(self.name()),
        }
    }

    /// The engines that can run the workload of this name with some parameters.
    pub(crate) fn named_runs_on(name: &str) -> &'static [Engine] {
        match name {
            "pipe" | "socketpair" => &Engine::IO,
            "basic" | "recurse" | "recurse2" => &Engine::TASKS,
            _ => &Engine::STRANDS,
        }
    }

    fn check_runs_on(&self, on: Engine) -> Result<(), Failure> {
        let choice = self.runs_on();
        if choice.contains(&on) {
            return Ok(());
        }
        // Name the call only if another call would run on this engine.
        let call = self.call().filter(|_| Engine::TASKS.contains(&on));
        let call = call.map(|call| format!(" --call {}", call.name())).unwrap_or_default();
        let choice: Vec<_> = choice.iter().map(|on| on.name()).collect();
        Err(Failure::usage(format!(
            "{}{call} does not run on {}; use --on {}",
            self.name(),
            on.name(),
            choice.join(", --on ")
        )))
    }

    /// The command line arguments that ask for this workload.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let numbers = self.numbers().into_iter();
        let flags = numbers.flat_map(|(flag, value)| [format!("--{flag}"), value.to_string()]);
        let call = self.call().map(|call| format!("--call={}", call.name()));
        std::iter::once(self.name().to_owned()).chain(flags).chain(call).collect()
    }

    /// The number of operations in one repetition.
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

    /// The number of strands.
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

    /// How many strands need a stack at the same time, if they are fibers.
    fn stacks(&self) -> u64 {
        match self {
            // A strand that no hop reaches ends at once.
            Workload::Ring(ring) => ring.hops.saturating_add(1).min(ring.size.into()),
            // Each ends before the next one starts.
            Workload::Spawn(_) => 1,
            _ => self.strands(),
        }
    }

    /// Whether each repetition has to run in a process that has run no workload before.
    pub(crate) fn wants_fresh_process(&self) -> bool {
        matches!(self, Workload::Alive(_))
    }

    /// The memory that all strands together need, roughly.
    pub(crate) fn need(&self, on: Engine) -> Requirements {
        let need = Requirements::of(on, self.strands(), self.stacks(), self.stack_bytes());
        match (self, self.task()) {
            (Workload::Pipe(load) | Workload::Socketpair(load), _) => need.plus(load.buffers()),
            (_, Some(task)) if on.has_fiber_stacks() => need.plus(task.depth_bytes()),
            _ => need,
        }
    }

    /// The usable bytes of each stack that Ramie allocates.
    fn stack_bytes(&self) -> usize {
        self.task().map_or_else(runtime::stack_bytes, Task::stack_bytes)
    }

    /// Runs the workload on `workers` workers; OS threads have no workers and pass 1.
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

/// A workload that can be run repeatedly.
#[derive(Debug)]
pub(crate) struct Bench {
    workload: Workload,
    prepared: Prepared,
}

/// The parts of a run that are made before the clock starts.
#[derive(Debug)]
enum Prepared {
    Threads,
    Fibers(ramie::Runtime),
    Coroutines(Task),
    Futures(Task, tokio::runtime::Runtime),
}

impl Bench {
    pub(crate) fn new(
        workload: Workload,
        on: Engine,
        workers: Option<u32>,
    ) -> Result<Self, Failure> {
        workload.check_runs_on(on)?;
        if on.has_fiber_stacks() {
            runtime::check_environment()?;
        }
        let task = workload.task();
        if let Some(task) = task {
            task.check_depth(on)?;
        }
        workload.need(on).check(on)?;
        let prepared = match (on, task) {
            (Engine::Coroutines, Some(task)) => Prepared::Coroutines(task),
            (Engine::Futures, Some(task)) => Prepared::Futures(task, futures::runtime()?),
            (Engine::Fibers | Engine::Hybrid | Engine::Sidecar, _) => {
                let workers = workers.map_or(on.default_workers(), |count| count as usize);
                let stack_bytes = workload.stack_bytes();
                Prepared::Fibers(runtime::of_fibers(workers, on == Engine::Sidecar, stack_bytes)?)
            }
            (Engine::Threads, _) | (_, None) => Prepared::Threads,
        };
        Ok(Bench { workload, prepared })
    }

    pub(crate) fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The workers of the runtime of fibers, if there is one.
    pub(crate) fn workers(&self) -> Option<usize> {
        if let Prepared::Fibers(runtime) = &self.prepared { Some(runtime.workers()) } else { None }
    }

    /// Runs the workload once and checks its result. The cost excludes the start of the runtime.
    pub(crate) fn cost(&self) -> Result<Cost, Failure> {
        match &self.prepared {
            Prepared::Threads => self.workload.cost_on::<Threads>(1),
            Prepared::Fibers(runtime) => {
                runtime::run(runtime, || self.workload.cost_on::<Fibers>(runtime.workers()))?
            }
            Prepared::Coroutines(task) => task.cost_on_coroutine(),
            Prepared::Futures(task, runtime) => futures::cost(*task, runtime),
        }
    }
}
