//! The errors of several strands, as a scope returns them.
#![allow(unsafe_code)]

use std::{error::Error, fmt, io, ptr, vec};

use super::{
    AsFailure, Failure,
    failure::{says_cancelled, via},
};
use crate::core::cancel::STRAND_CANCELLED;

/// One or more errors of the strands of a scope, the cause first.
///
/// It implements [`Error`] if the errors can be displayed, so that `?` converts it into a `Box<dyn
/// Error + Send + Sync>` or an `anyhow::Error`.
pub struct Failures<E> {
    /// INVARIANT: not empty, and the first one stays in its place.
    errors: Vec<E>,
    source: FailureSource,
}

/// The [`source`](Error::source) of failures.
#[derive(Clone, Copy)]
enum FailureSource {
    /// The result of [`as_error`] for the cause.
    ///
    /// INVARIANT: the function is `as_error::<E, _>` for the type `E` with which the failures were
    /// made. By variance, the lifetimes in `E` may have become shorter since.
    Cause(unsafe fn(*const ()) -> Option<*const (dyn Error + 'static)>),
    /// The cause reports a cancellation, and no error in its chain of sources is one.
    Cancellation,
}

/// [`AsFailure::to_error`] without a type in its signature, because a field of type `fn(&E)` is
/// contravariant in `E` and the vector covariant, so [`Failures`] would be invariant.
///
/// # Safety
/// `cause` points to an `E`, to which no `&mut` exists while the result is in use.
unsafe fn as_error<E: AsFailure<Via>, Via>(
    cause: *const (),
) -> Option<*const (dyn Error + 'static)> {
    // SAFETY: the caller's promise.
    let cause = unsafe { &*cause.cast::<E>() };
    cause.to_error().map(ptr::from_ref)
}

impl<E> Failures<E> {
    /// Makes a value from errors, of which there must be at least one.
    pub(super) fn new<Via>(errors: Vec<E>) -> Self
    where
        E: AsFailure<Via>,
    {
        let cause = &errors[0];
        let is_lost =
            cause.tells_of_cancellation() && !cause.to_error().is_some_and(says_cancelled);
        // Determined now and not in `source`, because each level of nested failures would otherwise
        // search all levels below.
        let source = match is_lost {
            true => FailureSource::Cancellation,
            false => FailureSource::Cause(as_error::<E, Via>),
        };
        Failures { errors, source }
    }

    /// Returns the [`source`](Error::source), also if the errors cannot be displayed.
    fn source_of_any(&self) -> Option<&(dyn Error + 'static)> {
        let as_error = match self.source {
            FailureSource::Cancellation => return Some(&STRAND_CANCELLED),
            FailureSource::Cause(as_error) => as_error,
        };
        // SAFETY: the cause is a value of the type for which the function was made (the invariants
        // of both fields). Shorter lifetimes in the type change neither the value nor how long its
        // borrows live. The cause is borrowed by `&self`.
        let error = unsafe { as_error(ptr::from_ref(self.cause()).cast()) }?;
        // SAFETY: the pointer was made from a reference that lives at least as long as the borrow
        // of the cause, which lasts as long as the result.
        Some(unsafe { &*error })
    }

    /// Returns the error that happened first.
    pub fn cause(&self) -> &E {
        &self.errors[0]
    }

    /// Returns the error that happened first, and drops the others.
    pub fn into_cause(self) -> E {
        self.errors.into_iter().next().expect("at least one error")
    }

    /// Iterates over the errors in the order in which they happened.
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

impl<E: fmt::Debug> fmt::Debug for Failures<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failures").field("errors", &self.errors).finish()
    }
}

impl<E: PartialEq> PartialEq for Failures<E> {
    fn eq(&self, other: &Self) -> bool {
        self.errors == other.errors
    }
}

impl<E: Eq> Eq for Failures<E> {}

impl<E: fmt::Debug + fmt::Display> Error for Failures<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source_of_any()
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

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        self.source_of_any()
    }
}

#[diagnostic::do_not_recommend]
impl<E: AsFailure<via::Reference>> AsFailure<via::Reference> for Failures<E> {
    fn tells_of_cancellation(&self) -> bool {
        self.cause().tells_of_cancellation()
    }

    fn to_error(&self) -> Option<&(dyn Error + 'static)> {
        self.source_of_any()
    }
}
