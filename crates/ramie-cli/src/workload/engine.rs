//! The engines that run a workload.

use std::{num::NonZero, thread};

use clap::ValueEnum;
use ramie_workloads::{TaskCall, Workload};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The kind of strand or task that runs a workload.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    /// Fibers on one worker; --workers sets another number
    Fibers,
    /// OS threads
    Threads,
    /// Fibers on several workers
    Hybrid,
    /// Fibers with a sidecar thread per worker that enters the kernel (pipe, socketpair, http,
    /// server)
    Sidecar,
    /// Processes that run their share on one worker of fibers each; --processes sets how many
    /// (feed, mix, http)
    Processes,
    /// Coroutines that a loop resumes, without a scheduler (feed, basic, recurse, recurse2)
    Coroutines,
    /// Futures on tokio's current-thread runtime (basic, recurse, recurse2)
    Futures,
}

impl Engine {
    /// The engines of the workloads of many strands.
    pub(crate) const STRANDS: [Engine; 3] = [Engine::Fibers, Engine::Threads, Engine::Hybrid];
    /// The engines of the workloads whose strands do I/O.
    pub(crate) const IO: [Engine; 4] =
        [Engine::Fibers, Engine::Threads, Engine::Hybrid, Engine::Sidecar];
    /// The engines of `feed`.
    pub(crate) const FEED: [Engine; 5] =
        [Engine::Fibers, Engine::Threads, Engine::Hybrid, Engine::Processes, Engine::Coroutines];
    /// The engines of `mix`.
    pub(crate) const MIX: [Engine; 4] =
        [Engine::Fibers, Engine::Threads, Engine::Hybrid, Engine::Processes];
    /// The engines of `http`.
    pub(crate) const HTTP: [Engine; 5] =
        [Engine::Fibers, Engine::Threads, Engine::Hybrid, Engine::Sidecar, Engine::Processes];
    /// The engines of the workloads of one task.
    pub(crate) const TASKS: [Engine; 5] =
        [Engine::Fibers, Engine::Threads, Engine::Hybrid, Engine::Futures, Engine::Coroutines];
    /// Those of them that have timers.
    const TASKS_WITH_TIMERS: [Engine; 4] =
        [Engine::Fibers, Engine::Threads, Engine::Hybrid, Engine::Futures];
    /// The engines on which a lab measures one task: a hybrid runs it as fibers do, and a thread
    /// yields to the kernel.
    pub(crate) const TASKS_IN_LAB: [Engine; 3] =
        [Engine::Fibers, Engine::Futures, Engine::Coroutines];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Fibers => "fibers",
            Engine::Threads => "threads",
            Engine::Hybrid => "hybrid",
            Engine::Sidecar => "sidecar",
            Engine::Processes => "processes",
            Engine::Coroutines => "coroutines",
            Engine::Futures => "futures",
        }
    }

    /// The noun for one strand or task of this engine.
    pub(crate) fn one(self) -> &'static str {
        match self {
            Engine::Fibers => "a fiber",
            Engine::Threads => "a thread",
            Engine::Hybrid => "a hybrid",
            Engine::Sidecar => "a fiber with a sidecar",
            Engine::Processes => "processes",
            Engine::Coroutines => "a coroutine",
            Engine::Futures => "futures",
        }
    }

    /// The noun for all of them, as the subject or the object of a sentence.
    pub(crate) fn all(self) -> &'static str {
        match self {
            Engine::Hybrid => "the hybrid",
            Engine::Sidecar => "fibers with a sidecar",
            _ => self.name(),
        }
    }

    /// The engines that can run the workload of this name with some parameters.
    pub(crate) fn choice_for(name: &str) -> &'static [Engine] {
        match name {
            "pipe" | "socketpair" | "server" => &Engine::IO,
            "basic" | "recurse" | "recurse2" => &Engine::TASKS,
            "feed" => &Engine::FEED,
            "mix" => &Engine::MIX,
            "http" => &Engine::HTTP,
            _ => &Engine::STRANDS,
        }
    }

    /// Fails if this engine cannot run the workload.
    pub(super) fn check_runs(self, workload: &Workload) -> Result<(), Failure> {
        let choice = match workload.call() {
            Some(TaskCall::Slow) => &Engine::TASKS_WITH_TIMERS[..],
            _ => Engine::choice_for(workload.name()),
        };
        if choice.contains(&self) {
            return Ok(());
        }
        // Name the call only if another call would run on this engine.
        let call = workload.call().filter(|_| Engine::TASKS.contains(&self));
        let call = call.map(|call| format!(" --call {}", call.name())).unwrap_or_default();
        let choice: Vec<_> = choice.iter().map(|on| on.name()).collect();
        let why = match self {
            Engine::Coroutines if workload.call() == Some(TaskCall::Slow) => {
                ", because they have no timers"
            }
            _ => "",
        };
        Err(Failure::usage(format!(
            "{}{call} does not run on {}{why}; use --on {}",
            workload.name(),
            self.name(),
            choice.join(", --on ")
        )))
    }

    pub(super) fn default_workers(self) -> usize {
        match self {
            Engine::Hybrid => thread::available_parallelism().map_or(2, NonZero::get).max(2),
            _ => 1,
        }
    }

    /// Whether Ramie allocates its stacks.
    pub(super) fn has_fiber_stacks(self) -> bool {
        use Engine::{Coroutines, Fibers, Hybrid, Processes, Sidecar};
        matches!(self, Fibers | Hybrid | Sidecar | Processes | Coroutines)
    }

    /// Fails if `--processes` contradicts the engine or the number of strands.
    pub(super) fn check_processes(
        self,
        processes: u32,
        workload: &Workload,
    ) -> Result<(), Failure> {
        if self != Engine::Processes {
            return Err(Failure::usage(format!(
                "--processes does not apply to --on {}; omit it, or use --on processes",
                self.name()
            )));
        }
        let (most, noun) = workload.shares();
        if u64::from(processes) > most {
            let few = if most == 1 { format!("{noun} is") } else { format!("{noun}s are") };
            return Err(Failure::usage(format!(
                "{most} {few} too few for {processes} processes; use --processes {most} at \
                 most"
            )));
        }
        Ok(())
    }

    /// Fails if `--workers` contradicts the engine.
    pub(crate) fn check_workers(self, workers: u32) -> Result<(), Failure> {
        let (why, cure) = match self {
            Engine::Hybrid if workers == 1 => {
                return Err(Failure::usage(
                    "--on hybrid needs several workers, but --workers is 1; use --on fibers, or 2 \
                     workers or more",
                ));
            }
            Engine::Fibers | Engine::Hybrid | Engine::Sidecar => return Ok(()),
            Engine::Threads => ("every strand is an OS thread", "--on hybrid"),
            Engine::Processes => ("each process has one worker", "--processes"),
            Engine::Coroutines => ("coroutines run on one thread", "--on fibers"),
            Engine::Futures => ("the one thread of tokio's runtime polls them", "--on fibers"),
        };
        Err(Failure::usage(format!(
            "--workers does not apply to --on {}, because {why}; omit it, or use {cure}",
            self.name()
        )))
    }
}
