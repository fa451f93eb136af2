//! Pairs of strands, one of which writes messages into a pipe or a socket that the other reads.
//!
//! The limit is a loop over a bare ring, without fibers ([`raw`]). Every reader compares every byte
//! with the expected one, in a buffer as large as a message.

mod blocking;
mod compio;
mod monoio;
mod raw;
mod smol;
mod tokio;

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use ramie_workloads::{
    Load,
    messages::{Buffer, MessageCheck, PairPlan, Source},
};

use crate::{
    peers::Peer,
    workload::{Sample, Workload},
};

/// The kind of channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    Pipe,
    /// Unix stream sockets.
    SocketPair,
}

/// The parameters of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub medium: Medium,
    pub pairs: u64,
    /// Per pair.
    pub messages: u64,
    /// The length of a message.
    pub bytes: usize,
    pub threads: usize,
}

impl Plan {
    fn load(self) -> Load {
        let [pairs, messages] = [self.pairs, self.messages].map(|number| number as u32);
        Load { pairs, messages, bytes: self.bytes as u32 }
    }

    /// The messages of one of the pairs.
    fn of(self, pair: u64) -> PairPlan {
        PairPlan { pair, messages: self.messages, bytes: self.bytes }
    }
}

pub fn run(peer: Peer, workload: Workload) -> Option<Sample> {
    let Workload::Transfer(plan) = workload else { return None };
    match peer {
        Peer::Raw => Some(raw::run(plan, raw::Files::Plain)),
        Peer::RawRegistered => Some(raw::run(plan, raw::Files::Registered)),
        Peer::Ramie | Peer::RamiePlain => Some(blocking::run_fibers(plan)),
        Peer::RamieSpread => Some(blocking::run_spread_fibers(plan)),
        Peer::Tokio => Some(tokio::run(plan)),
        Peer::Monoio => monoio::run(plan),
        Peer::Compio => Some(compio::run(plan)),
        Peer::Smol => Some(smol::run(plan)),
        Peer::May => Some(blocking::run_coroutines(plan)),
        Peer::Threads => Some(blocking::run_threads(plan)),
        _ => None,
    }
}

/// Runs each thread's share of the pairs, for a peer whose rings or executors know one thread only.
/// Measures the shares alone: as with Ramie's workers, the threads and the values of `prepare`
/// exist before the clock starts, and are dropped after it has stopped.
fn on_each_thread<T, R: Send>(
    plan: Plan,
    prepare: impl Fn() -> T + Sync,
    share: impl Fn(&mut T, Vec<u64>) -> R + Sync,
) -> (Duration, Vec<R>) {
    let pairs_of = |thread: usize| (thread as u64..plan.pairs).step_by(plan.threads).collect();
    let (ready, done) = (Barrier::new(plan.threads), Barrier::new(plan.threads));
    let run = |thread: usize| {
        let mut prepared = prepare();
        ready.wait();
        let start = Instant::now();
        let result = share(&mut prepared, pairs_of(thread));
        done.wait();
        (start.elapsed(), result)
    };
    thread::scope(|s| {
        let run = &run;
        let others: Vec<_> =
            (1..plan.threads).map(|thread| s.spawn(move || run(thread).1)).collect();
        let (time, result) = run(0);
        let mut results = vec![result];
        results.extend(others.into_iter().map(|other| other.join().expect("no panic")));
        (time, results)
    })
}
