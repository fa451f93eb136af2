//! What a workload can run on.

use std::{num::NonZero, thread};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// What a workload runs on.
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
    /// Fibers, with a thread beside each worker that enters the kernel (pipe, socketpair)
    Sidecar,
    /// One coroutine that a loop resumes, without a scheduler (basic, recurse, recurse2)
    Coroutines,
    /// A future on tokio's current-thread runtime (basic, recurse, recurse2)
    Futures,
}

impl On {
    /// For the workloads of many strands.
    pub(crate) const STRANDS: [On; 3] = [On::Fibers, On::Threads, On::Hybrid];
    /// For those whose strands do I/O.
    pub(crate) const IO: [On; 4] = [On::Fibers, On::Threads, On::Hybrid, On::Sidecar];
    /// For the workloads of one task.
    pub(crate) const TASKS: [On; 3] = [On::Fibers, On::Futures, On::Coroutines];

    pub(crate) fn name(self) -> &'static str {
        match self {
            On::Fibers => "fibers",
            On::Threads => "threads",
            On::Hybrid => "hybrid",
            On::Sidecar => "sidecar",
            On::Coroutines => "coroutines",
            On::Futures => "futures",
        }
    }

    /// What one of it is called.
    pub(crate) fn one(self) -> &'static str {
        match self {
            On::Fibers => "a fiber",
            On::Threads => "a thread",
            On::Hybrid => "a hybrid",
            On::Sidecar => "a fiber with a sidecar",
            On::Coroutines => "a coroutine",
            On::Futures => "futures",
        }
    }

    /// As the subject or the object of a sentence.
    pub(crate) fn all(self) -> &'static str {
        match self {
            On::Hybrid => "the hybrid",
            On::Sidecar => "fibers with a sidecar",
            _ => self.name(),
        }
    }

    pub(super) fn default_workers(self) -> usize {
        match self {
            On::Hybrid => thread::available_parallelism().map_or(2, NonZero::get).max(2),
            _ => 1,
        }
    }

    /// Whether it runs on stacks that Ramie makes.
    pub(super) fn has_fiber_stacks(self) -> bool {
        matches!(self, On::Fibers | On::Hybrid | On::Sidecar | On::Coroutines)
    }

    /// Refuses a number of workers that contradicts it.
    pub(crate) fn check_workers(self, workers: u32) -> Result<(), Failure> {
        let (why, cure) = match self {
            On::Hybrid if workers == 1 => {
                return Err(Failure::usage(
                    "--on hybrid is fibers over several workers, but --workers is 1; use \
                     --on fibers, or 2 workers or more",
                ));
            }
            On::Fibers | On::Hybrid | On::Sidecar => return Ok(()),
            On::Threads => ("every strand is an OS thread", "--on hybrid"),
            On::Coroutines => ("a loop resumes the one coroutine", "--on fibers"),
            On::Futures => ("the one thread of tokio's runtime polls them", "--on fibers"),
        };
        Err(Failure::usage(format!(
            "--workers has no meaning with --on {}, where {why}; leave it out, or use {cure}",
            self.name()
        )))
    }
}
