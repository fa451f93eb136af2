//! The error of a cancelled call.

use std::{borrow::Cow, error::Error, fmt, io};

/// The call was cancelled, because a scope around it was cancelled or a time limit has expired.
///
/// As an [`io::Error`] it is of kind `TimedOut` if a limit was the cause, otherwise of kind
/// `Other`; never `Interrupted`, because std's loops would repeat the call. [`Cancelled::of`] finds
/// it there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cancelled {
    reason: Reason,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Reason {
    Deadline,
    Requested(Cow<'static, str>),
}

/// The reason of a limit.
const EXPIRED: &str = "the time limit has expired";

/// The source of errors that have no room for a reason.
pub(crate) static STRAND_CANCELLED: Cancelled =
    Cancelled { reason: Reason::Requested(Cow::Borrowed("the strand was in a cancelled scope")) };

/// Implements [`Error`] for enums with a variant `Cancelled`, whose source is a
/// [`Cancelled`](struct@Cancelled). So code that looks for a cancellation in an error need not know
/// the enum. As an [`io::Error`] they are of kind `Other`, and a variant in parentheses, for a
/// timeout, of kind `TimedOut`.
macro_rules! errors_with_cancelled {
    ($($error:ident $(($timeout:ident))?),*) => {
        $(impl std::error::Error for $error {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                let is_cancelled = *self == $error::Cancelled;
                is_cancelled.then_some(&crate::core::cancel::STRAND_CANCELLED as _)
            }
        }

        impl From<$error> for std::io::Error {
            fn from(error: $error) -> Self {
                let kind = match error {
                    $($error::$timeout => std::io::ErrorKind::TimedOut,)?
                    _ => std::io::ErrorKind::Other,
                };
                std::io::Error::new(kind, error)
            }
        })*
    };
}
pub(crate) use errors_with_cancelled;

impl Cancelled {
    pub(super) fn by_deadline() -> Self {
        Cancelled { reason: Reason::Deadline }
    }

    /// Makes the error of a call that was cancelled for this reason.
    #[must_use]
    pub fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Cancelled::requested(reason.into())
    }

    pub(super) fn requested(reason: Cow<'static, str>) -> Self {
        Cancelled { reason: Reason::Requested(reason) }
    }

    /// Returns the reason that was given to `cancel`, or "the time limit has expired".
    #[must_use]
    pub fn reason(&self) -> &str {
        match &self.reason {
            Reason::Deadline => EXPIRED,
            Reason::Requested(reason) => reason,
        }
    }

    /// Returns whether a limit was the cause, rather than a call of `cancel`.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        self.reason == Reason::Deadline
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cancelled: {}", self.reason())
    }
}

impl Error for Cancelled {}

impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> Self {
        let kind = match cancelled.reason {
            Reason::Deadline => io::ErrorKind::TimedOut,
            Reason::Requested(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, cancelled)
    }
}

/// A call under a time limit returned after the limit. The error holds the value of the call, so
/// nothing is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elapsed<T> {
    value: T,
}

impl<T> Elapsed<T> {
    pub(super) fn new(value: T) -> Self {
        Elapsed { value }
    }

    /// Returns the value of the late call.
    pub fn into_value(self) -> T {
        self.value
    }
}

impl<T> fmt::Display for Elapsed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPIRED)
    }
}

impl<T: fmt::Debug> Error for Elapsed<T> {}

impl<T> From<Elapsed<T>> for io::Error {
    /// Makes an error of kind `TimedOut`, and drops the value of the late call.
    fn from(_: Elapsed<T>) -> Self {
        Cancelled::by_deadline().into()
    }
}
