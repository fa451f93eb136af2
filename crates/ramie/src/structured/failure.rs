//! Errors of several strands, and the one place where they are merged.

use std::{
    any::Any, borrow::Cow, convert::Infallible, env, error::Error, fmt, io, net, num, panic, str,
    string, sync::Mutex, vec,
};

use crate::{
    actor,
    cancel::{Cancelled, check_cancelled, is_cancelled},
    channel,
    sync::{self, broadcast, oneshot, watch},
};

/// An error that can say whether it only tells of a cancellation.
///
/// For an error type of your own, implement it where one of Ramie's errors may lie inside. Errors
/// of other crates fit into a `Box<dyn Error + Send + Sync>` or an `anyhow::Error`, in which
/// Ramie's are found by [`source`](Error::source).
///
/// # Examples
/// ```
/// use ramie::{io, structured::Failure};
///
/// enum CrawlError {
///     Network(io::Error),
///     Status(u16),
/// }
///
/// impl Failure for CrawlError {
///     fn is_cancelled(&self) -> bool {
///         matches!(self, CrawlError::Network(error) if error.is_cancelled())
///     }
/// }
/// # assert!(!CrawlError::Network(io::Error::other("")).is_cancelled());
/// # assert!(!CrawlError::Status(404).is_cancelled());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Failure`, which lets Ramie recognise cancellations",
    label = "this error type is no `Failure`",
    note = "for a type of yours write `impl ramie::structured::Failure for {Self} {{}}`, with \
            `is_cancelled` if errors of Ramie's lie inside",
    note = "for a type of another crate let the closures return `Box<dyn Error + Send + Sync>` or \
            `anyhow::Error`, into which `?` converts it"
)]
pub trait Failure {
    /// Tells whether the call failed because it was cancelled, and not by itself.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Returns this error as the [`source`](Error::source) of the [`Failures`] that it is in.
    ///
    /// `None` by default, because a `Failure` need not be an [`Error`]. For one that is, write
    /// `Some(self)`.
    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        None
    }
}

/// The errors that the calls of this module take: each [`Failure`], and each handle to a
/// [`dyn Error`](Error) that is made as those of the crates `anyhow` and `eyre` are.
///
/// Implemented for both; there is nothing to implement. The compiler finds `Via`, which tells the
/// two apart, by itself.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Failure`, which lets Ramie recognise cancellations",
    label = "this error type is no `Failure`",
    note = "for a type of yours write `impl ramie::structured::Failure for {Self} {{}}`, with \
            `is_cancelled` if errors of Ramie's lie inside",
    note = "for a type of another crate let the closures return `Box<dyn Error + Send + Sync>` or \
            `anyhow::Error`, into which `?` converts it"
)]
pub trait AsFailure<Via> {
    /// As [`Failure::is_cancelled`].
    #[doc(hidden)]
    fn tells_of_cancellation(&self) -> bool;

    /// As [`Failure::as_error`].
    #[doc(hidden)]
    fn to_error(&self) -> Option<&(dyn Error + 'static)>;
}

/// How the errors of [`AsFailure`] are told apart.
#[doc(hidden)]
pub mod via {
    /// The type says it itself.
    #[derive(Debug)]
    pub enum Itself {}
    /// What the type refers to says it.
    #[derive(Debug)]
    pub enum Reference {}
}

impl<E: Failure> AsFailure<via::Itself> for E {
    fn tells_of_cancellation(&self) -> bool {
        self.is_cancelled()
    }

    fn to_error(&self) -> Option<&(dyn Error + 'static)> {
        self.as_error()
    }
}

// Both references, because a `Box<dyn Error + Send + Sync>` has only the second: it is a `Failure`.
#[diagnostic::do_not_recommend]
impl<E> AsFailure<via::Reference> for E
where
    E: AsRef<dyn Error> + AsRef<dyn Error + Send + Sync>,
{
    fn tells_of_cancellation(&self) -> bool {
        says_cancelled(AsRef::<dyn Error>::as_ref(self))
    }

    fn to_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.as_ref())
    }
}

#[diagnostic::do_not_recommend]
impl<E: AsFailure<via::Reference>> AsFailure<via::Reference> for Failures<E> {
    fn tells_of_cancellation(&self) -> bool {
        self.cause().tells_of_cancellation()
    }

    fn to_error(&self) -> Option<&(dyn Error + 'static)> {
        self.cause().to_error()
    }
}

impl Failure for Cancelled {
    fn is_cancelled(&self) -> bool {
        true
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

impl Failure for io::Error {
    fn is_cancelled(&self) -> bool {
        says_cancelled(self)
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

/// Of an enum with a variant for the cancellation.
macro_rules! failures {
    ($($error:ty => $cancelled:path),* $(,)?) => {
        $(impl Failure for $error {
            fn is_cancelled(&self) -> bool {
                *self == $cancelled
            }

            fn as_error(&self) -> Option<&(dyn Error + 'static)> {
                Some(self)
            }
        })*

        /// Tells whether this error, or one that lies in it, tells of a cancellation.
        fn says_cancelled(error: &(dyn Error + 'static)) -> bool {
            let mut next = Some(error);
            while let Some(error) = next {
                if error.is::<Cancelled>()
                    || error.downcast_ref().is_some_and(is_cancelled)
                    $(|| error.downcast_ref::<$error>().is_some_and(Failure::is_cancelled))*
                {
                    return true;
                }
                next = inside(error);
            }
            false
        }
    };
}

/// What lies in an error. The source of an I/O error is that of the error in it.
fn inside<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

failures! {
    actor::CallError => actor::CallError::Cancelled,
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

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self)
    }
}

impl Failure for Box<dyn Error + Send> {
    fn is_cancelled(&self) -> bool {
        says_cancelled(&**self)
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self)
    }
}

impl Failure for Box<dyn Error + Send + Sync> {
    fn is_cancelled(&self) -> bool {
        says_cancelled(&**self)
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self)
    }
}

/// Of what never tells of a cancellation.
macro_rules! own_failures {
    ($($error:ty),* $(,)?) => {
        $(impl Failure for $error {})*
    };
}

own_failures! {
    (),
    &str,
    String,
    Box<str>,
    Cow<'_, str>,
    Infallible,
    env::VarError,
    fmt::Error,
    net::AddrParseError,
    num::ParseFloatError,
    num::ParseIntError,
    num::TryFromIntError,
    str::ParseBoolError,
    str::Utf8Error,
    string::FromUtf8Error,
}

/// The errors of the strands of a scope, the cause first. There is at least one.
///
/// It is an [`Error`] of any type of errors that can be shown, so that `?` converts it into a
/// `Box<dyn Error + Send + Sync>` or an `anyhow::Error`.
pub struct Failures<E> {
    /// INVARIANT: not empty.
    errors: Vec<E>,
    to_error: fn(&E) -> Option<&(dyn Error + 'static)>,
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
        (self.to_error)(self.cause())
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
        self.cause().as_error()
    }
}

/// What has gone wrong so far; merges by the rule in the module above.
pub(super) struct Merged<E> {
    parts: Mutex<Parts<E>>,
    is_cancelled: fn(&E) -> bool,
    to_error: fn(&E) -> Option<&(dyn Error + 'static)>,
}

struct Parts<E> {
    panic: Option<Box<dyn Any + Send>>,
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
            to_error: E::to_error,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Parts<E>> {
        self.parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
        let is_cancelled = (self.is_cancelled)(&error) && check_cancelled().is_err();
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
        (!errors.is_empty()).then_some(Failures { errors, to_error: self.to_error })
    }
}
