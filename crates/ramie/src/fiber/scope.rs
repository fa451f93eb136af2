//! Scopes: strands that may borrow, because the scope waits for them on the lender's own stack.
//!
//! # Why this is sound
//! A strand may borrow values that live longer than the call to [`scope`]. The call returns, by
//! value or by panic, only after every strand of the scope has ended; it waits on the very stack
//! that owns the lent values; and a suspended stack is never freed (if its fiber is abandoned, the
//! stack leaks with everything on it). There is no handle whose `mem::forget` could cut the wait
//! short.

use std::{
    fmt,
    marker::PhantomData,
    panic::{Location, resume_unwind},
};

use super::{Builder, ScopedJoinHandle};
use crate::core::{
    cancel,
    strand::{NoValue, Raised, ScopeData},
};

/// A region that owns strands; twin of [`std::thread::Scope`]. Made by [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    data: ScopeData,
    // Invariant in both, as in std.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f` with a scope whose strands may borrow everything that outlives this call, and waits for
/// them; twin of [`std::thread::scope`].
///
/// # Blocking
/// Parks the fiber, or the thread outside one, until every strand of the scope has ended.
///
/// # Cancellation
/// Not a cancel point. Cancelling a scope around the call cancels its strands; the wait ends when
/// they do.
///
/// # Panics
/// Before `f` runs: inside [`no_switch`](crate::no_switch()), and on a thread that lacks the memory
/// to wait.
///
/// After all strands have ended: with the panic of `f`, if it panicked; otherwise, if a strand
/// panicked and its handle was not joined, with a message that names the strand and includes its
/// panic's message. The panic hook is called for this panic only if it was not called for the
/// strand's own panic, for example because the strand ended by
/// [`resume_unwind`](std::panic::resume_unwind). If a handle was given to [`std::mem::forget`], the
/// scope assumes that it may still be joined, so that strand's panic is reported on stderr only.
///
/// A scope that is opened in a destructor while its strand unwinds cannot wait. If strands are left
/// when `f` returns, the process aborts with a message, because they may use their borrows.
///
/// # Outside a fiber
/// The strands are OS threads.
///
/// # Examples
/// ```
/// ramie::run(|| {
///     let mut counts = [0, 0];
///     let (left, right) = counts.split_at_mut(1);
///     ramie::fiber::scope(|s| {
///         s.spawn(|| left[0] = 3);
///         s.spawn(|| right[0] = 4);
///     });
///     assert_eq!(counts, [3, 4]);
/// });
/// ```
/// Values that do not outlive the call cannot be borrowed:
/// ```compile_fail,E0373
/// ramie::run(|| ramie::fiber::scope(|s| {
///     let short = 1;
///     s.spawn(|| println!("{short}"));
/// }));
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    scope_at(Location::caller(), f)
}

/// As [`scope`], for the caller of a function that opens it: dumps name `called_at`.
#[track_caller]
pub(crate) fn scope_at<'env, F, T>(called_at: &'static Location<'static>, f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope::new();
    scope.close_after(called_at, || f(&scope))
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Makes a scope that [`close_after`](Self::close_after) closes; if it is dropped with strands
    /// in it, the process aborts.
    ///
    /// # Panics
    /// If the strand could not wait for the scope's end.
    #[track_caller]
    pub(crate) fn new() -> Self {
        Scope { data: ScopeData::new(), scope: PhantomData, env: PhantomData }
    }

    /// Runs `f`, then waits for all strands of the scope; dumps name `called_at` as the place that
    /// waits.
    #[track_caller]
    pub(crate) fn close_after<T>(
        &self,
        called_at: &'static Location<'static>,
        f: impl FnOnce() -> T,
    ) -> T {
        // The panic is caught, so that the wait happens outside the unwinding, where other fibers
        // may run.
        let outcome = crate::core::panic::catch(f);
        self.data.wait_for_all(called_at);
        if self.data.was_interrupted() {
            cancel::note_notice();
        }
        let panicked = self.data.take_panic();
        match (outcome, panicked) {
            (Err(payload), _) => resume_unwind(payload),
            (Ok(_), Some(sentence)) if sentence.is_reported => {
                Raised::new(NoValue::Panicked, Box::new(sentence.text)).raise()
            }
            (Ok(_), Some(sentence)) => panic!("{}", sentence.text),
            (Ok(value), None) => value,
        }
    }

    /// Spawns a fiber that may borrow values that outlive the scope; twin of
    /// [`std::thread::Scope::spawn`].
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Panics
    /// As [`spawn`](super::spawn).
    ///
    /// # Examples
    /// The closure cannot borrow values that are not `Sync`, because another worker may run it;
    /// that of [`Scope::spawn_local`] can:
    /// ```compile_fail,E0277
    /// let count = std::cell::Cell::new(0);
    /// ramie::fiber::scope(|s| drop(s.spawn(|| count.set(1))));
    /// ```
    /// A handle does not outlive its scope:
    /// ```compile_fail
    /// let leaked = ramie::fiber::scope(|s| s.spawn(|| 1));
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn_at(Location::caller(), f)
    }

    /// As [`Scope::spawn`], for the caller of a function that spawns for it: dumps name
    /// `spawned_at`.
    #[track_caller]
    pub(crate) fn spawn_at<F, T>(
        &'scope self,
        spawned_at: &'static Location<'static>,
        f: F,
    ) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let spawned = Builder::new().spawn_scoped_at(spawned_at, self, f);
        spawned.unwrap_or_else(|error| panic!("cannot spawn: {error}"))
    }

    /// Spawns a fiber that stays on this worker and may borrow `!Send` values.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Panics
    /// As [`spawn_local`](super::spawn_local). Also if it is called on another thread than the one
    /// that waits for the scope, because nothing would run the fiber while the scope waits.
    #[track_caller]
    pub fn spawn_local<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        Builder::new()
            .spawn_scoped_local(self, f)
            .unwrap_or_else(|error| panic!("cannot spawn: {error}"))
    }

    pub(super) fn data(&'scope self) -> &'scope ScopeData {
        &self.data
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strands = self.data.live_strands();
        f.debug_struct("Scope").field("strands", &strands).finish_non_exhaustive()
    }
}
