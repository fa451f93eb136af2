//! Scopes that return the value of the strand that ends first, or succeeds first.

use std::{
    fmt,
    panic::Location,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{
    AsFailure, Failure, Failures,
    merged::{Failed, Merged},
};
use crate::{
    core::{
        cancel::{self, CancelHandle},
        strand::catch_raised,
    },
    fiber::Scope,
};

const DECIDED: &str = "another strand ended first";

/// Runs strands until the first has ended, and cancels the others. When all have ended, it returns
/// the value of the first; `None` if no strand was spawned.
///
/// The value of `f` itself is dropped; `f` may wait and then end the race by [`Racers::cancel`].
///
/// # Blocking
/// Parks the fiber, or the thread outside one, until every strand has ended.
///
/// # Cancellation
/// Not a cancel point itself; cancelling a scope around it cancels its strands.
///
/// # Panics
/// With the first panic of a strand or of `f`, after all have ended. A panic ends the race, too.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use ramie::{fiber, structured::race};
///
/// ramie::run(|| {
///     let first = race(|racers| {
///         racers.spawn(|| { fiber::sleep(Duration::from_secs(3600)); "hare" });
///         racers.spawn(|| "tortoise");
///     });
///     assert_eq!(first, Some("tortoise"));
/// });
/// ```
#[track_caller]
pub fn race<'env, T, F>(f: F) -> Option<T>
where
    T: 'env,
    F: for<'scope> FnOnce(&'scope Racers<'scope, 'env, T>),
{
    run(f).unwrap_or_else(|failures| match failures.into_cause() {})
}

/// Runs strands until the first has succeeded, and cancels the others. When all have ended, it
/// returns the value of the first.
///
/// # Blocking
/// As [`race`].
///
/// # Cancellation
/// Not a cancel point itself; cancelling a scope around it cancels its strands.
///
/// # Errors
/// No strand has succeeded: all errors, merged [by the rule](super); `None` if no strand was
/// spawned.
///
/// # Panics
/// As [`race`].
///
/// # Examples
/// ```
/// use ramie::structured::any;
///
/// ramie::run(|| {
///     let first = any(|racers| {
///         racers.spawn_try(|| Err("no such host"));
///         racers.spawn_try(|| Ok(7));
///     });
///     assert_eq!(first, Ok(7));
/// });
/// ```
#[track_caller]
pub fn any<'env, T, E, Via>(
    f: impl for<'scope> FnOnce(&'scope Racers<'scope, 'env, T, E>),
) -> Result<T, Option<Failures<E>>>
where
    T: 'env,
    E: AsFailure<Via> + 'env,
{
    match run(f) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(None),
        Err(failures) => Err(Some(failures)),
    }
}

/// The error type of strands that cannot fail.
#[derive(Debug)]
pub enum Never {}

impl Failure for Never {}

#[track_caller]
fn run<'env, T, E, Via>(
    f: impl for<'scope> FnOnce(&'scope Racers<'scope, 'env, T, E>),
) -> Result<Option<T>, Failures<E>>
where
    T: 'env,
    E: AsFailure<Via> + 'env,
{
    let called_at = Location::caller();
    cancel::scope(|cancel_scope| {
        let racers = Racers {
            strands: Scope::new(),
            cancel: cancel_scope.handle(),
            winner: Mutex::new(None),
            merged: Merged::new(),
        };
        racers.strands.close_after(called_at, || {
            if let Err(raised) = catch_raised(|| f(&racers)) {
                racers.merged.add_panic(raised);
                racers.cancel();
            }
        });
        let winner = racers.take_winner();
        // Resumes a panic, even if another strand won.
        let failures = racers.merged.take_failures();
        match (winner, failures) {
            (None, Some(failures)) => Err(failures),
            (winner, _) => Ok(winner),
        }
    })
}

/// The scope of [`race`] and [`any`].
// The bounds on `T` and `E` are there for the reason given at `TryScope`.
pub struct Racers<'scope, 'env: 'scope, T: 'env, E: 'env = Never> {
    strands: Scope<'scope, 'env>,
    cancel: CancelHandle,
    winner: Mutex<Option<T>>,
    merged: Merged<E>,
}

impl<'scope, T, E> Racers<'scope, '_, T, E> {
    /// Spawns a fiber that wins if it ends first.
    ///
    /// # Panics
    /// As [`fiber::spawn`](crate::fiber::spawn).
    #[track_caller]
    pub fn spawn<F>(&'scope self, f: F)
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
        E: Send,
    {
        self.spawn_try(|| Ok(f()));
    }

    /// Spawns a fiber that wins if it succeeds first.
    ///
    /// # Panics
    /// As [`fiber::spawn`](crate::fiber::spawn).
    #[track_caller]
    pub fn spawn_try<F>(&'scope self, f: F)
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Send,
    {
        self.strands.spawn(|| match self.merged.run(f) {
            Ok(value) => self.win(value),
            Err(Failed::Cancelled | Failed::Error) => {}
            Err(Failed::Panic) => self.cancel(),
        });
    }

    /// Ends the race by cancelling all strands that still run.
    pub fn cancel(&self) {
        self.cancel.cancel_because(DECIDED);
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.winner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_winner(&self) -> Option<T> {
        self.lock().take()
    }

    fn win(&self, value: T) {
        let mut winner = self.lock();
        // A value that comes second is dropped after the lock is released, because its destructor
        // is user code.
        let second = match *winner {
            None => winner.replace(value),
            Some(_) => Some(value),
        };
        drop(winner);
        drop(second);
        self.cancel();
    }
}

impl<T, E> fmt::Debug for Racers<'_, '_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Racers").field("strands", &self.strands).finish_non_exhaustive()
    }
}
