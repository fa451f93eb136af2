//! The error of a connection.

use std::{error::Error, fmt, io};

use ramie::{cancel::Cancelled, structured::Failure};
use ramie_pool::PoolError;

/// The reason why a call of a connection failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum PostgresError {
    /// The server refused, a parameter does not fit the statement, or the connection has ended.
    Postgres(tokio_postgres::Error),
    /// The server could not be reached, or TLS could not be set up.
    Io(io::Error),
    /// The strand was cancelled.
    Cancelled(Cancelled),
    /// An earlier call was interrupted, or the connection has ended, so it cannot be used any more.
    Broken,
}

impl fmt::Display for PostgresError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PostgresError::Postgres(_) => "the call to PostgreSQL failed",
            PostgresError::Io(_) => "cannot connect to PostgreSQL",
            PostgresError::Cancelled(cancelled) => {
                return write!(f, "the call to PostgreSQL was cancelled: {}", cancelled.reason());
            }
            PostgresError::Broken => {
                "an earlier call to PostgreSQL was interrupted, or the connection has ended; open \
                 a new one"
            }
        })
    }
}

impl Error for PostgresError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            PostgresError::Postgres(error) => Some(error),
            PostgresError::Io(error) => Some(error),
            PostgresError::Cancelled(cancelled) => Some(cancelled),
            PostgresError::Broken => None,
        }
    }
}

impl Failure for PostgresError {
    fn is_cancelled(&self) -> bool {
        matches!(self, PostgresError::Cancelled(_))
    }

    fn as_error(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        PostgresError::Postgres(error)
    }
}

impl From<Cancelled> for PostgresError {
    fn from(cancelled: Cancelled) -> Self {
        PostgresError::Cancelled(cancelled)
    }
}

impl From<io::Error> for PostgresError {
    fn from(error: io::Error) -> Self {
        match Cancelled::of(&error) {
            Some(cancelled) => PostgresError::Cancelled(cancelled.clone()),
            None => PostgresError::Io(error),
        }
    }
}

/// So that `pool.with(|connection| connection.query(..))` needs no other error. A pool that has no
/// connection in time, or is closed, is an I/O error.
impl From<PoolError<PostgresError>> for PostgresError {
    fn from(error: PoolError<PostgresError>) -> Self {
        match error {
            PoolError::Connect(error) => error,
            PoolError::Cancelled(cancelled) => PostgresError::Cancelled(cancelled),
            error => PostgresError::Io(error.into()),
        }
    }
}

impl From<PostgresError> for io::Error {
    fn from(error: PostgresError) -> Self {
        match error {
            PostgresError::Io(error) => error,
            PostgresError::Cancelled(cancelled) => cancelled.into(),
            PostgresError::Broken => io::Error::new(io::ErrorKind::BrokenPipe, error),
            PostgresError::Postgres(_) => io::Error::other(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use ramie_pool::TimeoutPhase;

    use super::*;

    #[test]
    fn a_cancelled_call_prints_the_reason() {
        let error = PostgresError::from(Cancelled::because("enough"));
        assert_eq!(error.to_string(), "the call to PostgreSQL was cancelled: enough");
        // A scope finds the reason in the chain of sources of an error that it does not know.
        let wrapped = io::Error::other(error);
        assert_eq!(Cancelled::of(&wrapped).unwrap().reason(), "enough");
    }

    #[test]
    fn an_error_of_a_pool_keeps_its_kind() {
        let connect = PoolError::Connect(PostgresError::Broken);
        assert!(matches!(PostgresError::from(connect), PostgresError::Broken));
        let cancelled = PoolError::Cancelled(Cancelled::because("enough"));
        assert!(PostgresError::from(cancelled).is_cancelled());
        let kind = |error| io::Error::from(PostgresError::from(error)).kind();
        assert_eq!(kind(PoolError::Timeout(TimeoutPhase::Wait)), io::ErrorKind::TimedOut);
        assert_eq!(kind(PoolError::Closed), io::ErrorKind::NotConnected);
    }
}
