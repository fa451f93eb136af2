//! The workloads, written for each peer as its experts would write them.

mod bare;
mod monoio;
mod ramie;
mod smol;
mod threads;
mod tokio;
mod tokio_slots;

use ramie_workloads::{Cost, Workload as Shared, WorkloadError};

use crate::{
    effects, limits, one_task, traffic, transfer,
    workload::{Sample, Workload},
};

/// A runtime, or its substitute, such as a bare loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    Ramie,
    /// On two workers.
    Ramie2,
    /// On two workers, each with a CPU of its own: senders on one, receivers on the other.
    RamieApart,
    /// With streams that the ring knows by their descriptors only.
    RamiePlain,
    /// With fibers spawned in a row, which the workers spread among themselves.
    RamieSpread,
    Corosensei,
    /// Like corosensei, but the clock starts when all stacks are mapped.
    CorosenseiLoop,
    Tokio,
    Tokio2,
    /// Two runtimes of one thread, each with a CPU of its own: senders on one, the receiver on the
    /// other.
    TokioApart,
    TokioNotify,
    TokioCell,
    Monoio,
    Compio,
    May,
    May2,
    Smol,
    Go,
    Go2,
    Threads,
    /// Senders on one CPU, receivers on another.
    ThreadsApart,
    /// A loop over a bare ring.
    Raw,
    /// Like `raw`, with registered files.
    RawRegistered,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Peer::Ramie => "ramie",
            Peer::Ramie2 => "ramie2",
            Peer::RamieApart => "ramie-apart",
            Peer::RamiePlain => "ramie-plain",
            Peer::RamieSpread => "ramie-spread",
            Peer::Tokio2 => "tokio2",
            Peer::TokioApart => "tokio-apart",
            Peer::May => "may",
            Peer::May2 => "may2",
            Peer::Smol => "smol",
            Peer::Go => "go",
            Peer::Go2 => "go2",
            Peer::Corosensei => "corosensei",
            Peer::CorosenseiLoop => "corosensei-loop",
            Peer::Tokio => "tokio",
            Peer::TokioNotify => "tokio-notify",
            Peer::TokioCell => "tokio-cell",
            Peer::Monoio => "monoio",
            Peer::Compio => "compio",
            Peer::Threads => "threads",
            Peer::ThreadsApart => "threads-apart",
            Peer::Raw => "raw",
            Peer::RawRegistered => "raw-registered",
        }
    }

    /// The features that its processes leave unused, as a value of `RAMIE_CAPS`.
    pub fn masked(self) -> &'static str {
        if self == Peer::RamiePlain { "-fixed_files" } else { "" }
    }

    /// A note for the readers of its figures.
    pub fn note(self, workload: Workload) -> &'static str {
        match (self, workload) {
            (Peer::Monoio, Workload::Shared(Shared::Switch(_) | Shared::Feed(_))) => {
                "  (no round-robin: the yielding task runs again)"
            }
            (Peer::Raw, Workload::Timers { .. }) => "  (a ring that waits, and nothing else)",
            (Peer::Raw | Peer::RamiePlain, _) => "  (files not registered)",
            (Peer::RamieSpread, _) => "  (spawned in a row)",
            (Peer::CorosenseiLoop, _) => "  (stacks mapped before the clock starts)",
            (Peer::Tokio, Workload::Shared(Shared::Ring(_))) => "  (by mpsc::channel)",
            (Peer::TokioNotify, _) => "  (by Notify)",
            (Peer::TokioCell | Peer::Monoio, Workload::Shared(Shared::Ring(_))) => {
                "  (by a waker in a cell)"
            }
            (
                Peer::RamieApart | Peer::TokioApart | Peer::ThreadsApart,
                Workload::Channel { .. },
            ) => "  (senders on one CPU, receivers on the other)",
            (Peer::Go | Peer::Go2, Workload::Channel { capacity: 0, .. }) => {
                "  (with room for all values)"
            }
            (Peer::May, Workload::RingChannel { .. }) => "  (unbounded: it has no other)",
            (Peer::Threads, Workload::Shared(Shared::Feed(_))) => "  (threads do not yield)",
            _ => "",
        }
    }

    /// Runs a workload once; `None` if this peer cannot run it.
    pub fn run(self, workload: Workload) -> Option<Sample> {
        match workload {
            Workload::Shared(shared) => self.run_shared(shared),
            Workload::Lock { .. } | Workload::Channel { .. } | Workload::RingChannel { .. } => {
                traffic::run(self, workload)
            }
            Workload::Cancel { .. }
            | Workload::Timeout { .. }
            | Workload::Scope { .. }
            | Workload::Timers { .. } => limits::run(self, workload),
            Workload::Effects { count } => effects::run(self, count),
            Workload::Transfer(_) => transfer::run(self, workload),
        }
    }

    fn run_shared(self, workload: Shared) -> Option<Sample> {
        match (self, workload.task()) {
            (Peer::Ramie, _) => ramie::run(workload),
            (_, Some(task)) => one_task::run(self, task),
            (Peer::Corosensei, _) => bare::run(workload),
            (Peer::CorosenseiLoop, _) => bare::run_loop(workload),
            (Peer::Tokio, _) => tokio::run(workload),
            (Peer::TokioNotify, _) => tokio_slots::run::<tokio_slots::Notified>(workload),
            (Peer::TokioCell, _) => tokio_slots::run::<tokio_slots::WakerCell>(workload),
            (Peer::Monoio, _) => monoio::run(workload),
            (Peer::Smol, _) => smol::run(workload),
            (Peer::Threads, _) => threads::run(workload),
            _ => None,
        }
    }
}

/// The sample of a workload that the library runs.
pub fn sample(cost: Result<Cost, WorkloadError>) -> Sample {
    cost.unwrap_or_else(|error| panic!("{error}")).into()
}
