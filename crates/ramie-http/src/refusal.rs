//! Why a request is refused before a handler sees it.

use std::fmt;

use http::StatusCode;

/// A request that breaks the protocol or a limit: the status of the answer, and the reason.
///
/// After such an answer the connection is closed, because the server cannot know where the next
/// request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    reason: &'static str,
}

impl Refusal {
    pub(crate) const fn new(status: StatusCode, reason: &'static str) -> Self {
        Refusal { status, reason }
    }

    /// 400: the request is not HTTP.
    pub(crate) const fn malformed(reason: &'static str) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, reason)
    }

    pub(crate) fn status(self) -> StatusCode {
        self.status
    }

    /// A sentence without its end, for the body of the answer.
    pub(crate) fn reason(self) -> &'static str {
        self.reason
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.reason)
    }
}

impl std::error::Error for Refusal {}
