//! A barrier.

use std::fmt;

use super::{Condvar, Mutex};

/// Lets a fixed number of strands wait for each other; twin of [`std::sync::Barrier`].
///
/// # Examples
/// ```
/// use ramie::{fiber, sync::Barrier};
///
/// let barrier = Barrier::new(2);
/// ramie::run(|| {
///     fiber::scope(|s| {
///         s.spawn(|| barrier.wait());
///         barrier.wait();
///     });
/// });
/// ```
pub struct Barrier {
    state: Mutex<BarrierState>,
    opened: Condvar,
    size: usize,
}

struct BarrierState {
    waiting: usize,
    /// The number of times that the barrier has opened.
    generation: usize,
}

/// The result of a wait, which distinguishes the strand that opened the barrier.
///
/// A type of this crate, because only std can make values of std's type.
pub struct BarrierWaitResult(bool);

impl Barrier {
    /// Makes a barrier that opens whenever `n` strands wait for it; with 0 or 1, a wait returns at
    /// once.
    #[must_use]
    pub const fn new(n: usize) -> Self {
        let state = Mutex::new(BarrierState { waiting: 0, generation: 0 });
        Barrier { state, opened: Condvar::new(), size: n }
    }

    /// Waits until `n` strands, this one included, wait.
    ///
    /// # Blocking
    /// Parks the fiber, or the thread outside one. For the last strand, which is the leader, the
    /// call returns at once.
    ///
    /// # Cancellation
    /// Not a cancel point, because the other strands would wait forever if one left.
    ///
    /// # Panics
    /// As [`Condvar::wait`].
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        let mut state = self.state.lock().unwrap();
        let generation = state.generation;
        state.waiting += 1;
        if state.waiting >= self.size {
            state.waiting = 0;
            state.generation = generation.wrapping_add(1);
            self.opened.notify_all();
            return BarrierWaitResult(true);
        }
        let is_closed = |state: &mut BarrierState| state.generation == generation;
        drop(self.opened.wait_while(state, is_closed).unwrap());
        BarrierWaitResult(false)
    }
}

impl BarrierWaitResult {
    /// Returns whether the strand is the leader. Of the strands that were released together, one
    /// is.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult").field("is_leader", &self.is_leader()).finish()
    }
}
