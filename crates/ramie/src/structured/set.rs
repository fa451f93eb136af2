//! Strands whose outcomes are taken one by one, in the order in which the strands end.

use std::{
    fmt, mem,
    panic::Location,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

use crate::{
    channel::{self, Receiver, Sender},
    core::{
        cancel::{self, CancelHandle},
        strand::{NoValue, Raised, catch_raised},
        wait::park::abort_wait_while_unwinding,
    },
    fiber::Scope,
};

/// Runs `f` with a set of strands. `f` may add strands at any time, and takes their outcomes in the
/// order in which they end.
///
/// # Blocking
/// Parks the fiber, or the thread outside one, until every strand of the set has ended.
///
/// # Cancellation
/// Not a cancel point itself; cancelling a scope around it cancels its strands.
///
/// # Panics
/// After all strands have ended: with the panic of `f` if `f` panicked; otherwise with that of a
/// strand whose outcome was not taken.
///
/// # Examples
/// ```
/// use ramie::structured::set;
///
/// ramie::run(|| {
///     let words = ["one", "three"];
///     let total: usize = set(|set| {
///         for word in &words {
///             set.spawn(|| word.len());
///         }
///         set.outcomes().map(Result::unwrap).sum()
///     });
///     assert_eq!(total, 8);
/// });
/// ```
#[track_caller]
pub fn set<'env, T, R, F>(f: F) -> R
where
    T: 'env,
    F: for<'scope> FnOnce(&'scope Set<'scope, 'env, T>) -> R,
{
    let called_at = Location::caller();
    cancel::scope(|cancel_scope| {
        let (sender, receiver) = channel::unbounded();
        let set = Set {
            strands: Scope::new(),
            cancel: cancel_scope.handle(),
            pending: AtomicUsize::new(0),
            sender,
            receiver,
        };
        let returned = set.strands.close_after(called_at, || f(&set));
        while let Some(outcome) = set.try_take() {
            outcome.unwrap_or_else(|raised| raised.raise());
        }
        returned
    })
}

/// The strands of [`set`].
// The bound on `T` is there for the reason given at `TryScope`.
pub struct Set<'scope, 'env: 'scope, T: 'env> {
    strands: Scope<'scope, 'env>,
    cancel: CancelHandle,
    /// Strands whose outcomes have not been taken.
    pending: AtomicUsize,
    sender: Sender<Result<T, Raised>>,
    receiver: Receiver<Result<T, Raised>>,
}

impl<'scope, T> Set<'scope, '_, T> {
    /// Adds a fiber.
    ///
    /// # Panics
    /// As [`fiber::spawn`](crate::fiber::spawn).
    #[track_caller]
    pub fn spawn<F>(&'scope self, f: F)
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.pending.fetch_add(1, Relaxed);
        let owed = Owed(self);
        self.strands.spawn(move || {
            let outcome = catch_raised(f);
            owed.0.give(outcome);
            mem::forget(owed);
        });
    }

    fn give(&self, outcome: Result<T, Raised>) {
        // The send succeeds because the set holds the receiver, too.
        let _ = self.sender.send_uncancelled(outcome);
    }

    /// Claims one of the pending outcomes; returns `None` if none is left.
    fn claim(&self) -> Option<usize> {
        self.pending.fetch_update(Relaxed, Relaxed, |pending| pending.checked_sub(1)).ok()
    }

    /// Waits for the next strand to end and takes its value, or the payload of its panic; returns
    /// `None` when all outcomes have been taken.
    ///
    /// # Blocking
    /// Parks the strand until a strand of the set has ended.
    ///
    /// # Cancellation
    /// Not a cancel point. Cancelling a scope around the set cancels its strands; the wait ends
    /// when one of them ends.
    #[track_caller]
    pub fn next(&self) -> Option<thread::Result<T>> {
        self.claim()?;
        // The set holds the sender, too, so only unwinding ends the wait without an outcome.
        let outcome = cancel::shield(|| self.receiver.recv());
        let outcome =
            outcome.unwrap_or_else(|_| abort_wait_while_unwinding("the next outcome of a set"));
        Some(outcome.map_err(Raised::into_payload))
    }

    /// Takes an outcome if a strand has ended.
    pub fn try_next(&self) -> Option<thread::Result<T>> {
        Some(self.try_take()?.map_err(Raised::into_payload))
    }

    fn try_take(&self) -> Option<Result<T, Raised>> {
        let outcome = self.receiver.try_recv().ok()?;
        if self.claim().is_none() {
            // The outcome belongs to another strand, which has claimed it in `next` and will take
            // it.
            self.give(outcome);
            return None;
        }
        Some(outcome)
    }

    /// Iterates over the outcomes in the order in which strands end, until all have been taken.
    pub fn outcomes(&self) -> impl Iterator<Item = thread::Result<T>> {
        std::iter::from_fn(|| self.next())
    }

    /// Returns the number of strands whose outcomes have not been taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.load(Relaxed)
    }

    /// Returns whether all outcomes have been taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels all strands of the set. Their outcomes can still be taken.
    pub fn cancel(&self) {
        self.cancel.cancel_because("the set was cancelled");
    }
}

/// The promise to send the outcome of a strand that is counted as pending, for which `next` may
/// wait already. If the strand is never run, the destructor sends an outcome that reports this.
struct Owed<'set, 'scope, 'env: 'scope, T: 'env>(&'set Set<'scope, 'env, T>);

impl<T> Drop for Owed<'_, '_, '_, T> {
    fn drop(&mut self) {
        let why = "a strand of the set cannot start: it has no stack, or its runtime ends";
        self.0.give(Err(Raised::new(NoValue::NotRun, Box::new(why))));
    }
}

impl<T> fmt::Debug for Set<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set").field("pending", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The race to fear: `next` has claimed an outcome and does not wait for it yet.
    #[test]
    fn an_outcome_that_another_has_claimed_is_left_to_it() {
        crate::run(|| {
            set(|set: &Set<'_, '_, u32>| {
                set.spawn(|| 7);
                assert!(set.claim().is_some(), "as `next` does first");
                while set.receiver.is_empty() {
                    crate::fiber::yield_now();
                }
                assert!(set.try_next().is_none(), "it belongs to the one that claimed it");
                let left = set.receiver.try_recv().expect("the outcome is still there");
                assert_eq!(left.ok(), Some(7), "the strand returned");
            });
        });
    }
}
