//! Wakes: making a driver's `turn` return, from any thread.
//!
//! | `pending` | Changed by | To |
//! |---|---|---|
//! | clear | any waker: `swap(true)` | pending; that waker alone notifies the kernel |
//! | pending | the owner, when the kernel's notice arrives: `swap(false)` | clear |
//!
//! The race to fear is a wake that falls between the notice and the owner's `swap(false)`: the
//! waker sees `pending` and notifies nobody. It is not lost, because the owner's turn returns after
//! that swap, which reads the waker's (both `AcqRel`), so the waker's earlier writes are visible to
//! the owner. A wake before the owner waits makes its next turn return at once.

use std::fmt;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::sys::{self, EpollSet};

/// The state that a waker and its driver share.
#[derive(Debug)]
pub(crate) struct WakeTarget {
    pending: AtomicBool,
    way: Way,
}

#[derive(Debug)]
pub(crate) enum Way {
    /// A ring, which keeps a read of `eventfd` in flight. `ring` is its descriptor for `MSG_RING`,
    /// None once the ring is closed: senders submit under the lock, so the number cannot have been
    /// reused by another file.
    Ring { eventfd: OwnedFd, ring: Mutex<Option<RawFd>> },
    /// An epoll set with its own notifier.
    Poll(Arc<EpollSet>),
}

impl WakeTarget {
    pub(crate) fn new(way: Way) -> Arc<Self> {
        Arc::new(WakeTarget { pending: AtomicBool::new(false), way })
    }

    /// Claims the wake; false: another waker has notified the kernel and the owner has not seen it.
    pub(crate) fn claim(&self) -> bool {
        // AcqRel: pairs with `acknowledge` (module documentation).
        !self.pending.swap(true, Ordering::AcqRel)
    }

    /// Records that the owner has seen the notice; returns true if a wake was pending.
    pub(crate) fn acknowledge(&self) -> bool {
        // AcqRel: reads the waker's swap, and so sees its earlier writes.
        self.pending.swap(false, Ordering::AcqRel)
    }

    /// Notifies the owner by the way that always works. The caller has claimed the wake.
    pub(crate) fn notify(&self) {
        match &self.way {
            Way::Ring { eventfd, .. } => sys::eventfd_signal(eventfd),
            Way::Poll(set) => set.notify(),
        }
    }

    /// Runs `send` with the target's ring, if it is a ring and not closed; false otherwise.
    pub(crate) fn with_ring(&self, send: impl FnOnce(RawFd)) -> bool {
        let Way::Ring { ring, .. } = &self.way else { return false };
        let ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ring) = *ring else { return false };
        send(ring);
        true
    }

    /// Marks the ring as about to be closed.
    pub(crate) fn close_ring(&self) {
        if let Way::Ring { ring, .. } = &self.way {
            *ring.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    pub(crate) fn eventfd(&self) -> Option<&OwnedFd> {
        match &self.way {
            Way::Ring { eventfd, .. } => Some(eventfd),
            Way::Poll(_) => None,
        }
    }
}

/// Wakes one driver from any thread.
///
/// A wake is sticky: if the owner is not waiting, its next turn returns at once. Several wakes
/// before that turn count as one. Waking a driver that was dropped does nothing.
#[derive(Clone)]
pub struct Waker(pub(crate) Arc<WakeTarget>);

impl Waker {
    /// Makes the owner's [`turn`](crate::Driver::turn) return.
    ///
    /// # Blocking
    /// Never: one system call, or none if a wake is pending already.
    pub fn wake(&self) {
        if self.0.claim() {
            self.0.notify();
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}
