//! The one place where the errors and panics of several strands are merged.

use std::sync::Mutex;

use super::{AsFailure, Failures};
use crate::{cancel::check_cancelled, panic::Raised};

/// What has gone wrong so far; merges by the rule in the module above.
pub(super) struct Merged<E> {
    parts: Mutex<Parts<E>>,
    is_cancelled: fn(&E) -> bool,
    into_failures: fn(Vec<E>) -> Failures<E>,
}

struct Parts<E> {
    panic: Option<Raised>,
    errors: Vec<E>,
    cancelled: Option<E>,
}

impl<E> Merged<E> {
    pub(super) fn new<Via>() -> Self
    where
        E: AsFailure<Via>,
    {
        let parts = Parts { panic: None, errors: Vec::new(), cancelled: None };
        Merged {
            parts: Mutex::new(parts),
            is_cancelled: E::tells_of_cancellation,
            into_failures: Failures::new,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Parts<E>> {
        self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds a panic.
    pub(super) fn add_panic(&self, raised: Raised) {
        let mut parts = self.lock();
        let dropped = match parts.panic {
            None => parts.panic.replace(raised),
            Some(_) => Some(raised),
        };
        drop(parts);
        // The destructor of its payload is user code.
        drop(dropped);
    }

    /// Adds an error of the current strand; tells whether it is a failure in its own right.
    pub(super) fn add(&self, error: E) -> bool {
        // A strand that is not cancelled tells of something else, of a limit of its own perhaps.
        let is_cancelled = (self.is_cancelled)(&error) && check_cancelled().is_err();
        let mut parts = self.lock();
        if !is_cancelled {
            parts.errors.push(error);
        } else if parts.cancelled.is_none() {
            parts.cancelled = Some(error);
        }
        !is_cancelled
    }

    /// Goes on with the panic, if there was one.
    #[track_caller]
    pub(super) fn raise_panic(&self) {
        let panic = self.lock().panic.take();
        if let Some(raised) = panic {
            raised.raise();
        }
    }

    /// What the strands' failures come to; raises the panic again, if there was one.
    #[track_caller]
    pub(super) fn take_failures(&self) -> Option<Failures<E>> {
        self.raise_panic();
        let mut parts = self.lock();
        let cancelled = parts.cancelled.take();
        let mut errors = std::mem::take(&mut parts.errors);
        drop(parts);
        if errors.is_empty() {
            errors.extend(cancelled);
        }
        (!errors.is_empty()).then(|| (self.into_failures)(errors))
    }
}
