//! The choice of a backend, and the kind that a driver has.

use crate::error::OpenError;
use crate::variables::invalid_value;

/// The choice of the backend to open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// io_uring if a trial of it succeeds, else readiness polling.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// Readiness polling.
    Poll,
}

/// The environment variable that overrides [`Choice::Auto`].
const VARIABLE: &str = "RAMIE_DRIVER";

impl Choice {
    /// Reads `RAMIE_DRIVER`: `uring`, `poll`, or unset (or `auto`) for [`Choice::Auto`].
    ///
    /// # Errors
    /// The variable has another value; the error names the allowed ones.
    pub fn from_env() -> Result<Choice, OpenError> {
        let Some(value) = std::env::var_os(VARIABLE) else { return Ok(Choice::Auto) };
        match value.to_str() {
            Some("" | "auto") => Ok(Choice::Auto),
            Some("uring") => Ok(Choice::Uring),
            Some("poll") => Ok(Choice::Poll),
            _ => Err(OpenError::new(None, invalid_value(VARIABLE, &value, "uring, poll or auto"))),
        }
    }
}

/// The kind of a driver's backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// io_uring.
    Uring,
    /// Readiness polling (epoll).
    Poll,
}

impl Kind {
    /// The name that `RAMIE_DRIVER` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Uring => "uring",
            Kind::Poll => "poll",
        }
    }
}
