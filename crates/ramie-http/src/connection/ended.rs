//! The end of a conversation by HTTP/1.1.

use super::Upgrade;

/// How a connection has ended.
pub(super) enum Ended {
    /// The client has closed it, or is idle for too long.
    Closed,
    ClosedByServer,
    /// The client goes on with HTTP/2.
    #[cfg(feature = "http2")]
    Http2,
    Upgraded(Upgrade),
}
