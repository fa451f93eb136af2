//! The facts about a client that are known before its first request.

use std::{fmt, net::SocketAddr};

use crate::{origin::Origin, proxy_fields::ProxyFields, request::Parts};

/// The other side of a connection.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) peer: Option<SocketAddr>,
    /// The key of the connection; 0 if it has none.
    pub(crate) connection: u64,
    pub(crate) proxy_fields: ProxyFields,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<crate::tls::TlsInfo>,
}

impl Client {
    /// A client about which nothing is known yet.
    pub(crate) fn unknown() -> Self {
        Client {
            peer: None,
            connection: 0,
            proxy_fields: ProxyFields::default(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Whether the client has chosen HTTP/2 (ALPN).
    #[cfg(feature = "http2")]
    pub(super) fn speaks_http2(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(|tls| tls.protocol() == Some(b"h2"));
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Adds what handlers may want to know.
    pub(crate) fn describe(&self, parts: &mut Parts) {
        parts.set_peer(self.peer);
        parts.set_origin(Origin { connection: self.connection, number: 0 });
        if !self.proxy_fields.is_empty() {
            parts.extensions_mut().insert(self.proxy_fields.clone());
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            parts.extensions_mut().insert(tls.clone());
        }
    }
}

/// Its address, for the log.
impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.peer {
            Some(peer) => peer.fmt(f),
            None => f.write_str("a client without an address"),
        }
    }
}
