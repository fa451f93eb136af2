//! What is known of the client of a connection before its first request.

use std::net::SocketAddr;

use crate::{h1::head::Head, request::Parts};

/// The other side of a connection.
#[derive(Default)]
pub(crate) struct Client {
    pub(crate) peer: Option<SocketAddr>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<crate::tls::TlsInfo>,
}

impl Client {
    /// The parts of a request of this client.
    pub(super) fn parts(&self, head: Box<Head>) -> Parts {
        let mut parts = Parts::received(head, self.peer);
        self.describe(&mut parts);
        parts
    }

    /// Adds what handlers may want to know.
    pub(super) fn describe(&self, parts: &mut Parts) {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            parts.extensions_mut().insert(tls.clone());
        }
        #[cfg(not(feature = "tls"))]
        let _ = parts;
    }
}
