//! A token goes round a ring of strands: each strand wakes the next and waits for its turn.
//!
//! Each strand has one slot. Its predecessor puts the token there and unparks the strand, and only
//! the strand takes the token out. There is one token, so a slot is never written while it is full.
//!
//! | slot | left by | for |
//! |---|---|---|
//! | `EMPTY` | the predecessor (or the caller, for the first hop and to end early) | token |
//! | token | its owner | `EMPTY` |
//!
//! The race to fear: the unpark comes before the park. An early unpark leaves a permit, so the park
//! returns at once and the strand reads the slot again.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use clap::Args;

use crate::{
    Cost, WorkloadError,
    count::count,
    gate::Gate,
    strands::{StrandKind, join_all, spawn_all},
    usage::Stopwatch,
};

/// R strands pass a token round a ring, H hops in all: the cost of waking another strand
///
/// Strands wake each other by park and unpark. One op is one hop. The time includes spawning and
/// joining the strands. The hops of all strands and the token's count must both be H.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Args)]
#[group(skip)]
pub struct Ring {
    /// Number of strands in the ring
    #[arg(long, value_name = "R", value_parser = count::<u32>, allow_negative_numbers = true)]
    pub size: u32,
    /// Number of hops, in all
    #[arg(long, value_name = "H", value_parser = hops, allow_negative_numbers = true)]
    pub hops: u64,
}

/// Limits the hops to 32 bits, because more would take minutes at best.
fn hops(text: &str) -> Result<u64, String> {
    count::<u32>(text).map(u64::from)
}

const EMPTY: u64 = 0;
const END: u64 = u64::MAX;
/// The token's value before the first hop: 1 more than the hops made.
const START: u64 = 1;

/// Aligned to a cache line, so that neighbours on two CPUs do not share one.
#[repr(align(64))]
struct Node<S: StrandKind> {
    slot: AtomicU64,
    peer: OnceLock<S::Peer>,
}

impl<S: StrandKind> Node<S> {
    fn put(&self, token: u64) {
        // Release: the taker's Acquire load makes the sender's writes visible.
        self.slot.store(token, Ordering::Release);
        if let Some(peer) = self.peer.get() {
            S::unpark(peer);
        }
    }

    #[inline]
    fn take(&self) -> u64 {
        loop {
            let token = self.slot.load(Ordering::Acquire);
            if token != EMPTY {
                self.slot.store(EMPTY, Ordering::Relaxed);
                return token;
            }
            S::park();
        }
    }
}

/// How often one strand receives and sends.
struct Share {
    receives: u64,
    sends: u64,
}

impl Ring {
    pub(crate) fn numbers(&self) -> Vec<(&'static str, u64)> {
        vec![("size", self.size.into()), ("hops", self.hops)]
    }

    /// Hop `h`, counted from 1, goes from strand `h - 1` to strand `h`, modulo the size.
    fn share(&self, index: usize) -> Share {
        let (size, index) = (u64::from(self.size), index as u64);
        let sends = self.hops.saturating_sub(index).div_ceil(size);
        let is_last = self.hops % size == index;
        Share { receives: sends + u64::from(is_last), sends }
    }

    /// Runs the workload on strands and checks its result.
    pub fn cost<S: StrandKind>(&self) -> Result<Cost, WorkloadError> {
        let size = self.size as usize;
        let watch = Stopwatch::start();
        let nodes = make_nodes::<S>(size)?;
        let gate = Gate::<S>::new(size);
        let spawned = spawn_all::<S, _, _>(size, |index| {
            let (nodes, mut ticket, share) = (Arc::clone(&nodes), gate.ticket(), self.share(index));
            move || {
                ticket.arrive();
                drop(ticket);
                walk(&nodes[index], &nodes[(index + 1) % nodes.len()], &share)
            }
        });
        let strands = spawned.map_err(|failure| {
            end_early(&nodes, failure.peers());
            failure.give_up()
        })?;
        if gate.wait() > 0 {
            end_early(&nodes, strands.iter().map(S::peer));
        } else {
            for (node, handle) in nodes.iter().zip(&strands) {
                let _ = node.peer.set(S::peer(handle).clone());
            }
            nodes[0].put(START);
        }
        let (mut hops, mut last) = (0, START);
        join_all::<S, (u64, u64)>(strands, |(sent, token)| {
            hops += sent;
            last = last.max(token);
        })?;
        self.check(hops, last - START, watch.stop())
    }

    fn check(&self, hops: u64, counted: u64, cost: Cost) -> Result<Cost, WorkloadError> {
        if (hops, counted) == (self.hops, self.hops) {
            return Ok(cost);
        }
        Err(WorkloadError::wrong(format!(
            "ring went wrong: {hops} hops were made and the token counted {counted}, not {}",
            self.hops
        )))
    }
}

fn make_nodes<S: StrandKind>(size: usize) -> Result<Arc<[Node<S>]>, WorkloadError> {
    let mut nodes = Vec::new();
    nodes.try_reserve_exact(size).map_err(|error| {
        WorkloadError::new(format!(
            "no memory for a ring of {size} ({error}); ask for a smaller ring"
        ))
    })?;
    nodes.extend((0..size).map(|_| Node { slot: AtomicU64::new(EMPTY), peer: OnceLock::new() }));
    Ok(nodes.into())
}

/// Runs one strand: returns how often it sent, and the last token it received.
fn walk<S: StrandKind>(own: &Node<S>, next: &Node<S>, share: &Share) -> (u64, u64) {
    let mut token = EMPTY;
    for received in 0..share.receives {
        token = own.take();
        if token == END {
            return (received, EMPTY);
        }
        if received < share.sends {
            next.put(token + 1);
        }
    }
    (share.sends, token)
}

/// Ends the strands that wait for a token, because other strands could not be spawned.
fn end_early<'a, S: StrandKind>(nodes: &[Node<S>], peers: impl Iterator<Item = &'a S::Peer>) {
    for (node, peer) in nodes.iter().zip(peers) {
        node.slot.store(END, Ordering::Release);
        S::unpark(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::Ring;

    #[test]
    fn shares_add_up_to_the_hops() {
        for (size, hops) in [(1, 1), (1, 9), (5, 3), (5, 5), (5, 12), (500, 10_000)] {
            let ring = Ring { size, hops };
            let shares: Vec<_> = (0..size as usize).map(|index| ring.share(index)).collect();
            assert_eq!(shares.iter().map(|share| share.sends).sum::<u64>(), hops);
            // The first token, which the caller sends, is received, too.
            assert_eq!(shares.iter().map(|share| share.receives).sum::<u64>(), hops + 1);
        }
    }
}
