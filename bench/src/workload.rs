//! The workloads, and the result of one measurement.

use std::{fmt, str::FromStr, time::Duration};

use ramie_workloads::{Alive, Cost, Ring, Spawn, Workload as Shared};

use crate::{
    peers::Peer,
    transfer::{Medium, Plan},
};

/// The most threads that `spawn` starts. Linux allows 65,530 mappings of memory in a process, and a
/// thread takes four.
const THREADS_MAX: u32 = 15_000;

/// A workload with its parameters, as one word on a command line: `feed:2048:1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A workload that the program `ramie` has, too.
    Shared(Shared),
    /// Tasks that take a lock a number of times each; `held` across a yield.
    Lock { tasks: u64, count: u64, held: bool },
    /// A number of values through one channel; a capacity of 0 means unbounded.
    Channel { capacity: usize, senders: usize, receivers: usize, count: u64 },
    /// Effects that are performed and resumed with a value.
    Effects { count: u64 },
    /// Parked tasks that are cancelled and joined.
    Cancel { count: u64 },
    /// Calls that do not wait, each under a time limit.
    Timeout { count: u64 },
    /// Scopes of eight strands; the time of the spawns is subtracted.
    Scope { count: u64 },
    /// Sleepers; the result is the lateness of the latest, in ns.
    Timers { count: u64 },
    /// A token goes round a ring of channels.
    RingChannel { size: usize, hops: u64 },
    /// Pairs of strands, messages by pipe or socket.
    Transfer(Plan),
}

impl Workload {
    /// The divisor of the time.
    pub fn ops(self) -> u64 {
        match self {
            Workload::Shared(shared) => shared.ops(),
            Workload::RingChannel { hops, .. } => hops,
            Workload::Lock { tasks, count, .. } => tasks * count,
            Workload::Channel { count, .. } => count,
            Workload::Effects { count }
            | Workload::Cancel { count }
            | Workload::Timeout { count }
            | Workload::Scope { count } => count,
            Workload::Timers { .. } => 1,
            Workload::Transfer(plan) => plan.pairs * plan.messages,
        }
    }

    /// The workload cut to the size that a peer can run, and within seconds.
    pub fn cut_for(self, peer: Peer) -> Self {
        match (peer, self) {
            (Peer::Threads, Workload::Shared(Shared::Ring(Ring { size, hops, .. }))) => {
                Workload::Shared(Shared::ring(size, hops.min(200_000)))
            }
            (Peer::Threads, Workload::Shared(Shared::Spawn(Spawn { count }))) => {
                Workload::Shared(Shared::spawn(count.min(THREADS_MAX)))
            }
            (Peer::Threads, Workload::RingChannel { size, hops }) => {
                Workload::RingChannel { size, hops: hops.min(100_000) }
            }
            (Peer::Threads, Workload::Lock { tasks: tasks @ 2.., count, held: true }) => {
                Workload::Lock { tasks, count: count.min(1000), held: true }
            }
            (
                Peer::Threads | Peer::ThreadsApart | Peer::TokioApart | Peer::RamieApart,
                Workload::Channel { capacity: 1, senders, receivers, count },
            ) => Workload::Channel { capacity: 1, senders, receivers, count: count.min(100_000) },
            // Guards by mprotect take two mappings per stack, of vm.max_map_count (65,530) in all.
            (Peer::Corosensei, Workload::Shared(Shared::Alive(Alive { count }))) => {
                Workload::Shared(Shared::alive(count.min(30_000)))
            }
            _ => self,
        }
    }

    /// The workload with about a tenth of the work.
    pub fn quick(self) -> Self {
        match self {
            Workload::Shared(shared) => Workload::Shared(shared.tenth()),
            Workload::Lock { tasks, count, held } => {
                Workload::Lock { tasks, count: count / 10, held }
            }
            Workload::Channel { capacity, senders, receivers, count } => {
                Workload::Channel { capacity, senders, receivers, count: count / 10 }
            }
            Workload::RingChannel { size, hops } => Workload::RingChannel { size, hops: hops / 10 },
            Workload::Effects { count } => Workload::Effects { count: count / 10 },
            Workload::Cancel { count } => Workload::Cancel { count: count / 10 },
            Workload::Timeout { count } => Workload::Timeout { count: count / 10 },
            Workload::Scope { count } => Workload::Scope { count: count / 10 },
            Workload::Timers { count } => Workload::Timers { count: count / 10 },
            Workload::Transfer(plan) => {
                Workload::Transfer(Plan { messages: (plan.messages / 10).max(1), ..plan })
            }
        }
    }

