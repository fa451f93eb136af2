//! Why a connection has no head of a next request.

use std::io;

use crate::refusal::Refusal;

/// Why there is no head.
pub(super) enum NoHead {
    Refused(Refusal),
    Io(io::Error),
    /// The client speaks HTTP/2 without having asked (prior knowledge).
    #[cfg(feature = "http2")]
    Http2,
}

impl From<Refusal> for NoHead {
    fn from(refusal: Refusal) -> Self {
        NoHead::Refused(refusal)
    }
}

impl From<io::Error> for NoHead {
    fn from(error: io::Error) -> Self {
        NoHead::Io(error)
    }
}
