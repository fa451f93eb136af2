//! Counts of a ring, which other threads may read while the ring is in use.
//!
//! Each count has one writer, so it is incremented by a load and a store instead of an atomic
//! addition. No two rings share a cache line. The counts of dropped rings are added up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A count with one writer.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    #[inline(always)]
    pub(super) fn add_one(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// The counts that the worker writes. Aligned to two cache lines, because the CPU prefetches them
/// in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct WorkerCounts {
    /// The number of times that the worker entered the kernel.
    pub(super) enters: Count,
    /// The number of ops submitted through the ring.
    pub(super) ops: Count,
}

/// The counts that the sidecar writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct SidecarCounts {
    pub(super) enters: Count,
}

/// The counts of one ring.
#[derive(Debug, Default)]
pub(super) struct RingCounts {
    pub(super) worker: WorkerCounts,
    pub(super) sidecar: SidecarCounts,
}

/// The sums over all rings of this process, open and dropped, since the process began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingTotals {
    /// The number of calls of io_uring_enter(2).
    pub enters: u64,
    /// The number of ops submitted through rings, without the rings' own entries (wakes, cancel
    /// requests, retries).
    pub ops: u64,
    /// The number of rings that are open now.
    pub open: usize,
}

/// The open rings, and the sums of the dropped ones.
struct Census {
    open: Vec<Arc<RingCounts>>,
    dropped: RingTotals,
}

static CENSUS: Mutex<Census> =
    Mutex::new(Census { open: Vec::new(), dropped: RingTotals { enters: 0, ops: 0, open: 0 } });

fn census() -> MutexGuard<'static, Census> {
    CENSUS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RingTotals {
    fn plus(self, counts: &RingCounts) -> Self {
        let RingCounts { worker, sidecar } = counts;
        let enters = worker.enters.0.load(Relaxed) + sidecar.enters.0.load(Relaxed);
        let ops = worker.ops.0.load(Relaxed);
        RingTotals { enters: self.enters + enters, ops: self.ops + ops, open: self.open }
    }
}

impl RingCounts {
    /// Makes the counts of a new ring, which [`ring_totals`] includes from now on.
    pub(super) fn of_new_ring() -> Arc<Self> {
        let counts = Arc::new(RingCounts::default());
        census().open.push(Arc::clone(&counts));
        counts
    }

    /// Adds the counts to those of the dropped rings. Called when no thread writes to them any
    /// more.
    pub(super) fn retire(counts: &Arc<Self>) {
        let mut census = census();
        let place = census.open.iter().position(|open| Arc::ptr_eq(open, counts));
        if let Some(place) = place {
            census.open.swap_remove(place);
            census.dropped = census.dropped.plus(counts);
        }
    }
}

/// Adds up the counts of all rings of this process. The counts of rings that other threads use may
/// be a few operations old.
pub(crate) fn ring_totals() -> RingTotals {
    let census = census();
    let totals = census.open.iter().fold(census.dropped, |sum, counts| sum.plus(counts));
    RingTotals { open: census.open.len(), ..totals }
}
