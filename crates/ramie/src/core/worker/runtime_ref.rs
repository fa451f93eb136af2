//! A runtime, whatever the kind of its strands.

use std::{ptr, sync::Arc};

use super::{Daemons, Entrance, ThreadStrands, Worker, Workers, with_existing};

/// Keeps the shared part of a runtime.
#[derive(Clone)]
pub(crate) enum RuntimeRef {
    Workers(Arc<Workers>),
    ThreadStrands(Arc<ThreadStrands>),
}

impl RuntimeRef {
    /// The runtime of a worker; none for the small worker of a thread outside `run`.
    pub(crate) fn of(worker: &Worker) -> Option<RuntimeRef> {
        match (worker.workers(), &worker.thread_strands) {
            (Some(workers), _) => Some(RuntimeRef::Workers(Arc::clone(workers))),
            (None, Some(threads)) => Some(RuntimeRef::ThreadStrands(Arc::clone(threads))),
            (None, None) => None,
        }
    }

    pub(super) fn daemons(&self) -> &Daemons {
        match self {
            RuntimeRef::Workers(workers) => &workers.daemons,
            RuntimeRef::ThreadStrands(threads) => &threads.daemons,
        }
    }

    pub(crate) fn entrance(&self) -> &Entrance {
        match self {
            RuntimeRef::Workers(workers) => &workers.entrance,
            RuntimeRef::ThreadStrands(threads) => &threads.entrance,
        }
    }

    /// Whether the calling thread runs strands of this runtime.
    pub(crate) fn is_current(&self) -> bool {
        with_existing(RuntimeRef::of).flatten().is_some_and(|current| current.is_same(self))
    }

    fn is_same(&self, other: &RuntimeRef) -> bool {
        match (self, other) {
            (RuntimeRef::Workers(one), RuntimeRef::Workers(other)) => Arc::ptr_eq(one, other),
            (RuntimeRef::ThreadStrands(one), RuntimeRef::ThreadStrands(other)) => {
                ptr::eq(&raw const **one, &raw const **other)
            }
            _ => false,
        }
    }
}
