//! Waiting until every strand has started, without waiting for strands that cannot start.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use super::strands::StrandKind;

/// One caller waits for many strands to arrive and later releases them all.
///
/// If a strand cannot start (no memory for its stack), its closure is dropped, and with it its
/// [`Ticket`]. The strand then counts as absent, so the caller's wait still ends.
pub(crate) struct Gate<S: StrandKind> {
    missing: AtomicUsize,
    absent: AtomicUsize,
    is_open: AtomicBool,
    caller: S::Peer,
}

impl<S: StrandKind> Gate<S> {
    /// A gate for `count` strands. The calling strand is the one that waits for them.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        Arc::new(Gate {
            missing: AtomicUsize::new(count),
            absent: AtomicUsize::new(0),
            is_open: AtomicBool::new(false),
            caller: S::current(),
        })
    }

    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket<S> {
        Ticket { gate: Arc::clone(self), has_arrived: false }
    }

    /// Parks the caller until every strand has arrived or is absent; returns the number of absent
    /// ones.
    pub(crate) fn wait(&self) -> usize {
        // Acquire: pairs with the release in `count_one`.
        while self.missing.load(Ordering::Acquire) != 0 {
            S::park();
        }
        self.absent.load(Ordering::Relaxed)
    }

    /// Opens the gate and unparks `peers` in order.
    pub(crate) fn open<'a>(&self, peers: impl Iterator<Item = &'a S::Peer>) {
        self.is_open.store(true, Ordering::Release);
        peers.for_each(S::unpark);
    }

    fn count_one(&self) {
        // Release: pairs with the acquire in `wait`.
        if self.missing.fetch_sub(1, Ordering::Release) == 1 {
            S::unpark(&self.caller);
        }
    }
}

/// A strand's means to report its arrival.
pub(crate) struct Ticket<S: StrandKind> {
    gate: Arc<Gate<S>>,
    has_arrived: bool,
}

impl<S: StrandKind> Ticket<S> {
    /// Reports that the strand has arrived.
    #[inline]
    pub(crate) fn arrive(&mut self) {
        self.has_arrived = true;
        self.gate.count_one();
    }

    /// Parks the strand until the gate is open.
    #[inline]
    pub(crate) fn pass(&self) {
        while !self.gate.is_open.load(Ordering::Acquire) {
            S::park();
        }
    }
}

impl<S: StrandKind> Drop for Ticket<S> {
    fn drop(&mut self) {
        if !self.has_arrived {
            self.gate.absent.fetch_add(1, Ordering::Relaxed);
            self.gate.count_one();
        }
    }
}
