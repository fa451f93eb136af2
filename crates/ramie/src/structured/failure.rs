//! The traits by which the calls of this module distinguish failures from cancellations.

use std::{borrow::Cow, convert::Infallible, env, error::Error, fmt, io, net, num, str, string};

use crate::{
    actor, channel,
    core::cancel::{self, Cancelled},
    sync::{self, broadcast, oneshot, watch},
};

/// An error that can determine whether it only reports a cancellation.
///
/// Implement it for your own error type if the type may contain one of Ramie's errors. Put errors
/// of other crates into a `Box<dyn Error + Send + Sync>` or an `anyhow::Error`, in which Ramie's
/// errors are found by [`source`](Error::source).
///
/// # Examples
/// ```
/// use std::{error::Error, fmt};
/// use ramie::{io, structured::Failure};
///
/// #[derive(Debug)]
/// enum CrawlError {
///     Network(io::Error),
///     Status(u16),
/// }
///
/// impl fmt::Display for CrawlError {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         match self {
///             CrawlError::Network(error) => write!(f, "no answer: {error}"),
///             CrawlError::Status(status) => write!(f, "the answer is {status}"),
///         }
///     }
/// }
///
/// impl Error for CrawlError {}
///
/// impl Failure for CrawlError {
///     fn is_cancelled(&self) -> bool {
///         matches!(self, CrawlError::Network(error) if error.is_cancelled())
///     }
///
///     fn as_error(&self) -> Option<&(dyn Error + 'static)> {
///         Some(self)
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
    /// Returns whether the call failed only because it was cancelled.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Returns this error as the [`source`](Error::source) of the [`Failures`](super::Failures)
    /// that contain it.
    ///
    /// `None` by default, because a `Failure` need not be an [`Error`]. If your type is one, return
    /// `Some(self)`.
    ///
    /// If this error reports a cancellation that its chain of sources does not contain, the source
    /// of the `Failures` is a [`Cancelled`] instead. So the cancellation is still found when the
    /// `Failures` are converted into a `Box<dyn Error>`.
    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        None
    }
}

/// The errors that the calls of this module accept: each [`Failure`], and each type that converts
/// to a reference to a [`dyn Error`](Error), as those of the crates `anyhow` and `eyre` do.
///
/// Do not implement this trait: it is implemented for all types of both kinds. The compiler infers
/// `Via`, which distinguishes the two.
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

/// The two kinds of errors of [`AsFailure`].
#[doc(hidden)]
pub mod via {
    /// The type itself implements `Failure`.
    #[derive(Debug)]
    pub enum Itself {}
    /// The type refers to an error, which decides.
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

// Both conversions are required, because a `Box<dyn Error + Send + Sync>`, which is a `Failure`
// already, has only the second.
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

/// Implements [`Failure`] for errors that report a cancellation if their chain of sources contains
/// one.
macro_rules! failures_by_source {
    ($($error:ty),* $(,)?) => {
        $(impl Failure for $error {
            fn is_cancelled(&self) -> bool {
                says_cancelled(self)
            }

            fn as_error(&self) -> Option<&(dyn Error + 'static)> {
                Some(self)
            }
        })*
    };
}

failures_by_source! {
    Cancelled,
    io::Error,
    actor::CallError,
    channel::RecvError,
    channel::RecvTimeoutError,
    sync::AcquireError,
    sync::AcquireTimeoutError,
    broadcast::RecvError,
    broadcast::RecvTimeoutError,
    oneshot::RecvError,
    oneshot::RecvTimeoutError,
    watch::RecvError,
    watch::RecvTimeoutError,
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

/// Returns whether this error, or one in its chain of sources, is a [`Cancelled`].
pub(super) fn says_cancelled(error: &(dyn Error + 'static)) -> bool {
    cancel::find(error).is_some()
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

/// Implements [`Failure`] for boxed errors, which behave as the error in the box.
macro_rules! boxed_failures {
    ($($error:ty),* $(,)?) => {
        $(impl Failure for Box<$error> {
            fn is_cancelled(&self) -> bool {
                says_cancelled(&**self)
            }

            fn as_error(&self) -> Option<&(dyn Error + 'static)> {
                Some(&**self)
            }
        })*
    };
}

boxed_failures! {
    dyn Error,
    dyn Error + Send,
    dyn Error + Send + Sync,
}

/// Implements [`Failure`] for texts and similar types, which never report a cancellation.
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
}
