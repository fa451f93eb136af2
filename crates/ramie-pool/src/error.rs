//! The error of a request for a connection.

use std::{error::Error, fmt, io};

use ramie::{cancel::Cancelled, structured::Failure};

/// The reason why a request got no connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError<E> {
    /// The timeout of the request passed in this phase.
    Timeout(TimeoutPhase),
    /// The pool is closed.
    Closed,
    /// The strand is cancelled.
    Cancelled(Cancelled),
    /// A connection was to be opened, and could not be.
    Connect(E),
}

/// The phase of a request in which its timeout passed. The time is that of the whole request, so
/// earlier phases may have taken most of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TimeoutPhase {
    /// All connections were in use, or were being opened or tested. Raise
    /// [`max_size`](crate::PoolBuilder::max_size), return connections earlier, or check that the
    /// server answers.
    Wait,
    /// A connection was opened. Check that the server answers.
    Connect,
    /// An idle connection was tested. Check that the server answers.
    Test,
}

impl<E> fmt::Display for PoolError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PoolError::Timeout(TimeoutPhase::Wait) => {
                "got no connection of the pool in time, because all were in use, being opened \
                 or tested; raise max_size, return connections earlier, or check that the server \
                 answers"
            }
            PoolError::Timeout(TimeoutPhase::Connect) => {
                "got no connection of the pool in time, because opening one was not finished; \
                 check that the server answers, or raise the timeout"
            }
            PoolError::Timeout(TimeoutPhase::Test) => {
                "got no connection of the pool in time, because the test of an idle one was not \
                 finished; check that the server answers, or raise the timeout"
            }
            PoolError::Closed => "the pool of connections is closed",
            PoolError::Cancelled(cancelled) => {
                let why = cancelled.reason();
                return write!(f, "the request for a connection of the pool was cancelled: {why}");
            }
            PoolError::Connect(_) => "cannot open a connection for the pool",
        })
    }
}

impl<E: Error + 'static> Error for PoolError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PoolError::Cancelled(cancelled) => Some(cancelled),
            PoolError::Connect(error) => Some(error),
            PoolError::Timeout(_) | PoolError::Closed => None,
        }
    }
}

impl<E: Error + 'static> Failure for PoolError<E> {
    fn is_cancelled(&self) -> bool {
        matches!(self, PoolError::Cancelled(_))
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

impl<E: Error + Send + Sync + 'static> From<PoolError<E>> for io::Error {
    /// Returns the I/O error with which connecting failed, if it was one.
    fn from(error: PoolError<E>) -> Self {
        match error {
            PoolError::Timeout(_) => io::Error::new(io::ErrorKind::TimedOut, error),
            PoolError::Closed => io::Error::new(io::ErrorKind::NotConnected, error),
            PoolError::Cancelled(cancelled) => cancelled.into(),
            PoolError::Connect(error) => {
                let error: Box<dyn Error + Send + Sync> = Box::new(error);
                match error.downcast::<io::Error>() {
                    Ok(error) => *error,
                    Err(error) => io::Error::other(error),
                }
            }
        }
    }
}
