//! The engines, and which of them runs a workload with which memory. `ramie_workloads` holds the
//! workloads themselves.
//!
//! `hybrid` is `fibers` with several workers.

mod descriptors;
mod engine;
mod one_task;
mod requirements;

pub(crate) use ramie_workloads::{Cost, TaskCall, Workload, most_threads};
use ramie_workloads::{OnFibers, OnThreads, Task};

use self::requirements::Requirements;
pub(crate) use self::{engine::Engine, requirements::room_for_fibers};
use crate::{failure::Failure, runtime};

/// The memory that all strands of a workload together need, roughly.
pub(crate) fn need(workload: &Workload, on: Engine) -> Requirements {
    let (strands, stacks) = (workload.strands(), workload.stacks());
    let need = Requirements::of(on, strands, stacks, stack_bytes(workload));
    match (workload, workload.task()) {
        (Workload::Pipe(load) | Workload::Socketpair(load), _) => need.plus(load.buffers()),
        (_, Some(task)) if on.has_fiber_stacks() => need.plus(one_task::depth_bytes(task)),
        _ => need,
    }
}

/// A rough estimate of one op of a workload of one task, in nanoseconds.
pub(crate) fn task_op_ns(workload: &Workload, on: Engine) -> f64 {
    workload.task().map_or(0.0, |task| one_task::op_ns(task, on))
}

/// The usable bytes of each stack that Ramie allocates.
fn stack_bytes(workload: &Workload) -> usize {
    workload.task().map_or_else(runtime::stack_bytes, one_task::stack_bytes)
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
        on.check_runs(&workload)?;
        if on.has_fiber_stacks() {
            runtime::check_environment()?;
        }
        let task = workload.task();
        if let Some(task) = task {
            one_task::check_depth(task, on)?;
        }
        need(&workload, on).check(on)?;
        let prepared = match (on, task) {
            (Engine::Coroutines, Some(task)) => Prepared::Coroutines(task),
            (Engine::Futures, Some(task)) => Prepared::Futures(task, one_task::executor()?),
            (Engine::Fibers | Engine::Hybrid | Engine::Sidecar, _) => {
                let workers = workers.map_or(on.default_workers(), |count| count as usize);
                let stack_bytes = stack_bytes(&workload);
                Prepared::Fibers(runtime::of_fibers(workers, on == Engine::Sidecar, stack_bytes)?)
            }
            (Engine::Threads, _) | (_, None) => Prepared::Threads,
        };
        let bench = Bench { workload, prepared };
        if let Workload::Pipe(load) | Workload::Socketpair(load) = workload {
            descriptors::raise_limit(load.pairs.into(), bench.workers().unwrap_or(1))?;
        }
        Ok(bench)
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
            Prepared::Threads => Ok(self.workload.cost_on::<OnThreads>(1)?),
            Prepared::Fibers(runtime) => {
                let workers = runtime.workers();
                Ok(runtime::run(runtime, || self.workload.cost_on::<OnFibers>(workers))??)
            }
            Prepared::Coroutines(task) => one_task::cost_on_coroutine(*task),
            Prepared::Futures(task, executor) => one_task::cost_as_futures(*task, executor),
        }
    }
}
