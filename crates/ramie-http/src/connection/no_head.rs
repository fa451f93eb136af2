//! Why a connection has no head of a next request.

use std::io;

use crate::refusal::Refusal;

/// Why there is no head.
pub(super) enum NoHead {
    /// The client has closed the connection, or is to be left.
    Closed,
    Refused(Refusal),
    Io(io::Error),
    /// The client speaks HTTP/2 without having asked (prior knowledge).
    #[cfg(feature = "http2")]
    Http2,
}

// In boxes, so that the result, a box in both cases, is returned in registers.
impl From<Refusal> for Box<NoHead> {
    #[cold]
    fn from(refusal: Refusal) -> Self {
        Box::new(NoHead::Refused(refusal))
    }
}

impl From<io::Error> for Box<NoHead> {
    #[cold]
    fn from(error: io::Error) -> Self {
        Box::new(NoHead::Io(error))
    }
}
