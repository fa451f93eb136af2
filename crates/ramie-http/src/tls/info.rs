//! What the handshake of a connection has found.

use std::{fmt, sync::Arc};

use rustls::{HandshakeKind, ServerConnection, pki_types::CertificateDer};

use crate::{
    extract::{FromParts, Rejection},
    request::Parts,
};

/// What the TLS handshake of a connection has found: an extension of each request that came over
/// TLS, and an argument of handlers (500 if there was no TLS; as `Option<TlsInfo>` none).
#[derive(Clone)]
pub struct TlsInfo(Arc<HandshakeFacts>);

struct HandshakeFacts {
    version: &'static str,
    cipher_suite: &'static str,
    server_name: Option<Box<str>>,
    protocol: Option<Box<[u8]>>,
    client_certificates: Box<[CertificateDer<'static>]>,
    is_resumed: bool,
}

impl TlsInfo {
    pub(crate) fn of(session: &ServerConnection) -> Self {
        let suite = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        TlsInfo(Arc::new(HandshakeFacts {
            version: session.protocol_version().and_then(|v| v.as_str()).unwrap_or_default(),
            cipher_suite: suite.unwrap_or_default(),
            server_name: session.server_name().map(Into::into),
            protocol: session.alpn_protocol().map(Into::into),
            client_certificates: session.peer_certificates().unwrap_or_default().into(),
            is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        }))
    }

    /// The version of the protocol, such as `TLSv1_3`.
    pub fn version(&self) -> &str {
        self.0.version
    }

    /// The cipher suite, such as `TLS13_AES_128_GCM_SHA256`.
    pub fn cipher_suite(&self) -> &str {
        self.0.cipher_suite
    }

    /// The name that the client has asked for (SNI).
    pub fn server_name(&self) -> Option<&str> {
        self.0.server_name.as_deref()
    }

    /// The protocol that both sides have chosen (ALPN), such as `h2`.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.0.protocol.as_deref()
    }

    /// The client's certificate and those that lead to its authority, as DER. None unless the
    /// server asks for certificates
    /// ([`client_certificates`](crate::TlsConfig::client_certificates)); all were checked.
    pub fn client_certificates(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.0.client_certificates.iter().map(AsRef::as_ref)
    }

    /// Whether the client has resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.0.is_resumed
    }
}

impl fmt::Debug for TlsInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsInfo")
            .field("version", &self.version())
            .field("cipher_suite", &self.cipher_suite())
            .field("server_name", &self.server_name())
            .field("client_certificates", &self.client_certificates().len())
            .finish_non_exhaustive()
    }
}

impl<S> FromParts<S> for TlsInfo {
    type Rejection = Rejection;

    fn from_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let none = || Rejection::of_program("the request has not come over TLS");
        parts.extensions().get().cloned().ok_or_else(none)
    }
}
