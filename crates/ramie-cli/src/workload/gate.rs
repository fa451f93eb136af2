//! Waiting until every strand has started, without waiting for strands that cannot start.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use super::strands::Strands;

/// One caller waits for many strands to arrive and later releases them all.
///
/// If a strand cannot start (no memory for its stack), its closure is dropped, and with it its
/// [`Ticket`]. The strand then counts as absent, so the caller's wait still ends.
pub(super) struct Gate<S: Strands> {
    missing: AtomicUsize,
    absent: AtomicUsize,
    is_open: AtomicBool,
    caller: S::Peer,
}

impl<S: Strands> Gate<S> {
    /// A gate for `count` strands. The calling strand is the one that waits for them.
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Gate {
            missing: AtomicUsize::new(count),
            absent: AtomicUsize::new(0),
            is_open: AtomicBool::new(false),
            caller: S::current(),
        })
    }

    pub(super) fn ticket(self: &Arc<Self>) -> Ticket<S> {
        Ticket { gate: Arc::clone(self), is_used: false }
    }

    /// Parks the caller until every strand has arrived or is absent; returns the number of absent
    /// ones.
    pub(super) fn wait(&self) -> usize {
        // Acquire: pairs with the release in `Ticket::drop`.
        while self.missing.load(Ordering::Acquire) != 0 {
            S::park();
        }
        self.absent.load(Ordering::Relaxed)
    }

    /// Opens the gate and unparks `peers` in order.
    pub(super) fn open<'a>(&self, peers: impl Iterator<Item = &'a S::Peer>) {
        self.is_open.store(true, Ordering::Release);
        peers.for_each(S::unpark);
    }

    /// Parks a strand until the gate is open.
    pub(super) fn pass(&self) {
        while !self.is_open.load(Ordering::Acquire) {
            S::park();
        }
    }
}

/// A strand's means to report its arrival.
pub(super) struct Ticket<S: Strands> {
    gate: Arc<Gate<S>>,
    is_used: bool,
}

impl<S: Strands> Ticket<S> {
    /// Reports that the strand has arrived.
    pub(super) fn arrive(mut self) -> Arc<Gate<S>> {
        self.is_used = true;
        Arc::clone(&self.gate)
    }
}

impl<S: Strands> Drop for Ticket<S> {
    fn drop(&mut self) {
        if !self.is_used {
            self.gate.absent.fetch_add(1, Ordering::Relaxed);
        }
        if self.gate.missing.fetch_sub(1, Ordering::Release) == 1 {
            S::unpark(&self.gate.caller);
        }
    }
}
