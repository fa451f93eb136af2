//! The workloads, written for each peer as its experts would.

mod bare;
mod monoio;
mod ramie;
mod threads;
mod tokio;

use crate::workload::{Sample, Workload};

/// A runtime, or what stands in for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Peer {
    Ramie,
    Corosensei,
    Tokio,
    Monoio,
    Threads,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Peer::Ramie => "ramie",
            Peer::Corosensei => "corosensei",
            Peer::Tokio => "tokio",
            Peer::Monoio => "monoio",
            Peer::Threads => "threads",
        }
    }

    /// What a reader of a figure must know.
    pub fn note(self, workload: Workload) -> &'static str {
        match (self, workload) {
            (Peer::Monoio, Workload::Switch { .. } | Workload::Feed { .. }) => {
                "  (no round-robin: the yielding task runs again)"
            }
            (Peer::Threads, Workload::Feed { .. }) => "  (threads do not yield)",
            _ => "",
        }
    }

    /// Runs a workload once, or says that this peer has no such thing.
    pub fn run(self, workload: Workload) -> Option<Sample> {
        match self {
            Peer::Ramie => Some(ramie::run(workload)),
            Peer::Corosensei => bare::run(workload),
            Peer::Tokio => Some(tokio::run(workload)),
            Peer::Monoio => Some(monoio::run(workload)),
            Peer::Threads => threads::run(workload),
        }
    }
}
