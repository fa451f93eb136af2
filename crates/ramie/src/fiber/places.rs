//! The workers of a runtime as fibers see them.

use std::{
    panic::Location,
    sync::{Mutex, PoisonError},
};

use super::{Builder, Place, scope};
use crate::core::{strand::catch_raised, worker};

/// Returns the number of workers of the runtime; 1 if strands are threads.
///
/// # Outside a fiber
/// 1, outside [`run`](crate::run()).
///
/// # Examples
/// ```
/// let runtime = ramie::Runtime::builder().strands(ramie::Strands::Fibers).workers(3).build()?;
/// assert_eq!(runtime.run(ramie::fiber::workers), 3);
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn workers() -> usize {
    worker::with_existing(|worker| worker.workers().map(|workers| workers.len()))
        .flatten()
        .unwrap_or(1)
}

/// Returns the index of the worker that runs this fiber, which is less than [`workers`]; the worker
/// that called [`run`](crate::run()) has index 0. `None` if strands are threads.
///
/// The index stays the same for the life of the fiber.
///
/// # Outside a fiber
/// `None`, outside [`run`](crate::run()).
#[must_use]
pub fn worker() -> Option<usize> {
    worker::with_existing(|worker| worker.membership.as_ref().map(|member| member.index)).flatten()
}

/// Runs `f` in a fiber on each worker, with the worker's index, and returns the values in that
/// order when all have ended. The fibers may borrow values that outlive the call.
///
/// # Blocking
/// Parks the strand until the fibers have ended.
///
/// # Cancellation
/// Not a cancel point. Cancelling a scope around the call cancels the fibers; the wait ends when
/// they do.
///
/// # Panics
/// If a fiber panicked: with its panic, after all fibers have ended. If the process has no memory
/// for the fibers.
///
/// # Outside a fiber
/// If strands are threads, `f` runs once, on one thread, with index 0.
///
/// # Examples
/// Each worker accepts connections for itself:
/// ```no_run
/// use ramie::{fiber, net::TcpListener};
///
/// ramie::run(|| {
///     let listeners = TcpListener::bind_per_worker("127.0.0.1:8080")?;
///     let ends = fiber::on_each_worker(|worker| {
///         for stream in listeners[worker].incoming() {
///             let mut stream = stream?;
///             // This worker's connection stays here.
///             fiber::spawn_local(move || std::io::copy(&mut stream.try_clone()?, &mut stream));
///         }
///         std::io::Result::Ok(())
///     });
///     ends.into_iter().collect::<std::io::Result<()>>()
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn on_each_worker<F, T>(f: F) -> Vec<T>
where
    F: Fn(usize) -> T + Sync,
    T: Send,
{
    let called_at = Location::caller();
    let outcomes: Vec<_> = (0..workers()).map(|_| Mutex::new(None)).collect();
    let run = |index: usize| {
        let outcome = catch_raised(|| f(index));
        *outcomes[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    };
    let run = &run;
    // The outcomes are kept here rather than joined, because a wait in the closure would name this
    // file in dumps.
    scope(|s| {
        for index in 0..workers() {
            let builder = Builder::new().on(Place::Worker(index));
            let spawned = builder.spawn_scoped_at(called_at, s, move || run(index));
            spawned.unwrap_or_else(|error| panic!("cannot spawn: {error}"));
        }
    });
    let outcomes = outcomes.into_iter().map(|outcome| {
        let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.expect("the scope waited until the fiber had ended")
    });
    outcomes.map(|outcome| outcome.unwrap_or_else(|raised| raised.raise())).collect()
}
