//! Merging the errors and panics of several strands, for `race`, `any`, `try_scope` and the calls
//! that are built on `try_scope`; `par_map` and `par_map_unordered` use [`FirstPanic`] alone. The
//! other calls merge no errors. `set` hands the panic of a strand out with its outcome; a
//! plain `fiber::scope`, and so `join!`, keeps its first panic in `core/strand/scope_data.rs`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{AsFailure, Failures};
use crate::core::{
    cancel::check_cancelled,
    strand::{Raised, catch_raised},
};

/// The failures so far, merged by the rule in the docs of [`structured`](super).
pub(super) struct Merged<E> {
    panic: FirstPanic,
    errors: Mutex<Errors<E>>,
    is_cancelled: fn(&E) -> bool,
    into_failures: fn(Vec<E>) -> Failures<E>,
}

struct Errors<E> {
    own: Vec<E>,
    cancelled: Option<E>,
}

/// How a strand failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// By an error that only reports the cancellation of its scope.
    Cancelled,
    /// By any other error.
    Error,
    Panic,
}

impl<E> Merged<E> {
    pub(super) fn new<Via>() -> Self
    where
        E: AsFailure<Via>,
    {
        let errors = Errors { own: Vec::new(), cancelled: None };
        Merged {
            panic: FirstPanic::default(),
            errors: Mutex::new(errors),
            is_cancelled: E::tells_of_cancellation,
            into_failures: Failures::new,
        }
    }

    fn errors(&self) -> MutexGuard<'_, Errors<E>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` on the current strand, and adds its error or panic if it fails.
    pub(super) fn run<T>(&self, f: impl FnOnce() -> Result<T, E>) -> Result<T, Failed> {
        // `add` calls `Failure::is_cancelled`, which is user code and may panic as `f` may.
        match catch_raised(|| f().map_err(|error| self.add(error))) {
            Ok(outcome) => outcome,
            Err(raised) => {
                self.add_panic(raised);
                Err(Failed::Panic)
            }
        }
    }

    pub(super) fn add_panic(&self, raised: Raised) {
        self.panic.add(raised);
    }

    /// Adds an error of the current strand.
    fn add(&self, error: E) -> Failed {
        // If the strand is not cancelled, its error does not follow from another failure. It may
        // report a limit that the strand had set itself.
        let is_cancelled = (self.is_cancelled)(&error) && check_cancelled().is_err();
        let mut errors = self.errors();
        if !is_cancelled {
            errors.own.push(error);
            return Failed::Error;
        }
        if errors.cancelled.is_none() {
            errors.cancelled = Some(error);
        }
        Failed::Cancelled
    }

    /// Resumes the panic, if there was one.
    #[track_caller]
    pub(super) fn raise_panic(&self) {
        self.panic.raise();
    }

    /// Returns the merged failures of the strands; resumes the panic, if there was one.
    #[track_caller]
    pub(super) fn take_failures(&self) -> Option<Failures<E>> {
        self.raise_panic();
        let mut errors = self.errors();
        let cancelled = errors.cancelled.take();
        let mut own = std::mem::take(&mut errors.own);
        drop(errors);
        if own.is_empty() {
            own.extend(cancelled);
        }
        (!own.is_empty()).then(|| (self.into_failures)(own))
    }
}

/// The first panic of several strands; the payloads of later ones are dropped.
#[derive(Default)]
pub(super) struct FirstPanic(Mutex<Option<Raised>>);

impl FirstPanic {
    fn lock(&self) -> MutexGuard<'_, Option<Raised>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, raised: Raised) {
        let mut first = self.lock();
        let dropped = match *first {
            None => first.replace(raised),
            Some(_) => Some(raised),
        };
        drop(first);
        // Without the lock, because the destructor of a payload is user code.
        drop(dropped);
    }

    /// Resumes the panic, if there was one.
    #[track_caller]
    pub(super) fn raise(&self) {
        let first = self.lock().take();
        if let Some(raised) = first {
            raised.raise();
        }
    }
}
