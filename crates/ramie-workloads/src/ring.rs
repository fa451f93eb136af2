//! A token goes round a ring of strands: each strand wakes the next and waits for its turn.
//!
//! Each strand has one slot. Its predecessor puts the token there and unparks the strand, and only
//! the strand takes the token out. There is one token, so a slot is never written while it is full.
//!
//! | slot | changed by | for |
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

use clap::{Args, ValueEnum};

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
    #[arg(required = false, required_unless_present = "preset", conflicts_with = "preset")]
    #[arg(default_value_if("preset", "quasar", "500"))]
    pub size: u32,
    /// Number of hops, in all
    #[arg(long, value_name = "H", value_parser = hops, allow_negative_numbers = true)]
    #[arg(required = false, required_unless_present = "preset", conflicts_with = "preset")]
    #[arg(default_value_if("preset", "quasar", "10000"))]
    pub hops: u64,
    /// Size and hops of a published benchmark
    #[arg(long, value_enum, value_name = "NAME")]
    pub preset: Option<RingPreset>,
}

/// A published benchmark of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum RingPreset {
    /// 500 strands, 10,000 hops: the ring of Quasar, a library of fibers for the JVM
    Quasar,
}

/// Limits the hops to 32 bits, because more would take minutes at best.
fn hops(text: &str) -> Result<u64, String> {
    count::<u32>(text).map(u64::from)
}

const EMPTY: u64 = 0;
const END: u64 = u64::MAX;
/// The token's value before the first hop: 1 more than the hops made.
const START: u64 = 1;

/// The slot of a strand.
trait Slot: Send + Sync + 'static {
    fn empty() -> Self;
    fn token(&self) -> &AtomicU64;

    #[inline(always)]
    fn put<S: StrandKind>(&self, owner: &S::Peer, token: u64) {
        // Release: the taker's Acquire load makes the sender's writes visible.
        self.token().store(token, Ordering::Release);
        S::unpark(owner);
    }

    #[inline(always)]
    fn take<S: StrandKind>(&self) -> u64 {
        loop {
            let token = self.token().load(Ordering::Acquire);
            if token != EMPTY {
                self.token().store(EMPTY, Ordering::Relaxed);
                return token;
            }
            S::park();
        }
    }
}

/// For strands on one CPU, which share its cache.
struct Packed(AtomicU64);

impl Slot for Packed {
    fn empty() -> Self {
        Packed(AtomicU64::new(EMPTY))
    }

    #[inline(always)]
    fn token(&self) -> &AtomicU64 {
        &self.0
    }
}

/// Aligned to a cache line, so that neighbours on two CPUs do not share one.
#[repr(align(64))]
struct Padded(AtomicU64);

impl Slot for Padded {
    fn empty() -> Self {
        Padded(AtomicU64::new(EMPTY))
    }

    #[inline(always)]
    fn token(&self) -> &AtomicU64 {
        &self.0
    }
}

/// The slots, and the strands that own them. The owners are set before the first token.
struct Nodes<S: StrandKind, T> {
    slots: Vec<T>,
    owners: OnceLock<Vec<S::Peer>>,
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

    /// Runs the workload on strands of this number of workers, and checks its result.
    pub fn cost<S: StrandKind>(&self, workers: usize) -> Result<Cost, WorkloadError> {
        match S::IS_COOPERATIVE && workers == 1 {
            true => self.cost_with::<S, Packed>(),
            false => self.cost_with::<S, Padded>(),
        }
    }

    fn cost_with<S: StrandKind, T: Slot>(&self) -> Result<Cost, WorkloadError> {
        let size = self.size as usize;
        let watch = Stopwatch::start();
        let nodes = make_nodes::<S, T>(size)?;
        let gate = Gate::<S>::new(size);
        let spawned = spawn_all::<S, _, _>(size, |index| {
            let (nodes, mut ticket, share) = (Arc::clone(&nodes), gate.ticket(), self.share(index));
            move || {
                ticket.arrive();
                drop(ticket);
                walk(&nodes, index, &share)
            }
        });
        let strands = spawned.map_err(|failure| {
            end_early::<S, T>(&nodes.slots, failure.peers());
            failure.give_up()
        })?;
        if gate.wait() > 0 {
            end_early::<S, T>(&nodes.slots, strands.iter().map(S::peer));
        } else {
            let owners =
                nodes.owners.get_or_init(|| strands.iter().map(S::peer).cloned().collect());
            nodes.slots[0].put::<S>(&owners[0], START);
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

fn make_nodes<S: StrandKind, T: Slot>(size: usize) -> Result<Arc<Nodes<S, T>>, WorkloadError> {
    let mut slots = Vec::new();
    slots.try_reserve_exact(size).map_err(|error| {
        WorkloadError::new(format!(
            "no memory for a ring of {size} ({error}); ask for a smaller ring"
        ))
    })?;
    slots.extend((0..size).map(|_| T::empty()));
    Ok(Arc::new(Nodes { slots, owners: OnceLock::new() }))
}

/// Runs one strand: returns how often it sent, and the last token it received.
fn walk<S: StrandKind, T: Slot>(nodes: &Nodes<S, T>, index: usize, share: &Share) -> (u64, u64) {
    if share.receives == 0 {
        return (0, EMPTY);
    }
    let (own, next) = (&nodes.slots[index], (index + 1) % nodes.slots.len());
    let mut token = own.take::<S>();
    // A ring that ends early has no first token, so no later token is `END`.
    let (false, Some(owners)) = (token == END, nodes.owners.get()) else { return (0, EMPTY) };
    if share.sends > 0 {
        // A copy and a count-down, because every value in use here is saved at each switch.
        let (next, owner) = (&nodes.slots[next], owners[next].clone());
        let mut sends_left = share.sends - 1;
        while sends_left != 0 {
            next.put::<S>(&owner, token + 1);
            token = own.take::<S>();
            sends_left -= 1;
        }
        next.put::<S>(&owner, token + 1);
        if share.receives > share.sends {
            token = own.take::<S>();
        }
    }
    (share.sends, token)
}

/// Ends the strands that wait for a token, because other strands could not be spawned.
fn end_early<'a, S: StrandKind, T: Slot>(slots: &[T], owners: impl Iterator<Item = &'a S::Peer>) {
    for (slot, owner) in slots.iter().zip(owners) {
        slot.put::<S>(owner, END);
    }
}

#[cfg(test)]
mod tests {
    use super::Ring;
    use crate::{OnFibers, OnThreads};

    #[test]
    fn a_token_makes_every_hop_on_rings_of_any_size() {
        for (size, hops) in [(1, 1), (1, 9), (2, 1), (5, 3), (5, 4), (5, 5), (5, 12), (40, 1000)] {
            let ring = Ring { size, hops, preset: None };
            ring.cost::<OnThreads>(1).unwrap();
            for workers in [1, 2] {
                let runtime = ramie::Runtime::builder().workers(workers).build().unwrap();
                runtime.run(|| ring.cost::<OnFibers>(workers)).unwrap();
            }
        }
    }

    #[test]
    fn shares_add_up_to_the_hops() {
        for (size, hops) in [(1, 1), (1, 9), (5, 3), (5, 5), (5, 12), (500, 10_000)] {
            let ring = Ring { size, hops, preset: None };
            let shares: Vec<_> = (0..size as usize).map(|index| ring.share(index)).collect();
            assert_eq!(shares.iter().map(|share| share.sends).sum::<u64>(), hops);
            // The first token, which the caller sends, is received, too.
            assert_eq!(shares.iter().map(|share| share.receives).sum::<u64>(), hops + 1);
        }
    }
}
