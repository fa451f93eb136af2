//! A job that its caller may leave behind.
//!
//! # Protocol
//! A helper fiber waits for the job on the blocking pool; the caller waits for the helper, as a
//! cancel point. Caller and job hand the value over by a step, under a lock:
//!
//! | step | the value is owned by | changed by | to |
//! |---|---|---|---|
//! | `Ready` | the step | the job, when a thread of the pool begins it | `Runs` |
//! | | | a caller that leaves | `Left`; it takes the value back |
//! | `Runs` | the job | the job, when the closure has returned | `Done` |
//! | | | a caller that leaves | `Left` |
//! | `Done` | the step | the caller | `Left`; it takes value and result |
//! | `Left` | the job, which drops it, or the caller | | |
//!
//! If the closure panics, the step stays `Runs`, and the unwinding drops the value on the pool.
//!
//! *The race to fear*: the caller leaves while the closure returns. Both act under the lock, so
//! either the caller finds `Done` and takes the result, although it is cancelled, or the job finds
//! `Left` and drops value and result itself, on the pool.
//!
//! The helper's stack holds the job, and the caller's frame nothing that the job uses. So a caller
//! may leave, be abandoned or be leaked at any time. If the helper is abandoned, too, its stack is
//! leaked with the job in it, and the job goes on.

use std::{
    io, mem,
    panic::resume_unwind,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ramie::{cancel::Cancelled, fiber::JoinHandle};

enum Step<T, R> {
    Ready(Box<T>),
    Runs,
    Done(Box<T>, R),
    Left,
}

/// The part of a job that the caller and the job share.
pub(super) struct Errand<T, R>(Arc<Mutex<Step<T, R>>>);

/// The value, unless it is lost, and the outcome of a call.
type Returned<T, R> = (Option<Box<T>>, io::Result<R>);

impl<T, R> Errand<T, R> {
    pub(super) fn new(value: Box<T>) -> Self {
        Errand(Arc::new(Mutex::new(Step::Ready(value))))
    }

    fn lock(&self) -> MutexGuard<'_, Step<T, R>> {
        // No code of the program runs while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, next: Step<T, R>) -> Step<T, R> {
        mem::replace(&mut *self.lock(), next)
    }

    /// Calls the closure, on a thread of the pool.
    pub(super) fn carry_out(&self, f: impl FnOnce(&mut T) -> R) {
        let mut step = self.lock();
        let mut value = match mem::replace(&mut *step, Step::Runs) {
            Step::Ready(value) => value,
            other => {
                *step = other;
                return;
            }
        };
        drop(step);
        let result = f(&mut value);
        let mut step = self.lock();
        if let Step::Runs = *step {
            *step = Step::Done(value, result);
        } else {
            drop(step);
            // In this order, because the result may come from the value.
            drop(result);
            drop(value);
        }
    }

    /// Waits for the helper, or leaves it when the strand is cancelled.
    ///
    /// # Panics
    /// With the closure's panic.
    #[track_caller]
    pub(super) fn wait(self, helper: io::Result<JoinHandle<()>>) -> Returned<T, R> {
        let mut helper = match helper {
            Ok(helper) => helper,
            Err(error) => return self.leave(error),
        };
        match helper.wait() {
            Err(cancelled) if !helper.is_finished() => self.leave(cancelled.into()),
            _ => match helper.join() {
                Ok(()) => self.leave(unfinished()),
                Err(_) if matches!(*self.lock(), Step::Ready(_)) => self.leave(not_started()),
                Err(panic) => resume_unwind(panic),
            },
        }
    }

    /// Takes the value back, unless the job has it; a job that has not begun does nothing then.
    pub(super) fn take_back(self) -> Option<Box<T>> {
        match self.replace(Step::Left) {
            Step::Ready(value) | Step::Done(value, _) => Some(value),
            Step::Runs | Step::Left => None,
        }
    }

    /// Takes the value if the job has not begun, and value and result if it is done. Otherwise
    /// leaves both to the job.
    fn leave(self, error: io::Error) -> Returned<T, R> {
        match self.replace(Step::Left) {
            Step::Done(value, result) => (Some(value), Ok(result)),
            Step::Ready(value) => (Some(value), Err(error)),
            Step::Runs | Step::Left => (None, Err(error)),
        }
    }
}

impl<T, R> Clone for Errand<T, R> {
    fn clone(&self) -> Self {
        Errand(Arc::clone(&self.0))
    }
}

/// The helper has ended, so the job has, too: `leave` finds `Done` and never returns this.
fn unfinished() -> io::Error {
    Cancelled::because("the job on the blocking pool did not run").into()
}

fn not_started() -> io::Error {
    let why = "the fiber that was to wait for the job could not run; see the log";
    io::Error::new(io::ErrorKind::OutOfMemory, why)
}
