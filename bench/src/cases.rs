//! The cases and their targets, as data.

use ramie_workloads::{TaskCall, Workload as Shared};

use crate::{
    peers::Peer,
    transfer::{Medium, Plan},
    workload::Workload,
};

/// The limit of a figure of Ramie's.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At most this multiple of the peer's time.
    Ratio(Peer, f64),
    /// The first row, one of Ramie's, takes at most this multiple of the second row's time.
    Between(Peer, Peer, f64),
    /// At most this multiple of the time of the fastest of those peers that have a row.
    Best(Peer, &'static [Peer], f64),
    /// At most this multiple of the peer's entries into the kernel.
    Enters(Peer, f64),
    /// At most this number of ns per op. Machines differ, so ratios carry over better.
    Nanoseconds(f64),
    /// At most this number of bytes per task.
    Bytes(f64),
}

/// A workload, the peers that run it, and Ramie's targets.
pub struct Case {
    pub name: &'static str,
    pub workload: Workload,
    pub peers: &'static [Peer],
    pub targets: &'static [Target],
}

use Peer::{
    Compio, Corosensei, CorosenseiLoop, Go, Go2, May, May2, Monoio, Ramie, Ramie2, RamieApart,
    RamiePlain, RamieSpread, Raw, RawRegistered, Threads, ThreadsApart, Tokio, Tokio2, TokioApart,
    TokioCell, TokioNotify,
};
use Target::{Best, Between, Bytes, Enters, Nanoseconds, Ratio};

pub const CASES: &[Case] = &[
    Case {
        name: "switch",
        workload: Workload::Shared(Shared::switch(10_000_000)),
        peers: &[Ramie, Corosensei, Tokio, Monoio],
        targets: &[Ratio(Corosensei, 2.0)],
    },
    Case {
        name: "feed 2048x1000",
        workload: Workload::Shared(Shared::feed(2048, 1000)),
        peers: &[Ramie, Corosensei, CorosenseiLoop, Tokio, Monoio, Threads],
        targets: &[Ratio(Corosensei, 1.2)],
    },
    Case {
        name: "feed 1024x10000",
        workload: Workload::Shared(Shared::feed(1024, 10_000)),
        peers: &[Ramie, Corosensei, CorosenseiLoop, Tokio, Monoio, Threads],
        targets: &[Ratio(Corosensei, 1.2)],
    },
    Case {
        name: "ring 500x1000000",
        workload: Workload::Shared(Shared::ring(500, 1_000_000)),
        peers: &[Ramie, Tokio, TokioNotify, TokioCell, Monoio, Threads],
        // The target refers to tokio's ordinary channel. The other two rows are for comparison:
        // park and unpark by tokio's own means, and by a waker in a cell, which no program would
        // use.
        targets: &[Ratio(Tokio, 0.45), Nanoseconds(35.0)],
    },
    Case {
        name: "spawn 1000000",
        workload: Workload::Shared(Shared::spawn(1_000_000)),
        peers: &[Ramie, Monoio, Tokio, Threads],
        targets: &[Ratio(Monoio, 0.7), Nanoseconds(50.0)],
    },
    Case {
        name: "alive 1000000",
        workload: Workload::Shared(Shared::alive(1_000_000)),
        peers: &[Ramie, Tokio, Monoio, Corosensei],
        targets: &[Bytes(4608.0), Nanoseconds(4000.0)],
    },
    Case {
        name: "basic 100",
        workload: Workload::Shared(Shared::basic(100, TaskCall::Medium)),
        peers: &[Ramie, Corosensei, May, Tokio],
        // A yield takes two switches, and a switch at most twice the time of the bare loop's.
        targets: &[Ratio(Corosensei, 4.0)],
    },
    Case {
        name: "recurse 1000",
        workload: Workload::Shared(Shared::recurse(1000)),
        peers: &[Ramie, Corosensei, May, Tokio],
        targets: &[Ratio(Corosensei, 1.1)],
    },
    Case {
        name: "recurse2 1000",
        workload: Workload::Shared(Shared::recurse2(1000)),
        peers: &[Ramie, Corosensei, May, Tokio],
        targets: &[Ratio(Corosensei, 1.5)],
    },
    Case {
        name: "effects",
        workload: Workload::Effects { count: 10_000_000 },
        peers: &[Ramie, Corosensei],
        targets: &[],
    },
    Case {
        name: "cancel 100000 parked",
        workload: Workload::Cancel { count: 100_000 },
        peers: &[Ramie, Tokio],
        targets: &[Nanoseconds(1000.0)],
    },
    Case {
        name: "cancel: a limit",
        workload: Workload::Timeout { count: 10_000_000 },
        peers: &[Ramie, Tokio],
        targets: &[Nanoseconds(60.0)],
    },
    Case {
        name: "cancel: a scope of 8",
        workload: Workload::Scope { count: 100_000 },
        peers: &[Ramie],
        // In addition to its eight spawns.
        targets: &[Nanoseconds(200.0)],
    },
    Case {
        name: "timers 1000000",
        workload: Workload::Timers { count: 1_000_000 },
        peers: &[Ramie, Raw],
        // The lateness of the latest one, on an idle machine. The bare loop's row shows whether the
        // machine is idle.
        targets: &[Nanoseconds(1_000_000.0)],
    },
    Case {
        name: "ring-channel 500x1000000",
        workload: Workload::RingChannel { size: 500, hops: 1_000_000 },
        peers: &[Ramie, Tokio, May, Go, Threads],
        targets: &[Nanoseconds(45.0)],
    },
    Case {
        name: "lock uncontended",
        workload: Workload::Lock { tasks: 1, count: 10_000_000, held: false },
        peers: &[Ramie, Threads, Tokio, May],
        targets: &[Ratio(Threads, 1.5)],
    },
    Case {
        name: "lock 64",
        workload: Workload::Lock { tasks: 64, count: 20_000, held: false },
        peers: LOCK_PEERS,
        targets: LOCK_TARGETS,
    },
    Case {
        name: "lock 64, held across a yield",
        workload: Workload::Lock { tasks: 64, count: 10_000, held: true },
        peers: LOCK_PEERS,
        targets: LOCK_TARGETS,
    },
    channel("channel bounded 1, 1:1", 1, 1, 1),
    channel("channel bounded 1, 8:1", 1, 8, 1),
    channel("channel bounded 1, 8:8", 1, 8, 8),
    channel("channel bounded 64, 1:1", 64, 1, 1),
    channel("channel bounded 64, 8:1", 64, 8, 1),
    channel("channel bounded 64, 8:8", 64, 8, 8),
    channel("channel unbounded, 1:1", 0, 1, 1),
    channel("channel unbounded, 8:1", 0, 8, 1),
    channel("channel unbounded, 8:8", 0, 8, 8),
    transfer("pipe T=1", Medium::Pipe, 1),
    transfer("pipe T=2", Medium::Pipe, 2),
    transfer("socketpair T=1", Medium::SocketPair, 1),
    transfer("socketpair T=2", Medium::SocketPair, 2),
];

