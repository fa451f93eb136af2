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
/// For an error of your own say it where one of Ramie's lies inside. Errors of other crates fit
/// into a `Box<dyn Error + Send + Sync>`, which finds Ramie's by [`source`](Error::source).
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
    message = "`{Self}` does not say whether it tells of a cancellation",
    label = "this error type is no `Failure`",
    note = "for a type of yours write `impl ramie::structured::Failure for {Self} {{}}`, with \
            `is_cancelled` if errors of Ramie's lie inside",
    note = "return a `Box<dyn Error + Send + Sync>`, or a `String`, instead of another crate's type"
)]
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
        says_cancelled(self)
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
