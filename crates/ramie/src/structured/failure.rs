//! Errors of several strands, and the one place where they are merged.

use std::{any::Any, error::Error, fmt, io, panic, sync::Mutex, vec};

use crate::{
    cancel::{Cancelled, check_cancelled, is_cancelled},
    channel,
    sync::{self, broadcast, oneshot, watch},
};

/// An error that can say whether it only tells of a cancellation.
pub trait Failure {
    /// Tells whether the call failed because it was cancelled, and not by itself.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Failure for Cancelled {
    fn is_cancelled(&self) -> bool {
        true
    }
}

impl Failure for io::Error {
    fn is_cancelled(&self) -> bool {
        is_cancelled(self)
    }
}

/// Of an enum with a variant for the cancellation.
macro_rules! failures {
    ($($error:ty => $cancelled:path),* $(,)?) => {
        $(impl Failure for $error {
            fn is_cancelled(&self) -> bool {
                *self == $cancelled
            }
        })*

        fn says_cancelled(error: &(dyn Error + 'static)) -> bool {
            error.is::<Cancelled>()
                || error.downcast_ref().is_some_and(is_cancelled)
                $(|| error.downcast_ref::<$error>().is_some_and(Failure::is_cancelled))*
        }
    };
}

failures! {
    channel::RecvError => channel::RecvError::Cancelled,
    channel::RecvTimeoutError => channel::RecvTimeoutError::Cancelled,
    sync::AcquireError => sync::AcquireError::Cancelled,
    sync::AcquireTimeoutError => sync::AcquireTimeoutError::Cancelled,
    broadcast::RecvError => broadcast::RecvError::Cancelled,
    broadcast::RecvTimeoutError => broadcast::RecvTimeoutError::Cancelled,
    oneshot::RecvError => oneshot::RecvError::Cancelled,
    oneshot::RecvTimeoutError => oneshot::RecvTimeoutError::Cancelled,
    watch::RecvError => watch::RecvError::Cancelled,
    watch::RecvTimeoutError => watch::RecvTimeoutError::Cancelled,
}

impl<T> Failure for channel::SendError<T> {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled()
    }
}

impl<T> Failure for channel::SendTimeoutError<T> {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled()
    }
}

impl Failure for Box<dyn Error> {
    fn is_cancelled(&self) -> bool {
        says_cancelled(&**self)
    }
}

impl Failure for Box<dyn Error + Send> {
    fn is_cancelled(&self) -> bool {
        says_cancelled(&**self)
    }
}

impl Failure for Box<dyn Error + Send + Sync> {
    fn is_cancelled(&self) -> bool {
        says_cancelled(&**self)
    }
}

impl Failure for String {}
impl Failure for &str {}

/// The errors of the strands of a scope, the cause first. There is at least one.
#[derive(Debug, PartialEq, Eq)]
pub struct Failures<E> {
    /// INVARIANT: not empty.
    errors: Vec<E>,
}

impl<E> Failures<E> {
    /// Returns the error that came first.
    pub fn cause(&self) -> &E {
        &self.errors[0]
    }

    /// Returns the error that came first, and drops the others.
    pub fn into_cause(self) -> E {
        self.errors.into_iter().next().expect("at least one error")
    }

    /// Shows the errors in the order in which they happened.
    pub fn iter(&self) -> std::slice::Iter<'_, E> {
        self.errors.iter()
    }
}

impl<E> IntoIterator for Failures<E> {
    type Item = E;
    type IntoIter = vec::IntoIter<E>;

    fn into_iter(self) -> vec::IntoIter<E> {
        self.errors.into_iter()
    }
}

impl<E: fmt::Display> fmt::Display for Failures<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause())?;
        for error in &self.errors[1..] {
            write!(f, "; also: {error}")?;
        }
        Ok(())
    }
}

impl<E: Error + 'static> Error for Failures<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.cause())
    }
}

impl From<Failures<io::Error>> for io::Error {
    /// Keeps the kind of the cause, and all errors inside.
    fn from(failures: Failures<io::Error>) -> Self {
        match failures.errors.len() {
            1 => failures.into_cause(),
            _ => io::Error::new(failures.cause().kind(), failures),
        }
    }
}

impl<E: Failure> Failure for Failures<E> {
    fn is_cancelled(&self) -> bool {
        self.cause().is_cancelled()
    }
}

/// What has gone wrong so far; merges by the rule in the module above.
pub(super) struct Merged<E>(Mutex<Parts<E>>);

struct Parts<E> {
    panic: Option<Box<dyn Any + Send>>,
    errors: Vec<E>,
    cancelled: Option<E>,
}

impl<E: Failure> Merged<E> {
    pub(super) fn new() -> Self {
        Merged(Mutex::new(Parts { panic: None, errors: Vec::new(), cancelled: None }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Parts<E>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds the payload of a panic.
    pub(super) fn add_panic(&self, payload: Box<dyn Any + Send>) {
        let mut parts = self.lock();
        let dropped = match parts.panic {
            None => parts.panic.replace(payload),
            Some(_) => Some(payload),
        };
        drop(parts);
        // Its destructor is user code.
        drop(dropped);
    }

    /// Adds an error of the current strand; tells whether it is a failure in its own right.
    pub(super) fn add(&self, error: E) -> bool {
        // A strand that is not cancelled tells of something else, of a limit of its own perhaps.
        let is_cancelled = error.is_cancelled() && check_cancelled().is_err();
        let mut parts = self.lock();
        if !is_cancelled {
            parts.errors.push(error);
        } else if parts.cancelled.is_none() {
            parts.cancelled = Some(error);
        }
        !is_cancelled
    }

    /// What the strands' failures come to; raises the panic again, if there was one.
    pub(super) fn take_failures(&self) -> Option<Failures<E>> {
        let mut parts = self.lock();
        let (panic, cancelled) = (parts.panic.take(), parts.cancelled.take());
        let mut errors = std::mem::take(&mut parts.errors);
        drop(parts);
        if let Some(payload) = panic {
            panic::resume_unwind(payload);
        }
        if errors.is_empty() {
            errors.extend(cancelled);
        }
        (!errors.is_empty()).then_some(Failures { errors })
    }
}