const LOCK_PEERS: &[Peer] = &[Ramie, Ramie2, RamieApart, Threads, Tokio, Tokio2, May, May2];
const LOCK_TARGETS: &[Target] = &[
    Ratio(Threads, 1.0),
    Ratio(Tokio, 1.0),
    Ratio(May, 1.0),
    Between(Ramie2, Threads, 1.0),
    Between(Ramie2, Tokio2, 1.0),
    Between(Ramie2, May2, 1.0),
    Between(RamieApart, Threads, 1.0),
    Between(RamieApart, Tokio2, 1.0),
    Between(RamieApart, May2, 1.0),
];

/// Targets: ahead of each peer on one worker, hardly behind the best on two. A peer without such a
/// channel has no row.
const CHANNEL_TARGETS: &[Target] = &[
    Ratio(Threads, 1.0),
    Ratio(Tokio, 1.0),
    Ratio(May, 1.0),
    Ratio(Go, 1.0),
    Between(Ramie2, Threads, 1.5),
    Between(Ramie2, Tokio2, 1.5),
    Between(Ramie2, May2, 1.5),
    Between(Ramie2, Go2, 1.5),
    // Compares rows that are kept apart, and also threads that the kernel may place on one CPU.
    Best(RamieApart, &[ThreadsApart, TokioApart], 1.5),
    Between(RamieApart, Threads, 1.5),
];

const fn channel(name: &'static str, capacity: usize, senders: usize, receivers: usize) -> Case {
    let peers: &[Peer] = match (capacity, receivers) {
        (0, 1) => &[
            Ramie,
            Ramie2,
            RamieApart,
            ThreadsApart,
            TokioApart,
            Threads,
            Tokio,
            Tokio2,
            May,
            May2,
            Go,
            Go2,
        ],
        (0, _) => &[Ramie, Ramie2, RamieApart, ThreadsApart, Threads, May, May2, Go, Go2],
        (_, 1) => {
            &[Ramie, Ramie2, RamieApart, ThreadsApart, TokioApart, Threads, Tokio, Tokio2, Go, Go2]
        }
        _ => &[Ramie, Ramie2, RamieApart, ThreadsApart, Threads, Go, Go2],
    };
    let workload = Workload::Channel { capacity, senders, receivers, count: 1_000_000 };
    Case { name, workload, peers, targets: CHANNEL_TARGETS }
}

/// Targets: at the limit of a loop without fibers, and ahead of each peer.
const TRANSFER_TARGETS: &[Target] = &[
    // With registered files against with registered files, and without against without.
    Ratio(RawRegistered, 1.08),
    Between(RamiePlain, Raw, 1.08),
    // Includes the time until both workers have their half.
    Between(RamieSpread, RawRegistered, 1.1),
    Enters(RawRegistered, 1.05),
    Ratio(Tokio, 1.0),
    Ratio(Monoio, 1.0),
    Ratio(Compio, 1.0),
    Ratio(May, 1.0),
    Ratio(Threads, 1.0),
];

const fn transfer(name: &'static str, medium: Medium, threads: usize) -> Case {
    let peers: &[Peer] = match (medium, threads) {
        (Medium::Pipe, 1) => &[Ramie, RawRegistered, RamiePlain, Raw, Tokio, Compio, May, Threads],
        (Medium::Pipe, _) => {
            &[Ramie, RamieSpread, RawRegistered, RamiePlain, Raw, Tokio, Compio, May, Threads]
        }
        (Medium::SocketPair, _) => {
            &[Ramie, RawRegistered, RamiePlain, Raw, Tokio, Monoio, Compio, May, Threads]
        }
    };
    let plan = Plan { medium, pairs: 48, messages: 10_000, bytes: 1024, threads };
    Case { name, workload: Workload::Transfer(plan), peers, targets: TRANSFER_TARGETS }
}
