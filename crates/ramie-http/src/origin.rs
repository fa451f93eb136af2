//! Where a request was received.

use std::time::Duration;

#[cfg(feature = "http2")]
use crate::http2;
use crate::server;

/// The connection that has received a request, and the number of the request there. Numbers instead
/// of a reference, because to count the references of each request would take two locked
/// instructions, and few requests need their connection.
#[derive(Clone, Copy, Default)]
pub(crate) struct Origin {
    /// 0: no connection, because the program has made the request.
    pub(crate) connection: u64,
    /// 0: the connection has one request at a time.
    pub(crate) number: u64,
}

impl Origin {
    /// Replaces the server's `request_timeout` for this request.
    pub(crate) fn set_request_time(self, limit: Duration) {
        match self {
            Origin { connection: 0, .. } => {}
            Origin { connection, number: 0 } => server::set_request_time(connection, limit),
            #[cfg(feature = "http2")]
            Origin { connection, number } => http2::set_request_time(connection, number, limit),
            #[cfg(not(feature = "http2"))]
            _ => {}
        }
    }
}