    /// Whether a peer runs this on all CPUs rather than on one.
    pub fn is_parallel(self, peer: Peer) -> bool {
        match self {
            Workload::Lock { tasks: 2.., .. } | Workload::Channel { .. } => matches!(
                peer,
                Peer::Ramie2
                    | Peer::RamieApart
                    | Peer::Tokio2
                    | Peer::TokioApart
                    | Peer::May2
                    | Peer::Go2
                    | Peer::Threads
                    | Peer::ThreadsApart
            ),
            Workload::Transfer(plan) => plan.threads > 1,
            _ => false,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Shared(shared) => shared.fmt(f),
            Workload::Lock { tasks, count, held } => {
                write!(f, "lock:{tasks}:{count}:{}", u8::from(*held))
            }
            Workload::Channel { capacity, senders, receivers, count } => {
                write!(f, "channel:{capacity}:{senders}:{receivers}:{count}")
            }
            Workload::RingChannel { size, hops } => write!(f, "ring-channel:{size}:{hops}"),
            Workload::Effects { count } => write!(f, "effects:{count}"),
            Workload::Cancel { count } => write!(f, "cancel:{count}"),
            Workload::Timeout { count } => write!(f, "timeout:{count}"),
            Workload::Scope { count } => write!(f, "scope:{count}"),
            Workload::Timers { count } => write!(f, "timers:{count}"),
            Workload::Transfer(Plan { medium, pairs, messages, bytes, threads }) => {
                let name = match medium {
                    Medium::Pipe => "pipe",
                    Medium::SocketPair => "socketpair",
                };
                write!(f, "{name}:{pairs}:{messages}:{bytes}:{threads}")
            }
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = words.map(str::parse).collect();
        let numbers = numbers.map_err(|error| format!("{text}: {error}"))?;
        match (name, numbers.as_slice()) {
            ("lock", &[tasks, count, held]) => Ok(Workload::Lock { tasks, count, held: held != 0 }),
            ("channel", &[capacity, senders, receivers, count]) => {
                let [capacity, senders, receivers] =
                    [capacity, senders, receivers].map(|number| number as usize);
                Ok(Workload::Channel { capacity, senders, receivers, count })
            }
            ("effects", &[count]) => Ok(Workload::Effects { count }),
            ("cancel", &[count]) => Ok(Workload::Cancel { count }),
            ("timeout", &[count]) => Ok(Workload::Timeout { count }),
            ("scope", &[count]) => Ok(Workload::Scope { count }),
            ("timers", &[count]) => Ok(Workload::Timers { count }),
            ("ring-channel", &[size, hops]) => {
                Ok(Workload::RingChannel { size: size as usize, hops })
            }
            ("pipe", numbers) => transfer(Medium::Pipe, numbers, text),
            ("socketpair", numbers) => transfer(Medium::SocketPair, numbers, text),
            _ => text.parse().map(Workload::Shared),
        }
    }
}

fn transfer(medium: Medium, numbers: &[u64], text: &str) -> Result<Workload, String> {
    match *numbers {
        [pairs, messages, bytes, threads]
            if messages > 0 && (1..=4096).contains(&bytes) && threads > 0 =>
        {
            let [bytes, threads] = [bytes, threads].map(|number| number as usize);
            Ok(Workload::Transfer(Plan { medium, pairs, messages, bytes, threads }))
        }
        _ => Err(format!(
            "invalid workload `{text}`: expected pairs, messages, bytes (1 to 4,096) and threads"
        )),
    }
}

/// The result of one measurement.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// From before the first spawn to after the last join.
    pub time: Duration,
    /// The process's memory at its peak, beyond its memory before.
    pub bytes: u64,
    /// How often the kernel was entered through a ring, if the peer counts it.
    pub enters: u64,
}

impl Sample {
    pub fn timed(time: Duration) -> Self {
        Sample { time, bytes: 0, enters: 0 }
    }
}

impl From<Cost> for Sample {
    fn from(cost: Cost) -> Self {
        let bytes = cost.memory.map_or(0, |memory| memory.grown_bytes);
        Sample { bytes, ..Sample::timed(cost.time) }
    }
}

/// The resident memory of this process, in bytes.
pub fn resident_bytes() -> u64 {
    ramie_workloads::resident_bytes().expect("Linux has /proc")
}
