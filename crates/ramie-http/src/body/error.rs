//! What may be wrong with the body of a request.

use std::{error::Error, fmt, io};

use http::StatusCode;

use crate::refusal::Refusal;

/// Why the body of a request cannot be read; the error inside the [`io::Error`] of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyError {
    /// It has more bytes than the limit allows. The client's fault.
    TooLarge {
        /// The limit, in bytes.
        most: u64,
    },
    /// It breaks the protocol; the reason. The client's fault.
    Malformed(&'static str),
    /// Its trailers are too large. The client's fault.
    TrailersTooLarge,
    /// It arrives more slowly than the limit allows. The client's fault.
    TooSlow,
    /// The connection ended before the body did. The client's fault.
    Truncated,
    /// The response was sent already, so the connection goes on with the next request.
    Over,
}

impl BodyError {
    /// The error inside of `error`, if it is one of a body.
    pub fn of(error: &io::Error) -> Option<BodyError> {
        error.get_ref()?.downcast_ref().copied()
    }

    /// The status of the response to such a request.
    pub fn status(self) -> StatusCode {
        match self {
            BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::TrailersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            BodyError::Malformed(_) | BodyError::Truncated => StatusCode::BAD_REQUEST,
            BodyError::Over => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::TooLarge { most } => {
                write!(f, "the body of the request has more than {most} bytes")
            }
            BodyError::Malformed(reason) => f.write_str(reason),
            BodyError::TrailersTooLarge => f.write_str("the trailers of the body are too large"),
            BodyError::TooSlow => f.write_str("the body of the request arrives too slowly"),
            BodyError::Truncated => f.write_str("the connection ended before the body did"),
            BodyError::Over => {
                f.write_str("the body of the request cannot be read behind its response")
            }
        }
    }
}

impl Error for BodyError {}

impl From<BodyError> for io::Error {
    fn from(error: BodyError) -> Self {
        let kind = match error {
            BodyError::TooLarge { .. } => io::ErrorKind::FileTooLarge,
            BodyError::TooSlow => io::ErrorKind::TimedOut,
            BodyError::Truncated => io::ErrorKind::UnexpectedEof,
            BodyError::Over => io::ErrorKind::BrokenPipe,
            BodyError::Malformed(_) | BodyError::TrailersTooLarge => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

impl From<Refusal> for BodyError {
    fn from(refusal: Refusal) -> Self {
        match refusal.status() {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => BodyError::TrailersTooLarge,
            _ => BodyError::Malformed(refusal.reason()),
        }
    }
}
