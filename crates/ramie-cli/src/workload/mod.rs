//! The engines, and which of them runs a workload with which memory. `ramie_workloads` holds the
//! workloads themselves.
//!
//! `hybrid` is `fibers` with several workers.

mod descriptors;
mod engine;
mod feed;
mod http;
pub(crate) mod load_generator;
mod many_threads;
mod mix;
mod one_task;
pub(crate) mod processes;
mod requirements;
pub(crate) mod responder;
pub(crate) mod server;

use std::{cell::Cell, rc::Rc};

pub(crate) use ramie_workloads::{Cost, TaskCall, Workload};
use ramie_workloads::{OnFibers, OnThreads, Task, await_thread_ends};

use self::requirements::Requirements;
pub(crate) use self::{engine::Engine, many_threads::safe_threads, requirements::room_for_fibers};
use crate::{
    arguments::RunOptions,
    counters,
    failure::Failure,
    runtime::{self, RuntimePlan},
};

/// The memory that all strands of a workload together need, roughly.
pub(crate) fn need(workload: &Workload, on: Engine) -> Requirements {
    let (strands, stacks) = (workload.strands(), workload.stacks());
    let need = Requirements::of(on, strands, stacks, stack_bytes(workload));
    match (workload, workload.task()) {
        (Workload::Pipe(load) | Workload::Socketpair(load), _) => need.plus(load.buffers()),
        (Workload::Http(http), _) => need.plus(http.buffers()),
        (_, Some(task)) if on != Engine::Futures => need.plus(one_task::depth_bytes(task)),
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

/// Fails if the workload cannot run with these parameters and options, or has not enough memory.
pub(crate) fn check(workload: &Workload, options: &RunOptions) -> Result<(), Failure> {
    let on = options.on;
    on.check_runs(workload)?;
    if let Workload::Feed(feed) = workload {
        feed::check_pass(feed, on)?;
    }
    if let Workload::Http(http) = workload {
        http::check(http, options)?;
    }
    if let Some(processes) = options.processes {
        on.check_processes(processes, workload)?;
    }
    if on.has_fiber_stacks() {
        runtime::check_environment()?;
    }
    if let Some(task) = workload.task() {
        one_task::check_depth(task, on)?;
    }
    // Before the memory, because the sentence about that names a number that would fit.
    if let Workload::Mix(mix) = workload {
        mix::check_limits(mix, options)?;
    }
    need(workload, on).check(on)
}

/// A workload that can be run repeatedly.
#[derive(Debug)]
pub(crate) struct Bench {
    workload: Workload,
    prepared: Prepared,
    /// The runtime that counts the runs of fibers, if they are to be counted.
    counted: Option<ramie::Runtime>,
    /// Whether members count, too.
    has_counters: bool,
    means: Option<mix::Means>,
    server: Option<http::ServerMeans>,
    greeter: Option<server::ServerLimits>,
}

/// The parts of a run that are made before the clock starts.
#[derive(Debug)]
enum Prepared {
    Threads,
    Fibers(Box<ramie::Runtime>),
    Coroutines,
    Futures(Task, tokio::runtime::Runtime),
    /// This number of processes, which start with each repetition.
    Processes(u32),
}

impl Bench {
    /// The caller has [checked](check) the workload and the options.
    pub(crate) fn new(workload: Workload, options: &RunOptions) -> Result<Self, Failure> {
        let RunOptions { on, workers, processes, .. } = *options;
        let task = workload.task();
        let means = match &workload {
            Workload::Mix(mix) => Some(mix::Means::new(mix, options)?),
            _ => None,
        };
        let server = match &workload {
            Workload::Http(http) => Some(http::ServerMeans::new(http, options)?),
            _ => None,
        };
        let greeter = match &workload {
            Workload::Server(server) => Some(server::ServerLimits::new(server, options)?),
            _ => None,
        };
        let mut counted = None;
        let prepared = match (on, task) {
            (Engine::Coroutines, _) => Prepared::Coroutines,
            (Engine::Futures, Some(task)) => Prepared::Futures(task, one_task::executor(task)?),
            (Engine::Fibers | Engine::Hybrid | Engine::Sidecar, _) => {
                let plan = RuntimePlan {
                    workers: workers.map_or(on.default_workers(), |count| count as usize),
                    has_sidecars: on == Engine::Sidecar,
                    stack_bytes: stack_bytes(&workload),
                    driver: match &workload {
                        Workload::Http(http) => http.driver,
                        _ => None,
                    },
                };
                // Members count their runs in a process of its own.
                if options.member.count_runs || options.counters && !options.member.member {
                    counted = Some(plan.build_counted()?);
                }
                Prepared::Fibers(Box::new(plan.build()?))
            }
            (Engine::Processes, _) => {
                let few = u32::try_from(workload.shares().0).unwrap_or(u32::MAX);
                Prepared::Processes(processes.unwrap_or(processes::default_count().min(few)))
            }
            (Engine::Threads, _) | (_, None) => Prepared::Threads,
        };
        let has_counters = options.counters;
        let bench = Bench { workload, prepared, counted, has_counters, means, server, greeter };
        if let Workload::Pipe(load) | Workload::Socketpair(load) = workload {
            let workers = bench.workers().unwrap_or(1);
            descriptors::raise_limit("pairs", load.pairs.into(), 2, workers)?;
        }
        Ok(bench)
    }

    pub(crate) fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The workers of the runtime of fibers, if there is one; of processes, one each.
    pub(crate) fn workers(&self) -> Option<usize> {
        match &self.prepared {
            Prepared::Fibers(runtime) => Some(runtime.workers()),
            Prepared::Processes(count) => Some(*count as usize),
            Prepared::Threads | Prepared::Coroutines | Prepared::Futures(..) => None,
        }
    }

    /// Runs the workload once and checks its result. The cost excludes the start of the runtime.
    pub(crate) fn cost(&self) -> Result<Cost, Failure> {
        match &self.prepared {
            Prepared::Threads => self.cost_on_threads(),
            Prepared::Fibers(runtime) => self.cost_on_fibers(runtime),
            Prepared::Coroutines => match (&self.workload, self.workload.task()) {
                (Workload::Feed(feed), _) => feed::cost_on_coroutines(feed, |_| {}),
                (_, Some(task)) => one_task::cost_on_coroutine(task, || {}),
                _ => unreachable!("`check` refuses the other workloads"),
            },
            Prepared::Futures(task, executor) => one_task::cost_as_futures(*task, executor, || {}),
            Prepared::Processes(count) => {
                let flags: &[&str] = if self.has_counters { &["--counters"] } else { &[] };
                self.cost_in_processes(*count, flags)
            }
        }
    }

    fn cost_on_threads(&self) -> Result<Cost, Failure> {
        if let (Workload::Server(server), Some(limits)) = (&self.workload, &self.greeter) {
            return limits.cost_on_threads(server);
        }
        match (&self.workload, &self.means, &self.server) {
            (Workload::Mix(mix), Some(means), _) => means.cost_on_threads(mix),
            (Workload::Http(http), _, Some(server)) => server.cost_on_threads(http),
            _ => match self.workload.task() {
                Some(task) => one_task::cost_on_thread(task),
                None => Ok(self.workload.cost_on::<OnThreads>(1)?),
            },
        }
    }

    fn cost_in_processes(&self, count: u32, flags: &[&str]) -> Result<Cost, Failure> {
        match (&self.workload, &self.means, &self.server) {
            (Workload::Mix(mix), Some(means), _) => means.cost_in_processes(mix, count, flags),
            (Workload::Http(http), _, Some(server)) => server.cost_in_processes(http, count, flags),
            (Workload::Feed(feed), ..) => feed::cost_in_processes(feed, count, flags),
            _ => unreachable!("`check` refuses the other workloads"),
        }
    }

    fn cost_on_fibers(&self, runtime: &ramie::Runtime) -> Result<Cost, Failure> {
        if let (Workload::Mix(mix), Some(means)) = (&self.workload, &self.means) {
            return means.cost_on_fibers(mix, runtime);
        }
        if let (Workload::Http(http), Some(server)) = (&self.workload, &self.server) {
            return server.cost_on_fibers(http, runtime);
        }
        if let (Workload::Server(server), Some(means)) = (&self.workload, &self.greeter) {
            return means.cost_on_fibers(server, runtime);
        }
        let workers = runtime.workers();
        Ok(runtime::run(runtime, || self.workload.cost_on::<OnFibers>(workers))??)
    }

    /// Runs the workload once more and counts the runs of each strand.
    pub(crate) fn count_runs(&self) -> Result<(), Failure> {
        match &self.prepared {
            // Each thread counts its own, and detached ones may end later.
            Prepared::Threads => {
                let cost = self.cost_on_threads()?;
                await_thread_ends();
                cost
            }
            Prepared::Fibers(plain) => {
                self.cost_on_fibers(self.counted.as_ref().unwrap_or(plain))?
            }
            Prepared::Coroutines => return self.count_resumes(),
            Prepared::Futures(task, executor) => {
                let polls = Cell::new(0);
                let cost =
                    one_task::cost_as_futures(*task, executor, || polls.set(polls.get() + 1))?;
                counters::add_runs([polls.get()]);
                cost
            }
            Prepared::Processes(count) => self.cost_in_processes(*count, &["--count-runs"])?,
        };
        Ok(())
    }

    fn count_resumes(&self) -> Result<(), Failure> {
        let resumes = vec![Cell::new(0); usize::try_from(self.workload.strands()).unwrap_or(0)];
        let resumes: Rc<[Cell<u64>]> = resumes.into();
        let of_all = Rc::clone(&resumes);
        let count = move |number: u32| {
            let of_one = &of_all[number as usize];
            of_one.set(of_one.get() + 1);
        };
        match (&self.workload, self.workload.task()) {
            (Workload::Feed(feed), _) => feed::cost_on_coroutines(feed, count)?,
            (_, Some(task)) => one_task::cost_on_coroutine(task, || count(0))?,
            _ => unreachable!("`check` refuses the other workloads"),
        };
        counters::add_runs(resumes.iter().map(Cell::get));
        Ok(())
    }

    /// Runs the share of this process, which is a member of the engine `processes`.
    pub(crate) fn run_as_member(&self) -> Result<(), Failure> {
        let runtime = match (&self.prepared, &self.counted) {
            (_, Some(counted)) => Some(counted),
            (Prepared::Fibers(runtime), None) => Some(&**runtime),
            _ => None,
        };
        match (&self.workload, &self.means, runtime) {
            (Workload::Mix(mix), Some(means), Some(runtime)) => {
                let tally = means.tally_on_fibers(mix, runtime, &processes::await_start)?;
                processes::report(&tally)
            }
            (Workload::Feed(feed), _, Some(runtime)) => {
                processes::report(&feed::share_on_fibers(feed, runtime)?)
            }
            (Workload::Http(http), _, Some(runtime)) => match self.server {
                Some(server) => server.serve_as_member(http, runtime),
                None => unreachable!("made with the bench"),
            },
            _ => Err(Failure::usage("--member is for feed, mix and http on fibers; omit it")),
        }
    }
}
