//! Counts of stacks, for the whole process.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{arena, chunk, guard};

/// The numbers of stacks in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackStats {
    /// Stacks that were mapped and guarded.
    pub made: usize,
    /// Stacks of coroutines, and those that pools keep for the next ones.
    pub in_use: usize,
    /// Stacks in use that never return, because their coroutine was leaked.
    pub leaked: usize,
    /// Mappings that hold the stacks.
    pub chunks: usize,
    /// The VMAs of all stacks at most: one per chunk, and two per guard made by `mprotect`.
    pub vmas_estimate: usize,
}

static LEAKED: AtomicUsize = AtomicUsize::new(0);

/// Counts the stacks of the process.
///
/// # Blocking
/// Takes the locks of the arenas, one after another.
#[must_use]
pub fn stats() -> StackStats {
    let (made, free) = arena::counts();
    let chunks = chunk::count();
    StackStats {
        made,
        in_use: made - free,
        leaked: LEAKED.load(Relaxed),
        chunks,
        vmas_estimate: chunks + 2 * guard::protected(),
    }
}

pub(crate) fn count_leaked() {
    LEAKED.fetch_add(1, Relaxed);
}
