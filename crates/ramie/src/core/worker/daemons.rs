//! Daemons: strands that a runtime does not wait for.
//!
//! A daemon serves other strands and might otherwise wait for ever, for example for the readiness
//! of a stream whose owner has left the runtime. So when only daemons are left, `run` ends their
//! waits: each daemon runs in a cancel scope of its own, which is then cancelled, and the runtime
//! ends when all daemons have ended. A strand is a daemon while it has an [`Enrolled`].
//!
//! *The race to fear*: a strand that is not a daemon is counted as one, and the daemons that serve
//! it are cancelled. A daemon is counted here after it was counted as spawned, and is taken off
//! before it is counted as ended. The end of a runtime reads this count between the other two
//! (ending.rs), so it never finds more daemons than there are. A strand that becomes a daemon again
//! inside its scope counts once; until it leaves the inner scope, that is the one to cancel.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{RuntimeRef, Worker};
use crate::core::{
    cancel::CancelHandle,
    primitive::{AtomicUsize, Ordering},
    strand::FiberId,
};

/// The daemons of one runtime.
#[derive(Default)]
pub(crate) struct Daemons {
    count: AtomicUsize,
    scopes: Mutex<BTreeMap<FiberId, CancelHandle>>,
}

impl Daemons {
    /// The number of daemons, at most that of the strands that were spawned and have not ended.
    pub(super) fn count(&self) -> usize {
        // Acquire: a thread that reads the spawned strands after this finds each daemon among them.
        self.count.load(Ordering::Acquire)
    }

    fn scopes(&self) -> MutexGuard<'_, BTreeMap<FiberId, CancelHandle>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all of these strands are daemons.
    pub(super) fn are_all<'a>(&self, mut strands: impl Iterator<Item = &'a FiberId>) -> bool {
        let scopes = self.scopes();
        strands.all(|strand| scopes.contains_key(strand))
    }

    /// Ends the waits of all daemons, because no other strand is left.
    pub(super) fn cancel_all(&self) {
        let scopes: Vec<_> = self.scopes().values().cloned().collect();
        for scope in scopes {
            scope.cancel_because("the runtime in which this call waited has ended");
        }
    }
}

/// Makes a strand a daemon until dropped.
pub(crate) struct Enrolled {
    runtime: RuntimeRef,
    strand: FiberId,
    /// The scope in which the strand was a daemon before; the strand is counted once.
    outer: Option<CancelHandle>,
}

impl Enrolled {
    /// Makes the current strand of `worker` a daemon. Returns `None` outside a runtime, because
    /// nothing waits for strands there.
    pub(crate) fn new(worker: &Worker, scope: CancelHandle) -> Option<Enrolled> {
        let runtime = RuntimeRef::of(worker)?;
        let strand = worker.current_header().id();
        let daemons = runtime.daemons();
        let outer = daemons.scopes().insert(strand, scope);
        if outer.is_none() {
            // Release: pairs with `count`.
            daemons.count.fetch_add(1, Ordering::Release);
        }
        if let RuntimeRef::ThreadStrands(threads) = &runtime {
            threads.end_daemons_if_alone();
        }
        Some(Enrolled { runtime, strand, outer })
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        let daemons = self.runtime.daemons();
        if let Some(outer) = self.outer.take() {
            daemons.scopes().insert(self.strand, outer);
            if let RuntimeRef::ThreadStrands(threads) = &self.runtime {
                // If only daemons were left, only the inner scope of this one was cancelled.
                threads.end_daemons_if_alone();
            }
            return;
        }
        daemons.scopes().remove(&self.strand);
        // Release: a thread that finds this strand among those that have ended sees this, too.
        daemons.count.fetch_sub(1, Ordering::Release);
    }
}
