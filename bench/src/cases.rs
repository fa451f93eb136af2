//! The cases and their targets, as data.

use crate::{peers::Peer, workload::Workload};

/// What a figure of Ramie's is held against.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At most so many times the peer's time.
    Ratio(Peer, f64),
    /// At most so many ns an op. Machines differ; ratios carry over better.
    Nanoseconds(f64),
    /// At most so many bytes a task.
    Bytes(f64),
}

/// A workload, who runs it, and what is asked of Ramie.
pub struct Case {
    pub name: &'static str,
    pub workload: Workload,
    pub peers: &'static [Peer],
    pub targets: &'static [Target],
}

use Peer::{Corosensei, CorosenseiLoop, Monoio, Ramie, Threads, Tokio, TokioCell, TokioNotify};
use Target::{Bytes, Nanoseconds, Ratio};

pub const CASES: &[Case] = &[
    Case {
        name: "switch",
        workload: Workload::Switch { count: 10_000_000 },
        peers: &[Ramie, Corosensei, Tokio, Monoio],
        targets: &[Ratio(Corosensei, 2.0)],
    },
    Case {
        name: "feed 2048x1000",
        workload: Workload::Feed { people: 2048, nutrients: 1000 },
        peers: &[Ramie, Corosensei, CorosenseiLoop, Tokio, Monoio, Threads],
        targets: &[Ratio(Corosensei, 1.2)],
    },
    Case {
        name: "feed 1024x10000",
        workload: Workload::Feed { people: 1024, nutrients: 10_000 },
        peers: &[Ramie, Corosensei, CorosenseiLoop, Tokio, Monoio, Threads],
        targets: &[Ratio(Corosensei, 1.2)],
    },
    Case {
        name: "ring 500x1000000",
        workload: Workload::Ring { size: 500, hops: 1_000_000 },
        peers: &[Ramie, Tokio, TokioNotify, TokioCell, Monoio, Threads],
        // Held against tokio's ordinary channel. The other two are shown beside it: what park and
        // unpark cost by tokio's own means, and by a waker cell that nobody would write.
        targets: &[Ratio(Tokio, 0.45), Nanoseconds(35.0)],
    },
    Case {
        name: "spawn 1000000",
        workload: Workload::Spawn { count: 1_000_000 },
        peers: &[Ramie, Monoio, Tokio, Threads],
        targets: &[Ratio(Monoio, 0.7), Nanoseconds(50.0)],
    },
    Case {
        name: "alive 1000000",
        workload: Workload::Alive { count: 1_000_000 },
        peers: &[Ramie, Tokio, Monoio, Corosensei],
        targets: &[Bytes(4608.0), Nanoseconds(4000.0)],
    },
];
