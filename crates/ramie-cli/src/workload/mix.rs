//! What a mix needs in addition to its strands: the speed of the CPU, a responder, member
//! processes.

use ramie_workloads::{
    Cost, Mix, OnFibers, OnThreads, StrandKind, WorkloadError,
    mix::{MixSetup, Tally, iterations_per_ms},
};

use super::{Engine, descriptors, many_threads, processes::Members, responder::Responder};
use crate::{arguments::RunOptions, failure::Failure, runtime};

/// The parts of a mix that are made before the clock starts.
#[derive(Debug)]
pub(super) struct Means {
    iterations_per_ms: u64,
    responder: Option<Answers>,
}

/// Where the answers to the strands' requests come from.
#[derive(Debug)]
enum Answers {
    Own(Responder),
    /// A responder of this name, which another process has started.
    Others(String),
}

/// Fails if the strands are more threads than is safe, or need more descriptors than this process
/// may have. Raises the soft limit on descriptors.
pub(super) fn check_limits(mix: &Mix, options: &RunOptions) -> Result<(), Failure> {
    many_threads::check(mix.threads(options.on == Engine::Threads))?;
    let each = mix.descriptors_per_strand();
    if each == 0 {
        return Ok(());
    }
    let workers = options.workers.map_or(options.on.default_workers(), |n| n as usize);
    descriptors::raise_limit("strands", mix.concurrency.into(), each, workers)
}

impl Means {
    /// The caller has [checked](check_limits) the limits.
    pub(super) fn new(mix: &Mix, options: &RunOptions) -> Result<Self, Failure> {
        let responder = match (&options.member.responder, mix.wait.has_responder()) {
            (Some(name), true) => Some(Answers::Others(name.clone())),
            (None, true) => Some(Answers::Own(Responder::start()?)),
            (_, false) => None,
        };
        let iterations_per_ms = options.member.iterations_per_ms.unwrap_or_else(iterations_per_ms);
        Ok(Means { iterations_per_ms, responder })
    }

    fn responder(&self) -> Option<&str> {
        match &self.responder {
            Some(Answers::Own(responder)) => Some(responder.name()),
            Some(Answers::Others(name)) => Some(name),
            None => None,
        }
    }

    fn tally<S: StrandKind>(
        &self,
        mix: &Mix,
        on_ready: &(dyn Fn() -> Result<(), WorkloadError> + Sync),
    ) -> Result<Tally, WorkloadError> {
        let setting = MixSetup {
            iterations_per_ms: self.iterations_per_ms,
            responder: self.responder(),
            on_ready,
        };
        mix.tally::<S>(&setting)
    }

    pub(super) fn cost_on_threads(&self, mix: &Mix) -> Result<Cost, Failure> {
        Ok(self.tally::<OnThreads>(mix, &|| Ok(()))?.into_cost(mix)?)
    }

    pub(super) fn cost_on_fibers(
        &self,
        mix: &Mix,
        runtime: &ramie::Runtime,
    ) -> Result<Cost, Failure> {
        Ok(self.tally_on_fibers(mix, runtime, &|| Ok(()))?.into_cost(mix)?)
    }

    pub(super) fn tally_on_fibers(
        &self,
        mix: &Mix,
        runtime: &ramie::Runtime,
        on_ready: &(dyn Fn() -> Result<(), WorkloadError> + Sync),
    ) -> Result<Tally, Failure> {
        Ok(runtime::run(runtime, || self.tally::<OnFibers>(mix, on_ready))??)
    }

    /// Runs the mix in this number of member processes, which get these flags.
    pub(super) fn cost_in_processes(
        &self,
        mix: &Mix,
        processes: u32,
        flags: &[&str],
    ) -> Result<Cost, Failure> {
        let arguments = |number| {
            let mut arguments = vec!["run".to_owned()];
            arguments
                .extend(ramie_workloads::Workload::Mix(mix.share(number, processes)).arguments());
            let speed = self.iterations_per_ms.to_string();
            let options = ["--on", "fibers", "--member", "--iterations-per-ms", &speed];
            arguments.extend(options.iter().chain(flags).map(|&flag| flag.to_owned()));
            let responder = self.responder().map(|name| format!("--responder={name}"));
            arguments.into_iter().chain(responder).collect()
        };
        let members = Members::start(&(0..processes).map(arguments).collect::<Vec<_>>())?;
        let tallies: Vec<Tally> = members.run()?;
        let sum = tallies.into_iter().reduce(|sum, tally| sum.merged(&tally));
        let sum = sum.ok_or_else(|| Failure::usage("--processes is 0; use 1 or more"))?;
        Ok(sum.into_cost(mix)?)
    }
}
