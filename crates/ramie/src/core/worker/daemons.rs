//! Daemons: strands that a runtime does not wait for.
//!
//! A daemon serves others, and by itself would wait for ever: for a stream to be ready, say, whose
//! owner has left the runtime. So when only daemons are left, `run` ends their waits: each runs in
//! a scope of its own, which is cancelled then, and the runtime ends when they have ended. A
//! strand is a daemon from [`Enrolled`] being made to its being dropped.
//!
//! *The race to fear* is to take a strand for a daemon that is none, and cancel those that serve
//! it. A daemon counts only after it was counted as spawned, and no more before it is counted as
//! ended; so the count, read between those two (ending.rs), is never above the truth. A strand that
//! is made a daemon inside a daemon counts once; the scope to cancel is the inner one until that is
//! left.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{ThreadStrands, Worker, Workers};
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
    /// How many there are; none more than have been spawned and not ended.
    pub(super) fn count(&self) -> usize {
        // Acquire: those counted here are counted as spawned by whoever reads that afterwards.
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

    /// Ends the waits of all: nobody else is left.
    pub(super) fn cancel_all(&self) {
        let scopes: Vec<_> = self.scopes().values().cloned().collect();
        for scope in scopes {
            scope.cancel_because("the runtime in which this call waited has ended");
        }
    }
}

/// Of which runtime a daemon is.
enum DaemonRuntime {
    Workers(Arc<Workers>),
    ThreadStrands(Arc<ThreadStrands>),
}

impl DaemonRuntime {
    fn daemons(&self) -> &Daemons {
        match self {
            DaemonRuntime::Workers(workers) => &workers.daemons,
            DaemonRuntime::ThreadStrands(threads) => &threads.daemons,
        }
    }
}

/// A strand is a daemon for as long as it has this.
pub(crate) struct Enrolled {
    runtime: DaemonRuntime,
    strand: FiberId,
    /// The scope in which it was a daemon before; it is counted once.
    outer: Option<CancelHandle>,
}

impl Enrolled {
    /// Makes the current strand of `worker` a daemon. `None` outside a runtime, because nothing
    /// waits for strands there.
    pub(crate) fn new(worker: &Worker, scope: CancelHandle) -> Option<Enrolled> {
        let runtime = match (worker.workers(), &worker.thread_strands) {
            (Some(workers), _) => DaemonRuntime::Workers(Arc::clone(workers)),
            (None, Some(threads)) => DaemonRuntime::ThreadStrands(Arc::clone(threads)),
            (None, None) => return None,
        };
        let strand = worker.current_header().id();
        let daemons = runtime.daemons();
        let outer = daemons.scopes().insert(strand, scope);
        if outer.is_none() {
            // Release: pairs with `count`.
            daemons.count.fetch_add(1, Ordering::Release);
        }
        if let DaemonRuntime::ThreadStrands(threads) = &runtime {
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
            if let DaemonRuntime::ThreadStrands(threads) = &self.runtime {
                // Those before have ended the waits of the inner scope alone.
                threads.end_daemons_if_alone();
            }
            return;
        }
        daemons.scopes().remove(&self.strand);
        // Release: what a look at the strands that have ended finds comes after this.
        daemons.count.fetch_sub(1, Ordering::Release);
    }
}
